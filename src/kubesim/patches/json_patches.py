"""JSON patch (RFC 6902) and merge patch (RFC 7386)."""

from copy import deepcopy
from typing import Any

__all__ = ["BadPatch", "PatchFailed", "json_patch", "merge_patch"]

_MOST_OPERATIONS = 10_000


class BadPatch(ValueError):  # noqa: N818 - what the client sent
    """The patch is not a list of operations."""


class PatchFailed(ValueError):  # noqa: N818 - the result of a patch
    """A JSON patch that can't be applied: a missing path, a failed test, no value to add."""


def json_patch(document: Any, operations: Any) -> Any:
    """Return the document after all operations; neither argument is changed."""
    if not isinstance(operations, list) or not all(isinstance(step, dict) for step in operations):
        raise BadPatch("a JSON patch is a list of operations")
    if len(operations) > _MOST_OPERATIONS:
        raise BadPatch(
            f"The allowed maximum operations in a JSON patch is {_MOST_OPERATIONS}, got {len(operations)}"
        )
    result = deepcopy(document)
    for step in operations:
        result = _apply(result, step)
    return result


def _apply(document: Any, step: dict[str, Any]) -> Any:
    operation, path = step.get("op"), _path(step, "path")
    match operation:
        case "add":
            return _add(document, path, deepcopy(_value(step)))
        case "remove":
            return _remove(document, path)
        case "replace":
            # The real server adds a field that is not there.
            return _put(document, path, deepcopy(_value(step)))
        case "move":
            source = _path(step, "from")
            if path[: len(source)] == source and path != source:
                raise PatchFailed(f"{step['from']} can't be moved into itself")
            value = _get(document, source)
            return _add(_remove(document, source), path, value)
        case "copy":
            return _add(document, path, deepcopy(_get(document, _path(step, "from"))))
        case "test":
            if not _same(_get_or_null(document, path), _value(step)):
                raise PatchFailed(f"testing value {step['path']} failed")
            return document
    raise PatchFailed(f"Unexpected kind: {operation}")


def _value(step: dict[str, Any]) -> Any:
    if "value" not in step:
        raise PatchFailed(f"{step.get('op')} operation of {step.get('path')} has no value")
    return step["value"]


def _path(step: dict[str, Any], field: str) -> list[str]:
    text = step.get(field)
    if not isinstance(text, str) or (text and not text.startswith("/")):
        raise PatchFailed(f"{field} is not a JSON pointer: {text!r}")
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _shown(path: list[str]) -> str:
    return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in path)


def _get(document: Any, path: list[str]) -> Any:
    value = document
    for depth, part in enumerate(path):
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list):
            value = value[_index(value, path[: depth + 1], end=len(value) - 1)]
        else:
            raise PatchFailed(f"there is nothing at {_shown(path[: depth + 1])}")
    return value


def _get_or_null(document: Any, path: list[str]) -> Any:
    """Return the value, or None if it is absent: for the real server, an absent field equals null."""
    parent = _get(document, path[:-1]) if path else document
    if path and isinstance(parent, dict):
        return parent.get(path[-1])
    return _get(document, path)


def _index(items: list[Any], path: list[str], *, end: int) -> int:
    text = path[-1]
    if not text.isdecimal() or (len(text) > 1 and text[0] == "0"):
        raise PatchFailed(f"{_shown(path)} is not a position in a list")
    if int(text) > end:
        raise PatchFailed(f"{_shown(path)} is beyond the end of its list, which has {len(items)} items")
    return int(text)


def _add(document: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent = _get(document, path[:-1])
    if isinstance(parent, list):
        position = len(parent) if path[-1] == "-" else _index(parent, path, end=len(parent))
        parent.insert(position, value)
        return document
    return _put(document, path, value)


def _put(document: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent = _get(document, path[:-1])
    if isinstance(parent, list):
        parent[_index(parent, path, end=len(parent) - 1)] = value
    elif isinstance(parent, dict):
        parent[path[-1]] = value
    else:
        raise PatchFailed(f"there is no object or list at {_shown(path[:-1])}")
    return document


def _remove(document: Any, path: list[str]) -> Any:
    _get(document, path)
    if not path:
        return None
    parent = _get(document, path[:-1])
    if isinstance(parent, list):
        del parent[_index(parent, path, end=len(parent) - 1)]
    else:
        del parent[path[-1]]
    return document


def _same(left: Any, right: Any) -> bool:
    """Return whether two values are equal as JSON: `true` is not 1, as it is in Python."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_same, left, right))
    return bool(left == right)


def merge_patch(document: Any, patch: Any) -> Any:
    """Return the merged document; neither argument is changed."""
    if not isinstance(patch, dict):
        return deepcopy(patch)
    merged = dict(document) if isinstance(document, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patch(merged.get(name), value)
    return merged
