"""Finds fields that a rule mentions and its schema does not have: a typing error, most often."""

from collections.abc import Iterator

from rescheduler.simulator.admission.expressions.evaluation import inner_nodes
from rescheduler.simulator.admission.expressions.syntax import Name, Node, Select
from rescheduler.simulator.exchange import Object

__all__ = ["unknown_fields"]

_SHOWN_TYPES = {"integer": "int", "number": "double", "boolean": "bool"}
_OF_OBJECTS: Object = {"x-kubernetes-preserve-unknown-fields": True}


def unknown_fields(node: Node, schema: Object) -> Iterator[str]:
    """What is wrong with each, in words."""
    for inner in inner_nodes(node):
        yield from unknown_fields(inner, schema)
    if isinstance(node, Select):
        target = _schema_at(node.target, schema)
        if target is not None and _schema_of_field(target, node.field) is None:
            yield _complaint(target, node.field)


def _schema_at(node: Node, schema: Object) -> Object | None:
    """The schema of what the node stands for, as far as it can be told."""
    match node:
        case Name(name="self") | Name(name="oldSelf"):
            return schema
        case Select(target=inner, field=field):
            target = _schema_at(inner, schema)
            return None if target is None else _schema_of_field(target, field)
        case _:
            return None


def _schema_of_field(schema: Object, field: str) -> Object | None:
    if schema.get("x-kubernetes-preserve-unknown-fields") or schema.get("x-kubernetes-int-or-string"):
        return _OF_OBJECTS
    properties: dict[str, Object] = schema.get("properties", {})
    further = schema.get("additionalProperties")
    if field in properties:
        return properties[field]
    if isinstance(further, dict):
        return further
    return _OF_OBJECTS if field in ("metadata", "apiVersion", "kind") else None


def _complaint(schema: Object, field: str) -> str:
    kind = schema.get("type", "")
    if kind == "object":
        return f"undefined field '{field}'"
    return f"type '{_SHOWN_TYPES.get(kind, kind)}' does not support field selection"
