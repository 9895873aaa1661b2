"""Checks and migrations are sent as traces, which a change of leader does not break."""

import contextlib
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import pairwise

import msgspec
import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from rescheduler.api.podmigration import Handover, MigrationPhase
from rescheduler.cli.commands.daemon_commands import _trace_listeners
from rescheduler.cli.log_setup import event_of
from rescheduler.daemon.tracing import TraceListener, span_id_of, trace_id_of, tracing_to_receiver
from rescheduler.migrations.transition_table import MigrationStep
from tests.unit.daemon.test_leading import begun, is_completed
from tests.unit.migrations.observations import NOW, migration

STEPS_OF_ADOPT = [
    "Queued", "Checking", "Marking", "Creating", "Placing", "Starting", "Settling", "Evicting", "Adopting",
    "Releasing",
]  # fmt: skip


class Sent:
    """What one process sent."""

    def __init__(self, now=lambda: NOW):
        self._exporter = InMemorySpanExporter()
        self.listener = TraceListener(SimpleSpanProcessor(self._exporter), now, Resource({}))

    @property
    def spans(self):
        return self._exporter.get_finished_spans()

    def of(self, uid):
        return [each for each in self.spans if each.context.trace_id == trace_id_of(uid)]


def finished(*, ok=True, at=NOW, **status):
    step = MigrationStep.COMPLETED if ok else MigrationStep.FAILED
    return migration(step, Handover.ADOPT, status={"finished_at": at, **status}, finalizers=())


def split(spans):
    (root,) = [each for each in spans if each.parent is None]
    return root, sorted(
        (each for each in spans if each.parent), key=lambda each: (each.start_time, each.end_time)
    )


def nanoseconds(moment):
    return round(moment.timestamp() * 1e6) * 1000


@contextlib.contextmanager
def receiving(code=200):
    """An OTLP receiver, in a thread, because the exporter's requests come from one."""
    received = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.append((self.path, ExportTraceServiceRequest.FromString(body)))
            self.send_response(code)
            self.end_headers()

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Receiver) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield received, f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


async def test_a_migration_is_one_trace_from_its_creation_to_its_end(
    crowd, start, migrations, server, eventually
):
    """Every step begins where the one before it ends; the trace is linked to the check that planned it."""
    moves = await crowd(pods=4)
    moves.sandbox.behave({"startup": "20s"})
    sent = Sent(server.clock.now)
    running = await start(listener=sent.listener)
    (first,) = await eventually(lambda: begun(migrations))
    await eventually(lambda: is_completed(migrations, first.key))
    await running.end()
    (done,) = [each for each in await migrations() if each.key == first.key]
    root, steps = split(sent.of(done.uid))
    assert [each.name for each in steps] == STEPS_OF_ADOPT
    assert {each.parent.span_id for each in steps} == {root.context.span_id}
    assert root.name == "migration"
    assert root.start_time == steps[0].start_time == nanoseconds(done.created)
    assert root.end_time == steps[-1].end_time == nanoseconds(done.status.finished_at)
    assert all(before.end_time == after.start_time for before, after in pairwise(steps))
    starting = next(each for each in steps if each.name == "Starting")
    assert (starting.end_time - starting.start_time) / 1e9 >= 19
    assert root.attributes["k8s.pod.name"] == done.spec.pod.name
    assert root.attributes["rescheduler.outcome"] == "Completed"
    assert {"CopyReady", "HandedOver"} <= {each.name for each in root.events}
    checks = {each.context.span_id: each for each in sent.spans if each.name == "check"}
    assert checks[root.links[0].context.span_id].attributes["rescheduler.moves"] >= 1
    plans = [each for each in sent.spans if each.name == "plan"]
    assert {each.parent.span_id for each in plans} == set(checks)


async def test_the_next_leader_continues_the_trace(crowd, start, migrations, server, eventually):
    """Steps that the first leader made are not sent again, and none is missing but the one it died in."""
    moves = await crowd(pods=4)
    moves.sandbox.behave({"startup": "30s"})
    first, second = Sent(server.clock.now), Sent(server.clock.now)
    dying = await start("first", listener=first.listener)
    await dying.until(lambda: dying.received.led)
    heir = await start("second", listener=second.listener)
    (found,) = await eventually(lambda: begun(migrations))
    await dying.until(lambda: any(each.name == "Placing" for each in first.of(found.uid)))
    assert not second.spans
    await dying.kill()
    await eventually(lambda: is_completed(migrations, found.key))
    await heir.end()
    (done,) = [each for each in await migrations() if each.key == found.key]
    assert [each.parent is None for each in first.of(done.uid)].count(True) == 0
    root, steps = split([*first.of(done.uid), *second.of(done.uid)])
    assert [each.name for each in steps] == STEPS_OF_ADOPT
    assert (root.start_time, root.end_time) == (
        nanoseconds(done.created),
        nanoseconds(done.status.finished_at),
    )
    assert {each.parent.span_id for each in steps} == {root.context.span_id}


def test_what_ended_while_nobody_could_send_it_is_sent_by_the_next_leader():
    """The ids are the same whoever sends it, so that a receiver stores it once."""
    done = finished(at=NOW - timedelta(seconds=20))
    first, second = Sent(), Sent()
    for each in (first, second):
        each.listener.migration_changed(None, done)
        assert not each.spans
        each.listener.leads(True)
    (one,), (other,) = first.spans, second.spans
    assert one.context == other.context
    assert one.context.span_id == span_id_of(done.uid)


def test_a_start_does_not_send_all_of_history_again():
    sent = Sent()
    sent.listener.migration_changed(None, finished(at=NOW - timedelta(minutes=6)))
    sent.listener.leads(True)
    assert not sent.spans


def test_a_replica_that_stands_by_sends_nothing():
    sent = Sent()
    sent.listener.migration_changed(migration(MigrationStep.EVICTING), finished())
    assert not sent.spans


def test_a_failure_is_an_error_with_its_reason():
    sent = Sent()
    sent.listener.leads(True)
    failed = finished(ok=False, failure="CopyFailing", message="the copy crashed")
    sent.listener.migration_changed(migration(MigrationStep.ROLLING_BACK), failed)
    (span,) = sent.spans
    assert span.status.status_code is StatusCode.ERROR
    assert span.status.description == "CopyFailing: the copy crashed"
    assert span.attributes["rescheduler.failure"] == "CopyFailing"


def test_a_forged_status_costs_no_batch():
    """Times and text that can't be encoded would make the exporter drop everything in the same batch."""
    sent = Sent()
    sent.listener.leads(True)
    late = datetime(9000, 1, 1, tzinfo=UTC)
    sent.listener.migration_changed(None, finished(ok=False, at=late, failure="x", message="\ud800" * 5000))
    assert encode_spans(sent.spans).ByteSize() < 10_000


@pytest.mark.parametrize("ratio", [0.1, 0.9])
def test_a_sampler_takes_its_share_of_migrations_and_whole_ones(monkeypatch, ratio):
    """Not all or none of them, although uids have fixed bits."""
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", str(ratio))
    sent = Sent()
    sent.listener.leads(True)
    uids = [f"{number:08x}-0000-4000-8000-{number:012x}" for number in range(300)]
    for uid in uids:
        queued = msgspec.structs.replace(migration(), uid=uid)
        marking = msgspec.structs.replace(migration(MigrationStep.MARKING), uid=uid)
        sent.listener.migration_step(queued, marking)
        sent.listener.migration_changed(marking, msgspec.structs.replace(finished(), uid=uid))
    counts = [len(sent.of(uid)) for uid in uids]
    assert set(counts) == {0, 2}
    assert counts.count(2) / len(uids) == pytest.approx(ratio, abs=0.07)


async def test_spans_reach_a_receiver_over_http(monkeypatch):
    with receiving() as (received, address):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
        monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "k8s.cluster.name=shop")
        async with tracing_to_receiver("pod-1", "rescheduler", lambda: NOW) as listener:
            listener.leads(True)
            listener.migration_changed(None, finished())
    ((path, message),) = received
    assert path == "/v1/traces"
    (group,) = message.resource_spans
    resource = {each.key: each.value.string_value for each in group.resource.attributes}
    assert resource["service.name"] == "rescheduler"
    assert resource["service.instance.id"] == "pod-1"
    assert resource["k8s.cluster.name"] == "shop"
    assert [span.name for scope in group.scope_spans for span in scope.spans] == ["migration"]


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        pytest.param(404, "reason: Not Found", id="refused"),
        pytest.param(503, "Service Unavailable", id="tried again until the timeout"),
    ],
)
async def test_lost_spans_are_logged_with_receiver_and_reason(monkeypatch, caplog, code, reason):
    """The SDK logs each attempt, and at the end neither the receiver nor what it answered."""
    with receiving(code) as (received, address):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
        # The first repetition is after 0.8 to 1.2 s: with less, the SDK might not try again.
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "2")
        async with tracing_to_receiver("pod-1", "rescheduler", lambda: NOW) as listener:
            listener.leads(True)
            listener.migration_changed(None, finished())
    assert received
    assert not [each for each in caplog.records if each.name.startswith("opentelemetry")]
    (record,) = [each for each in caplog.records if event_of(each) == "TracesNotSent"]
    assert record.getMessage().startswith(f"spans for {address} are lost: ")
    assert reason in record.getMessage()


def test_nothing_of_opentelemetry_is_imported_without_a_receiver():
    code = (
        "import sys, rescheduler.cli.commands.daemon_commands, rescheduler.daemon.daemon_process;"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


async def test_a_receiver_without_the_extra_is_reported_and_the_daemon_runs(monkeypatch, caplog):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.delitem(sys.modules, "rescheduler.daemon.tracing")
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    assert await _trace_listeners(None, "me", "rescheduler") == []
    assert "pip install 'kube-rescheduler[otel]'" in caplog.text


async def test_a_disabled_sdk_sends_nothing(monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    assert await _trace_listeners(None, "me", "rescheduler") == []


def test_a_phase_that_is_not_final_ends_no_trace():
    sent = Sent()
    sent.listener.leads(True)
    sent.listener.migration_changed(migration(), migration(MigrationStep.STARTING))
    assert not sent.spans
    assert finished().status.phase is MigrationPhase.COMPLETED
