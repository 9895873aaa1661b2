"""The state behind the API server: objects, admission, background controllers and the clock.

It also creates the objects that every cluster starts with, and loads saved clusters after checking them.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec

from kubesim.admission.admission_chain import AdmissionChain
from kubesim.admission.object_decoding import decode_object
from kubesim.apiserver import event_conversion
from kubesim.apiserver.api_messages import Object
from kubesim.apiserver.kind_registry import KindRegistry, ResourceKind
from kubesim.apiserver.object_deletion import ObjectDeletion
from kubesim.apiserver.object_store import ObjectStore, StoredObject
from kubesim.apiserver.object_writer import ObjectWriter
from kubesim.apiserver.server_metadata import ObjectNaming
from kubesim.apiserver.status_errors import StatusError, not_found
from kubesim.common_fields import format_timestamp
from kubesim.virtual_time import Clock
from kubevalues.bounded_yaml import json_error_text
from kubevalues.saved_cluster import UnreadableCluster, parse_cluster

__all__ = [
    "SimulatedCluster",
    "UnreadableCluster",
    "definitions_first",
    "faults_of",
    "first_objects",
    "load_objects",
    "namespace_object",
    "parse_saved_cluster",
]

_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
_PRIORITY_CLASSES = {
    "system-cluster-critical": (
        2_000_000_000,
        (
            "Used for system critical pods that must run in the cluster, but can be moved to another node "
            "if necessary."
        ),
    ),
    "system-node-critical": (
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
}


def first_objects() -> Iterator[Object]:
    for name in _NAMESPACES:
        yield namespace_object(name)
    for name, (value, description) in _PRIORITY_CLASSES.items():
        yield {
            "kind": "PriorityClass",
            "apiVersion": "scheduling.k8s.io/v1",
            "metadata": {"name": name},
            "value": value,
            "description": description,
            "preemptionPolicy": "PreemptLowerPriority",
        }


def namespace_object(name: str) -> Object:
    return {
        "kind": "Namespace",
        "apiVersion": "v1",
        "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    }


def parse_saved_cluster(raw: bytes, *, source: str) -> list[Object]:
    """Read a `v1 List` in JSON or YAML, gzipped or not; raise `UnreadableCluster` if it is none."""
    objects, faults = [], []
    for saved in parse_cluster(raw, source=source).objects:
        try:
            objects.append(saved.content())
        except (msgspec.DecodeError, RecursionError) as error:
            faults.append(json_error_text(f"{saved.place} ({saved.title})", error))
    if faults:
        raise UnreadableCluster(source, faults)
    return objects


def load_objects(
    objects: Iterable[Object], *, store: ObjectStore, kinds: KindRegistry, clock: Clock, naming: ObjectNaming
) -> list[Object]:
    """Store objects as they are, with uids, times and statuses, and return those of unknown kinds.

    Nothing is defaulted or checked. Missing namespaces and owners are created; without their owners, the
    garbage collector would delete objects.
    """
    needed_namespaces: set[str] = set()
    owners = _Owners()
    unknown = []
    for content in objects:
        named = kinds.named(content["apiVersion"], content["kind"])
        if named is None:
            unknown.append(content)
            continue
        kind, stored = event_conversion.stored(named, {**content, "metadata": {**content["metadata"]}})
        owners.note(kind, stored)
        _put(kind, stored, store, clock, naming)
        if kind.namespaced:
            needed_namespaces.add(stored["metadata"]["namespace"])
    namespaces = kinds.named("v1", "Namespace")
    assert namespaces is not None
    for name in sorted(needed_namespaces):
        if store.find(namespaces, "", name) is None:
            _put(namespaces, namespace_object(name), store, clock, naming)
    for kind, owner in owners.missing(store, kinds):
        _put(kind, owner, store, clock, naming)
    return unknown


def _put(kind: ResourceKind, content: Object, store: ObjectStore, clock: Clock, naming: ObjectNaming) -> None:
    _complete(kind, content, clock, naming)
    store.put(kind, content)


def _complete(kind: ResourceKind, content: Object, clock: Clock, naming: ObjectNaming) -> None:
    metadata = content["metadata"]
    if not metadata.get("uid"):
        metadata["uid"] = naming.uid()
    if not metadata.get("creationTimestamp"):
        metadata["creationTimestamp"] = format_timestamp(clock.now())
    if kind.has_generation or kind.custom:
        metadata.setdefault("generation", 1)
    if kind.namespaced:
        metadata.setdefault("namespace", "default")
    if kind.name == "Namespace":
        content.setdefault("spec", {"finalizers": ["kubernetes"]})
        content.setdefault("status", {"phase": "Active"})


_OF_ONE_POD = frozenset(
    {"controller-revision-hash", "pod-template-generation", "statefulset.kubernetes.io/pod-name",
     "apps.kubernetes.io/pod-index", "batch.kubernetes.io/job-completion-index",
     "topology.kubernetes.io/region", "topology.kubernetes.io/zone"}
)  # fmt: skip
"""Labels that controllers and bindings add; no template has them, and no selector uses them."""


class _Owners:
    """The owners that loaded objects refer to, each with one dependent, their number and their labels."""

    def __init__(self) -> None:
        self._samples: dict[str, tuple[Object, ResourceKind, Object]] = {}
        self._counts: Counter[str] = Counter()
        self._labels: dict[str, dict[str, str]] = {}

    def note(self, kind: ResourceKind, content: Object) -> None:
        own = content["metadata"].get("labels") or {}
        labels = {name: value for name, value in own.items() if name not in _OF_ONE_POD}
        for reference in content["metadata"].get("ownerReferences") or ():
            uid = reference["uid"]
            self._samples.setdefault(uid, (reference, kind, content))
            self._counts[uid] += 1
            # A label that only some have would not select all of them.
            shared = self._labels.setdefault(uid, labels)
            self._labels[uid] = {name: value for name, value in shared.items() if labels.get(name) == value}

    def missing(self, store: ObjectStore, kinds: KindRegistry) -> Iterator[tuple[ResourceKind, Object]]:
        for uid, (reference, owned_kind, owned) in self._samples.items():
            kind = kinds.named(reference["apiVersion"], reference["kind"])
            if kind is None or store.by_uid(uid) is not None:
                continue
            content = _minimal_owner(kind, reference, owned)
            if owned_kind.name == "Pod" and reference.get("controller"):
                _control(kind, content, owned, self._labels[uid], self._counts[uid])
            yield kind, content


def _minimal_owner(kind: ResourceKind, owner: Object, owned: Object) -> Object:
    """Return an owner of which only a reference is known."""
    metadata: Object = {"name": owner["name"], "uid": owner["uid"]}
    if kind.namespaced:
        metadata["namespace"] = owned["metadata"].get("namespace", "default")
    return {"metadata": metadata}


def _control(kind: ResourceKind, content: Object, pod: Object, labels: dict[str, str], count: int) -> None:
    """Set the spec and status of a controller so that it keeps its pods and their number."""
    content["metadata"]["labels"] = dict(labels)
    content["spec"] = {
        "selector": {"matchLabels": dict(labels)},
        "template": {"metadata": {"labels": dict(labels)}, "spec": _template_spec(pod.get("spec") or {})},
    }
    if "scale" in kind.subresources:
        content["spec"]["replicas"] = count
        content["status"] = {"replicas": count, "readyReplicas": count, "observedGeneration": 1}
    elif kind.name == "Job":
        content["spec"] |= {"parallelism": count, "completions": count}


def _template_spec(pod_spec: Object) -> Object:
    """Return a pod spec without what ties it to its node; pods of DaemonSets are pinned by node name."""
    spec = {field: value for field, value in pod_spec.items() if field != "nodeName"}
    if b'"metadata.name"' in msgspec.json.encode(spec.get("affinity")):
        spec["affinity"] = {name: rule for name, rule in spec["affinity"].items() if name != "nodeAffinity"}
    return spec


class SimulatedCluster:
    """The state that verbs, subresources and background work share."""

    def __init__(self, clock: Clock, *, seed: int | None, history_limit: int) -> None:
        self.clock = clock
        self.kinds = KindRegistry()
        self.store = ObjectStore(history_limit=history_limit)
        self.naming = ObjectNaming(seed)
        self.admission = AdmissionChain(self.store, self.kinds, clock, self.naming)
        self.writer = ObjectWriter(
            self.store, clock, self.naming, self.admission, namespaces=self.kind("v1", "Namespace")
        )
        self.deletion = ObjectDeletion(self.store, clock)

    def kind(self, api_version: str, name: str) -> ResourceKind:
        """Return a kind that must exist."""
        found = self.kinds.named(api_version, name)
        assert found is not None, f"no kind {name} in {api_version}"
        return found

    def expect(self, kind: ResourceKind, namespace: str, name: str) -> StoredObject:
        record = self.store.find(kind, namespace, name)
        if record is None:
            raise not_found(kind, name)
        return record

    def load(self, objects: Iterable[Object]) -> list[Object]:
        return load_objects(objects, store=self.store, kinds=self.kinds, clock=self.clock, naming=self.naming)


def faults_of(objects: Iterable[Object]) -> list[str]:
    """Return a line for each fault: incomplete owner references, and built-in kinds of another shape."""
    kinds = KindRegistry()
    faults = []
    for content in objects:
        faults += [f"{_named(content)}: {fault}" for fault in _owner_faults(content)]
        kind = kinds.named(content["apiVersion"], content["kind"])
        if kind is None:
            continue
        try:
            decode_object(kind, content)
        except StatusError as failure:
            faults.append(f"{_named(content)}: {failure.status['message']}")
            continue
        if kind.name == "Pod" and not (content.get("spec") or {}).get("containers"):
            faults.append(f"{_named(content)}: spec.containers: a pod needs at least one")
    return faults


def _owner_faults(content: Object) -> Iterator[str]:
    references = content["metadata"].get("ownerReferences") or []
    if not isinstance(references, list):
        yield "metadata.ownerReferences: a list is needed"
        return
    for place, reference in enumerate(references):
        given = reference if isinstance(reference, dict) else {}
        missing = [
            name for name in ("apiVersion", "kind", "name", "uid") if not isinstance(given.get(name), str)
        ]
        if missing:
            yield f"metadata.ownerReferences[{place}]: {', '.join(missing)} missing or not text"


def definitions_first(objects: Iterable[Object]) -> list[Object]:
    """Return the objects with definitions first, so that custom kinds are known before their objects."""
    return sorted(objects, key=lambda content: content["kind"] != "CustomResourceDefinition")


def _named(content: Object) -> str:
    metadata = content["metadata"]
    namespace = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
    return f"{content['kind']} {namespace}{metadata['name']}"
