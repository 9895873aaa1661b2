"""Strategic merge patch, with merge keys and directives.

`$patch: replace|delete`, `$retainKeys`, `$deleteFromPrimitiveList/FIELD` and `$setElementOrder/FIELD` work
as in the real API server, including the order of merged lists.
"""

from copy import deepcopy
from typing import Any

from kubesim.patches.merge_schema import MergeNode

__all__ = ["BadStrategicPatch", "strategic_merge"]

_PATCH, _RETAIN = "$patch", "$retainKeys"
_DELETE, _ORDER = "$deleteFromPrimitiveList/", "$setElementOrder/"

Map = dict[str, Any]


class BadStrategicPatch(ValueError):  # noqa: N818 - what the client sent
    def __init__(self, message: str, *, malformed: bool = True) -> None:
        super().__init__(message)
        self.malformed = malformed
        """Whether the patch is malformed; False if it is well-formed but can't be applied."""


def strategic_merge(document: Map, patch: Map, schema: MergeNode) -> Map:
    """Return the merged object; neither argument is changed."""
    return _merge_maps(deepcopy(document), deepcopy(patch), schema)


def _merge_maps(original: Map, patch: Map, schema: MergeNode) -> Map:
    if _PATCH in patch:
        return _replaced_or_deleted(patch)
    if _RETAIN in patch:
        _retain(original, patch)
    for name in [name for name in patch if name.startswith(_ORDER)]:
        _merge_in_order(original, patch, name, schema)
    for name, value in patch.items():
        if name == _RETAIN:
            continue
        if name.startswith(_DELETE):
            _delete_values(original, name.removeprefix(_DELETE), value)
        elif value is None:
            original.pop(name, None)
        elif name not in original or type(original[name]) is not type(value):
            original.pop(name, None)
            original |= _added({name: value})
        else:
            original[name] = _merge_values(original[name], value, schema.at(name), name)
    return original


def _replaced_or_deleted(patch: Map) -> Map:
    whole = dict(patch)
    directive = patch.pop(_PATCH)
    if directive == "replace":
        return dict(_decoded(patch))
    if directive == "delete":
        return {}
    raise BadStrategicPatch(f"unknown patch type: {directive} in map: {whole}", malformed=False)


def _retain(original: Map, patch: Map) -> None:
    kept = patch.pop(_RETAIN)
    if not isinstance(kept, list) or not all(isinstance(name, str) for name in kept):
        raise BadStrategicPatch("invalid patch format of retainKeys")
    if any(
        name not in kept for name, value in patch.items() if value is not None and not name.startswith("$")
    ):
        raise BadStrategicPatch("invalid patch format of retainKeys")
    for name in [name for name in original if name not in kept]:
        del original[name]


def _delete_values(original: Map, name: str, values: Any) -> None:
    if not isinstance(values, list):
        raise BadStrategicPatch("invalid patch format of primitive list")
    if name in original:
        original[name] = [item for item in original[name] if item not in values]


def _merge_values(original: Any, patch: Any, schema: MergeNode, name: str) -> Any:
    """Merge two values of the same type."""
    if isinstance(patch, dict) and not schema.replaced:
        return _merge_maps(original, patch, schema)
    if isinstance(patch, list) and (schema.key or schema.is_set):
        return _merge_lists(original, patch, schema, name)
    return _decoded(patch)


def _directive(item: Any) -> str:
    return str(item.get(_PATCH, "")) if isinstance(item, dict) else ""


def _merge_lists(original: list[Any], patch: list[Any], schema: MergeNode, name: str) -> list[Any]:
    if schema.is_set:
        wanted = _unique(patch)
        return _interleave(wanted, [item for item in original if item not in wanted], original, "")
    original, patch, replaced = _apply_directives(original, patch, schema.key, name)
    if replaced:
        return original
    merged = list(original)
    for item in patch:
        position = _position(merged, item, schema.key)
        if position is None:
            merged.append(_decoded(item))
        else:
            merged[position] = _merge_maps(merged[position], item, schema)
    return _in_order(merged, patch, original, schema.key)


def _apply_directives(
    original: list[Any], patch: list[Any], key: str, name: str
) -> tuple[list[Any], list[Any], bool]:
    """Return what remains of both lists, and whether the patch replaces the list."""
    kept, plain, replaced = list(original), [], False
    for item in patch:
        if not isinstance(item, dict):
            raise BadStrategicPatch(f"{name}: items must be maps with {key}", malformed=False)
        match _directive(item):
            case "":
                plain.append(item)
            case "delete":
                value = _key_value(item, key)
                kept = [other for other in kept if other.get(key) != value]
            case "replace":
                replaced = True
            case other:
                raise BadStrategicPatch(f"Unknown patch type found: {other}", malformed=False)
    return (_decoded(plain), [], True) if replaced else (kept, plain, False)


def _key_value(item: Map, key: str) -> Any:
    if key not in item:
        raise BadStrategicPatch(f"map: {item} does not contain declared merge key: {key}", malformed=False)
    return item[key]


def _position(items: list[Any], item: Map, key: str) -> int | None:
    value = _key_value(item, key)
    return next((place for place, other in enumerate(items) if other.get(key) == value), None)


def _merge_in_order(original: Map, patch: Map, directive: str, schema: MergeNode) -> None:
    """Merge lists in the order that the client gives; items it does not know stay near their neighbours."""
    name = directive.removeprefix(_ORDER)
    node, is_given = schema.at(name), name in patch
    order, given = patch.pop(directive), patch.pop(name, [])
    if not isinstance(order, list) or not isinstance(given, list):
        raise BadStrategicPatch("invalid patch format of setElementOrder list")
    known = [_identity(item, node.key) for item in order]
    if any(_identity(item, node.key) not in known for item in given if not _directive(item)):
        raise BadStrategicPatch("the order in the patch does not match $setElementOrder", malformed=False)
    live = original.get(name) or []
    merged = live
    if is_given:
        merged = _merge_values(list(live), given, node, name) if name in original else _added(given)
    if merged or name in original:
        merged = [item for item in merged if not _directive(item)]
        original[name] = _in_order(merged, order, live, node.key)


def _in_order(merged: list[Any], order: list[Any], live: list[Any], key: str) -> list[Any]:
    """Return the items in the client's order, with the others where the live list has them."""
    ranks = [_identity(item, key) for item in order]
    known = [item for item in merged if _identity(item, key) in ranks]
    known.sort(key=lambda item: ranks.index(_identity(item, key)))
    others = [item for item in merged if _identity(item, key) not in ranks]
    places = [_identity(item, key) for item in live]
    others.sort(key=lambda item: _place(places, _identity(item, key)))
    return _interleave(known, others, live, key)


def _place(places: list[Any], wanted: Any) -> int:
    """Return the position of an item; new items come last."""
    return places.index(wanted) if wanted in places else len(places)


def _interleave(known: list[Any], others: list[Any], live: list[Any], key: str) -> list[Any]:
    places = [_identity(item, key) for item in live]
    result: list[Any] = []
    waiting = list(others)
    for item in known:
        place = _identity(item, key)
        if place in places:
            while waiting and places.index(_identity(waiting[0], key)) < places.index(place):
                result.append(waiting.pop(0))
        result.append(item)
    return result + waiting


def _identity(item: Any, key: str) -> Any:
    return item.get(key) if key and isinstance(item, dict) else item


def _unique(items: list[Any]) -> list[Any]:
    return [item for place, item in enumerate(items) if item not in items[:place]]


def _added(value: Any) -> Any:
    """Return a value that is added to the object, without parts that are marked by a directive."""
    if isinstance(value, list):
        return [_added(item) for item in value if not _directive(item)]
    if not isinstance(value, dict):
        return value
    kept = {name: part for name, part in value.items() if part is not None and not _directive(part)}
    return {name: _added(part) for name, part in kept.items() if not name.startswith("$")}


def _decoded(value: Any) -> Any:
    """Return a value that replaces another, without directives, which are not fields of any kind."""
    if isinstance(value, list):
        return [_decoded(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {name: _decoded(part) for name, part in value.items() if part is not None and name[:1] != "$"}
