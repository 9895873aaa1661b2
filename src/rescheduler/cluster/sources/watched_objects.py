"""One informer per kind that the controllers need, and the records of its objects.

Other components subscribe to these informers instead of reading the same objects again. Objects are read
far more often than they change, so each version is decoded once.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Generic, TypeVar

import msgspec

from kubevalues import Selector
from rescheduler.api.podmigration import (
    ControllerReference,
    Migration,
    MigrationPhase,
    UnreadableMigration,
    decode_migration,
    label_value,
)
from rescheduler.api.podmigration_crd import POD_MIGRATION_PLURAL
from rescheduler.api.well_known_names import GROUP, POD_MIGRATION_KIND, VERSION
from rescheduler.cluster.budget_record import BudgetRecord, decode_budget
from rescheduler.cluster.codecs.record_resources import NODES, PODS
from rescheduler.cluster.object_meta import (
    OwnerKey,
    OwnerReference,
    UnreadableObject,
    owner_key,
    owner_keys_of_object,
)
from rescheduler.cluster.pod_record import PodRecord
from rescheduler.cluster.workload_record import WorkloadRecord, decode_workload
from rescheduler.kube import errors
from rescheduler.kube.api_resources import (
    DEPLOYMENTS,
    POD_DISRUPTION_BUDGETS,
    REPLICA_SETS,
    STATEFUL_SETS,
    Object,
    api_resource,
)
from rescheduler.kube.client import Client
from rescheduler.kube.informer import Informer, ReadYourWrites
from rescheduler.kube.server_capabilities import require_capabilities
from rescheduler.kube.watch_cache import IndexFunction

__all__ = [
    "ALL_NAMESPACES",
    "POD_MIGRATIONS",
    "WORKLOAD_INDICES",
    "BudgetWithSelector",
    "PerVersionCache",
    "RecordCaches",
    "WatchedObjects",
    "is_under_way",
    "is_watched",
    "minute_of",
    "nested_field",
    "object_key",
    "owner_key_of_workload",
]

R = TypeVar("R")

_MOST_CACHED: Final = 20_000


class PerVersionCache(Generic[R]):
    def __init__(self, read: Callable[[Object], R]) -> None:
        self._read = read
        self._known: dict[str, tuple[str, R]] = {}

    def __call__(self, item: Object) -> R:
        metadata = item["metadata"]
        uid, version = metadata.get("uid", ""), metadata.get("resourceVersion", "")
        known = self._known.pop(uid, None)
        if known is None or known[0] != version:
            known = version, self._read(item)
        # Move it to the end, so that the least recently used one is dropped first.
        self._known[uid] = known
        if len(self._known) > _MOST_CACHED:
            del self._known[next(iter(self._known))]
        return known[1]


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BudgetWithSelector:
    """A budget, and the selector of the pods of its namespace that it covers."""

    budget: BudgetRecord
    pods: Selector


class RecordCaches:
    """Records by key; None for an object that can't be read, which the log reports once per version."""

    def __init__(self) -> None:
        self.migration = PerVersionCache(_decode_migration_or_none)
        self.protection = PerVersionCache(_decode_budget_or_none)
        self._workloads: dict[str, PerVersionCache[WorkloadRecord]] = {}

    def workload(self, item: Object, kind: str) -> WorkloadRecord:
        """Return the record of a workload; `kind` is needed because items of a list don't name theirs."""
        if kind not in self._workloads:
            self._workloads[kind] = PerVersionCache(lambda each: decode_workload(each, kind))
        return self._workloads[kind](item)


def _decode_migration_or_none(item: Object) -> Migration | None:
    try:
        return decode_migration(item)
    except UnreadableMigration as error:
        log.warning("%s; this migration is ignored", error)
        return None


def _decode_budget_or_none(item: Object) -> BudgetWithSelector | None:
    try:
        budget = decode_budget(item)
    except UnreadableObject as error:
        log.warning("%s; this budget counts as selecting no pod", error)
        return None
    return BudgetWithSelector(budget, budget.pods())


POD_MIGRATIONS: Final = api_resource(GROUP, VERSION, POD_MIGRATION_PLURAL, POD_MIGRATION_KIND)

ALL_NAMESPACES: Final = ""
"""The key for all namespaces, where an index is by namespace."""

_WORKLOAD_RESOURCES: Final = {
    "ReplicaSet": REPLICA_SETS,
    "StatefulSet": STATEFUL_SETS,
    "Deployment": DEPLOYMENTS,
}


def is_watched(owner: ControllerReference | OwnerReference) -> bool:
    """Return whether owners of this kind are watched, so that a missing one does not exist."""
    return owner.kind in _WORKLOAD_RESOURCES and owner.api_version.startswith("apps/")


def nested_field(item: Object, *path: str) -> Any:
    """Return the field at this path; None if the object lacks any part of the path."""
    value: Any = item
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def object_key(item: Object) -> str:
    return f"{item['metadata']['namespace']}/{item['metadata']['name']}"


def _namespace(item: Object) -> str:
    return str(item["metadata"]["namespace"])


def owner_key_of_workload(kind: str, item: Object) -> OwnerKey:
    """Return the owner that the references of its pods must name; items of a list don't have a kind."""
    return OwnerKey(_namespace(item), kind, item["metadata"]["name"], item["metadata"]["uid"])


def _recorded_owner(item: Object) -> list[OwnerKey]:
    owner = nested_field(item, "status", "owner")
    if not isinstance(owner, dict):
        return []
    return [OwnerKey(_namespace(item), *(str(owner.get(part)) for part in ("kind", "name", "uid")))]


def _pods_of(item: Object) -> list[tuple[str, str]]:
    """Return the source and the successor, as recorded."""
    names = (nested_field(item, "spec", "pod", "name"), nested_field(item, "status", "targetPod", "name"))
    return [(_namespace(item), name) for name in names if name]


def is_under_way(item: Object | None) -> bool:
    return item is not None and nested_field(item, "status", "phase") == MigrationPhase.IN_PROGRESS


def minute_of(moment: datetime) -> int:
    return int(moment.timestamp() // 60)


def _minute_of_end(item: Object) -> list[int]:
    finished = nested_field(item, "status", "finishedAt")
    try:
        return [minute_of(datetime.fromisoformat(finished))] if isinstance(finished, str) else []
    except ValueError:
        return []


_POD_INDICES: Final[Mapping[str, IndexFunction[PodRecord]]] = {
    "owner": lambda pod: [] if pod.owner is None else [owner_key(pod.namespace, pod.owner)],
    "bare": lambda pod: [pod.namespace] if pod.owner is None else [],
}
_MIGRATION_INDICES: Final[Mapping[str, IndexFunction[Object]]] = {
    "pod": _pods_of,
    "owner": _recorded_owner,
    "mark": lambda item: [(_namespace(item), label_value(item["metadata"]["name"]))],
    "unfinished": lambda item: [] if nested_field(item, "status", "finishedAt") else [True],
    "running": lambda item: [ALL_NAMESPACES, _namespace(item)] if is_under_way(item) else [],
    "finished": _minute_of_end,
    "node": lambda item: [
        nested_field(item, "spec", "sourceNode"),
        nested_field(item, "status", "targetNode"),
    ],
}
WORKLOAD_INDICES: Final[Mapping[str, IndexFunction[Object]]] = {"owner": owner_keys_of_object}
_BUDGET_INDICES: Final = {"namespace": lambda item: [_namespace(item)]}


class WatchedObjects:
    def __init__(self, client: Client) -> None:
        self._client = client
        self.pods = ReadYourWrites(Informer(client, PODS, indices=_POD_INDICES), _POD_INDICES)
        self.migrations = ReadYourWrites(
            Informer(client, POD_MIGRATIONS, indices=_MIGRATION_INDICES), _MIGRATION_INDICES
        )
        self.budgets = ReadYourWrites(
            Informer(client, POD_DISRUPTION_BUDGETS, indices=_BUDGET_INDICES), _BUDGET_INDICES
        )
        self.nodes = Informer(client, NODES)
        self.workloads = {
            kind: Informer(client, resource, indices=WORKLOAD_INDICES)
            for kind, resource in _WORKLOAD_RESOURCES.items()
        }
        self.is_without_migrations = False
        """Whether the server does not have the PodMigration CRD, so that there are no migrations."""
        self.records = RecordCaches()
        self.being_requested: set[str] = set()
        """Uids of pods for which this process is about to create a migration that no cache has yet."""
        self.made_here: set[str] = set()
        """Keys of unfinished migrations that this process has created and that make room for pods."""

    @property
    def informers(self) -> tuple[Informer[Any], ...]:
        """Return the informers that run."""
        migrations = () if self.is_without_migrations else (self.migrations.informer,)
        return (
            self.pods.informer,
            *migrations,
            self.budgets.informer,
            self.nodes,
            *self.workloads.values(),
        )

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Follow the cluster while the body runs; the body starts after all informers have synced.

        Raises `MissingCapability` if the cluster does not support moves, and `KubeError` if requests fail.
        """
        await require_capabilities(self._client)
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(self._client.probing())
            for informer in self.informers:
                await stack.enter_async_context(informer.running())
            await asyncio.gather(*(informer.synced() for informer in self.informers))
            yield

    @property
    def is_fresh(self) -> bool:
        """Return whether every informer is fresh. While the API server fails, none is, and no move
        starts."""
        return all(informer.is_fresh for informer in self.informers)

    def learn_pod(self, item: Object) -> PodRecord:
        """Store a complete pod, as the server returned it."""
        record = PODS.codec.decode_one("application/json", msgspec.json.encode(item))
        self.pods.observe(record)
        return record

    # -- live reads, before steps that can't be undone

    async def read_pod(self, key: str, uid: str) -> None:
        """Read the pod live into the cache; if there is none, the one with this `uid` is marked as
        deleted."""
        try:
            self.pods.observe(await self._client.get(PODS, key))
        except errors.NotFound:
            self.pods.observe_deleted(key, uid)

    async def read_pods(self, namespace: str, labels: Mapping[str, str]) -> list[PodRecord]:
        """Read all pods that have these labels now."""
        selector = ",".join(f"{name}={value}" for name, value in sorted(labels.items()))
        found = (await self._client.list(PODS, namespace=namespace, labels=selector)).items
        for pod in found:
            self.pods.observe(pod)
        return found

    async def read_migration(self, key: str, uid: str) -> None:
        try:
            self.migrations.observe(await self._client.get(POD_MIGRATIONS, key))
        except errors.NotFound:
            self.migrations.observe_deleted(key, uid)

    async def read_migrations(self, namespace: str) -> None:
        for item in (await self._client.list(POD_MIGRATIONS, namespace=namespace)).items:
            self.migrations.observe(item)

    async def read_budgets(self, namespace: str) -> None:
        for item in (await self._client.list(POD_DISRUPTION_BUDGETS, namespace=namespace)).items:
            self.budgets.observe(item)
