"""Server-side apply: merge the fields of an applied configuration and record their owners.

Ownership is recorded from the first apply on. Fields that existed before belong to `before-first-apply`.
"""

from collections.abc import Iterable
from copy import deepcopy
from datetime import datetime
from typing import Any, NamedTuple

from kubesim.apiserver.api_messages import Object, decode, encode
from kubesim.common_fields import format_timestamp
from kubesim.patches.managed_fields import (
    FieldPath,
    fields_of,
    from_fields_v1,
    identity,
    to_fields_v1,
    value_at,
    without_field,
)
from kubesim.patches.merge_schema import MergeNode

__all__ = ["ApplyConflict", "Conflicting", "apply", "track_update"]

_FIRST = "before-first-apply"


class FieldManager(NamedTuple):
    manager: str
    operation: str
    """`Apply` or `Update`."""
    subresource: str = ""


class Conflicting(NamedTuple):
    manager: str
    field: str
    operation: str


class ApplyConflict(Exception):  # noqa: N818 - an answer to the client
    """Other managers own fields that the configuration sets to other values."""

    def __init__(self, conflicts: list[Conflicting]) -> None:
        super().__init__(f"{len(conflicts)} fields are owned by others")
        self.conflicts = conflicts


Ownership = dict[FieldManager, frozenset[FieldPath]]


def apply(
    live: Object | None,
    configuration: Object,
    schema: MergeNode,
    *,
    manager: str,
    force: bool,
    now: datetime,
    subresource: str = "",
) -> Object:
    """Return the object after the configuration was applied to it, or the new object."""
    owner = FieldManager(manager, "Apply", subresource)
    wanted = fields_of(configuration, schema)
    base = live if live is not None else {}
    ownership = _ownership(base)
    if live is not None and not ownership:
        ownership[FieldManager(_FIRST, "Update")] = fields_of(live, schema)
    conflicts = _conflicts(
        base, configuration, schema, wanted, {o: f for o, f in ownership.items() if o != owner}
    )
    if conflicts and not force:
        raise ApplyConflict([Conflicting(o.manager, _dotted(path), o.operation) for o, path in conflicts])
    merged = _merge(deepcopy(base), configuration, schema)
    for other, path in conflicts:
        ownership[other] -= {path}
    dropped = ownership.get(owner, frozenset()) - wanted
    ownership[owner] = wanted
    merged = _prune(merged, dropped, ownership.values(), schema)
    _write(merged, ownership, now)
    return merged


def track_update(
    old: Object, new: Object, schema: MergeNode, *, manager: str, now: datetime, subresource: str = ""
) -> None:
    """Record the manager of an update as owner of the changed fields in `new`, if ownership is recorded."""
    ownership = _ownership(new)  # what is recorded, or what the client wants to be recorded
    if not ownership:
        return
    before, after = fields_of(old, schema), fields_of(new, schema)
    changed = {
        path for path in after
        if path not in before or _differs(value_at(old, path, schema), value_at(new, path, schema))
    }  # fmt: skip
    gone = before - after
    owner = FieldManager(manager, "Update", subresource)
    for other in ownership:
        ownership[other] -= gone
        if other != owner:
            ownership[other] -= changed
    if changed:
        ownership[owner] = ownership.get(owner, frozenset()) | changed
    _write(new, ownership, now)


def _differs(left: Any, right: Any) -> bool:
    # An item of a list is the same as long as it is there; its fields are compared one by one.
    if isinstance(left, dict) and isinstance(right, dict):
        return False
    return bool(left != right)


def _conflicts(
    live: Object, configuration: Object, schema: MergeNode, wanted: frozenset[FieldPath], others: Ownership
) -> list[tuple[FieldManager, FieldPath]]:
    return [
        (owner, path)
        for owner, fields in sorted(others.items())
        for path in sorted(wanted & fields, key=_conflict_order)
        if path[-1].startswith("f:")
        and _contradicts(value_at(configuration, path, schema), value_at(live, path, schema))
    ]


def _contradicts(wanted: Any, live: Any) -> bool:
    """Return whether the values conflict; an applied empty map or list keeps the values of others."""
    return bool(wanted != live) and not (wanted in ({}, []) and type(wanted) is type(live))


def _conflict_order(path: FieldPath) -> list[tuple[bool, str]]:
    """Return the sort key of conflicts in the real server."""
    return [(depth < len(path), step) for depth, step in enumerate(path, start=1)]


def _merge(live: Any, wanted: Any, schema: MergeNode) -> Any:
    if isinstance(live, dict) and isinstance(wanted, dict) and not schema.atomic:
        for name, value in wanted.items():
            live[name] = _merge(live[name], value, schema.at(name)) if name in live else deepcopy(value)
        return live
    if isinstance(live, list) and isinstance(wanted, list) and (schema.keys or schema.is_set):
        return _merge_lists(live, wanted, schema)
    return deepcopy(wanted)


def _merge_lists(live: list[Any], wanted: list[Any], schema: MergeNode) -> list[Any]:
    """Merge lists: applied items keep their order; other items stay in front of the items they preceded."""
    items = {identity(item, schema): item for item in live}
    inside = MergeNode(fields=schema.fields, anything=schema.anything)
    applied = {identity(item, schema): item for item in wanted}
    result: list[Any] = []
    waiting = list(items)

    def take_others() -> None:
        """Take the live items up to the next applied one."""
        while waiting and waiting[0] not in applied:
            result.append(items[waiting.pop(0)])

    for key, item in applied.items():
        if key in waiting:
            before, after = waiting[: waiting.index(key)], waiting[waiting.index(key) + 1 :]
            result += [items[other] for other in before if other not in applied]
            waiting = after
        else:
            take_others()
        result.append(_merge(items[key], item, inside) if key in items else deepcopy(item))
    return result + [items[other] for other in waiting if other not in applied]


def _prune(
    content: Object, dropped: Iterable[FieldPath], owned: Iterable[frozenset[FieldPath]], schema: MergeNode
) -> Object:
    """Remove fields that were applied before and no longer are, unless another manager owns them."""
    kept = frozenset().union(*owned)
    # Whole items before their fields: removing an item removes unowned fields too, such as defaults.
    for path in sorted(dropped, key=len):
        if not _identifies_its_item(path) and not any(other[: len(path)] == path for other in kept):
            content = without_field(content, path, schema)
    return content


def _identifies_its_item(path: FieldPath) -> bool:
    return len(path) > 1 and path[-2].startswith("k:") and path[-1][2:] in decode(path[-2][2:])


def _ownership(content: Object) -> Ownership:
    entries = content.get("metadata", {}).get("managedFields") or ()
    return {
        FieldManager(
            entry.get("manager", ""), entry.get("operation", "Update"), entry.get("subresource", "")
        ): from_fields_v1(entry.get("fieldsV1") or {})
        for entry in entries
    }


def _write(content: Object, ownership: Ownership, now: datetime) -> None:
    metadata = content["metadata"] = content.get("metadata") or {}
    times = {
        (e.get("manager"), e.get("operation"), e.get("subresource", "")): e
        for e in metadata.get("managedFields") or ()
    }
    entries = []
    for owner, fields in sorted(ownership.items(), key=lambda item: (item[0].operation, item[0])):
        if not fields:
            continue
        entry: Object = {
            "manager": owner.manager,
            "operation": owner.operation,
            "apiVersion": content.get("apiVersion", "v1"),
            "time": format_timestamp(now),
            "fieldsType": "FieldsV1",
            "fieldsV1": to_fields_v1(fields),
        }
        if owner.subresource:
            entry["subresource"] = owner.subresource
        before = times.get((owner.manager, owner.operation, owner.subresource))
        if before and before.get("fieldsV1") == entry["fieldsV1"]:
            entry["time"] = before.get("time", entry["time"])  # an apply that changes nothing keeps its time
        entries.append(entry)
    metadata["managedFields"] = entries


def _dotted(path: FieldPath) -> str:
    """Return the name of a field in a conflict: `.spec.containers[name="web"].image`."""
    text = ""
    for step in path:
        if step.startswith("f:"):
            text += f".{step[2:]}"
        elif step.startswith("k:"):
            pairs = decode(step[2:])
            shown = ",".join(f"{key}={encode(value).decode()}" for key, value in pairs.items())
            text += f"[{shown}]"
        else:
            text += f"[={step[2:]}]"
    return text
