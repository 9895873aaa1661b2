"""The fields that a manager owns, in the form of `metadata.managedFields`.

A field is a path of elements: `f:NAME` for a field of a map, `k:{…}` for a list item with these keys,
`v:VALUE` for a value in a set, and `.` for an item itself.
"""

from collections.abc import Iterator
from typing import Any

from kubesim.apiserver.api_messages import Object, decode, encode
from kubesim.patches.merge_schema import MergeNode

__all__ = [
    "FieldPath",
    "fields_of",
    "from_fields_v1",
    "identity",
    "to_fields_v1",
    "value_at",
    "without_field",
]

FieldPath = tuple[str, ...]

_MISSING = object()
_NOT_OWNED = {
    ("f:apiVersion",), ("f:kind",), ("f:metadata", "f:name"), ("f:metadata", "f:namespace"),
    ("f:metadata", "f:uid"), ("f:metadata", "f:resourceVersion"), ("f:metadata", "f:creationTimestamp"),
    ("f:metadata", "f:generation"), ("f:metadata", "f:managedFields"), ("f:metadata", "f:generateName"),
    ("f:metadata", "f:deletionTimestamp"), ("f:metadata", "f:deletionGracePeriodSeconds"),
    ("f:metadata", "f:selfLink"),
}  # fmt: skip


def fields_of(content: Any, schema: MergeNode) -> frozenset[FieldPath]:
    """Return the leaves of an object and its list items, without the fields that identify it."""
    return frozenset(
        path for path in _walk(content, schema, ()) if path[:2] not in _NOT_OWNED and path not in _NOT_OWNED
    )


def _walk(value: Any, schema: MergeNode, path: FieldPath) -> Iterator[FieldPath]:
    if isinstance(value, dict) and value and not schema.atomic:
        for name, part in value.items():
            yield from _walk(part, schema.at(name), (*path, f"f:{name}"))
    elif isinstance(value, list) and (schema.keys or schema.is_set):
        for item in value:
            step = (*path, identity(item, schema))
            yield step
            if isinstance(item, dict):
                yield from _walk(item, MergeNode(fields=schema.fields, anything=schema.anything), step)
        if not value:
            yield path
    elif path:
        yield path


def identity(item: Any, schema: MergeNode) -> str:
    """Return the path element that identifies an item in a merged list."""
    if schema.is_set or not isinstance(item, dict):
        return "v:" + encode(item).decode()
    keys = {key: item.get(key, schema.key_defaults.get(key)) for key in schema.keys}
    return "k:" + encode({key: value for key, value in sorted(keys.items()) if value is not None}).decode()


def value_at(content: Any, path: FieldPath, schema: MergeNode) -> Any:
    """Return the value at a path, or a sentinel that equals nothing."""
    for step in path:
        if step.startswith("f:"):
            name = step[2:]
            if not isinstance(content, dict) or name not in content:
                return _MISSING
            content, schema = content[name], schema.at(name)
        else:
            found = (
                [item for item in content if identity(item, schema) == step]
                if isinstance(content, list)
                else []
            )
            if not found:
                return _MISSING
            content, schema = found[0], MergeNode(fields=schema.fields, anything=schema.anything)
    return content


def without_field(content: Any, path: FieldPath, schema: MergeNode) -> Any:
    """Return the object without one field, and without maps and lists that become empty."""
    step, rest = path[0], path[1:]
    if step.startswith("f:"):
        name = step[2:]
        if not isinstance(content, dict) or name not in content:
            return content
        smaller = without_field(content[name], rest, schema.at(name)) if rest else _MISSING
        others = {field: value for field, value in content.items() if field != name}
        return others if smaller is _MISSING or (rest and smaller in ({}, [])) else {**content, name: smaller}
    if not isinstance(content, list):
        return content
    inside = MergeNode(fields=schema.fields, anything=schema.anything)
    if not rest:
        return [item for item in content if identity(item, schema) != step]
    return [without_field(item, rest, inside) if identity(item, schema) == step else item for item in content]


def to_fields_v1(paths: frozenset[FieldPath]) -> Object:
    tree: Object = {}
    for path in sorted(paths):
        branch = tree
        for step in path:
            branch = branch.setdefault(step, {})
        if not path[-1].startswith("f:"):
            branch["."] = {}
    return tree


def from_fields_v1(tree: Object) -> frozenset[FieldPath]:
    return frozenset(_leaves(tree, ()))


def _leaves(tree: Object, path: FieldPath) -> Iterator[FieldPath]:
    if not tree and path:
        yield path
    for step, branch in tree.items():
        if step == ".":
            if not path[-1].startswith("f:"):
                yield path
        else:
            yield from _leaves(branch, (*path, _normal(step)))


def _normal(step: str) -> str:
    """Return the keys in the order and spelling of `identity`."""
    if step.startswith("k:"):
        return "k:" + encode(dict(sorted(decode(step[2:]).items()))).decode()
    return "v:" + encode(decode(step[2:])).decode() if step.startswith("v:") else step
