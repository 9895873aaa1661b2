"""Notifications over HTTP: what is sent and when, retries, limits, and what must not leak."""

import asyncio
import contextlib
import json
import logging
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from aiohttp import web

from rescheduler.api.daemon_status import FailingPod, Halt, HaltReason, NodeInMaintenance
from rescheduler.config.notification_settings import NotificationEvent, NotificationFormat, NotificationSink
from rescheduler.config.policy import Policy
from rescheduler.daemon.listeners import DaemonListener, ListenerFanout
from rescheduler.daemon.metrics import Metrics
from rescheduler.daemon.notifier import (
    Notification,
    Notifier,
    SinkSender,
    _halt_notification,
    cloud_event,
    slack_message,
)
from rescheduler.migrations.transition_table import MigrationStep
from tests.unit.migrations.observations import migration

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
HALT = Halt(HaltReason.NODES_NOT_READY, NOW, "4 of 10 nodes are not Ready", "when they are")
SECRET = "T000/B000/secret"


class Receiver:
    """Answers with these codes in turn, then with 200; keeps what it received."""

    def __init__(self, *codes):
        self.codes = list(codes)
        self.received = []
        self.changed = asyncio.Event()

    async def answer(self, request):
        self.received.append((request.path_qs, dict(request.headers), await request.json()))
        self.changed.set()
        code = self.codes.pop(0) if self.codes else 200
        return web.Response(status=code, headers={"Location": "http://127.0.0.1:1/elsewhere"})

    async def until(self, count):
        async with asyncio.timeout(30):
            while len(self.received) < count:
                self.changed.clear()
                await self.changed.wait()
        return [body for _, _, body in self.received]


@contextlib.asynccontextmanager
async def receiving(*codes):
    receiver = Receiver(*codes)
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", receiver.answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield receiver, f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


class Results(DaemonListener):
    def __init__(self):
        self.found = []
        self.changed = asyncio.Event()

    def notified(self, sink, result):
        self.found.append(result)
        self.changed.set()

    async def until(self, result, count=1):
        async with asyncio.timeout(30):
            while self.found.count(result) < count:
                self.changed.clear()
                await self.changed.wait()


@contextlib.asynccontextmanager
async def notifying(*sinks, leads=True):
    notifier = Notifier("ops", lambda: NOW)
    notifier.listener = Results()
    notifier.configured(Policy(notifications=sinks))
    for sender in notifier._sinks:
        sender._first_delay_s = 0.01
    notifier.leads(leads)
    async with notifier.running():
        yield notifier, notifier.listener


async def test_a_halt_and_its_end_are_sent_as_cloud_events():
    async with (
        receiving() as (receiver, url),
        notifying(NotificationSink(name="ops", url=f"{url}/hook")) as (
            notifier,
            results,
        ),
    ):
        notifier.halted((HALT,))
        notifier.halted((HALT,))
        notifier.halted(())
        begun, ended = await receiver.until(2)
        await results.until("sent", count=2)
    path, headers, _ = receiver.received[0]
    assert path == "/hook"
    assert headers["Content-Type"] == "application/cloudevents+json"
    assert {key: begun[key] for key in ("specversion", "type", "source", "subject", "time")} == {
        "specversion": "1.0",
        "type": "dev.rescheduler.halted",
        "source": "/rescheduler.dev/namespaces/ops",
        "subject": "halt/NodesNotReady",
        "time": "2026-03-02T12:00:00Z",
    }
    assert begun["data"]["message"] == (
        "NodesNotReady: 4 of 10 nodes are not Ready. No move starts. Ends when they are."
    )
    assert ended["type"] == "dev.rescheduler.haltEnded"
    assert begun["id"] != ended["id"]
    assert results.found == ["sent", "sent"]


async def test_failures_exhausted_retries_and_finished_maintenance_are_sent_once():
    running = migration(MigrationStep.MARKING)
    failed = migration(MigrationStep.FAILED, status={"message": "no node has room", "failure": "NoRoom"})
    pod = FailingPod("shop/web-1", "node-1", "CrashLoopBackOff", tries=3, allowed=3)
    async with (
        receiving() as (receiver, url),
        notifying(NotificationSink(name="ops", url=url)) as (
            notifier,
            _,
        ),
    ):
        notifier.migration_changed(None, failed)  # at the start: an earlier process has reported it
        notifier.failing([])
        notifier.maintenance([NodeInMaintenance("node-2", 2), NodeInMaintenance("node-3", 0)])
        for _ in range(2):
            notifier.migration_changed(running, failed)
            running = failed
            notifier.failing([pod])
            notifier.maintenance([NodeInMaintenance("node-2", 0), NodeInMaintenance("node-3", 0)])
        sent = await receiver.until(3)
    assert [each["type"].rpartition(".")[2] for each in sent] == [
        "migrationFailed",
        "retriesExhausted",
        "maintenanceFinished",
    ]
    assert sent[0]["data"]["failure"] == "NoRoom"
    assert "no node has room" in sent[0]["data"]["message"]
    assert sent[1]["data"]["message"] == (
        "shop/web-1 fails on node-1 after 3 of 3 attempts: CrashLoopBackOff"
    )
    assert sent[2]["subject"] == "node/node-2"


async def test_only_the_leader_sends_and_a_new_leader_repeats_a_halt_under_the_same_id():
    async with receiving() as (receiver, url):
        sink = NotificationSink(name="ops", url=url)
        async with notifying(sink, leads=False) as (notifier, _):
            notifier.halted((HALT,))
            notifier.migration_changed(migration(MigrationStep.MARKING), migration(MigrationStep.FAILED))
            assert all(sender._waiting.empty() for sender in notifier._sinks)
            notifier.leads(True)
            (first,) = await receiver.until(1)
        async with notifying(sink) as (second, _):
            second.halted((HALT,))
            assert (await receiver.until(2))[1]["id"] == first["id"]


async def test_transient_answers_are_tried_again_and_others_are_not(caplog):
    async with (
        receiving(503, 429) as (receiver, url),
        notifying(NotificationSink(name="ops", url=url)) as (
            notifier,
            results,
        ),
    ):
        caplog.set_level(logging.WARNING)
        notifier.halted((HALT,))
        await results.until("sent")
        assert results.found == ["retried", "retried", "sent"]
        receiver.codes = [400]
        notifier.halted(())
        await results.until("dropped")
    first, last = caplog.messages
    words = "notification Halted about halt/NodesNotReady is sent again: the receiver answered 503"
    assert first == words, "once, with the reason: the last attempt is minutes later"
    assert "the receiver answered 400 (1 of 8 attempts)" in last
    assert receiver.received[0][1]["User-Agent"].startswith("rescheduler/")


async def test_a_redirect_is_not_followed():
    async with (
        receiving(302) as (receiver, url),
        notifying(NotificationSink(name="ops", url=url)) as (
            notifier,
            results,
        ),
    ):
        notifier.halted((HALT,))
        await results.until("dropped")
        assert len(receiver.received) == 1


async def test_a_receiver_that_is_away_holds_up_nothing_and_the_queue_is_bounded():
    async with notifying(NotificationSink(name="ops", url="http://127.0.0.1:1")) as (notifier, results):
        for number in range(300):
            notifier.halted((Halt(HaltReason.PAUSED, NOW + timedelta(seconds=number), "by root", "soon"),))
            notifier.halted(())
        assert results.found.count("dropped") >= 400, "all of it was said in one turn of the event loop"
        assert notifier._sinks[0]._waiting.qsize() <= 100
    assert notifier._sinks[0]._waiting.empty(), "the next leader says what holds then"


async def test_addresses_and_headers_come_from_files_and_appear_nowhere(tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    async with receiving(500, 403) as (receiver, url):
        (tmp_path / "url").write_text(f"{url}/services/{SECRET}?token=query-secret\n")
        (tmp_path / "header").write_text("Authorization: Bearer header-secret\n")
        sink = NotificationSink(
            name="chat",
            url_file=str(tmp_path / "url"),
            header_file=str(tmp_path / "header"),
            format=NotificationFormat.SLACK,
        )
        async with notifying(sink) as (notifier, results):
            notifier.halted((HALT,))
            await results.until("dropped")
    path, headers, body = receiver.received[0]
    assert path == f"/services/{SECRET}?token=query-secret"
    assert headers["Authorization"] == "Bearer header-secret"
    assert headers["Content-Type"] == "application/json"
    assert body["text"].startswith("*Halted* (/rescheduler.dev/namespaces/ops): NodesNotReady")
    assert "NotificationDropped" in caplog.text or "was not sent" in caplog.text
    assert "secret" not in caplog.text


@pytest.mark.parametrize(
    ("content", "why"),
    [
        pytest.param(f"http://example.com/{SECRET}", "must be https", id="a secret without encryption"),
        pytest.param("ftp://example.com", "must be http or https", id="another protocol"),
        pytest.param("https://user:pass@example.com", "without a user", id="credentials in the address"),
        pytest.param(None, "can't read urlFile", id="a file that is missing"),
    ],
)
async def test_an_unusable_address_is_reported_without_it(tmp_path, caplog, content, why):
    file = tmp_path / "url"
    if content is not None:
        file.write_text(content)
    results = Results()
    sender = SinkSender(NotificationSink(name="chat", url_file=str(file)), "ops", results.notified, 0.0)
    sending = asyncio.create_task(sender.send_for_ever())
    sender.offer(notification("why"))
    await results.until("dropped")
    sending.cancel()
    assert why in caplog.text
    assert content is None or content not in caplog.text


def notification(text):
    return Notification(
        event=NotificationEvent.HALTED, at=NOW, subject="halt/Paused", text=text, data={}, identity="1"
    )


def test_text_from_the_cluster_mentions_nobody_in_slack():
    text = slack_message(notification("<!channel> <https://evil|here> & " + "x" * 9000), "ops")["text"]
    assert "<" not in text
    assert "&lt;!channel&gt;" in text
    assert len(text) < 2200
    assert json.dumps(text)


async def test_a_sink_gets_only_the_events_that_it_asks_for():
    sink = NotificationSink(name="ops", url="http://127.0.0.1:1", events=(NotificationEvent.HALT_ENDED,))
    sender = SinkSender(sink, "ops", Results().notified)
    sender.offer(notification("why"))
    assert sender._waiting.empty()


async def test_failed_moves_of_a_tenant_leave_room_for_halts():
    """Nothing is received for a while, and thousands of moves fail in between."""
    sink = NotificationSink(name="ops", url="http://127.0.0.1:1", events=tuple(NotificationEvent))
    sender = SinkSender(sink, "ops", Results().notified)
    halt = notification("why")
    for _ in range(1_000):
        sender.offer(replace(halt, event=NotificationEvent.MIGRATION_FAILED))
    sender.offer(halt)
    waiting = [sender._waiting.get_nowait() for _ in range(sender._waiting.qsize())]
    assert waiting[-1] == halt


async def test_sinks_change_while_the_daemon_runs_and_metrics_count_by_name():
    metrics = Metrics()
    async with receiving() as (_, url), notifying() as (notifier, results):
        notifier.listener = ListenerFanout([metrics, results])
        notifier.halted((HALT,))
        notifier.configured(Policy(notifications=(NotificationSink(name="ops", url=url),)))
        notifier.halted(())
        await results.until("sent")
    assert 'rescheduler_notifications_total{result="sent",sink="ops"} 1.0' in metrics.text().decode()


@pytest.mark.parametrize("shape", [cloud_event, slack_message])
def test_the_docs_show_what_is_sent(shape):
    page = (Path(__file__).parents[3] / "docs" / "notifications.md").read_text()
    shown = [json.loads(block.partition("```")[0]) for block in page.split("```json\n")[1:]]
    nodes = "4 of 10 nodes are not Ready (node-1, node-2, node-3 and 1 more)"
    words = f"{nodes}, more than haltWhen.notReadyShare 0.3 allows"
    halt = Halt(HaltReason.NODES_NOT_READY, NOW, words, "when at most 3 of them are not Ready")
    sent = shape(_halt_notification(halt, NOW, has_ended=False), "/rescheduler.dev/namespaces/ops")
    assert sent in shown, json.dumps(sent, indent=2)
