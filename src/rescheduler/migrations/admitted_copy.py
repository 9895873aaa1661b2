"""Whether an admitted copy is the same pod as its source: all of both specs, but for where they run.

A webhook that looks at the controller may treat the copy differently: leave out a sidecar, say. Defaults of
the API server are no difference: it applies them to old objects, too, when they are read. Nor are the values
of environment variables in containers that a webhook has injected: service meshes tell their sidecars there
which workload they belong to, and until the copy is adopted that is the PodMigration.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

__all__ = ["TOKENS", "admission_differences"]

Object = Mapping[str, Any]

TOKENS: Final = "kube-api-access-"
"""Volumes that admission adds with a name of its own for every pod."""

_IGNORED: Final = frozenset(
    {
        # Where it runs and what was done to it there.
        "nodeName",
        "schedulingGates",
        "ephemeralContainers",
        # Where it may run: the scheduler has decided that, and the steering webhook adds to it.
        "affinity",
        "nodeSelector",
        "tolerations",
        "topologySpreadConstraints",
        # From the service account, which may have got others since.
        "imagePullSecrets",
    }
)
_BY_ADMISSION: Final = {"preemptionPolicy": "PreemptLowerPriority", "priority": 0}
"""What admission says in every new pod, and saved clusters leave out."""

_KEYS: Final = (("mountPath",), ("name",), ("containerPort", "protocol"), ("devicePath",))
"""What tells the entries of a list apart, whatever their order: the first of these that all of them have."""

_MOST_NAMED: Final = 10


def admission_differences(source: Object, copy: Object, template: Object | None = None) -> list[str]:
    """Name the fields in which the admitted copy is another pod than its source; none if it is the same.

    `template` is the spec that the workload has for its pods: what is not in it was injected.
    """
    found = _differences("spec", _comparable(source["spec"], template), _comparable(copy["spec"], template))
    if len(found) > _MOST_NAMED:
        return [*found[:_MOST_NAMED], f"{len(found) - _MOST_NAMED} more"]
    return found


def _comparable(spec: Object, template: Object | None) -> Object:
    kept = {**_BY_ADMISSION, **{name: value for name, value in spec.items() if name not in _IGNORED}}
    kept["volumes"] = [
        {"name": TOKENS} if each["name"].startswith(TOKENS) else each for each in spec.get("volumes") or ()
    ]
    for part in ("containers", "initContainers"):
        own = None if template is None else {each["name"] for each in template.get(part) or ()}
        kept[part] = [
            _with_same_token(each if own is None or each["name"] in own else _without_values(each))
            for each in spec.get(part) or ()
        ]
    return kept


def _without_values(container: Object) -> Object:
    return {**container, "env": [{"name": each["name"]} for each in container.get("env") or ()]}


def _with_same_token(container: Object) -> Object:
    mounts = [
        {**each, "name": TOKENS} if each["name"].startswith(TOKENS) else each
        for each in container.get("volumeMounts") or ()
    ]
    return {**container, "volumeMounts": mounts}


def _differences(path: str, before: Any, after: Any) -> list[str]:
    """Without the values: they may be secrets."""
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
    for key in _KEYS:
        of_before, of_after = _keyed(before, key), _keyed(after, key)
        if of_before is not None and of_after is not None:
            return [
                each
                for name in sorted(of_before.keys() | of_after.keys())
                for each in _differences(f"{path}[{name}]", of_before.get(name), of_after.get(name))
            ]
    return [f"{path} differs"]


def _keyed(entries: Sequence[Any], key: Sequence[str]) -> dict[str, Any] | None:
    """None if that key does not tell them apart."""
    if not all(isinstance(each, Mapping) and each.get(key[0]) for each in entries):
        return None
    found = {"/".join(str(each.get(part)) for part in key): each for each in entries}
    return found if len(found) == len(entries) else None


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _is_absent(value: Any) -> bool:
    """An empty object or list means the same as none."""
    return value is None or (isinstance(value, Mapping | list | tuple) and not value)
