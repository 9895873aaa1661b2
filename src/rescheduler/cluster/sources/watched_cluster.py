"""Keep the state of a live cluster up to date, for the controllers and for planning.

informers ──▶ changes ──▶ ClusterState ──freeze──▶ Snapshot, made again only after changes

Freezing a large cluster takes long, so it is done in a thread. Changes that arrive meanwhile are queued, so
the event loop never waits. For kinds that can't be read, the same is assumed as for a single
plan; a kind that the controllers require is an error.
"""

import asyncio
import contextlib
import logging
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

from rescheduler.api.well_known_names import KARPENTER_NODE_POOL_LABEL
from rescheduler.cluster.cluster_state import ClusterState
from rescheduler.cluster.node_autoscalers import AutoscalerSigns
from rescheduler.cluster.snapshot import Snapshot
from rescheduler.cluster.sources.cluster_kinds import CLUSTER_KINDS, ClusterKind, pod_dependencies
from rescheduler.cluster.sources.live_source import gather_all, read_autoscaler_signs
from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS, WORKLOAD_INDICES, WatchedObjects
from rescheduler.cluster.storage_decoders import STORAGE_DECODERS
from rescheduler.cluster.trusted_usage import UsageSubjects
from rescheduler.cluster.usage_readings import NO_CUSTOM_READINGS, CustomReadings, UsageByName
from rescheduler.cluster.workload_record import WORKLOAD_KINDS
from rescheduler.kube import errors
from rescheduler.kube.api_resources import Object, key_of
from rescheduler.kube.client import Client
from rescheduler.kube.informer import ChangeHandler, Informer, ReadYourWrites
from rescheduler.kube.watch_cache import IndexFunction

__all__ = ["MissingPodMigrationCRD", "WatchedCluster", "require_podmigration_crd"]

log = logging.getLogger(__name__)

_MATCHES_NOTHING: Final = "metadata.name=rescheduler-asks-whether-it-may-list"
"""A selector that no object matches: the response is an empty list, or the error that prevents lists."""


class MissingPodMigrationCRD(Exception):  # noqa: N818 - says what is the case
    def __init__(self) -> None:
        super().__init__(
            "the cluster does not know PodMigration, in which moves are recorded. "
            "Install it: rescheduler manifests --crd | kubectl apply -f - "
            "(`move`, `apply` and `drain` do it themselves with --install)."
        )


async def require_podmigration_crd(client: Client, namespace: str = "") -> None:
    """Raise `MissingPodMigrationCRD` if the server does not know PodMigrations, and `KubeError`.

    With a namespace, permission to list them there is enough.
    """
    try:
        await client.list(POD_MIGRATIONS, namespace=namespace, fields=_MATCHES_NOTHING)
    except errors.NotFound as error:
        raise MissingPodMigrationCRD from error


async def _is_defined(client: Client) -> bool:
    try:
        await require_podmigration_crd(client)
    except MissingPodMigrationCRD:
        return False
    return True


_SIGNS_INTERVAL: Final = timedelta(seconds=30)


class WatchedCluster:
    def __init__(self, client: Client, watched: WatchedObjects, now: Callable[[], datetime]) -> None:
        self.watched = watched
        self.assumptions: tuple[str, ...] = ()
        """About kinds that could not be read."""
        self.workloads: Mapping[str, ReadYourWrites[Object]] = {}
        """The workloads by kind, as far as they can be read, while it runs; those of some kinds without their
        templates."""
        self._client = client
        self._now = now
        self._changes: deque[Callable[[], None]] = deque()
        self._lock = threading.RLock()
        self._refreshing = asyncio.Lock()
        self._refreshes = self._last_refresh = 0
        """The number of started refreshes, and of the last one that succeeded."""
        self._state = ClusterState()
        self._snapshot: Snapshot | None = None
        """None if something has changed since the latest one."""
        self._latest: Snapshot | None = None
        self._notes: tuple[str, ...] = ()
        self._signs = AutoscalerSigns()
        self._signs_read_at: datetime | None = None
        self._running_informers: tuple[Informer[Any], ...] = ()

    @contextlib.asynccontextmanager
    async def running(self, *, read_only: bool = False) -> AsyncIterator[None]:
        """Follow the cluster while the body runs. Raises `KubeError`.

        Raises `MissingPodMigrationCRD`, too, unless the body is `read_only` and moves nothing.
        """
        self.watched.is_without_migrations = read_only and not await _is_defined(self._client)
        own = {informer.resource.kind: informer for informer in self.watched.informers}
        kinds = [each for each in CLUSTER_KINDS if each.decides and self._is_there(each)]
        refusals = await self._refusals(kinds, own)
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(self.watched.running())
            watched = {**own, **{
                each.kind: Informer(self._client, each.resource, indices=_indices(each.kind))
                for each in kinds
                if each.kind not in own and each.kind not in refusals
            }}  # fmt: skip
            others = [informer for kind, informer in watched.items() if kind not in own]
            for informer in others:
                await stack.enter_async_context(informer.running())
            await asyncio.gather(*(informer.synced() for informer in others))
            for kind in kinds:
                if kind.kind in watched:
                    stack.callback(watched[kind.kind].subscribe(self._handler(kind)))
            self._running_informers = tuple(watched.values())
            self.workloads = {
                kind: ReadYourWrites(watched[kind], WORKLOAD_INDICES)
                for kind in WORKLOAD_KINDS
                if kind in watched
            }
            await self.observe_autoscalers()
            needs = pod_dependencies([*self.watched.pods.informer])
            self.assumptions = tuple(
                f"{each.without}: {refusals[each.kind]}"
                for each in kinds
                if each.kind in refusals and each.without and each.matters(needs)
            )
            yield

    def _is_there(self, kind: ClusterKind) -> bool:
        return kind.kind != POD_MIGRATIONS.kind or not self.watched.is_without_migrations

    async def _refusals(self, kinds: list[ClusterKind], own: dict[str, Any]) -> dict[str, errors.KubeError]:
        """Return which kinds can't be watched, and why; an informer would retry them forever."""

        async def refusal(kind: ClusterKind) -> errors.KubeError | None:
            if kind.kind == POD_MIGRATIONS.kind:
                await require_podmigration_crd(self._client)
                return None
            try:
                await self._client.list(kind.resource, fields=_MATCHES_NOTHING)
            except (errors.NotFound, errors.Forbidden) as error:
                if kind.kind in own:
                    raise
                return error
            return None

        found = await gather_all([refusal(each) for each in kinds])
        return {kind.kind: error for kind, error in zip(kinds, found, strict=True) if error is not None}

    # -- what is known

    @property
    def is_fresh(self) -> bool:
        return self.watched.is_fresh

    @property
    def informers(self) -> tuple[Informer[Any], ...]:
        """Return all informers, while `running`."""
        return self._running_informers

    def snapshot(self, now_s: float | None = None) -> Snapshot:
        """Return the snapshot of this moment; if nothing has changed, only its time differs. Any thread may
        call this."""
        now_s = self._now().timestamp() if now_s is None else now_s
        with self._lock:
            self._catch_up()
            if self._snapshot is None:
                assumptions = (*self.assumptions, *self._notes)
                # Set the latest one first, because `refresh` reads both, perhaps in another thread.
                self._latest = self._snapshot = self._state.freeze(now_s, assumptions=assumptions)
            return replace(self._snapshot, taken_at_s=now_s)

    async def refresh(self) -> None:
        """Freeze the state in a thread, with everything that is known when this is called, for `present`.

        Callers during a refresh share the next one: each move calls this, and many start at the same time.
        """
        called_after = self._refreshes
        async with self._refreshing:
            is_current = self._snapshot is not None and not self._changes
            if is_current or self._last_refresh > called_after:
                return
            self._refreshes += 1
            await asyncio.to_thread(self.snapshot)
            self._last_refresh = self._refreshes

    def present(self) -> Snapshot:
        """Return the latest snapshot without waiting, for the event loop; `refresh` it first."""
        latest = self._latest
        return self.snapshot() if latest is None else replace(latest, taken_at_s=self._now().timestamp())

    def measure(
        self, pods: UsageByName, notes: tuple[str, ...] = (), custom: CustomReadings = NO_CUSTOM_READINGS
    ) -> None:
        """Set the usage of pods; `notes` are the assumptions about it. May be called from any thread."""
        with self._lock:
            self._state.apply_usage(pods)
            self._state.apply_custom_metrics(custom.metrics)
            self._notes = (*notes, *custom.notes)
            self._snapshot = None

    async def observe_autoscalers(self) -> None:
        """Read the signs of node autoscalers from the server, at most twice a minute. Raises no `KubeError`.

        NodePools matter only once there are nodes of them; most clusters have no such resource.
        """
        now, first = self._now(), self._signs_read_at is None
        if self._signs_read_at is not None and now - self._signs_read_at < _SIGNS_INTERVAL:
            return
        self._signs_read_at = now
        has_pools = first or any(KARPENTER_NODE_POOL_LABEL in node.labels for node in self.watched.nodes)
        signs = await read_autoscaler_signs(self._client, self._signs, with_node_pools=has_pools)
        if signs != self._signs:
            self._signs = signs
            # A check may be freezing the state in its thread, so the signs are queued like other changes.
            self._changes.append(partial(self._state.apply_autoscaler_signs, signs))

    def usage_subjects(self, now_s: float | None = None) -> UsageSubjects:
        """Return the pods and nodes whose usage is needed. May be called from any thread."""
        snapshot = self.snapshot(now_s)
        running = [pod for pod in snapshot.pods.records if pod.node and not pod.is_finished]
        return UsageSubjects(
            node_of={pod.key: pod.node for pod in running},
            pod_uids={pod.key: pod.uid for pod in running},
            node_uids={node.name: node.uid for node in snapshot.nodes.records},
        )

    # -- single changes

    def _handler(self, kind: ClusterKind) -> ChangeHandler[Any]:
        apply, remove = kind.applier(self._state), _remover(kind.kind, self._state)

        def on_change(old: Any, new: Any) -> None:
            if new is not None:
                self._changes.append(partial(apply, new))
            else:
                self._changes.append(partial(remove, old))
            if self._lock.acquire(blocking=False):
                try:
                    self._catch_up()
                finally:
                    self._lock.release()

        return on_change

    def _catch_up(self) -> None:
        while self._changes:
            self._snapshot = None  # first, so that no thread takes it for current
            change = self._changes.popleft()
            try:
                change()
            except ValueError as error:
                # For example, a migration that is older than its CRD: the other objects are still used.
                log.warning("%s; this object is ignored", error)


def _indices(kind: str) -> Mapping[str, IndexFunction[Object]] | None:
    return WORKLOAD_INDICES if kind in WORKLOAD_KINDS else None


def _remover(kind: str, state: ClusterState) -> Callable[[Any], None]:
    if kind == "Pod":
        return lambda pod: state.remove_pod(pod.key)
    if kind == "Node":
        return lambda node: state.remove_node(node.name)
    if kind in WORKLOAD_KINDS:
        return lambda item: state.remove_workload(kind, _object_key(item))
    if kind in STORAGE_DECODERS:
        return lambda item: _remove_storage(kind, state, item)
    by_key: dict[str, Callable[[str], None]] = {
        "Namespace": state.remove_namespace,
        "PodDisruptionBudget": state.remove_budget,
        "PodMigration": state.remove_migration,
    }
    remove = by_key[kind]
    return lambda item: remove(_object_key(item))


def _remove_storage(kind: str, state: ClusterState, item: Object) -> None:
    record = STORAGE_DECODERS[kind](item)
    state.remove_storage(type(record), record.key)


def _object_key(item: Object) -> str:
    metadata = item["metadata"]
    return key_of(metadata.get("namespace", ""), metadata["name"])
