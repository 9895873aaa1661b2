"""Build the manifest of a copy, and compare the admitted copy with its source.

Manifests are whole JSON objects, because a copy must not lose fields that no record keeps.

The comparison covers both specs except for placement. A webhook may treat the copy differently, because the
PodMigration controls it: it may leave out a sidecar, for example. Defaults of the API server are no
difference, nor are the values of environment variables in injected containers: service meshes put the name of
the workload there, which is the PodMigration until the copy is adopted.
"""

import copy
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from rescheduler.api.podmigration import Migration
from rescheduler.api.well_known_names import API_VERSION, POD_MIGRATION_KIND, SCHEDULING_GATE
from rescheduler.migrations import labels_and_names

__all__ = [
    "TOKEN_VOLUME_PREFIX",
    "admission_differences",
    "adoptable_copy",
    "bare_copy",
    "owner_reference_to",
]

_ReadOnlyObject = Mapping[str, Any]

TOKEN_VOLUME_PREFIX: Final = "kube-api-access-"  # noqa: S105
"""Volumes that admission adds with a name of its own for every pod."""

_IGNORED_FIELDS: Final = frozenset(
    {
        # Where the pod runs, and what was changed while it ran there.
        "nodeName",
        "schedulingGates",
        "ephemeralContainers",
        # Where the pod may run: the scheduler has decided that, and the steering webhook adds to it.
        "affinity",
        "nodeSelector",
        "tolerations",
        "topologySpreadConstraints",
        # From the service account, which may have others by now.
        "imagePullSecrets",
    }
)
_ADMISSION_DEFAULTS: Final = {"preemptionPolicy": "PreemptLowerPriority", "priority": 0}
"""Fields that admission sets in every new pod, and that saved clusters leave out."""

_LIST_KEYS: Final = (("mountPath",), ("name",), ("containerPort", "protocol"), ("devicePath",))
"""Keys that identify the entries of a list in any order: the first key that all entries have is used."""

_MAX_DIFFERENCES_NAMED: Final = 10


def admission_differences(
    source: _ReadOnlyObject, copy: _ReadOnlyObject, template: _ReadOnlyObject | None = None
) -> list[str]:
    """Return the fields in which the admitted copy differs from its source; empty if it does not differ.

    `template` is the spec that the workload has for its pods: containers that it lacks were injected.
    """
    found = _differences("spec", _comparable(source["spec"], template), _comparable(copy["spec"], template))
    if len(found) > _MAX_DIFFERENCES_NAMED:
        return [*found[:_MAX_DIFFERENCES_NAMED], f"{len(found) - _MAX_DIFFERENCES_NAMED} more"]
    return found


def _comparable(spec: _ReadOnlyObject, template: _ReadOnlyObject | None) -> _ReadOnlyObject:
    kept = {
        **_ADMISSION_DEFAULTS,
        **{name: value for name, value in spec.items() if name not in _IGNORED_FIELDS},
    }
    kept["volumes"] = [
        {"name": TOKEN_VOLUME_PREFIX} if each["name"].startswith(TOKEN_VOLUME_PREFIX) else each
        for each in spec.get("volumes") or ()
    ]
    for part in ("containers", "initContainers"):
        own = None if template is None else {each["name"] for each in template.get(part) or ()}
        kept[part] = [
            _with_same_token(each if own is None or each["name"] in own else _without_values(each))
            for each in spec.get(part) or ()
        ]
    return kept


def _without_values(container: _ReadOnlyObject) -> _ReadOnlyObject:
    return {**container, "env": [{"name": each["name"]} for each in container.get("env") or ()]}


def _with_same_token(container: _ReadOnlyObject) -> _ReadOnlyObject:
    mounts = [
        {**each, "name": TOKEN_VOLUME_PREFIX} if each["name"].startswith(TOKEN_VOLUME_PREFIX) else each
        for each in container.get("volumeMounts") or ()
    ]
    return {**container, "volumeMounts": mounts}


def _differences(path: str, before: Any, after: Any) -> list[str]:
    """Return the paths that differ, without values, which may be secrets."""
    if before == after or (_is_absent(before) and _is_absent(after)):
        return []
    if _is_absent(before):
        return [f"{path} was added"]
    if _is_absent(after):
        return [f"{path} is missing"]
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        return [
            each
            for name in sorted(before.keys() | after.keys())
            for each in _differences(f"{path}.{name}", before.get(name), after.get(name))
        ]
    if _is_list(before) and _is_list(after):
        return _list_differences(path, before, after)
    return [f"{path} differs"]


def _list_differences(path: str, before: Sequence[Any], after: Sequence[Any]) -> list[str]:
    for key in _LIST_KEYS:
        of_before, of_after = _keyed(before, key), _keyed(after, key)
        if of_before is not None and of_after is not None:
            return [
                each
                for name in sorted(of_before.keys() | of_after.keys())
                for each in _differences(f"{path}[{name}]", of_before.get(name), of_after.get(name))
            ]
    return [f"{path} differs"]


def _keyed(entries: Sequence[Any], key: Sequence[str]) -> dict[str, Any] | None:
    """Return the entries by this key, or None if it doesn't identify them."""
    if not all(isinstance(each, Mapping) and each.get(key[0]) for each in entries):
        return None
    found = {"/".join(str(each.get(part)) for part in key): each for each in entries}
    return found if len(found) == len(entries) else None


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _is_absent(value: Any) -> bool:
    """Return whether a value means the same as none, like an empty object or list."""
    return value is None or (isinstance(value, Mapping | list | tuple) and not value)


JsonObject = dict[str, Any]

_NODE_SPECIFIC_FIELDS: Final = frozenset({"nodeName", "schedulingGates", "ephemeralContainers"})
"""The fields of a live pod's spec that belong to its node, or that were changed while it ran there."""


def adoptable_copy(
    replica_set: JsonObject, source: JsonObject, migration: Migration, name: str, now: datetime
) -> JsonObject:
    """Return a copy built from the ReplicaSet's template, with its labels, so that Services and budgets
    select it.

    Resources and shutdown delays are those of the live pod, which may have been resized, or changed by a
    webhook that leaves pods of other controllers alone. The PodMigration controls the copy, so the ReplicaSet
    ignores it until it is offered. The ReplicaSet is a second owner from the start, so that the copy outlives
    its migration, however that is deleted.

    The copy has the finalizers of the ReplicaSet's pods; their controllers remove them from the copy, too.
    """
    template = replica_set["spec"]["template"]
    metadata = _copy_metadata(template["metadata"], source, migration, now) | {
        "name": name,
        "ownerReferences": [
            owner_reference_to(migration, controller=True),
            _workload_owner_reference(replica_set),
        ],
    }
    if finalizers := template["metadata"].get("finalizers"):
        metadata["finalizers"] = list(finalizers)
    return _gated_pod(metadata, _with_live_settings(template["spec"], source["spec"]))


def bare_copy(source: JsonObject, migration: Migration, name: str, now: datetime) -> JsonObject:
    """Return the copy of a pod without a controller: the pod itself, without what belongs to its node.

    The copy has no owner: if an owner were deleted at the wrong moment, the only pod would be deleted with
    it. It doesn't have the finalizers of its source: they are about the source, and their controllers see the
    copy, too.
    """
    metadata = _copy_metadata(source["metadata"], source, migration, now) | {"name": name}
    metadata["labels"] = {
        key: value
        for key, value in metadata["labels"].items()
        if not key.startswith(labels_and_names.TOPOLOGY_LABEL_PREFIX)
    }
    spec = {key: value for key, value in source["spec"].items() if key not in _NODE_SPECIFIC_FIELDS}
    return _gated_pod(metadata, _without_merged_keys(_without_tokens(spec)))


def _copy_metadata(like: JsonObject, source: JsonObject, migration: Migration, now: datetime) -> JsonObject:
    """Return labels and annotations of `like` with ours, which replace those of an earlier move."""
    moved = source["metadata"]
    original = labels_and_names.original_pod_name(moved["name"], moved.get("annotations") or {})
    return {
        "namespace": moved["namespace"],
        "labels": (like.get("labels") or {})
        | labels_and_names.migration_labels(migration, labels_and_names.MigrationLabelStatus.IN_PROGRESS),
        "annotations": (like.get("annotations") or {})
        | labels_and_names.copy_annotations(migration, original, now),
    }


def _gated_pod(metadata: JsonObject, spec: JsonObject) -> JsonObject:
    gates = [*(spec.get("schedulingGates") or ()), {"name": SCHEDULING_GATE}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": spec | {"schedulingGates": gates},
    }


def owner_reference_to(migration: Migration, *, controller: bool) -> JsonObject:
    return {
        "apiVersion": API_VERSION,
        "kind": POD_MIGRATION_KIND,
        "name": migration.name,
        "uid": migration.uid,
        "controller": controller,
        "blockOwnerDeletion": False,
    }


def _workload_owner_reference(workload: JsonObject) -> JsonObject:
    return {
        "apiVersion": workload.get("apiVersion", "apps/v1"),
        "kind": workload.get("kind", "ReplicaSet"),
        "name": workload["metadata"]["name"],
        "uid": workload["metadata"]["uid"],
        "controller": False,
        "blockOwnerDeletion": False,
    }


# -- resources and shutdown delays


def _with_live_settings(template: JsonObject, live: JsonObject) -> JsonObject:
    spec = dict(template)
    for part in ("containers", "initContainers"):
        if part in template:
            spec[part] = _with_live_container_settings(template[part], live.get(part) or ())
    if "resources" in live:
        spec["resources"] = live["resources"]
    return spec


def _with_live_container_settings(
    containers: Sequence[JsonObject], live: Sequence[JsonObject]
) -> list[JsonObject]:
    by_name = {each["name"]: each for each in live}
    return [_with_live_delay(each, by_name.get(each["name"], each)) for each in containers]


def _with_live_delay(container: JsonObject, live: JsonObject) -> JsonObject:
    """Return the container with the resources of the live one, and with its `preStop.sleep` if it has no hook
    itself.

    The webhook adds this hook when a pod is created, but not to copies, which must be like their source.
    """
    settings = container | {"resources": live.get("resources") or {}}
    hooks, hook = container.get("lifecycle") or {}, (live.get("lifecycle") or {}).get("preStop") or {}
    if "sleep" in hook and not hooks.get("preStop"):
        settings["lifecycle"] = {**hooks, "preStop": hook}
    return settings


# -- what is left out of a bare pod


def _without_tokens(spec: JsonObject) -> JsonObject:
    """Return the spec without token volumes; admission mounts a token again, under another name."""
    cleaned = spec | {
        "volumes": [
            each for each in spec.get("volumes") or () if not each["name"].startswith(TOKEN_VOLUME_PREFIX)
        ]
    }
    for part in ("containers", "initContainers"):
        if part in spec:
            cleaned[part] = [
                each
                | {
                    "volumeMounts": [
                        mount
                        for mount in each.get("volumeMounts") or ()
                        if not mount["name"].startswith(TOKEN_VOLUME_PREFIX)
                    ]
                }
                for each in spec[part]
            ]
    return cleaned


_AFFINITIES: Final = ("podAffinity", "podAntiAffinity")
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def _without_merged_keys(spec: JsonObject) -> JsonObject:
    """Return the spec without what the server derived from `matchLabelKeys` and wrote into the selectors.

    The server refuses a new pod whose selector names one of these keys. So the server wrote every expression
    that names one.
    """
    cleaned = copy.deepcopy(spec)
    for term in _terms_with_label_keys(cleaned):
        merged = {(key, "In") for key in term.get("matchLabelKeys") or ()}
        merged |= {(key, "NotIn") for key in term.get("mismatchLabelKeys") or ()}
        expressions = (term.get("labelSelector") or {}).get("matchExpressions")
        if merged and expressions:
            term["labelSelector"]["matchExpressions"] = [
                each for each in expressions if (each["key"], each["operator"]) not in merged
            ]
    return cleaned


def _terms_with_label_keys(spec: JsonObject) -> Iterator[JsonObject]:
    """Yield the parts of a pod's spec that may have `matchLabelKeys`."""
    yield from spec.get("topologySpreadConstraints") or ()
    for name in _AFFINITIES:
        affinity = (spec.get("affinity") or {}).get(name) or {}
        yield from affinity.get(_REQUIRED) or ()
        yield from (each["podAffinityTerm"] for each in affinity.get(_PREFERRED) or ())
