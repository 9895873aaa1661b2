"""Write objects in the API server's protobuf encoding, from their JSON and the text of .proto files.

Independent of the generated code, so that tests and benchmarks can hold the reader to it.
"""

import json
import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["Field", "Schema", "enveloped", "schema_from", "varint"]

_MESSAGE = re.compile(r"^message (\w+) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(
    r"^\s*(?:(optional|repeated) )?(map<[^>]+>|[\w.]+) (\w+) = (\d+);(?:[ \t]*// ([\w<>, ]+))?$", re.MULTILINE
)
_SCALARS = {"string", "bytes", "bool", "int32", "int64"}
_INLINE = {
    "Volume": "volumeSource",
    "Probe": "handler",
    "ConfigMapVolumeSource": "localObjectReference",
    "ConfigMapProjection": "localObjectReference",
    "SecretKeySelector": "localObjectReference",
}
"""Messages of which JSON has one part inline."""


class Field(NamedTuple):
    number: int
    type: str
    repeated: bool


class Schema(dict[str, dict[str, Field]]):
    """Fields by message and name."""

    def encode(self, message: str, value: dict[str, Any]) -> bytes:
        fields = self[message]
        if message in _INLINE:
            value = self._with_part(message, value)
        parts = sorted((fields[name], part) for name, part in value.items() if name in fields)
        return b"".join(b"".join(self._field(field, part)) for field, part in parts if part is not None)

    def _with_part(self, message: str, value: dict[str, Any]) -> dict[str, Any]:
        own = {name: part for name, part in value.items() if name in self[message]}
        return own | {_INLINE[message]: {name: part for name, part in value.items() if name not in own}}

    def _field(self, field: Field, value: Any) -> Iterator[bytes]:
        if field.type.startswith("map<"):
            kind = field.type[4:-1].split(", ")[1].rpartition(".")[2]
            for key in sorted(value):
                entry = self._single(Field(1, "string", False), key)
                yield _delimited(field.number, entry + self._single(Field(2, kind, False), value[key]))
        elif field.repeated:
            for part in value:
                yield self._single(field, part)
        else:
            yield self._single(field, value)

    def _single(self, field: Field, value: Any) -> bytes:
        kind = field.type.rpartition(".")[2]
        if kind in {"bool", "int32", "int64"}:
            return varint(field.number << 3) + varint(int(value) & (2**64 - 1))
        return _delimited(field.number, self._content(kind, value))

    def _content(self, kind: str, value: Any) -> bytes:
        match kind:
            case "string":
                return value.encode()
            case "Quantity":
                return _delimited(1, str(value).encode())
            case "Time":
                seconds = int(datetime.fromisoformat(value).timestamp())
                return b"\x08" + varint(seconds & (2**64 - 1)) + b"\x10\x00"
            case "FieldsV1":
                return _delimited(1, json.dumps(value, separators=(",", ":")).encode())
            case "IntOrString":
                if isinstance(value, str):
                    return b"\x08\x01\x10\x00" + _delimited(3, value.encode())
                return b"\x08\x00\x10" + varint(value) + b"\x1a\x00"
            case _:
                return self.encode(kind, value) if kind in self else b""


def schema_from(*files: Path) -> Schema:
    """Messages of the same name are merged; `bytes` with a comment counts as what the comment says."""
    schema = Schema()
    for file in files:
        for name, body in _MESSAGE.findall(file.read_text()):
            fields = schema.setdefault(name, {})
            for label, kind, field, number, stands_for in _FIELD.findall(body):
                fields[field] = Field(int(number), stands_for.strip() or kind, label == "repeated")
    return schema


def enveloped(raw: bytes, kind: str, api_version: str = "v1") -> bytes:
    """`k8s\\0` and a runtime.Unknown around it."""
    type_meta = _delimited(1, api_version.encode()) + _delimited(2, kind.encode())
    return b"k8s\0" + _delimited(1, type_meta) + _delimited(2, raw) + b"\x1a\x00\x22\x00"


def _delimited(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
