"""An index of pods with the few fields that controllers need, updated by single changes."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

import msgspec

from kubesim.apiserver.object_store import StoreChange, StoredObject
from kubesim.common_fields import seconds_since
from kubevalues import Selector, SelectorOperator

__all__ = [
    "IndexedCondition",
    "IndexedMetadata",
    "IndexedObject",
    "IndexedOwnerReference",
    "IndexedPod",
    "PodIndex",
    "controller_in",
]


class IndexedOwnerReference(msgspec.Struct, frozen=True, rename="camel", gc=False):
    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None


class IndexedMetadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    uid: str
    namespace: str = ""
    generation: int = 0
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    creation_timestamp: str = ""
    deletion_timestamp: str = ""
    owner_references: tuple[IndexedOwnerReference, ...] | None = None
    finalizers: tuple[str, ...] | None = None


class IndexedCondition(msgspec.Struct, frozen=True, rename="camel", gc=False):
    type: str
    status: str
    last_transition_time: str | None = None


class IndexedContainerStatus(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    restart_count: int = 0
    state: dict[str, Any] | None = None


class IndexedInitContainer(msgspec.Struct, frozen=True, rename="camel", gc=False):
    name: str = ""
    restart_policy: str | None = None


class _Claim(msgspec.Struct, frozen=True, rename="camel", gc=False):
    claim_name: str = ""


class IndexedVolume(msgspec.Struct, frozen=True, rename="camel"):
    persistent_volume_claim: _Claim | None = None


class IndexedPodSpec(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str | None = None
    hostname: str | None = None
    subdomain: str | None = None
    restart_policy: str = "Always"
    init_containers: tuple[IndexedInitContainer, ...] | None = None
    tolerations: tuple[dict[str, Any], ...] | None = None
    affinity: dict[str, Any] | None = None
    volumes: tuple[IndexedVolume, ...] | None = None


class IndexedPodStatus(msgspec.Struct, frozen=True, rename="camel"):
    phase: str | None = None
    pod_ip: str | None = msgspec.field(default=None, name="podIP")
    conditions: tuple[IndexedCondition, ...] | None = None
    container_statuses: tuple[IndexedContainerStatus, ...] | None = None
    init_container_statuses: tuple[IndexedContainerStatus, ...] | None = None


_FINISHED = frozenset({"Succeeded", "Failed"})


class IndexedObject(msgspec.Struct, frozen=True):
    """The fields of an object that decide on its ownership."""

    metadata: IndexedMetadata

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def namespace(self) -> str:
        return self.metadata.namespace

    @property
    def labels(self) -> dict[str, str]:
        return self.metadata.labels or {}

    @property
    def deleting(self) -> bool:
        return bool(self.metadata.deletion_timestamp)

    @property
    def controller(self) -> IndexedOwnerReference | None:
        return controller_in(self.metadata)


class IndexedPod(IndexedObject, frozen=True):
    spec: IndexedPodSpec = IndexedPodSpec()
    status: IndexedPodStatus = IndexedPodStatus()

    @property
    def uid(self) -> str:
        return self.metadata.uid

    @property
    def annotations(self) -> dict[str, str]:
        return self.metadata.annotations or {}

    @property
    def node(self) -> str:
        return self.spec.node_name or ""

    @property
    def phase(self) -> str:
        return self.status.phase or "Pending"

    @property
    def claims(self) -> list[str]:
        """Return the names of the volume claims that the pod uses."""
        sources = (volume.persistent_volume_claim for volume in self.spec.volumes or ())
        return [source.claim_name for source in sources if source is not None]

    @property
    def finished(self) -> bool:
        return self.phase in _FINISHED

    @property
    def active(self) -> bool:
        """Return whether the pod runs or will run, so that it counts as a replica."""
        return not self.finished and not self.deleting

    @property
    def terminating(self) -> bool:
        return self.deleting and not self.finished

    def condition(self, type_: str) -> IndexedCondition | None:
        return next((item for item in self.status.conditions or () if item.type == type_), None)

    @property
    def ready(self) -> bool:
        found = self.condition("Ready")
        return found is not None and found.status == "True"

    @property
    def ready_since(self) -> str:
        """Return when the pod became ready; empty if it is not ready."""
        found = self.condition("Ready")
        return (found.last_transition_time or "") if found is not None and found.status == "True" else ""

    def available_in(self, min_ready_s: int, now: datetime) -> float | None:
        """Return the seconds until the pod is available: 0 if it is, None while it is not ready."""
        if not self.ready:
            return None
        since = self.ready_since
        if min_ready_s == 0 or not since:
            return 0.0 if min_ready_s == 0 else None
        return max(0.0, min_ready_s - seconds_since(since, now))


def controller_in(metadata: IndexedMetadata) -> IndexedOwnerReference | None:
    return next((item for item in metadata.owner_references or () if item.controller), None)


_decode = msgspec.json.Decoder(IndexedPod).decode
_Bucket = dict[str, IndexedPod]


class PodIndex:
    """All pods, found by controller, node or labels, in the order in which they were added."""

    def __init__(self, records: Iterable[StoredObject]) -> None:
        self._by_uid: _Bucket = {}
        self._by_key: dict[tuple[str, str], _Bucket] = {}
        for record in records:
            self._add(_decode(record.raw))

    def update(self, change: StoreChange) -> tuple[IndexedPod | None, IndexedPod | None]:
        """Apply a change, and return the pod before and after it."""
        before = self._by_uid.get(change.before.uid) if change.before is not None else None
        after = _decode(change.after.raw) if change.after is not None else None
        if before is not None:
            self._forget(before, after)
        if after is not None:
            self._add(after)
        return before, after

    def controlled_by(self, uid: str) -> list[IndexedPod]:
        return self._all("controller", uid)

    def orphans(self, namespace: str) -> list[IndexedPod]:
        """Return the pods without a controller."""
        return self._all("orphans", namespace)

    def on_node(self, node: str) -> list[IndexedPod]:
        return self._all("node", node)

    def using_claim(self, namespace: str, claim: str) -> list[IndexedPod]:
        return self._all("claim", f"{namespace}/{claim}")

    def find(self, namespace: str, name: str) -> IndexedPod | None:
        return next(iter(self._all("name", f"{namespace}/{name}")), None)

    def selected(self, namespace: str, selector: Selector) -> list[IndexedPod]:
        """Return the selected pods; only pods with the rarest of the required labels are checked."""
        if selector.selects_nothing:
            return []
        smallest = self._by_key.get(("namespace", namespace), {})
        for requirement in selector.requirements:
            if requirement.operator is SelectorOperator.IN and len(requirement.values) == 1:
                label = _label_key(namespace, requirement.key, requirement.values[0])
                bucket = self._by_key.get(label, {})
                if len(bucket) < len(smallest):
                    smallest = bucket
        return [pod for pod in smallest.values() if selector.matches(pod.labels)]

    def _all(self, what: str, value: str) -> list[IndexedPod]:
        return list(self._by_key.get((what, value), {}).values())

    def _add(self, pod: IndexedPod) -> None:
        self._by_uid[pod.uid] = pod
        for key in _keys(pod):
            self._by_key.setdefault(key, {})[pod.uid] = pod

    def _forget(self, pod: IndexedPod, successor: IndexedPod | None) -> None:
        self._by_uid.pop(pod.uid, None)
        kept = set(_keys(successor)) if successor is not None and successor.uid == pod.uid else set()
        for key in _keys(pod):
            if key in kept:
                continue
            bucket = self._by_key[key]
            bucket.pop(pod.uid, None)
            if not bucket:
                del self._by_key[key]


def _keys(pod: IndexedPod) -> Iterator[tuple[str, str]]:
    controller = pod.controller
    yield ("orphans", pod.namespace) if controller is None else ("controller", controller.uid)
    yield "namespace", pod.namespace
    yield "name", f"{pod.namespace}/{pod.name}"
    if pod.node:
        yield "node", pod.node
    for claim in pod.claims:
        yield "claim", f"{pod.namespace}/{claim}"
    for name, value in pod.labels.items():
        yield _label_key(pod.namespace, name, value)


def _label_key(namespace: str, name: str, value: str) -> tuple[str, str]:
    return f"label {namespace} {name}", value
