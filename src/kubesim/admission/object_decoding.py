"""Decode JSON into an object of its kind: known fields only, each of its type.

A value of the wrong type is rejected with code 400, in the words of the real server's decoder. A field whose
value is `null` and an empty map count as absent. The result needs no further type checks in defaults and
validation. The fields of all built-in types are in `fields.txt`; custom kinds have their own schemas
(`kubesim.custom_resources`), and only their metadata is decoded here.
"""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from kubesim.admission.scalar_decoding import SCALARS, MalformedValue, Reader, TypeMismatch
from kubesim.apiserver.api_messages import Object
from kubesim.apiserver.kind_registry import ResourceKind
from kubesim.apiserver.status_errors import StatusError, bad_request

__all__ = [
    "EXTRA_KINDS",
    "TypeReader",
    "decode_object",
    "fields_by_type",
    "reader_of",
    "type_of",
    "unknown_fields",
    "unreadable",
]

EXTRA_KINDS: tuple[tuple[str, str, str], ...] = (
    ("", "v1", "Binding"),
    ("autoscaling", "v1", "Scale"),
    ("policy", "v1", "Eviction"),
)
"""Group, version and kind of objects that are only posted to a subresource."""

_CLASHING = {("events.k8s.io", "Event"): "events.Event"}
_WITHOUT_FIELDS = ("metrics.k8s.io",)
"""Kinds that are served but never written."""


@cache
def fields_by_type() -> dict[str, dict[str, str]]:
    """Return the fields of each type with the types of their values, in the notation of the file.

    The notation is `string`, `int32`, `[Container]` (a list), `{quantity}` (a map), `PodSpec` (another
    line).
    """
    table: dict[str, dict[str, str]] = {}
    for line in Path(__file__).with_name("fields.txt").read_text("utf-8").splitlines():
        if not line.startswith("#"):
            name, *fields = line.split()
            table[name] = dict(field.split("=", 1) for field in fields)
    return table


def type_of(kind: ResourceKind) -> str | None:
    """Return the type in the table that describes `kind`, or None for custom kinds."""
    if kind.custom or kind.group in _WITHOUT_FIELDS:
        return None
    name = _CLASHING.get((kind.group, kind.name), kind.name)
    return name if name in fields_by_type() else None


_FALSE_AS_ABSENT = {
    "PodSpec": ("hostNetwork", "hostPID", "hostIPC"),
    "Container": ("stdin", "stdinOnce", "tty"),
    "NodeSpec": ("unschedulable",),
    "DeploymentSpec": ("paused",),
}
"""Fields for which the real server does not distinguish false from absent."""


class TypeReader(Protocol):
    def read(self, value: Any) -> Any:
        """Return a decoded copy of `value`; raise `MalformedValue` if it has the wrong type."""
        ...

    def unknown(self, value: Any, path: str) -> Iterator[str]:
        """Return the paths of fields that the type does not have."""
        ...

    @property
    def go_name(self) -> str: ...

    @property
    def empty(self) -> Any: ...


class _Scalar:
    def __init__(self, name: str) -> None:
        self.read, self.empty = SCALARS[name]
        self.go_name = {"double": "float64", "any": "map[string]interface {}"}.get(name, name)

    read: Reader
    empty: Any

    def unknown(self, value: Any, path: str) -> Iterator[str]:  # noqa: ARG002
        return iter(())


class _List:
    empty: Any = ()

    def __init__(self, item: TypeReader) -> None:
        self._item = item
        self.go_name = f"[]{item.go_name}"

    def read(self, value: Any) -> list[Any]:
        if type(value) is not list:
            raise TypeMismatch(value, self.go_name)
        read = self._item.read
        return [read(entry) if entry is not None else self._item.empty for entry in value]

    def unknown(self, value: Any, path: str) -> Iterator[str]:
        for index, entry in enumerate(value if type(value) is list else ()):
            yield from self._item.unknown(entry, f"{path}[{index}]")


class _Map:
    empty: Any = None

    def __init__(self, item: TypeReader) -> None:
        self._item = item
        self.go_name = f"map[string]{item.go_name}"

    def read(self, value: Any) -> dict[str, Any]:
        if type(value) is not dict:
            raise TypeMismatch(value, self.go_name)
        read = self._item.read
        return {key: read(entry) if entry is not None else self._item.empty for key, entry in value.items()}

    def unknown(self, value: Any, path: str) -> Iterator[str]:
        for key, entry in value.items() if type(value) is dict else ():
            yield from self._item.unknown(entry, f"{path}.{key}")


class _Record:
    def __init__(self, name: str) -> None:
        self._name = name.rpartition(".")[2]
        self.go_name = f"v1.{self._name}"
        self._readers: dict[str, Reader] = {}

    @property
    def empty(self) -> Any:
        return {}

    def resolve(self, fields: dict[str, TypeReader]) -> None:
        """Fill in the fields of all types once all types exist, because they refer to each other."""
        self._fields = fields
        self._absent_values: dict[str, Any] = {
            field: {} for field, reader in fields.items() if type(reader) is _Map
        }
        self._absent_values |= dict.fromkeys(_FALSE_AS_ABSENT.get(self._name, ()), False)
        self._readers = {field: reader.read for field, reader in fields.items()}

    def read(self, value: Any) -> dict[str, Any]:
        if type(value) is not dict:
            raise TypeMismatch(value, self.go_name)
        readers, absent_values = self._readers, self._absent_values
        known: dict[str, Any] = {}
        for field, entry in value.items():
            if entry is None or field not in readers:
                continue
            try:
                known[field] = readers[field](entry)
            except TypeMismatch as mismatch:
                mismatch.came_through(self._name, field)
                raise
            if field in absent_values and known[field] == absent_values[field]:
                del known[field]
        return known

    def unknown(self, value: Any, path: str) -> Iterator[str]:
        for field, entry in value.items() if type(value) is dict else ():
            here = f"{path}.{field}" if path else field
            if field in self._fields:
                yield from self._fields[field].unknown(entry, here)
            else:
                yield here


class _SchemaOr:
    """A JSON schema, or a simpler value in its place: `false`, a list."""

    empty: Any = None
    go_name = "v1.JSONSchemaProps"

    def __init__(self, schema: TypeReader) -> None:
        self._schema = schema

    def read(self, value: Any) -> Any:
        return self._schema.read(value) if type(value) is dict else value

    def unknown(self, value: Any, path: str) -> Iterator[str]:
        return self._schema.unknown(value, path)


def _reader(notation: str, records: dict[str, _Record]) -> TypeReader:
    if notation.startswith("["):
        return _List(_reader(notation[1:-1], records))
    if notation.startswith("{"):
        return _Map(_reader(notation[1:-1], records))
    if notation == "schemaor":
        return _SchemaOr(records["JSONSchemaProps"])
    return records[notation] if notation in records else _Scalar(notation)


@cache
def _all() -> dict[str, _Record]:
    table = fields_by_type()
    records = {name: _Record(name) for name in table}
    for name, fields in table.items():
        records[name].resolve({field: _reader(notation, records) for field, notation in fields.items()})
    return records


def reader_of(type_name: str) -> TypeReader:
    return _all()[type_name]


def decode_object(kind: ResourceKind, obj: Object) -> Object:
    """Return a copy of `obj` with known fields only; raise a `StatusError` of code 400 for a wrong type."""
    type_name = type_of(kind)
    try:
        if type_name:
            type_meta: Object = {"kind": kind.name, "apiVersion": kind.api_version}
            known: Object = reader_of(type_name).read(obj)
            return type_meta | {"metadata": {}} | known | type_meta
        return _read_custom(obj)
    except MalformedValue as malformed:
        raise unreadable(kind, str(malformed)) from malformed


def _read_custom(obj: Object) -> Object:
    if type(obj) is not dict:
        raise TypeMismatch(obj, "map[string]interface {}")
    metadata = obj.get("metadata")
    return obj | {"metadata": reader_of("ObjectMeta").read({} if metadata is None else metadata)}


def unknown_fields(kind: ResourceKind, obj: Object) -> list[str]:
    """Return the paths of fields that `kind` does not have; for custom kinds, in their metadata only."""
    type_name = type_of(kind)
    if type_name:
        return list(reader_of(type_name).unknown(obj, ""))
    return list(reader_of("ObjectMeta").unknown(obj.get("metadata"), "metadata"))


def unreadable(kind: ResourceKind, why: str) -> StatusError:
    return bad_request(f'{kind.name} in version "{kind.version}" cannot be handled as a {kind.name}: {why}')
