"""How server-side apply merges custom objects: which of their lists are maps or sets in disguise."""

from rescheduler.simulator.exchange import Object
from rescheduler.simulator.patches.schema import Node

__all__ = ["merge_schema"]

_METADATA = Node(fields={"ownerReferences": Node(keys=("uid",)), "finalizers": Node(is_set=True)})


def merge_schema(root: Object) -> Node:
    """For objects of this `openAPIV3Schema`."""
    node = _node(root)
    return Node(fields={**node.fields, "metadata": _METADATA}, anything=node.anything)


def _node(schema: Object) -> Node:
    if schema.get("type") == "array":
        return _list_node(schema)
    further = schema.get("additionalProperties")
    return Node(
        atomic=schema.get("x-kubernetes-map-type") == "atomic",
        fields={field: _node(inner) for field, inner in schema.get("properties", {}).items()},
        anything=_node(further) if isinstance(further, dict) else None,
    )


def _list_node(schema: Object) -> Node:
    match schema.get("x-kubernetes-list-type"):
        case "set":
            return Node(is_set=True)
        case "map":
            items = schema["items"]
            properties: dict[str, Object] = items.get("properties", {})
            keys = tuple(schema["x-kubernetes-list-map-keys"])
            return Node(
                keys=keys,
                key_defaults={
                    key: properties[key]["default"] for key in keys if "default" in properties.get(key, {})
                },
                fields=_node(items).fields,
            )
        case _:
            return Node()
