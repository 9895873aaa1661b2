"""Respond to Eviction objects (`lifecycle.k8s.io`, alpha in Kubernetes 1.37) by moving the pod.

A client that wants to evict a pod creates an EvictionRequest. A controller of the cluster makes one Eviction
per pod, and activates the responders that the pod names in `spec.evictionResponders`, one after the other.
A workload opts in with the responder `rescheduler.dev/responder`. While that one is active, the pod is moved
make-before-break by a PodMigration of strategy Eviction. A responder reports heartbeats, and its completion:
if the move failed, the next responder takes over, and in the end the cluster evicts the pod.

If the server does not have the API, none of this runs.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from rescheduler.api.podmigration import EVICTION, Migration, MigrationPhase, MigrationSpec, PodReference
from rescheduler.api.well_known_names import EVICTION_RESPONDER
from rescheduler.cluster.pod_record import PodRecord
from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS, WatchedObjects
from rescheduler.kube import errors
from rescheduler.kube.api_resources import Object, api_resource, key_of, strategic_patch
from rescheduler.kube.client import Client
from rescheduler.kube.event_recorder import log_event
from rescheduler.kube.informer import Informer
from rescheduler.kube.work_queue import background_task
from rescheduler.migrations.runtime_state import RuntimeStateHolder
from rescheduler.steering.webhook.eviction_decision import eviction_migration_name

__all__ = [
    "EVICTIONS",
    "CancelMove",
    "EvictionResponder",
    "ReportProgress",
    "StartMove",
    "next_response",
]

log: Final = logging.getLogger(__name__)

_GROUP, _VERSION = "lifecycle.k8s.io", "v1alpha1"
EVICTIONS: Final = api_resource(_GROUP, _VERSION, "evictions", "Eviction")

_HEARTBEAT: Final = timedelta(seconds=30)
"""The API asks for at least 20 s between heartbeats, and gives up on a responder after 20 minutes."""
_MIN_INTERVAL_S: Final = 0.2
_MAX_TEXT: Final = 1000


@dataclass(frozen=True, slots=True)
class StartMove:
    spec: MigrationSpec


@dataclass(frozen=True, slots=True)
class CancelMove:
    """Cancel the move, because its eviction was cancelled."""


@dataclass(frozen=True, slots=True)
class ReportProgress:
    message: str
    is_complete: bool = False


Response = StartMove | CancelMove | ReportProgress


def next_response(
    eviction: Mapping[str, Any],
    pod: PodRecord | None,
    migration: Migration | None,
    now: datetime,
    allowed: timedelta,
) -> Response | None:
    """Return what to do about an Eviction, or None if there is nothing to do now.

    `pod` is the pod with the name of the target, `migration` the one of this eviction, if they exist; a move
    may take the time `allowed`.
    """
    status = eviction.get("status") or {}
    state, report = (_ours(status.get(name)) for name in ("targetResponders", "responders"))
    is_moving = migration is not None and not migration.is_finished
    if state.get("state") == "Canceled" and is_moving:
        return None if migration is None or migration.is_cancelled else CancelMove()
    if state.get("state") != "Active" or report.get("completionTime"):
        return None
    target = (eviction["spec"].get("target") or {}).get("pod") or {}
    if pod is None or pod.uid != target.get("uid") or not pod.is_active:
        return ReportProgress("the pod is gone", is_complete=True)
    if migration is None:
        return StartMove(_requested_move(pod, status, now + allowed))
    if not migration.is_finished:
        return _heartbeat(migration, report, now)
    outcome = migration.status.message or migration.status.failure
    if migration.status.phase is MigrationPhase.COMPLETED:
        return ReportProgress(f"moved: {outcome}"[:_MAX_TEXT], is_complete=True)
    return ReportProgress(f"not moved, left to the next responder: {outcome}"[:_MAX_TEXT], is_complete=True)


def _ours(entries: Any) -> Mapping[str, Any]:
    found = entries if isinstance(entries, Sequence) else ()
    return next((each for each in found if each.get("name") == EVICTION_RESPONDER), {})


def _requested_move(pod: PodRecord, status: Mapping[str, Any], deadline: datetime) -> MigrationSpec:
    requesters = [
        each.get("name", "") for each in status.get("requesters") or () if each.get("intent") == "Eviction"
    ]
    return MigrationSpec(
        pod=PodReference(pod.name, pod.uid),
        source_node=pod.node,
        strategy=EVICTION,
        reason=f"eviction requested by {', '.join(requesters) or 'an unknown client'}"[:_MAX_TEXT],
        deadline=deadline,
    )


def _heartbeat(migration: Migration, report: Mapping[str, Any], now: datetime) -> ReportProgress | None:
    last = report.get("heartbeatTime")
    if last is not None and now - datetime.fromisoformat(last) < _HEARTBEAT:
        return None
    step = migration.status.step or "waiting for its turn"
    where = f" to {migration.target_node}" if migration.target_node else ""
    return ReportProgress(f"PodMigration {migration.name} moves the pod{where}: {step}"[:_MAX_TEXT])


class EvictionResponder:
    def __init__(
        self,
        client: Client,
        watched: WatchedObjects,
        runtime: RuntimeStateHolder,
        now: Callable[[], datetime],
    ) -> None:
        self._client = client
        self._watched = watched
        self._runtime = runtime
        self._now = now
        self._informer: Informer[Object] = Informer(client, EVICTIONS)
        self._changed = asyncio.Event()
        self._pods: frozenset[str] = frozenset()
        """Keys of pods whose eviction we respond to."""

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Respond while the body runs, if the server has the API."""
        if not await _is_served(self._client):
            yield
            return
        log_event(
            log, logging.INFO, "EvictionResponderStarted", f"responding to {_GROUP}/{_VERSION} Evictions"
        )
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(self._informer.running())
            stack.callback(self._informer.subscribe(lambda _old, _new: self._changed.set()))
            stack.callback(self._watched.pods.informer.subscribe(self._on_pod))
            stack.callback(self._watched.migrations.informer.subscribe(self._on_migration))
            await stack.enter_async_context(background_task(self._respond_for_ever(), "eviction responder"))
            yield

    def _on_pod(self, old: PodRecord | None, new: PodRecord | None) -> None:
        pod = new or old
        if pod is not None and pod.key in self._pods:
            self._changed.set()

    def _on_migration(self, _old: Object | None, new: Object | None) -> None:
        if new is not None and self._pods and (new.get("spec") or {}).get("strategy") == EVICTION:
            self._changed.set()

    async def _respond_for_ever(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_HEARTBEAT.total_seconds() if self._pods else None):
                    await self._changed.wait()
            self._changed.clear()
            evictions = [
                each for each in self._informer if _ours((each.get("status") or {}).get("targetResponders"))
            ]
            self._pods = frozenset(map(_target_key, evictions))
            for each in evictions:
                try:
                    await self._respond(each)
                except errors.KubeError as error:
                    words = f"{error} The response will be retried."
                    log_event(log, logging.WARNING, "EvictionNotAnswered", words, pod=_target_key(each))
            await asyncio.sleep(_MIN_INTERVAL_S)

    async def _respond(self, eviction: Object) -> None:
        state = self._runtime.current
        if state.policy.dry_run or state.is_stopping:
            return
        namespace = eviction["metadata"]["namespace"]
        uid = str(((eviction["spec"].get("target") or {}).get("pod") or {}).get("uid"))
        name = eviction_migration_name(uid)
        item = self._watched.migrations.get(key_of(namespace, name))
        migration = None if item is None else self._watched.records.migration(item)
        pod = self._watched.pods.get(_target_key(eviction))
        allowed = state.policy.safe_evictions.deadline
        match next_response(eviction, pod, migration, self._now(), allowed):
            case StartMove(spec):
                await self._start(namespace, name, spec)
            case CancelMove():
                with contextlib.suppress(errors.NotFound):
                    await self._client.delete(POD_MIGRATIONS, key_of(namespace, name))
            case ReportProgress() as progress:
                await self._report(eviction, progress)

    async def _start(self, namespace: str, name: str, spec: MigrationSpec) -> None:
        manifest = {
            "apiVersion": POD_MIGRATIONS.api_version,
            "kind": POD_MIGRATIONS.kind,
            "metadata": {"namespace": namespace, "name": name},
            "spec": msgspec.to_builtins(spec),
        }
        with contextlib.suppress(errors.AlreadyExists):
            self._watched.migrations.observe(await self._client.create(POD_MIGRATIONS, manifest))
        words = f"the pod will be moved: {spec.reason}"
        log_event(log, logging.INFO, "EvictionAnswered", words, pod=f"{namespace}/{spec.pod.name}")

    async def _report(self, eviction: Object, progress: ReportProgress) -> None:
        time = "completionTime" if progress.is_complete else "heartbeatTime"
        written = {
            "name": EVICTION_RESPONDER,
            time: self._now().strftime("%Y-%m-%dT%H:%M:%SZ"),
            "message": progress.message,
        }
        key = key_of(eviction["metadata"]["namespace"], eviction["metadata"]["name"])
        with contextlib.suppress(errors.NotFound):
            await self._client.patch(
                EVICTIONS.status, key, strategic_patch({"status": {"responders": [written]}})
            )


async def _is_served(client: Client) -> bool:
    try:
        document = await client.document(f"/apis/{_GROUP}/{_VERSION}")
    except errors.KubeError:
        return False
    return any(each.get("name") == EVICTIONS.plural for each in document.get("resources") or ())


def _target_key(eviction: Object) -> str:
    target = (eviction["spec"].get("target") or {}).get("pod") or {}
    return key_of(eviction["metadata"]["namespace"], str(target.get("name")))
