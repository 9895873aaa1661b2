"""Watches the attempt ledgers of workloads, and derives intents from them.

The ledger of a Deployment applies to the pods of its ReplicaSets, that of a CronJob to the pods of its Jobs.
Without permission to read workloads or nodes, only migrations steer.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

from rescheduler.api.podmigration import ControllerReference
from rescheduler.api.well_known_names import FAILED_ATTEMPTS_ANNOTATION
from rescheduler.cluster.codecs.record_resources import NODES
from rescheduler.cluster.node_record import NodeRecord
from rescheduler.cluster.object_meta import OwnerKey, owner_keys_of_object
from rescheduler.kube import errors
from rescheduler.kube.api_resources import (
    CRON_JOBS,
    DEPLOYMENTS,
    JOBS,
    REPLICA_SETS,
    STATEFUL_SETS,
    ApiResource,
    Object,
)
from rescheduler.kube.client import Client
from rescheduler.kube.codecs.codec import metadata_codec
from rescheduler.kube.informer import Informer
from rescheduler.recovery.attempt_ledger import AttemptLedger, read_ledger
from rescheduler.steering.intents import Intent, intents_of_ledger

__all__ = ["FailedAttemptsWatch"]

_PARENT_KIND: Final = {"ReplicaSet": "Deployment", "Job": "CronJob"}
_CHILD_KIND: Final = {above: kind for kind, above in _PARENT_KIND.items()}
_WATCHED_KINDS: Final = (CRON_JOBS, DEPLOYMENTS, JOBS, REPLICA_SETS, STATEFUL_SETS)
_KEPT_FIELDS: Final = ("namespace", "name", "uid", "resourceVersion", "ownerReferences")

IntentsChanged = Callable[[str, tuple[Intent, ...]], None]
"""Receives the intents of a workload, with the name of that workload."""


class FailedAttemptsWatch:
    def __init__(self, client: Client, update: IntentsChanged) -> None:
        self._update = update
        self._open_nodes: frozenset[str] = frozenset()
        self._steering: dict[tuple[str, str], None] = {}
        """Kind and key of the controllers whose pods avoid nodes: refreshed when nodes change."""
        self._workloads = {each.kind: _informer(client, each) for each in _WATCHED_KINDS}
        self._nodes = Informer(client, NODES)
        self._nodes.subscribe(self._node_changed)
        for kind, informer in self._workloads.items():
            informer.subscribe(self._workload_handler(kind))

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as stack:
            for informer in self._informers:
                await stack.enter_async_context(informer.running())
            yield

    @property
    def is_settled(self) -> bool:
        """Return whether everything is read that may be read."""
        return all(each.is_synced or isinstance(each.failure, errors.Permanent) for each in self._informers)

    async def settled(self) -> None:
        await asyncio.gather(*(_wait_until_settled(each) for each in self._informers))

    @property
    def _informers(self) -> tuple[Informer[Any], ...]:
        return (self._nodes, *self._workloads.values())

    def _workload_handler(self, kind: str) -> Callable[[Object | None, Object | None], None]:
        def changed(old: Object | None, new: Object | None) -> None:
            item = old if new is None else new
            assert item is not None
            if kind in _CHILD_KIND:
                below = _CHILD_KIND[kind]
                for each in self._workloads[below].find("owner", _owner_key(kind, item)):
                    self._refresh(below, _key(each))
            else:
                self._refresh(kind, _key(item))

        return changed

    def _refresh(self, kind: str, key: str) -> None:
        item = self._workloads[kind].get(key)
        intents = () if item is None else tuple(self._intents(kind, item))
        # A workload that failed on every node avoids some again as soon as there are others.
        if item is not None and _ledger(*self._record(kind, item)).lineages:
            self._steering[kind, key] = None
        else:
            self._steering.pop((kind, key), None)
        self._update(f"{kind}/{key}", intents)

    def _intents(self, kind: str, item: Object) -> Iterator[Intent]:
        metadata = item["metadata"]
        controller = ControllerReference(_API_VERSIONS[kind], kind, metadata["name"], metadata["uid"])
        found = _shared_intents(*self._record(kind, item), kind, self._open_nodes)
        yield from (replace(each, namespace=metadata["namespace"], workload=controller) for each in found)

    def _record(self, kind: str, item: Object) -> tuple[str, str]:
        """Return the annotation and the uid of the topmost workload. Those below have outdated copies."""
        metadata = item["metadata"]
        for owner in metadata.get("ownerReferences") or ():
            if owner.get("controller") and owner.get("kind") == _PARENT_KIND.get(kind):
                above = self._workloads[_PARENT_KIND[kind]].get(
                    f"{metadata['namespace']}/{owner.get('name')}"
                )
                if above is not None and above["metadata"]["uid"] == owner.get("uid"):
                    metadata = above["metadata"]
        return (metadata.get("annotations") or {}).get(FAILED_ATTEMPTS_ANNOTATION, ""), metadata["uid"]

    def _node_changed(self, old: NodeRecord | None, new: NodeRecord | None) -> None:
        if (old is not None and _is_schedulable(old)) == (new is not None and _is_schedulable(new)):
            return
        node = old if new is None else new
        assert node is not None
        alone = {node.name}
        is_open = new is not None and _is_schedulable(new)
        self._open_nodes = self._open_nodes | alone if is_open else self._open_nodes - alone
        for kind, key in list(self._steering):
            self._refresh(kind, key)


_API_VERSIONS: Final[Mapping[str, str]] = {each.kind: each.api_version for each in _WATCHED_KINDS}


# A Deployment can have any number of ReplicaSets, and decoding its ledger takes milliseconds.
@lru_cache(maxsize=8)
def _ledger(written: str, holder: str) -> AttemptLedger:
    return read_ledger(written, {holder})


@lru_cache(maxsize=8)
def _shared_intents(written: str, holder: str, kind: str, open_nodes: frozenset[str]) -> tuple[Intent, ...]:
    """Return the intents of a controller of that kind, without saying which one it is."""
    unnamed = ControllerReference(_API_VERSIONS[kind], kind, "", "")
    return tuple(intents_of_ledger(_ledger(written, holder), "", unnamed, open_nodes))


def _informer(client: Client, resource: ApiResource[Object]) -> Informer[Object]:
    """Return an informer that keeps little more than names, because there may be many thousands."""
    slim = replace(resource, codec=metadata_codec(f"the {resource.kind} list", _kept_metadata))
    return Informer(client, slim, indices={"owner": owner_keys_of_object})


def _kept_metadata(metadata: Object) -> Object:
    kept: Object = {name: metadata[name] for name in _KEPT_FIELDS if name in metadata}
    written = (metadata.get("annotations") or {}).get(FAILED_ATTEMPTS_ANNOTATION)
    return kept if written is None else kept | {"annotations": {FAILED_ATTEMPTS_ANNOTATION: written}}


def _owner_key(kind: str, item: Object) -> OwnerKey:
    metadata = item["metadata"]
    return OwnerKey(metadata["namespace"], kind, metadata["name"], metadata["uid"])


def _key(item: Object) -> str:
    return f"{item['metadata']['namespace']}/{item['metadata']['name']}"


def _is_schedulable(node: NodeRecord) -> bool:
    return node.is_ready and not node.unschedulable and node.deleted_s is None


async def _wait_until_settled(informer: Informer[Any]) -> None:
    while not (informer.is_synced or isinstance(informer.failure, errors.Permanent)):  # noqa: ASYNC110
        await asyncio.sleep(0.05)
