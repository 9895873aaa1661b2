"""Send checks and migrations as OpenTelemetry traces. Only `run` imports this module, if a receiver is set.

    TraceListener ──▶ OpenTelemetry SDK: a bounded queue and a thread ──▶ OTLP over HTTP

A migration is one trace, from its creation to its end. Its ids follow from its uid and its times from its
status, so that every leader adds to the same trace, and sending a span twice does no harm. Only the leader
sends. A new leader sends recent ends again, because the previous leader may not have sent them.

Standard environment variables choose receiver, sampler and limits (docs/tracing.md).
"""

import asyncio
import contextlib
import hashlib
import logging
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from urllib.parse import urlsplit

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import SpanLimits, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import Decision

from rescheduler.api.daemon_status import program_version
from rescheduler.api.podmigration import Migration, MigrationPhase
from rescheduler.daemon.listeners import TRACE_RECEIVERS, CheckReport, DaemonListener
from rescheduler.kube.event_recorder import log_event
from rescheduler.migrations.state_machine import step_of
from rescheduler.migrations.transition_table import MigrationStep
from rescheduler.planner.plan import plan_id

__all__ = ["TraceListener", "span_id_of", "trace_id_of", "tracing_to_receiver"]

log: Final = logging.getLogger("rescheduler.daemon")

_SENT_AGAIN: Final = timedelta(minutes=5)
"""A new leader sends again the migrations that ended within this time; a change of leader takes less."""
_RECOGNISED: Final = timedelta(milliseconds=5)
"""The longest time in which a new leader recognises, without a request, a step that was made before."""
_UNRECORDED_AFTER: Final = frozenset({MigrationStep.MARKING, MigrationStep.PLACING})
"""After these steps, the status may be behind the migration; the cluster shows the next steps."""
_MAX_TEXT: Final = 1000
_MAX_TIME: Final = datetime(2200, 1, 1, tzinfo=UTC)
"""Nanoseconds since 1970 must fit into 64 bits, whatever a user wrote into a status."""
_FLUSH_TIMEOUT_S: Final = 3.0
_EXPORTER_LOGGERS: Final = (OTLPSpanExporter.__module__, "opentelemetry.sdk._shared_internal")
"""The exporter, and the SDK's queue in front of it."""

_Attributes = Mapping[str, str | int | float | bool]


def trace_id_of(uid: str) -> int:
    """Return the trace id of the PodMigration with this uid.

    It is a hash, because uids have fixed bits, by which samplers would choose all of them, or none.
    """
    return int.from_bytes(hashlib.sha256(uid.encode()).digest()[:16]) or 1


def span_id_of(*parts: object) -> int:
    """Return the id of the span that these parts describe; the same in every process."""
    return int.from_bytes(hashlib.sha256("\n".join(map(str, parts)).encode()).digest()[:8]) or 1


class _DerivedIds(IdGenerator):
    """Hands out the ids that are set right before a span is started, on the same thread."""

    trace_id = 0
    span_id = 0

    def generate_trace_id(self) -> int:
        return self.trace_id

    def generate_span_id(self) -> int:
        return self.span_id


@dataclass(frozen=True, slots=True, kw_only=True)
class _SpanRecord:
    name: str
    trace_id: int
    span_id: int
    parent_id: int = 0
    """0 for the first span of a trace."""
    start: datetime
    end: datetime
    attributes: _Attributes
    events: Sequence[tuple[str, datetime, _Attributes]] = ()
    links: Sequence[trace.Link] = ()
    error: str = ""


@dataclass(frozen=True, slots=True)
class _CurrentStep:
    step: MigrationStep
    attempt: int
    since: datetime
    is_recognised: bool = False
    """Whether an earlier leader may have made this step."""


class TraceListener(DaemonListener):
    def __init__(self, processor: SpanProcessor, now: Callable[[], datetime], resource: Resource) -> None:
        self._ids = _DerivedIds()
        self._provider = TracerProvider(
            resource=resource,
            id_generator=self._ids,
            span_limits=SpanLimits(max_attribute_length=_MAX_TEXT),
            shutdown_on_exit=False,
        )
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("rescheduler", program_version())
        self._now = now
        self._leads = False
        self._current: dict[str, _CurrentStep] = {}
        """Steps of migrations that this process executes, by uid."""
        self._ended: dict[str, Migration] = {}
        """Migrations that ended recently, while another process led."""

    def shutdown(self) -> None:
        """Send the queued spans, and end the thread."""
        self._provider.shutdown()

    # -- checks

    def checked(self, check: CheckReport) -> None:
        name = plan_id(check.plan)
        trace_id, span_id = _check_ids(name)
        end = check.at + timedelta(seconds=check.took_s)
        counts = {"rescheduler.moves": len(check.plan.moves)}
        check_span = _SpanRecord(
            name="check",
            trace_id=trace_id,
            span_id=span_id,
            start=check.at,
            end=end,
            attributes={
                **counts,
                "rescheduler.check": check.number,
                "rescheduler.plan": name,
                "rescheduler.refused_pods": sum(check.plan.refused_counts.values()),
                "rescheduler.usage_source": check.usage_source,
                "rescheduler.carried_out": check.is_carried_out,
            },
        )
        # Planning is the last part of a check.
        planning = _SpanRecord(
            name="plan",
            trace_id=trace_id,
            span_id=span_id_of(name, "plan"),
            parent_id=span_id,
            start=end - timedelta(seconds=check.planning_s),
            end=end,
            attributes=counts,
        )
        self._send(check_span, planning)

    # -- migrations

    def leads(self, leads: bool) -> None:
        self._leads = leads
        self._current.clear()
        if leads:
            for migration in self._ended.values():
                if _is_recent(migration, self._now()):
                    self._send(_migration_span(migration))
            self._ended.clear()

    def migration_step(self, before: Migration, after: Migration) -> None:
        at = after.status.step_since
        if at is None:
            return
        left = self._current.pop(after.uid, None) or _first_seen_step(before, at)
        if not after.is_finished:
            recognises = left.is_recognised and at - left.since < _RECOGNISED
            self._current[after.uid] = _CurrentStep(step_of(after), after.status.attempts, at, recognises)
        if not (left.is_recognised and at - left.since < _RECOGNISED):
            self._send(_step_span(after, left, at))

    def migration_changed(self, before: Migration | None, now: Migration | None) -> None:
        if now is None:
            if before is not None:
                self._current.pop(before.uid, None)
                self._ended.pop(before.uid, None)
        elif now.is_finished and (before is None or not before.is_finished):
            if not _is_recent(now, self._now()):
                return
            if self._leads:
                self._send(_migration_span(now))
            else:
                self._ended[now.uid] = now
                self._forget_old()

    def _forget_old(self) -> None:
        moment = self._now()
        self._ended = {uid: each for uid, each in self._ended.items() if _is_recent(each, moment)}

    # -- sending

    def _send(self, *spans: _SpanRecord) -> None:
        """Send spans of one trace, if the sampler wants the trace."""
        trace_id = spans[0].trace_id
        sampled = self._provider.sampler.should_sample(None, trace_id, spans[0].name)
        if sampled.decision is not Decision.RECORD_AND_SAMPLE:
            return
        for each in spans:
            self._ids.trace_id, self._ids.span_id = trace_id, each.span_id
            span = self._tracer.start_span(
                each.name,
                context=_parent_context(trace_id, each.parent_id),
                attributes={key: _clean(value) for key, value in each.attributes.items() if value != ""},
                links=each.links,
                start_time=_nanoseconds(each.start),
            )
            for name, at, attributes in each.events:
                cleaned = {key: _clean(value) for key, value in attributes.items()}
                span.add_event(name, cleaned, timestamp=_nanoseconds(at))
            if each.error:
                span.set_status(trace.StatusCode.ERROR, str(_clean(each.error)))
            span.end(end_time=_nanoseconds(max(each.end, each.start)))


def _first_seen_step(before: Migration, at: datetime) -> _CurrentStep:
    """Return the step of a migration that this process has not seen before; it left the step `at`."""
    step, attempt = step_of(before), before.status.attempts
    since = before.status.step_since or before.created
    if step is MigrationStep.QUEUED:
        return _CurrentStep(step, attempt, since)
    return _CurrentStep(step, attempt, at if step in _UNRECORDED_AFTER else since, is_recognised=True)


def _step_span(migration: Migration, left: _CurrentStep, at: datetime) -> _SpanRecord:
    return _SpanRecord(
        name=str(left.step),
        trace_id=trace_id_of(migration.uid),
        span_id=span_id_of(migration.uid, left.attempt, left.step, left.since.isoformat()),
        parent_id=span_id_of(migration.uid),
        start=left.since,
        end=at,
        attributes={
            "rescheduler.attempt": left.attempt,
            "rescheduler.next_step": str(step_of(migration)),
            "rescheduler.message": migration.status.message,
        },
    )


def _migration_span(migration: Migration) -> _SpanRecord:
    """Return the span of a finished migration, which follows from the object alone."""
    spec, status = migration.spec, migration.status
    assert status.finished_at is not None
    is_failed = status.phase is MigrationPhase.FAILED
    links: tuple[trace.Link, ...] = ()
    if migration.plan and not migration.requested_by:
        planned, span = _check_ids(migration.plan)
        flags = trace.TraceFlags(trace.TraceFlags.SAMPLED)
        links = (trace.Link(trace.SpanContext(planned, span, is_remote=True, trace_flags=flags)),)
    return _SpanRecord(
        name="migration",
        trace_id=trace_id_of(migration.uid),
        span_id=span_id_of(migration.uid),
        start=migration.created,
        end=status.finished_at,
        attributes={
            "k8s.namespace.name": migration.namespace,
            "k8s.pod.name": spec.pod.name,
            "k8s.pod.uid": spec.pod.uid,
            "rescheduler.migration": migration.name,
            "rescheduler.migration.uid": migration.uid,
            "rescheduler.source_node": spec.source_node,
            "rescheduler.target_node": migration.target_node,
            "rescheduler.target_pod": "" if status.target_pod is None else status.target_pod.name,
            "rescheduler.strategy": spec.strategy,
            "rescheduler.handover": str(status.handover or spec.handover),
            "rescheduler.reason": spec.reason,
            "rescheduler.attempts": status.attempts,
            "rescheduler.outcome": str(status.phase),
            "rescheduler.failure": status.failure if is_failed else "",
            "rescheduler.plan": migration.plan,
        },
        events=[
            (
                each.type,
                each.last_transition_time,
                {"status": each.status, "reason": each.reason, "message": each.message},
            )
            for each in status.conditions
        ],
        links=links,
        error=f"{status.failure}: {status.message}" if is_failed else "",
    )


def _check_ids(plan: str) -> tuple[int, int]:
    return trace_id_of(f"check {plan}"), span_id_of("check", plan)


def _is_recent(migration: Migration, now: datetime) -> bool:
    finished = migration.status.finished_at
    return finished is not None and now - finished < _SENT_AGAIN


def _parent_context(trace_id: int, parent_id: int) -> Context:
    if not parent_id:
        return Context()
    flags = trace.TraceFlags(trace.TraceFlags.SAMPLED)
    parent = trace.SpanContext(trace_id, parent_id, is_remote=True, trace_flags=flags)
    return trace.set_span_in_context(trace.NonRecordingSpan(parent), Context())


def _nanoseconds(moment: datetime) -> int:
    bounded = min(max(moment, datetime.fromtimestamp(0, UTC)), _MAX_TIME)
    return (bounded - datetime.fromtimestamp(0, UTC)) // timedelta(microseconds=1) * 1000


def _clean(value: str | int | float | bool) -> str | int | float | bool:
    """Return text that can be encoded: a span that can't be would lose its whole batch."""
    return value[:_MAX_TEXT].encode(errors="replace").decode() if isinstance(value, str) else value


class _ExporterLog(logging.Filter):
    """Makes one event of what the OpenTelemetry SDK logs about lost spans, with the receiver and the reason.

    Of an attempt that will be repeated, only the reason is kept: the line about the end doesn't have it.
    """

    def __init__(self) -> None:
        super().__init__()
        address = urlsplit(next(filter(None, map(os.environ.get, TRACE_RECEIVERS)), ""))
        # Without a user and a query, which may be secret.
        self._receiver = f"{address.scheme}://{address.hostname}" + f":{address.port}" * bool(address.port)
        self._reason = ""

    def filter(self, record: logging.LogRecord) -> bool:
        words = record.getMessage()
        if "retrying" in words:
            self._reason = words.partition(" encountered")[0]
            return False
        said = f"spans for {self._receiver} are lost: {words} {self._reason}".rstrip()
        log_event(log, logging.WARNING, "TracesNotSent", said)
        self._reason = ""
        return False


@contextlib.contextmanager
def _naming_lost_spans() -> Iterator[None]:
    """Log lost spans as an event of ours while the body runs."""
    named = _ExporterLog()
    loggers = [logging.getLogger(name) for name in _EXPORTER_LOGGERS]
    for logger in loggers:
        logger.addFilter(named)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(named)


@contextlib.asynccontextmanager
async def tracing_to_receiver(
    identity: str, namespace: str, now: Callable[[], datetime]
) -> AsyncIterator[TraceListener]:
    """Yield a listener that sends to the receiver that environment variables name."""
    own = {
        "service.name": "rescheduler",
        "service.namespace": namespace,
        "service.instance.id": identity,
        "service.version": program_version(),
    }
    resource = Resource(own).merge(OTELResourceDetector().detect())
    with _naming_lost_spans():
        listener = TraceListener(BatchSpanProcessor(OTLPSpanExporter()), now, resource)
        try:
            yield listener
        finally:
            # A receiver that does not answer must not delay the shutdown.
            ending = threading.Thread(target=listener.shutdown, daemon=True)
            ending.start()
            await asyncio.to_thread(ending.join, _FLUSH_TIMEOUT_S)
