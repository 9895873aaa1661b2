"""The copy of a pod: what is taken from its workload's template, what from the live pod, what is ours.

Whole objects here, as JSON has them: a copy must lose nothing, also of what no record keeps.
"""

import copy
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final

from rescheduler.migrations import marks
from rescheduler.migrations.admitted_copy import TOKENS
from rescheduler.migrations.copies import GATE
from rescheduler.model.migrations import API_VERSION, KIND, Migration

__all__ = ["adoptable_copy", "bare_copy", "migration_reference"]

Object = dict[str, Any]

_OF_THE_PLACE: Final = frozenset({"nodeName", "schedulingGates", "ephemeralContainers"})
"""Of a live pod's spec: what belongs to where it ran and what was done to it there."""


def adoptable_copy(
    replica_set: Object, source: Object, migration: Migration, name: str, now: datetime
) -> Object:
    """From the ReplicaSet's template, with its true labels: Services and budgets select it.

    The resources are the live pod's: it may have been resized, or set by a webhook that leaves pods of
    other controllers alone. We control it, so the ReplicaSet ignores it until it is offered. It is named as a
    second owner already: then the copy outlives its migration, however that is deleted.

    Finalizers as the ReplicaSet gives them to its pods: whoever tidies up after those takes them off again.
    """
    template = replica_set["spec"]["template"]
    metadata = _marked(template["metadata"], source, migration, now) | {
        "name": name,
        "ownerReferences": [migration_reference(migration, controller=True), _second_owner(replica_set)],
    }
    if finalizers := template["metadata"].get("finalizers"):
        metadata["finalizers"] = list(finalizers)
    return _gated(metadata, _with_live_resources(template["spec"], source["spec"]))


def bare_copy(source: Object, migration: Migration, name: str, now: datetime) -> Object:
    """Of a pod that nobody controls: itself, without what belongs to its place.

    Nobody owns it either: an owner whose deletion came at the wrong moment would take the only pod with it.
    Nor has it the finalizers of its source: they say that somebody has to tidy up after *that* pod, and
    whoever put them there will see this one, too.
    """
    metadata = _marked(source["metadata"], source, migration, now) | {"name": name}
    metadata["labels"] = {
        key: value for key, value in metadata["labels"].items() if not key.startswith(marks.TOPOLOGY)
    }
    spec = {key: value for key, value in source["spec"].items() if key not in _OF_THE_PLACE}
    return _gated(metadata, _without_merged_keys(_without_tokens(spec)))


def _marked(like: Object, source: Object, migration: Migration, now: datetime) -> Object:
    """Labels and annotations as `like` has them, and our marks: those of an earlier move are overwritten."""
    moved = source["metadata"]
    original = marks.original_name(moved["name"], moved.get("annotations") or {})
    return {
        "namespace": moved["namespace"],
        "labels": (like.get("labels") or {}) | marks.labels(migration, marks.MarkStatus.IN_PROGRESS),
        "annotations": (like.get("annotations") or {}) | marks.annotations(migration, original, now),
    }


def _gated(metadata: Object, spec: Object) -> Object:
    gates = [*(spec.get("schedulingGates") or ()), {"name": GATE}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": spec | {"schedulingGates": gates},
    }


def migration_reference(migration: Migration, *, controller: bool) -> Object:
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "name": migration.name,
        "uid": migration.uid,
        "controller": controller,
        "blockOwnerDeletion": False,
    }


def _second_owner(workload: Object) -> Object:
    return {
        "apiVersion": workload.get("apiVersion", "apps/v1"),
        "kind": workload.get("kind", "ReplicaSet"),
        "name": workload["metadata"]["name"],
        "uid": workload["metadata"]["uid"],
        "controller": False,
        "blockOwnerDeletion": False,
    }


# -- resources


def _with_live_resources(template: Object, live: Object) -> Object:
    spec = dict(template)
    for part in ("containers", "initContainers"):
        if part in template:
            spec[part] = _resized(template[part], live.get(part) or ())
    if "resources" in live:
        spec["resources"] = live["resources"]
    return spec


def _resized(containers: Sequence[Object], live: Sequence[Object]) -> list[Object]:
    resources = {each["name"]: each.get("resources") or {} for each in live}
    return [
        each | {"resources": resources.get(each["name"], each.get("resources") or {})} for each in containers
    ]


# -- what is left out of a bare pod


def _without_tokens(spec: Object) -> Object:
    """Admission mounts a token again, under another name."""
    cleaned = spec | {
        "volumes": [each for each in spec.get("volumes") or () if not each["name"].startswith(TOKENS)]
    }
    for part in ("containers", "initContainers"):
        if part in spec:
            cleaned[part] = [
                each
                | {
                    "volumeMounts": [
                        mount
                        for mount in each.get("volumeMounts") or ()
                        if not mount["name"].startswith(TOKENS)
                    ]
                }
                for each in spec[part]
            ]
    return cleaned


_AFFINITIES: Final = ("podAffinity", "podAntiAffinity")
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def _without_merged_keys(spec: Object) -> Object:
    """The server writes what `matchLabelKeys` mean into the selector beside them, and refuses a new pod whose
    selector names one of these keys already. So whatever names one was written by the server."""
    cleaned = copy.deepcopy(spec)
    for term in _terms(cleaned):
        merged = {(key, "In") for key in term.get("matchLabelKeys") or ()}
        merged |= {(key, "NotIn") for key in term.get("mismatchLabelKeys") or ()}
        expressions = (term.get("labelSelector") or {}).get("matchExpressions")
        if merged and expressions:
            term["labelSelector"]["matchExpressions"] = [
                each for each in expressions if (each["key"], each["operator"]) not in merged
            ]
    return cleaned


def _terms(spec: Object) -> Iterator[Object]:
    """Whatever of a pod's spec may have `matchLabelKeys`."""
    yield from spec.get("topologySpreadConstraints") or ()
    for name in _AFFINITIES:
        affinity = (spec.get("affinity") or {}).get(name) or {}
        yield from affinity.get(_REQUIRED) or ()
        yield from (each["podAffinityTerm"] for each in affinity.get(_PREFERRED) or ())
