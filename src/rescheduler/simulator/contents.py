"""Filling a simulated API server: many objects at once, or a cluster saved as a `v1 List`."""

import gzip
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import yaml

from rescheduler.simulator import conversion
from rescheduler.simulator.bootstrap import namespace_object
from rescheduler.simulator.clock import Clock, timestamp
from rescheduler.simulator.exchange import Object
from rescheduler.simulator.kinds import Kind, Kinds
from rescheduler.simulator.metadata import Naming
from rescheduler.simulator.store import Store

__all__ = ["UnreadableCluster", "load_objects", "read_saved_cluster"]

_GZIP_MAGIC = b"\x1f\x8b"


class UnreadableCluster(ValueError):  # noqa: N818 - says what the file is
    """A file that is not a saved cluster; the message says why."""


def read_saved_cluster(path: Path) -> list[Object]:
    """A `v1 List` in JSON or YAML, gzipped or not."""
    raw = path.read_bytes()
    if raw.startswith(_GZIP_MAGIC):
        try:
            raw = gzip.decompress(raw)
        except (OSError, EOFError) as error:
            raise UnreadableCluster(f"{path}: the gzip data is damaged: {error}") from error
    content = _parsed(path, raw)
    if not isinstance(content, dict) or not isinstance(content.get("items"), list):
        raise UnreadableCluster(
            f"{path}: not a list of objects; save one with kubectl get nodes,pods,... -A -o json"
        )
    return list(_flat(path, content))


def _parsed(path: Path, raw: bytes) -> Any:
    try:
        return msgspec.json.decode(raw)
    except msgspec.DecodeError as not_json:
        if raw.lstrip()[:1] in (b"{", b"["):
            raise UnreadableCluster(f"{path}: the JSON is damaged: {not_json}") from not_json
    try:
        return yaml.load(raw, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - both are safe
    except yaml.YAMLError as error:
        raise UnreadableCluster(f"{path}: neither JSON nor YAML: {error}") from error


def _flat(path: Path, content: Object) -> Iterator[Object]:
    """Lists within the list are taken apart; their items may leave out what kind they are."""
    item_kind = content["kind"].removesuffix("List") if content.get("kind", "List") != "List" else None
    for position, item in enumerate(content["items"]):
        if not isinstance(item, dict):
            raise UnreadableCluster(f"{path}: items[{position}] is not an object")
        if isinstance(item.get("items"), list):
            yield from _flat(path, item)
            continue
        if item_kind is not None:
            item.setdefault("kind", item_kind)
            item.setdefault("apiVersion", content.get("apiVersion"))
        if not item.get("kind") or not item.get("metadata", {}).get("name"):
            raise UnreadableCluster(f"{path}: items[{position}] has no kind or no metadata.name")
        yield item


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


class _Owners:
    """Who is said to own what is loaded; of each, one thing that it owns, and how many."""

    def __init__(self) -> None:
        self._samples: dict[str, tuple[Object, Kind, Object]] = {}
        self._counts: Counter[str] = Counter()

    def note(self, kind: Kind, content: Object) -> None:
        for reference in content["metadata"].get("ownerReferences") or ():
            self._samples.setdefault(reference["uid"], (reference, kind, content))
            self._counts[reference["uid"]] += 1

    def missing(self, store: Store, kinds: Kinds) -> Iterator[tuple[Kind, Object]]:
        for uid, (reference, owned_kind, owned) in self._samples.items():
            kind = kinds.named(reference["apiVersion"], reference["kind"])
            if kind is None or store.by_uid(uid) is not None:
                continue
            controls_pods = owned_kind.name == "Pod" and bool(reference.get("controller"))
            yield kind, _made_up(kind, reference, owned, self._counts[uid] if controls_pods else 0)


def _made_up(kind: Kind, owner: Object, owned: Object, pods: int) -> Object:
    """An owner of which only its reference is known: as much of it as its pods tell."""
    metadata: Object = {"name": owner["name"], "uid": owner["uid"]}
    if kind.namespaced:
        metadata["namespace"] = owned["metadata"].get("namespace", "default")
    content: Object = {"metadata": metadata}
    if not pods:
        return content
    labels = owned["metadata"].get("labels") or {}
    metadata["labels"] = dict(labels)
    content["spec"] = {
        "selector": {"matchLabels": dict(labels)},
        "template": {"metadata": {"labels": dict(labels)}, "spec": _template_spec(owned.get("spec") or {})},
    }
    if "scale" in kind.subresources:
        content["spec"]["replicas"] = pods
        content["status"] = {"replicas": pods, "readyReplicas": pods, "observedGeneration": 1}
    return content


def _template_spec(pod_spec: Object) -> Object:
    return {field: value for field, value in pod_spec.items() if field != "nodeName"}
