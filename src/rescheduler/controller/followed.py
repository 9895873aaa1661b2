"""The part of the cluster that executing follows: one informer per kind, with what they are asked for.

Others that need to know the same objects subscribe to these informers, instead of reading all twice.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from rescheduler.controller.capabilities import must_be_able
from rescheduler.controller.freshest import Freshest
from rescheduler.controller.records import Records
from rescheduler.kube import errors
from rescheduler.kube.cache import Index
from rescheduler.kube.client import Client
from rescheduler.kube.informer import Informer
from rescheduler.kube.resources import (
    DEPLOYMENTS,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
    Object,
    custom,
)
from rescheduler.migrations.definition import PLURAL
from rescheduler.migrations.marks import label_value
from rescheduler.model.metadata import Owner, OwnerKey, owner_key, owner_keys_of_object
from rescheduler.model.migrations import GROUP, KIND, VERSION, OwnerReference, Phase
from rescheduler.model.pods import PodRecord

__all__ = [
    "ALL",
    "OF_WORKLOADS",
    "POD_MIGRATIONS",
    "Followed",
    "is_followed",
    "is_under_way",
    "key_of_item",
    "minute_of",
    "owner_key_of_workload",
    "said",
]

POD_MIGRATIONS: Final = custom(GROUP, VERSION, PLURAL, KIND)

ALL: Final = ""
"""Of all namespaces, where an index is by namespace."""

_WORKLOADS: Final = {"ReplicaSet": REPLICA_SETS, "StatefulSet": STATEFUL_SETS, "Deployment": DEPLOYMENTS}


def is_followed(owner: OwnerReference | Owner) -> bool:
    """Whether something follows from not seeing this owner."""
    return owner.kind in _WORKLOADS and owner.api_version.startswith("apps/")


def said(item: Object, *path: str) -> Any:
    """A field of an object in which anything may be missing; None if it is."""
    value: Any = item
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def key_of_item(item: Object) -> str:
    return f"{item['metadata']['namespace']}/{item['metadata']['name']}"


def _namespace(item: Object) -> str:
    return str(item["metadata"]["namespace"])


def owner_key_of_workload(kind: str, item: Object) -> OwnerKey:
    """Return what the owner references of its pods must name. Items of a list don't say their kind."""
    return OwnerKey(_namespace(item), kind, item["metadata"]["name"], item["metadata"]["uid"])


def _recorded_owner(item: Object) -> list[OwnerKey]:
    owner = said(item, "status", "owner")
    if not isinstance(owner, dict):
        return []
    return [OwnerKey(_namespace(item), *(str(owner.get(part)) for part in ("kind", "name", "uid")))]


def _pods_of(item: Object) -> list[tuple[str, str]]:
    """Source and successor, as they are on record."""
    names = (said(item, "spec", "pod", "name"), said(item, "status", "targetPod", "name"))
    return [(_namespace(item), name) for name in names if name]


def is_under_way(item: Object | None) -> bool:
    return item is not None and said(item, "status", "phase") == Phase.IN_PROGRESS


def minute_of(moment: datetime) -> int:
    return int(moment.timestamp() // 60)


def _minute_of_end(item: Object) -> list[int]:
    finished = said(item, "status", "finishedAt")
    try:
        return [minute_of(datetime.fromisoformat(finished))] if isinstance(finished, str) else []
    except ValueError:
        return []


_OF_PODS: Final[Mapping[str, Index[PodRecord]]] = {
    "owner": lambda pod: [] if pod.owner is None else [owner_key(pod.namespace, pod.owner)],
    "bare": lambda pod: [pod.namespace] if pod.owner is None else [],
}
_OF_MIGRATIONS: Final[Mapping[str, Index[Object]]] = {
    "pod": _pods_of,
    "owner": _recorded_owner,
    "mark": lambda item: [(_namespace(item), label_value(item["metadata"]["name"]))],
    "unfinished": lambda item: [] if said(item, "status", "finishedAt") else [True],
    "running": lambda item: [ALL, _namespace(item)] if is_under_way(item) else [],
    "finished": _minute_of_end,
    "node": lambda item: [said(item, "spec", "sourceNode"), said(item, "status", "targetNode")],
}
OF_WORKLOADS: Final[Mapping[str, Index[Object]]] = {"owner": owner_keys_of_object}
_OF_BUDGETS: Final = {"namespace": lambda item: [_namespace(item)]}


class Followed:
    def __init__(self, client: Client) -> None:
        self._client = client
        self.pods = Freshest(Informer(client, PODS, indices=_OF_PODS), _OF_PODS)
        self.migrations = Freshest(Informer(client, POD_MIGRATIONS, indices=_OF_MIGRATIONS), _OF_MIGRATIONS)
        self.budgets = Freshest(Informer(client, POD_DISRUPTION_BUDGETS, indices=_OF_BUDGETS), _OF_BUDGETS)
        self.nodes = Informer(client, NODES)
        self.workloads = {
            kind: Informer(client, resource, indices=OF_WORKLOADS) for kind, resource in _WORKLOADS.items()
        }
        self.is_without_migrations = False
        """The server does not know their kind: there are none, and none can be made."""
        self.records = Records()
        self.being_asked_for: set[str] = set()
        """Uids of pods for which somebody here is about to create a migration, which nobody sees yet."""

    @property
    def informers(self) -> tuple[Informer[Any], ...]:
        """Those that run."""
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
        """Follows the cluster while the body runs, which begins when everything is known once.

        Raises `MissingCapability` if nothing can be moved in it, and `KubeError` if it can't be asked.
        """
        await must_be_able(self._client)
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(self._client.probing())
            for informer in self.informers:
                await stack.enter_async_context(informer.running())
            await asyncio.gather(*(informer.synced() for informer in self.informers))
            yield

    @property
    def is_fresh(self) -> bool:
        """Whether every informer is. False while the API server is failing: then nothing new is begun."""
        return all(informer.is_fresh for informer in self.informers)

    def learn_pod(self, item: Object) -> PodRecord:
        """A whole pod, as the server has answered."""
        record = PODS.codec.decode_one("application/json", msgspec.json.encode(item))
        self.pods.learn(record)
        return record

    # -- live reads, for what can't be undone

    async def read_pod(self, key: str, uid: str) -> None:
        """As it is now; `uid` is the pod that is gone if there is none of that name."""
        try:
            self.pods.learn(await self._client.get(PODS, key))
        except errors.NotFound:
            self.pods.learn_gone(key, uid)

    async def read_pods(self, namespace: str, labels: Mapping[str, str]) -> list[PodRecord]:
        """All that are there now with these labels."""
        selector = ",".join(f"{name}={value}" for name, value in sorted(labels.items()))
        found = (await self._client.list(PODS, namespace=namespace, labels=selector)).items
        for pod in found:
            self.pods.learn(pod)
        return found

    async def read_migration(self, key: str, uid: str) -> None:
        try:
            self.migrations.learn(await self._client.get(POD_MIGRATIONS, key))
        except errors.NotFound:
            self.migrations.learn_gone(key, uid)

    async def read_migrations(self, namespace: str) -> None:
        for item in (await self._client.list(POD_MIGRATIONS, namespace=namespace)).items:
            self.migrations.learn(item)

    async def read_budgets(self, namespace: str) -> None:
        for item in (await self._client.list(POD_DISRUPTION_BUDGETS, namespace=namespace)).items:
            self.budgets.learn(item)
