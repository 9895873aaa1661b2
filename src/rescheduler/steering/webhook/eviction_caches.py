"""The caches from which the webhook decides on evictions: pods, workloads, budgets, and the daemon's state.

Informers keep them current, so that an answer takes no request. Workloads are kept as small records: there
may be many thousands.

There is one exception: caches can't decide which pod of a set goes first. A conditional write does
(`EvictionTurns`).
"""

import asyncio
import contextlib
import logging
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from rescheduler.api.daemon_status import STATE_CONFIG_MAP, UnreadableState, decode_pause, decode_status
from rescheduler.api.podmigration import Migration, UnreadableMigration, decode_migration
from rescheduler.api.well_known_names import EVICTION_TURNS_CONFIG_MAP
from rescheduler.cluster.budget_record import BudgetIndex, SiblingCounts
from rescheduler.cluster.codecs.record_resources import NODES, PODS
from rescheduler.cluster.node_record import in_maintenance, leaving_because
from rescheduler.cluster.object_meta import OwnerReference, UnreadableObject
from rescheduler.cluster.pod_record import PodRecord
from rescheduler.cluster.workload_record import WorkloadRecord, decode_workload
from rescheduler.config.policy import Policy
from rescheduler.kube import errors
from rescheduler.kube.api_resources import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    LEASES,
    NAMESPACES,
    POD_DISRUPTION_BUDGETS,
    REPLICA_SETS,
    STATEFUL_SETS,
    ApiResource,
    Object,
    ObjectIdentity,
)
from rescheduler.kube.client import Client
from rescheduler.kube.codecs.codec import JsonCodec, metadata_codec
from rescheduler.kube.event_recorder import log_event
from rescheduler.kube.informer import Informer, ListOptions
from rescheduler.kube.leader_election import LeaseObservation, LeaseRecord, lease_record_of
from rescheduler.steering.webhook.eviction_decision import EvictionFacts

__all__ = ["DaemonPresence", "EvictionCaches", "EvictionTurns"]

log = logging.getLogger(__name__)

_LEASE_MARGIN_S: Final = 5.0
_TURN_LASTS_S: Final = 10.0
"""How long after the eviction of a pod caches may not show it: that of its request, and of the watch."""
_TURN_TIMEOUT_S: Final = 1.0
"""API servers wait two seconds for an answer, and let the eviction pass without one."""
_TURN_TRIES: Final = 3
_WRITE_PAUSE_S: Final = 0.05
"""The time between two writes: a client may ask all the time, if its evictions are refused for another
reason. It must not keep other replicas from writing."""
_UNORDERED: Final = (
    f"ConfigMap {EVICTION_TURNS_CONFIG_MAP} can't be written, so pods of one set may be evicted at the same "
    "moment. Reinstall it: `rescheduler manifests | kubectl apply -f -`, or `helm upgrade`"
)
_MAX_TURNS: Final = 4_000
"""How many controllers have a turn at the same time at most, so that the ConfigMap stays small."""
_MAX_NAME: Final = 128
"""How much of the key of a pod a turn shows: in a ConfigMap of more than a MiB, no turn could be written."""


@dataclass(frozen=True, slots=True)
class _CachedWorkload:
    record: WorkloadRecord
    resource_version: str


def _workload_resource(resource: ApiResource[Object]) -> "ApiResource[_CachedWorkload]":
    def read(raw: bytes | msgspec.Raw) -> _CachedWorkload:
        item = msgspec.json.decode(raw, type=Object)
        metadata = item["metadata"]
        try:
            record = decode_workload(item, resource.kind)
        except UnreadableObject:
            # No decision uses it: its pods count as pods of an unknown owner.
            key = f"{metadata['namespace']}/{metadata['name']}"
            record = WorkloadRecord(
                kind="", api_version="", key=key, namespace=metadata["namespace"], uid=metadata["uid"]
            )
        return _CachedWorkload(record, metadata.get("resourceVersion", ""))

    codec = JsonCodec(resource.label, read, lambda each: each.resource_version)
    return ApiResource(
        resource.group, resource.version, resource.plural, resource.kind, True, codec,
        lambda each: ObjectIdentity(each.record.key, each.record.uid, each.resource_version),
    )  # fmt: skip


class DaemonPresence:
    """Knows from Lease and ConfigMap whether a leader is active, and whether it starts moves."""

    def __init__(self, client: Client, namespace: str, lease: str, monotonic_s: Callable[[], float]) -> None:
        self._key = f"{namespace}/{STATE_CONFIG_MAP}"
        self._monotonic_s = monotonic_s
        self._lease = LeaseObservation(LeaseRecord(), 0.0)
        state = ListOptions(namespace=namespace, fields=f"metadata.name={STATE_CONFIG_MAP}")
        self.informers: tuple[Informer[Object], ...] = (
            Informer(client, LEASES, ListOptions(namespace=namespace, fields=f"metadata.name={lease}")),
            Informer(client, CONFIG_MAPS, state),
        )
        self._state = self.informers[1]
        self.informers[0].subscribe(self._lease_changed)

    def _lease_changed(self, _old: Object | None, new: Object | None) -> None:
        record = LeaseRecord() if new is None else lease_record_of(new.get("spec") or {})
        self._lease = self._lease.then(record, self._monotonic_s())

    def obstacle(self, namespace: str) -> str:
        """Return why no move of a pod in that namespace would start now; empty if one would."""
        record = self._lease.record
        # By our own clock: that of the leader may differ.
        if (
            not record.holder
            or self._monotonic_s() - self._lease.changed_s > record.lasts_s + _LEASE_MARGIN_S
        ):
            return "no daemon leads"
        data = (self._state.get(self._key) or {}).get("data") or {}
        try:
            pause, status = decode_pause(data), decode_status(data)
        except UnreadableState as error:
            return f"ConfigMap {self._key}: {error}"
        if pause.paused:
            return "rescheduler is paused"
        for halt in status.halts if status is not None else ():
            if halt.reason.stops_safe_evictions and halt.namespace in {"", namespace}:
                return f"moves are halted ({halt.reason})"
        return ""


class EvictionTurns:
    """Lets the pods of one controller go one after the other, whichever replica of the webhook is asked.

    A pod is let go only after its turn was written into a ConfigMap, in the version that was read: of two
    replicas, the API server accepts one write. For some seconds on our own clock since we saw that turn, no
    other pod of the controller gets one; from then on, caches show that the pod is gone.

    All turns that are asked for during a write are in the next one: no tenant makes others wait for more.
    """

    def __init__(self, client: Client, namespace: str, monotonic_s: Callable[[], float]) -> None:
        self._namespace, self._own = namespace, f"metadata.name={EVICTION_TURNS_CONFIG_MAP}"
        self._client = client.with_quick_retries()
        self._monotonic_s = monotonic_s
        self._item: Object | None = None
        """The newest state that we know; None if it must be read first."""
        self._seen: dict[str, tuple[str, float]] = {}
        """The turn of each controller, by uid, and when we first saw it."""
        self._asked: dict[str, tuple[PodRecord, asyncio.Future[bool]]] = {}
        self._writer: asyncio.Task[None] | None = None
        self._informer = Informer(client, CONFIG_MAPS, ListOptions(namespace=namespace, fields=self._own))
        self._informer.subscribe(lambda _, new: self._observe(new))

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with self._informer.running():
            try:
                yield
            finally:
                if self._writer is not None:
                    self._writer.cancel()

    async def take(self, pod: PodRecord) -> bool:
        """Return whether the pod may go now: not without an answer in time, but if turns can't be written at
        all, as without rescheduler."""
        assert pod.owner is not None
        uid = pod.owner.uid
        if uid in self._asked:
            return False
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._asked[uid] = pod, answer
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write_all(), name="eviction turns")
        try:
            async with asyncio.timeout(_TURN_TIMEOUT_S):
                return await answer
        except TimeoutError:
            return False

    async def _write_all(self) -> None:
        while self._asked:
            asked, self._asked = self._asked, {}
            given: Collection[str] = ()
            try:
                async with asyncio.timeout(_TURN_TIMEOUT_S):
                    given = await self._written({uid: pod for uid, (pod, _) in asked.items()})
            except errors.Permanent as error:
                log_event(log, logging.WARNING, "EvictionTurnNotRecorded", f"{_UNORDERED}: {error}")
                given = asked
            except (errors.KubeError, TimeoutError) as error:
                self._item = None
                words = f"{str(error) or 'No answer in time.'} The evictions are held until the next try."
                log_event(log, logging.WARNING, "EvictionTurnNotRecorded", words)
            finally:
                for uid, (_, answer) in asked.items():
                    if not answer.done():
                        answer.set_result(uid in given)
            await asyncio.sleep(_WRITE_PAUSE_S)

    async def _written(self, asked: Mapping[str, PodRecord]) -> Collection[str]:
        """Write the turns that may be given, and return their controllers. Raises `KubeError`."""
        for _ in range(_TURN_TRIES):
            if self._item is None:
                found = await self._client.list(CONFIG_MAPS, namespace=self._namespace, fields=self._own)
                self._observe(next(iter(found.items), None))
            if (item := self._item) is None:
                log_event(log, logging.WARNING, "EvictionTurnNotRecorded", f"{_UNORDERED}: it is missing")
                return asked
            since_s = self._monotonic_s() - _TURN_LASTS_S
            turns = {uid: turn for uid, (turn, seen_s) in self._seen.items() if seen_s > since_s}
            given = _given_turns(turns, asked)
            if not given:
                return ()
            try:
                written = await self._client.replace(CONFIG_MAPS, {**item, "data": turns | given})
            except errors.Conflict:
                self._item = None  # another replica was first
            else:
                self._observe(written)
                return given
        return ()

    def _observe(self, item: Object | None) -> None:
        self._item = item
        now_s, data, known = self._monotonic_s(), (item or {}).get("data") or {}, self._seen
        self._seen = {
            uid: known[uid] if uid in known and known[uid][0] == turn else (turn, now_s)
            for uid, turn in data.items()
        }


def _given_turns(turns: Mapping[str, str], asked: Mapping[str, PodRecord]) -> dict[str, str]:
    """Return a turn for each pod whose controller has none, or whose turn it is already.

    One namespace gets half of the places at most: tenants may have as many sets as they like.
    """
    given: dict[str, str] = {}
    of_namespaces, free = Counter(turn.partition("/")[0] for turn in turns.values()), _MAX_TURNS - len(turns)
    for uid, pod in asked.items():
        mine = f"{pod.key[:_MAX_NAME]} {pod.uid} "
        if uid in turns:
            may_go = turns[uid].startswith(mine)
        else:
            may_go = free > 0 and of_namespaces[pod.namespace] < _MAX_TURNS // 2
            free -= may_go
            of_namespaces[pod.namespace] += may_go
        if may_go:
            # Each turn is different, so that its time counts from now on.
            given[uid] = mine + secrets.token_hex(4)
    return given


class EvictionCaches:
    def __init__(self, client: Client, migrations: Informer[Object], daemon: DaemonPresence) -> None:
        self.daemon = daemon
        self._migrations = migrations
        self._pods = Informer(client, PODS)
        self._sibling_counts = SiblingCounts()
        self._pods.subscribe(self._sibling_counts.changed)
        self._nodes = Informer(client, NODES)
        self._workloads = {
            each.kind: Informer(client, _workload_resource(each))
            for each in (REPLICA_SETS, DEPLOYMENTS, STATEFUL_SETS)
        }
        self._budgets = Informer(client, POD_DISRUPTION_BUDGETS)
        self._budget_index = BudgetIndex()
        self._budgets.subscribe(self._budget_index.changed)
        slim = metadata_codec("namespaces", _kept_metadata)
        self._namespaces = Informer(client, replace(NAMESPACES, codec=slim))
        self._of_pod: dict[str, dict[str, Migration]] = {}
        """Migrations by the uid of their pod, then by their own key."""
        migrations.subscribe(self._migration_changed)

    @property
    def _informers(self) -> tuple[Informer[Any], ...]:
        return (
            self._pods, self._nodes, *self._workloads.values(), self._budgets, self._namespaces,
            *self.daemon.informers,
        )  # fmt: skip

    @property
    def is_ready(self) -> bool:
        """Return whether every informer has synced and follows the server."""
        return self._migrations.is_fresh and all(each.is_fresh for each in self._informers)

    @property
    def problem(self) -> errors.KubeError | None:
        """Return why an informer can never sync, such as a missing permission; None if all may."""
        failures = (each.failure for each in self._informers if not each.is_synced)
        return next((each for each in failures if isinstance(each, errors.Permanent)), None)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as stack:
            for informer in self._informers:
                await stack.enter_async_context(informer.running())
            yield

    async def synced(self) -> None:
        await asyncio.gather(*(informer.synced() for informer in self._informers))

    def pod(self, key: str) -> PodRecord | None:
        return self._pods.get(key)

    def is_name_taken(self, key: str, pod: PodRecord) -> bool:
        """Return whether a PodMigration of that name exists that does not move this pod any more, or never
        did."""
        item = self._migrations.get(key)
        if item is None:
            return False
        migration = _decoded(item)
        is_of_pod = migration is not None and (migration.spec.pod.uid, migration.pod_key) == (
            pod.uid,
            pod.key,
        )
        return migration is None or not is_of_pod or migration.is_finished

    def facts(self, pod: PodRecord, policy: Policy, template: EvictionFacts) -> EvictionFacts:
        """Return the facts about the pod; `template` has those that do not depend on the cluster."""
        owner = self._workload(pod.namespace, pod.owner)
        top = owner
        if owner is not None and owner.kind == "ReplicaSet" and owner.owner is not None:
            top = self._workload(pod.namespace, owner.owner) or owner
        namespace = (self._namespaces.get(pod.namespace) or {}).get("metadata", {})
        budgets = self._budget_index.of_pod(pod)
        obstacle = template.unavailable or self.daemon.obstacle(pod.namespace)
        if budgets is None:
            obstacle = obstacle or "too many budgets may cover the pod"
        ready, terminating = self._sibling_counts.of_siblings(pod)
        return replace(
            template,
            policy=policy,
            pod=pod,
            node=self._nodes.get(pod.node),
            owner=owner,
            top=top,
            namespace_annotations=namespace.get("annotations", {}),
            namespace_labels=namespace.get("labels"),
            budgets=budgets or (),
            # Other tenants may have created PodMigrations in their namespaces that name its uid.
            migrations=tuple(m for m in self._of_pod.get(pod.uid, {}).values() if m.pod_key == pod.key),
            unavailable=obstacle,
            pods_ready=ready,
            pods_terminating=terminating,
        )

    def is_emptied(self, node: str) -> bool:
        """Return whether the pods of that node are about to leave it."""
        found = self._nodes.get(node)
        return found is not None and (
            found.unschedulable or in_maintenance(found) or bool(leaving_because(found))
        )

    def _workload(self, namespace: str, owner: OwnerReference | None) -> WorkloadRecord | None:
        if owner is None or not owner.api_version.startswith("apps/") or owner.kind not in self._workloads:
            return None
        found = self._workloads[owner.kind].get(f"{namespace}/{owner.name}")
        is_it = found is not None and found.record.uid == owner.uid and found.record.kind == owner.kind
        return found.record if found is not None and is_it else None

    def _migration_changed(self, old: Object | None, new: Object | None) -> None:
        for item, is_present in ((old, False), (new, True)):
            migration = None if item is None else _decoded(item)
            if migration is None:
                continue
            uid = migration.spec.pod.uid
            of_pod = self._of_pod.setdefault(uid, {})
            of_pod.pop(migration.key, None)
            if is_present:
                of_pod[migration.key] = migration
            if not of_pod:
                del self._of_pod[uid]


def _decoded(item: Object) -> Migration | None:
    try:
        return decode_migration(item)
    except UnreadableMigration:
        return None  # the intent cache reports it


def _kept_metadata(metadata: Object) -> Object:
    annotations = metadata.get("annotations") or {}
    kept = {name: value for name, value in annotations.items() if name.startswith("rescheduler.dev/")}
    return {name: metadata[name] for name in ("name", "uid", "resourceVersion")} | {
        "annotations": kept,
        "labels": metadata.get("labels") or {},
    }
