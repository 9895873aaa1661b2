"""Filling a simulated API server: many objects at once, or a cluster saved as a `v1 List`."""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from rescheduler.model.json_faults import fault_in
from rescheduler.model.saved_cluster import UnreadableCluster, parse_cluster
from rescheduler.simulator import conversion
from rescheduler.simulator.bootstrap import namespace_object
from rescheduler.simulator.clock import Clock, timestamp
from rescheduler.simulator.exchange import Object
from rescheduler.simulator.kinds import Kind, Kinds
from rescheduler.simulator.metadata import Naming
from rescheduler.simulator.store import Store

__all__ = ["UnreadableCluster", "load_objects", "parse_saved_cluster", "read_saved_cluster"]


def read_saved_cluster(path: Path) -> list[Object]:
    """A `v1 List` in JSON or YAML, gzipped or not. Raises `UnreadableCluster`, and `OSError`."""
    return parse_saved_cluster(path.read_bytes(), source=str(path))


def parse_saved_cluster(raw: bytes, *, source: str) -> list[Object]:
    objects, faults = [], []
    for saved in parse_cluster(raw, source=source).objects:
        try:
            objects.append(saved.content())
        except (msgspec.DecodeError, RecursionError) as error:
            faults.append(fault_in(f"{saved.place} ({saved.title})", error))
    if faults:
        raise UnreadableCluster(source, faults)
    return objects


def load_objects(
    objects: Iterable[Object], *, store: Store, kinds: Kinds, clock: Clock, naming: Naming
) -> list[Object]:
    """Stores objects as they are, with their uids, times and statuses; they are not changed.

    Nothing is defaulted or checked: they come from an API server, or from someone who knows. Namespaces
    that nobody brought are made, and so are owners, because without them the garbage collector would
    take everything they own. What no kind is known for is returned.
    """
    needed_namespaces: set[str] = set()
    owners = _Owners()
    unknown = []
    for content in objects:
        named = kinds.named(content["apiVersion"], content["kind"])
        if named is None:
            unknown.append(content)
            continue
        kind, stored = conversion.stored(named, {**content, "metadata": {**content["metadata"]}})
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


def _put(kind: Kind, content: Object, store: Store, clock: Clock, naming: Naming) -> None:
    _complete(kind, content, clock, naming)
    store.put(kind, content)


def _complete(kind: Kind, content: Object, clock: Clock, naming: Naming) -> None:
    metadata = content["metadata"]
    if not metadata.get("uid"):
        metadata["uid"] = naming.uid()
    if not metadata.get("creationTimestamp"):
        metadata["creationTimestamp"] = timestamp(clock.now())
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
"""Labels that controllers and bindings add: no template has them, and no selector asks for them."""


class _Owners:
    """Who is said to own what is loaded; of each, one thing that it owns, how many, and their labels."""

    def __init__(self) -> None:
        self._samples: dict[str, tuple[Object, Kind, Object]] = {}
        self._counts: Counter[str] = Counter()
        self._labels: dict[str, dict[str, str]] = {}

    def note(self, kind: Kind, content: Object) -> None:
        labels = content["metadata"].get("labels") or {}
        for reference in content["metadata"].get("ownerReferences") or ():
            uid = reference["uid"]
            self._samples.setdefault(uid, (reference, kind, content))
            self._counts[uid] += 1
            # What only some have, such as a StatefulSet's ordinals, selects not all of them.
            shared = self._labels.setdefault(uid, dict(labels))
            self._labels[uid] = {name: value for name, value in shared.items() if labels.get(name) == value}

    def missing(self, store: Store, kinds: Kinds) -> Iterator[tuple[Kind, Object]]:
        for uid, (reference, owned_kind, owned) in self._samples.items():
            kind = kinds.named(reference["apiVersion"], reference["kind"])
            if kind is None or store.by_uid(uid) is not None:
                continue
            content = _made_up(kind, reference, owned)
            if owned_kind.name == "Pod" and reference.get("controller"):
                _control(kind, content, owned, self._labels[uid], self._counts[uid])
            yield kind, content


def _made_up(kind: Kind, owner: Object, owned: Object) -> Object:
    """An owner of which only its reference is known."""
    metadata: Object = {"name": owner["name"], "uid": owner["uid"]}
    if kind.namespaced:
        metadata["namespace"] = owned["metadata"].get("namespace", "default")
    return {"metadata": metadata}


def _control(kind: Kind, content: Object, pod: Object, labels: dict[str, str], count: int) -> None:
    """As much of a controller as its pods tell: it wants them as they are, and as many."""
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
    """Without what ties the pod to its node: a DaemonSet's pods are pinned by the node's name."""
    spec = {field: value for field, value in pod_spec.items() if field != "nodeName"}
    if b'"metadata.name"' in msgspec.json.encode(spec.get("affinity")):
        spec["affinity"] = {name: rule for name, rule in spec["affinity"].items() if name != "nodeAffinity"}
    return spec
