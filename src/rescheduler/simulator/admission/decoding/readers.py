"""Readers of whole types: a copy of a value with exactly the known fields, of exactly their types.

What comes out needs no further type checks, so defaults and rules can be written without any.
A field whose value is `null` counts as left out, and so does an empty map.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any, Protocol

from rescheduler.simulator.admission.decoding.mismatch import Mismatch
from rescheduler.simulator.admission.decoding.scalars import SCALARS, Reader
from rescheduler.simulator.admission.decoding.table import fields_by_type

__all__ = ["TypeReader", "reader_of"]


_FALSE_SAYS_NOTHING = {
    "PodSpec": ("hostNetwork", "hostPID", "hostIPC"),
    "Container": ("stdin", "stdinOnce", "tty"),
    "NodeSpec": ("unschedulable",),
    "DeploymentSpec": ("paused",),
}
"""Where the real server does not keep apart what is false and what is not said at all."""


class TypeReader(Protocol):
    def read(self, value: Any) -> Any:
        """A copy of `value`; raises `Malformed`."""
        ...

    def unknown(self, value: Any, path: str) -> Iterator[str]:
        """Paths of the fields that the type does not have."""
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
            raise Mismatch(value, self.go_name)
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
            raise Mismatch(value, self.go_name)
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
        """Types refer to one another, also in circles; so fields are filled in once all exist."""
        self._fields = fields
        self._unsaid: dict[str, Any] = {field: {} for field, reader in fields.items() if type(reader) is _Map}
        self._unsaid |= dict.fromkeys(_FALSE_SAYS_NOTHING.get(self._name, ()), False)
        self._readers = {field: reader.read for field, reader in fields.items()}

    def read(self, value: Any) -> dict[str, Any]:
        if type(value) is not dict:
            raise Mismatch(value, self.go_name)
        readers, unsaid = self._readers, self._unsaid
        known: dict[str, Any] = {}
        for field, entry in value.items():
            if entry is None or field not in readers:
                continue
            try:
                known[field] = readers[field](entry)
            except Mismatch as mismatch:
                mismatch.came_through(self._name, field)
                raise
            if field in unsaid and known[field] == unsaid[field]:
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
    """A JSON schema, or something simpler in its place: `false`, a list."""

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
