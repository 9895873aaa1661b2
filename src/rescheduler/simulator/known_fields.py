"""What `kubectl explain` tells of built-in kinds: the names and types of their fields, at every depth."""

from collections.abc import Iterable, Iterator

from rescheduler.simulator.admission.decoding.table import fields_by_type, type_of
from rescheduler.simulator.exchange import Object
from rescheduler.simulator.kinds import Kind

__all__ = ["schema_of_fields", "schemas_below"]

_SCALARS: dict[str, Object] = {
    "any": {"type": "object"},
    "bool": {"type": "boolean"},
    "bytes": {"type": "string", "format": "byte"},
    "double": {"type": "number", "format": "double"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "intstr": {"type": "string", "format": "int-or-string"},
    "microtime": {"type": "string", "format": "date-time"},
    "quantity": {"type": "string"},
    "schemaor": {"type": "object"},
    "string": {"type": "string"},
    "time": {"type": "string", "format": "date-time"},
}


def schema_of_fields(kind: Kind) -> Object | None:
    """The schema of one kind, with references to what `schemas_below` gives; None for kinds not known."""
    name = type_of(kind)
    return _schema(name) if name else None


def schemas_below(kinds: Iterable[Kind]) -> dict[str, Object]:
    """By name, the schemas of everything inside objects of these kinds."""
    wanted = [name for kind in kinds if (name := type_of(kind))]
    found: dict[str, Object] = {}
    while wanted:
        for inner in _inside(wanted.pop()):
            if inner not in found:
                found[inner] = _schema(inner)
                wanted.append(inner)
    return found


def _inside(name: str) -> Iterator[str]:
    for notation in fields_by_type()[name].values():
        bare = notation.strip("[]{}")
        if bare not in _SCALARS:
            yield bare


def _schema(name: str) -> Object:
    properties = {field: _field(notation) for field, notation in fields_by_type()[name].items()}
    return {"type": "object", "properties": properties}


def _field(notation: str) -> Object:
    if notation.startswith("["):
        return {"type": "array", "items": _field(notation[1:-1])}
    if notation.startswith("{"):
        return {"type": "object", "additionalProperties": _field(notation[1:-1])}
    return _SCALARS.get(notation) or {"$ref": f"#/components/schemas/{notation}"}
