"""Watch the attempt ledgers of workloads, and derive intents from them.

The ledger of a Deployment applies to the pods of its ReplicaSets, that of a CronJob to the pods of its Jobs.
Without permission to read workloads or nodes, only migrations steer.

The same watches tell which shutdown delay a workload, or its namespace, requests for new pods.
"""

import asyncio
import contextlib
import logging
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from typing import Any, Final

from rescheduler.api.podmigration import ControllerReference
from rescheduler.api.well_known_names import FAILED_ATTEMPTS_ANNOTATION, SHUTDOWN_DELAY_ANNOTATION
from rescheduler.cluster.codecs.record_resources import NODES
from rescheduler.cluster.node_record import NodeRecord
from rescheduler.cluster.object_meta import owner_keys_of_object
from rescheduler.cluster.sources.watched_objects import object_key, owner_key_of_workload
from rescheduler.kube import errors
from rescheduler.kube.api_resources import (
    CRON_JOBS,
    DEPLOYMENTS,
    JOBS,
    NAMESPACES,
    REPLICA_SETS,
    STATEFUL_SETS,
    ApiResource,
    Object,
)
from rescheduler.kube.client import Client
from rescheduler.kube.codecs.codec import metadata_codec
from rescheduler.kube.event_recorder import log_event
from rescheduler.kube.informer import Informer
from rescheduler.recovery.attempt_ledger import AttemptLedger, read_ledger
from rescheduler.steering.intents import Intent, PartialOwnerReference, intents_of_ledger

__all__ = ["MAX_TEXT_PER_NAMESPACE", "FailedAttemptsWatch", "LedgerTexts"]

log = logging.getLogger(__name__)

_MAX_EXCLUDED_NODES: Final = 256
_PARENT_KIND: Final = {"ReplicaSet": "Deployment", "Job": "CronJob"}
_CHILD_KIND: Final = {above: kind for kind, above in _PARENT_KIND.items()}
_WATCHED_KINDS: Final = (CRON_JOBS, DEPLOYMENTS, JOBS, REPLICA_SETS, STATEFUL_SETS)
_KEPT_FIELDS: Final = ("namespace", "name", "uid", "resourceVersion", "ownerReferences")

IntentsChanged = Callable[[str, tuple[Intent, ...]], None]
"""Receives the intents of a workload, with the name of that workload."""


MAX_TEXT_TOTAL: Final = 8 << 20
"""In characters: 8,000 ledgers of the usual size, or 100 of the largest that rescheduler writes."""
MAX_TEXT_PER_NAMESPACE: Final = MAX_TEXT_TOTAL // 4

WorkloadId = tuple[str, str, str]
"""Kind, namespace and name."""


class LedgerTexts:
    """The attempt ledgers of all workloads as text, bounded in size.

    Every user who may edit a workload may write 256 KiB of ledger, on as many workloads as they may create.
    So there is a limit for each namespace and one for all. Beyond a limit, ledgers are dropped: the largest
    of the namespace that has the most. Ledgers that rescheduler writes have a few KiB, so a tenant who writes
    more loses their own. A workload whose ledger was dropped is steered as if it had none, until its ledger
    changes.

    Texts are stored while a list is decoded, so that those of a whole list need not fit in memory.
    """

    def __init__(self, *, total: int = MAX_TEXT_TOTAL, per_namespace: int = MAX_TEXT_PER_NAMESPACE) -> None:
        self._limit = total
        self._namespace_limit = per_namespace
        self._size = 0
        self._sizes: dict[str, int] = {}
        self._texts: dict[str, dict[WorkloadId, str]] = {}
        """The texts by namespace."""
        self._dropped: set[WorkloadId] = set()

    def get(self, workload: WorkloadId) -> str:
        return self._texts.get(workload[1], {}).get(workload, "")

    @property
    def size(self) -> int:
        return self._size

    def put(self, workload: WorkloadId, text: str) -> None:
        """Keep the text of a workload; an empty text removes it. Texts that no longer fit are dropped,
        perhaps this one."""
        self._take(workload)
        self._dropped.discard(workload)
        if not text:
            return
        self._texts.setdefault(workload[1], {})[workload] = text
        self._count(workload[1], len(text))
        while self._sizes.get(workload[1], 0) > self._namespace_limit:
            self._drop_from(workload[1])
        while self._size > self._limit:
            self._drop_from(max(self._sizes, key=lambda each: (self._sizes[each], each)))

    def take_dropped(self) -> set[WorkloadId]:
        """Return the workloads whose ledgers were dropped since the last call."""
        dropped, self._dropped = self._dropped, set()
        return dropped

    def _drop_from(self, namespace: str) -> None:
        texts = self._texts[namespace]
        largest = max(texts, key=lambda each: (len(texts[each]), each))
        self._take(largest)
        self._dropped.add(largest)

    def _take(self, workload: WorkloadId) -> None:
        texts = self._texts.get(workload[1], {})
        text = texts.pop(workload, None)
        if text is not None:
            self._count(workload[1], -len(text))

    def _count(self, namespace: str, by: int) -> None:
        self._size += by
        self._sizes[namespace] = self._sizes.get(namespace, 0) + by
        if not self._sizes[namespace]:
            del self._sizes[namespace], self._texts[namespace]


class FailedAttemptsWatch:
    def __init__(self, client: Client, update: IntentsChanged) -> None:
        self._update = update
        self._open_nodes: frozenset[str] = frozenset()
        self._known_nodes: frozenset[str] = frozenset()
        self._steering: dict[tuple[str, str], None] = {}
        """Kind and key of the controllers whose pods avoid nodes: refreshed when nodes change."""
        self._texts = LedgerTexts()
        self._warned: set[str] = set()
        """Namespaces for which a warning was logged: a tenant must not fill the log."""
        self._workloads = {each.kind: _informer(client, each, self._texts) for each in _WATCHED_KINDS}
        self._nodes = Informer(client, NODES)
        self._namespaces = _informer(client, NAMESPACES)
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
        """Return whether every informer has synced, or never can."""
        return all(each.is_synced or isinstance(each.failure, errors.Permanent) for each in self._informers)

    async def settled(self) -> None:
        await asyncio.gather(*(_wait_until_settled(each) for each in self._informers))

    @property
    def _informers(self) -> tuple[Informer[Any], ...]:
        return (self._nodes, self._namespaces, *self._workloads.values())

    def annotations(
        self, namespace: str, controller: PartialOwnerReference | None
    ) -> Iterator[Mapping[str, str]]:
        """Yield the annotations that are kept of the pod's topmost workload, and those of its namespace."""
        if controller is not None and controller.kind in self._workloads:
            item = self._workloads[controller.kind].get(f"{namespace}/{controller.name}")
            if item is not None and item["metadata"]["uid"] == controller.uid:
                yield _annotations(self._topmost(controller.kind, item))
        yield _annotations((self._namespaces.get(namespace) or {}).get("metadata") or {})

    def _workload_handler(self, kind: str) -> Callable[[Object | None, Object | None], None]:
        def changed(old: Object | None, new: Object | None) -> None:
            item = old if new is None else new
            assert item is not None
            if new is None:
                self._texts.put(_workload_id(kind, item["metadata"]), "")
            self._refresh_pods_of(kind, item)
            for dropped, namespace, name in self._texts.take_dropped():
                if namespace not in self._warned:
                    self._warned.add(namespace)
                    words = (
                        "records of failed attempts are too large; the largest of the namespace are ignored"
                    )
                    about = f"{dropped}/{namespace}/{name}"
                    log_event(log, logging.WARNING, "FailedAttemptsIgnored", words, workload=about)
                if (other := self._workloads[dropped].get(f"{namespace}/{name}")) is not None:
                    self._refresh_pods_of(dropped, other)

        return changed

    def _refresh_pods_of(self, kind: str, item: Object) -> None:
        if kind in _CHILD_KIND:
            below = _CHILD_KIND[kind]
            for each in self._workloads[below].find("owner", owner_key_of_workload(kind, item)):
                self._refresh(below, object_key(each))
        else:
            self._refresh(kind, object_key(item))

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
        for each in _shared_intents(*self._record(kind, item), kind, self._open_nodes, self._known_nodes):
            yield replace(each, namespace=metadata["namespace"], workload=controller)

    def _record(self, kind: str, item: Object) -> tuple[str, str]:
        """Return the annotation and the uid of the topmost workload. Those below have outdated copies."""
        metadata = self._topmost(kind, item)
        top = kind if metadata is item["metadata"] else _PARENT_KIND[kind]
        return self._texts.get(_workload_id(top, metadata)), metadata["uid"]

    def _topmost(self, kind: str, item: Object) -> Object:
        """Return the metadata of the topmost workload."""
        metadata: Object = item["metadata"]
        for owner in metadata.get("ownerReferences") or ():
            if owner.get("controller") and owner.get("kind") == _PARENT_KIND.get(kind):
                above = self._workloads[_PARENT_KIND[kind]].get(
                    f"{metadata['namespace']}/{owner.get('name')}"
                )
                if above is not None and above["metadata"]["uid"] == owner.get("uid"):
                    metadata = above["metadata"]
        return metadata

    def _node_changed(self, old: NodeRecord | None, new: NodeRecord | None) -> None:
        is_open = new is not None and _is_schedulable(new)
        if (old is None) == (new is None) and (old is not None and _is_schedulable(old)) == is_open:
            return
        node = old if new is None else new
        assert node is not None
        alone = {node.name}
        self._known_nodes = self._known_nodes - alone if new is None else self._known_nodes | alone
        self._open_nodes = self._open_nodes | alone if is_open else self._open_nodes - alone
        for kind, key in list(self._steering):
            self._refresh(kind, key)


_API_VERSIONS: Final[Mapping[str, str]] = {each.kind: each.api_version for each in _WATCHED_KINDS}


# A Deployment can have any number of ReplicaSets, and decoding its ledger takes milliseconds.
@lru_cache(maxsize=8)
def _ledger(written: str, holder: str) -> AttemptLedger:
    return read_ledger(written, {holder})


@lru_cache(maxsize=8)
def _shared_intents(
    written: str, holder: str, kind: str, open_nodes: frozenset[str], known_nodes: frozenset[str]
) -> tuple[Intent, ...]:
    """Return the intents of a controller of that kind, without its name and uid."""
    unnamed = ControllerReference(_API_VERSIONS[kind], kind, "", "")
    found = intents_of_ledger(_ledger(written, holder), "", unnamed, open_nodes)
    bounded = (replace(each, tried=_bounded(each.tried, known_nodes)) for each in found)
    return tuple(each for each in bounded if each.tried)


def _bounded(nodes: Iterable[str], known: frozenset[str]) -> tuple[str, ...]:
    """Return the nodes that exist, if that is known: a ledger can name any number of others."""
    existing = (sys.intern(each) for each in nodes if not known or each in known)
    return tuple(islice(existing, _MAX_EXCLUDED_NODES))


def _informer(
    client: Client, resource: ApiResource[Object], texts: LedgerTexts | None = None
) -> Informer[Object]:
    """Return an informer that keeps little more than names, because there may be many thousands."""

    def kept_metadata(metadata: Object) -> Object:
        kept: Object = {name: metadata[name] for name in _KEPT_FIELDS if name in metadata}
        written = _annotations(metadata)
        if texts is not None:
            texts.put(_workload_id(resource.kind, metadata), written.get(FAILED_ATTEMPTS_ANNOTATION, ""))
        delay = written.get(SHUTDOWN_DELAY_ANNOTATION)
        # A longer text is not a duration.
        return kept if delay is None else kept | {"annotations": {SHUTDOWN_DELAY_ANNOTATION: delay[:100]}}

    slim = replace(resource, codec=metadata_codec(f"the {resource.kind} list", kept_metadata))
    return Informer(client, slim, indices={"owner": owner_keys_of_object})


def _annotations(metadata: Object) -> Mapping[str, str]:
    found: Mapping[str, str] = metadata.get("annotations") or {}
    return found


def _workload_id(kind: str, metadata: Object) -> WorkloadId:
    return kind, metadata.get("namespace", ""), metadata.get("name", "")


def _is_schedulable(node: NodeRecord) -> bool:
    return node.is_ready and not node.unschedulable and node.deleted_s is None


async def _wait_until_settled(informer: Informer[Any]) -> None:
    while not (informer.is_synced or isinstance(informer.failure, errors.Permanent)):  # noqa: ASYNC110
        await asyncio.sleep(0.05)
