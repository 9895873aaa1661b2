"""Notify webhooks about halts, failures, exhausted retries and finished maintenance while this process leads.

    Notifier ──▶ one SinkSender per sink, with a bounded queue ──▶ POST, with retries

Nothing waits for a receiver: what does not fit into the queue is dropped and counted. An address can be a
secret, so the log and metrics have only the name of the sink. Redirects are not followed, so that a receiver
can't send the daemon's requests elsewhere, and answers are not read.

The id of a notification is derived from the event, so that a receiver recognises it when a second leader
sends it again.
"""

import asyncio
import contextlib
import hashlib
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from rescheduler.api.daemon_status import FailingPod, Halt, HaltReason, NodeInMaintenance
from rescheduler.api.podmigration import Migration, MigrationPhase
from rescheduler.api.well_known_names import GROUP
from rescheduler.config.notification_settings import (
    NotificationEvent,
    NotificationFormat,
    NotificationSink,
    is_sink_address,
)
from rescheduler.config.policy import Policy
from rescheduler.config.policy_blocks import is_confidential
from rescheduler.daemon.listeners import DaemonListener
from rescheduler.kube.access.cluster_access import ClusterAccess, StoredCredentials
from rescheduler.kube.event_recorder import log_event
from rescheduler.kube.http_transport import HttpTransport
from rescheduler.kube.request_sender import USER_AGENT
from rescheduler.kube.transport import ApiRequest, NoResponse
from rescheduler.kube.work_queue import background_task

__all__ = ["Notification", "Notifier", "SinkSender", "cloud_event", "slack_message"]

log: Final = logging.getLogger(__name__)
_TYPE_PREFIX: Final = "dev.rescheduler"
_QUEUE_SIZE: Final = 100
_OF_PODS: Final = frozenset({NotificationEvent.MIGRATION_FAILED, NotificationEvent.RETRIES_EXHAUSTED})
_MAX_ATTEMPTS: Final = 8
_FIRST_DELAY_S: Final = 1.0
_MAX_DELAY_S: Final = 60.0
_MAX_TEXT: Final = 2000
_MAX_FILE_BYTES: Final = 1 << 20
_TRANSIENT: Final = frozenset({408, 425, 429})


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    event: NotificationEvent
    at: datetime
    subject: str
    """The object, such as `podmigration/shop/web-1-abc`."""
    text: str
    """The message, one sentence."""
    data: dict[str, Any]
    """The same as data for programs."""
    identity: str
    """Differs for each occurrence, and is the same in every process."""

    @property
    def id(self) -> str:
        return hashlib.sha256(f"{self.event} {self.subject} {self.identity}".encode()).hexdigest()[:32]


def cloud_event(notification: Notification, source: str) -> dict[str, Any]:
    """Return the notification as a CloudEvent 1.0 in structured mode."""
    name = str(notification.event)
    return {
        "specversion": "1.0",
        "id": notification.id,
        "source": source,
        "type": f"{_TYPE_PREFIX}.{name[0].lower()}{name[1:]}",
        "subject": notification.subject,
        "time": notification.at.isoformat().replace("+00:00", "Z"),
        "datacontenttype": "application/json",
        "data": {"message": _bounded(notification.text), **notification.data},
    }


def slack_message(notification: Notification, source: str) -> dict[str, Any]:
    """Return the notification as a message, in which text from the cluster can't mention users or link."""
    text = _bounded(notification.text)
    for character, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        text = text.replace(character, entity)
    return {"text": f"*{notification.event}* ({source}): {text}"}


def _bounded(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}…"


# -- sending


class _SinkFault(Exception):  # noqa: N818 - says what happened
    """The notification can't be sent; `is_transient` says whether to try again."""

    def __init__(self, why: str, *, is_transient: bool) -> None:
        super().__init__(why)
        self.is_transient = is_transient


class SinkSender:
    """Sends the notifications of one sink, in order."""

    def __init__(
        self,
        settings: NotificationSink,
        source: str,
        report: Callable[[str, str], None],
        first_delay_s: float = _FIRST_DELAY_S,
    ) -> None:
        """`report` is called with the name of the sink and `sent`, `retried` or `dropped`."""
        self.settings = settings
        self._source = source
        self._report = report
        self._first_delay_s = first_delay_s
        self._waiting: asyncio.Queue[Notification] = asyncio.Queue(_QUEUE_SIZE)

    def offer(self, notification: Notification) -> None:
        """Queue the notification if this sink wants it; drop it if the queue is full."""
        if notification.event not in self.settings.events:
            return
        # Tenants can make any number of moves fail: half of the queue is kept for events of the cluster.
        most = _QUEUE_SIZE // 2 if notification.event in _OF_PODS else _QUEUE_SIZE
        if self._waiting.qsize() < most:
            self._waiting.put_nowait(notification)
        else:
            self._drop(notification, f"the queue already has {most} notifications")

    def discard(self) -> None:
        """Drop the queue; the next leader reports the state that it finds."""
        while not self._waiting.empty():
            self._drop(self._waiting.get_nowait(), "this process no longer leads")

    async def send_for_ever(self) -> None:
        while True:
            await self._send_with_retries(await self._waiting.get())

    async def _send_with_retries(self, notification: Notification) -> None:
        delay_s = self._first_delay_s
        for attempt in range(1, _MAX_ATTEMPTS + 1):
            try:
                await self._send(notification)
            except _SinkFault as fault:
                if not fault.is_transient or attempt == _MAX_ATTEMPTS:
                    self._drop(notification, f"{fault} ({attempt} of {_MAX_ATTEMPTS} attempts)")
                    return
                self._report(self.settings.name, "retried")
                if attempt == 1:
                    self._log("NotificationRetried", notification, f"is sent again: {fault}")
                await asyncio.sleep(delay_s)
                delay_s = min(2 * delay_s, _MAX_DELAY_S)
            else:
                self._report(self.settings.name, "sent")
                return

    def _drop(self, notification: Notification, why: str) -> None:
        self._report(self.settings.name, "dropped")
        self._log("NotificationDropped", notification, f"was not sent: {why}")

    def _log(self, result: str, notification: Notification, words: str) -> None:
        words = f"notification {notification.event} about {notification.subject} {words}"
        log_event(log, logging.WARNING, result, words, sink=self.settings.name)

    async def _send(self, notification: Notification) -> None:
        """Make one attempt; raise `_SinkFault`."""
        url, headers, authority = await asyncio.to_thread(self._read_files)
        is_slack = self.settings.format is NotificationFormat.SLACK
        body = (slack_message if is_slack else cloud_event)(notification, self._source)
        headers["content-type"] = "application/json" if is_slack else "application/cloudevents+json"
        parts = urlsplit(url)
        access = ClusterAccess(
            f"{parts.scheme}://{parts.netloc}", StoredCredentials(), "the notifications settings", authority
        )
        request = ApiRequest(
            "POST",
            parts.path or "/",
            tuple(parse_qsl(parts.query, keep_blank_values=True)),
            headers,
            json.dumps(body).encode(),
            timeout_s=self.settings.timeout.total_seconds(),
        )
        network = HttpTransport(access)
        try:
            async with await network.send(request) as response:
                status = response.status
        except NoResponse as broken:
            # The reason has only the host and a proxy, not the address of the sink, which may be secret.
            raise _SinkFault(broken.reason.rstrip("."), is_transient=True) from broken
        finally:
            await network.close()
        if not 200 <= status < 300:
            is_transient = status >= 500 or status in _TRANSIENT
            raise _SinkFault(f"the receiver answered {status}", is_transient=is_transient)

    def _read_files(self) -> tuple[str, dict[str, str], bytes | None]:
        """Return the address, the additional header and the CA certificates; raise `_SinkFault`."""
        settings = self.settings
        url = settings.url or _read_text(settings.url_file or "", "urlFile")
        _check_address(url, is_secret=bool(settings.url_file or settings.header_file))
        headers = {"user-agent": USER_AGENT}
        if settings.header_file:
            name, colon, value = _read_text(settings.header_file, "headerFile").partition(":")
            if not colon or not name.strip() or not value.strip() or not f"{name}{value}".isprintable():
                raise _SinkFault("headerFile has no `Authorization: Bearer …` or similar", is_transient=True)
            headers[name.strip()] = value.strip()
        authority = _read_file(settings.ca_file, "caFile") if settings.ca_file else None
        return url, headers, authority


def _check_address(url: str, *, is_secret: bool) -> None:
    if not is_sink_address(url):
        raise _SinkFault("the address must be http or https, without a user", is_transient=True)
    if is_secret and not is_confidential(url):
        raise _SinkFault("the address must be https, because a secret is sent", is_transient=False)


def _read_text(path: str, setting: str) -> str:
    try:
        return _read_file(path, setting).decode().strip()
    except UnicodeDecodeError:
        raise _SinkFault(f"{setting} is not text", is_transient=True) from None


def _read_file(path: str, setting: str) -> bytes:
    # A Secret can be mounted, or renewed, later: such faults are transient.
    try:
        with Path(path).open("rb") as file:
            return file.read(_MAX_FILE_BYTES)
    except OSError as error:
        raise _SinkFault(f"can't read {setting} {path}: {error.strerror}", is_transient=True) from None


# -- what happens


@dataclass(slots=True)
class _Known:
    """The last known state, so that only changes are reported."""

    halts: dict[tuple[HaltReason, str], Halt] = field(default_factory=dict)
    exhausted: set[str] | None = None
    left: dict[str, int] | None = None
    """Pods left, by node in maintenance."""


class Notifier(DaemonListener):
    def __init__(self, namespace: str, now: Callable[[], datetime]) -> None:
        """`namespace` is the daemon's, and names the source of notifications."""
        self.listener = DaemonListener()
        self._source = f"/{GROUP}/namespaces/{namespace}"
        self._now = now
        self._is_leading = False
        self._halts: tuple[Halt, ...] = ()
        self._known = _Known()
        self._sinks: tuple[SinkSender, ...] = ()
        self._reconfigured = asyncio.Event()

    def configured(self, policy: Policy) -> None:
        if tuple(sink.settings for sink in self._sinks) == policy.notifications:
            return
        kept = {sink.settings: sink for sink in self._sinks}
        self._sinks = tuple(
            kept.get(each) or SinkSender(each, self._source, self._report) for each in policy.notifications
        )
        self._reconfigured.set()

    def _report(self, sink: str, result: str) -> None:
        self.listener.notified(sink, result)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Send notifications while the body runs."""
        async with background_task(self._send_for_ever(), "notifications"):
            yield
        for sink in self._sinks:
            sink.discard()

    async def _send_for_ever(self) -> None:
        while True:
            self._reconfigured.clear()
            async with contextlib.AsyncExitStack() as stack:
                for sink in self._sinks:
                    task = background_task(sink.send_for_ever(), f"notifications to {sink.settings.name}")
                    await stack.enter_async_context(task)
                await self._reconfigured.wait()

    # -- events

    def leads(self, leads: bool) -> None:
        self._is_leading = leads
        self._known = _Known()
        if leads:
            self.halted(self._halts)

    def halted(self, halts: tuple[Halt, ...]) -> None:
        self._halts = halts
        if not self._is_leading:
            return
        now = {(halt.reason, halt.namespace): halt for halt in halts}
        for key in now.keys() - self._known.halts.keys():
            self._notify(_halt_notification(now[key], now[key].since, has_ended=False))
        for key in self._known.halts.keys() - now.keys():
            self._notify(_halt_notification(self._known.halts[key], self._now(), has_ended=True))
        self._known.halts = now

    def migration_changed(self, before: Migration | None, now: Migration | None) -> None:
        # An earlier process reported migrations that had finished before this one started.
        if not self._is_leading or before is None or now is None or before.is_finished:
            return
        if now.status.phase is MigrationPhase.FAILED:
            self._notify(_failure_notification(now, self._now()))

    def failing(self, pods: Iterable[FailingPod]) -> None:
        exhausted = {pod.pod: pod for pod in pods if pod.tries >= pod.allowed}
        if self._is_leading and self._known.exhausted is not None:
            for key in sorted(exhausted.keys() - self._known.exhausted):
                self._notify(_exhausted_notification(exhausted[key], self._now()))
        self._known.exhausted = set(exhausted)

    def maintenance(self, nodes: Sequence[NodeInMaintenance]) -> None:
        left = {node.node: node.left + len(node.blocked) for node in nodes}
        if self._is_leading and self._known.left is not None:
            for name in sorted(left):
                if not left[name] and self._known.left.get(name, 1):
                    self._notify(_maintenance_notification(name, self._now()))
        self._known.left = left

    def _notify(self, notification: Notification) -> None:
        for sink in self._sinks:
            sink.offer(notification)


def _halt_notification(halt: Halt, at: datetime, *, has_ended: bool) -> Notification:
    of = f" of namespace {halt.namespace}" if halt.namespace else ""
    begun = f"{halt.reason}: {halt.words}. No move{of} starts. Ends {halt.ends}."
    return Notification(
        event=NotificationEvent.HALT_ENDED if has_ended else NotificationEvent.HALTED,
        at=at,
        subject=f"halt/{halt.reason}" + (f"/{halt.namespace}" if halt.namespace else ""),
        text=f"{halt.reason} has ended: moves{of} start again." if has_ended else begun,
        data={"reason": str(halt.reason), "namespace": halt.namespace, "since": halt.since.isoformat()},
        identity=halt.since.isoformat(),
    )


def _failure_notification(migration: Migration, at: datetime) -> Notification:
    spec, status = migration.spec, migration.status
    target = migration.target_node or "another node"
    return Notification(
        event=NotificationEvent.MIGRATION_FAILED,
        at=status.finished_at or at,
        subject=f"podmigration/{migration.key}",
        text=f"{migration.pod_key} was not moved from {spec.source_node} to {target}: "
        f"{status.message or status.failure or 'failed'}",
        data={
            "migration": migration.key,
            "pod": migration.pod_key,
            "sourceNode": spec.source_node,
            "targetNode": migration.target_node,
            "strategy": spec.strategy,
            "failure": status.failure,
            "attempts": status.attempts,
        },
        identity=migration.uid,
    )


def _exhausted_notification(pod: FailingPod, at: datetime) -> Notification:
    return Notification(
        event=NotificationEvent.RETRIES_EXHAUSTED,
        at=at,
        subject=f"pod/{pod.pod}",
        text=f"{pod.pod} fails on {pod.node} after {pod.tries} of {pod.allowed} attempts: {pod.why}",
        data={"pod": pod.pod, "node": pod.node, "why": pod.why, "attempts": pod.tries},
        identity=f"{pod.node} {pod.tries}",
    )


def _maintenance_notification(node: str, at: datetime) -> Notification:
    return Notification(
        event=NotificationEvent.MAINTENANCE_FINISHED,
        at=at,
        subject=f"node/{node}",
        text=f"{node} is empty: its maintenance can start.",
        data={"node": node},
        identity=at.isoformat(),
    )
