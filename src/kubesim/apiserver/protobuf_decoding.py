"""Decode protobuf request bodies into the JSON form of the same object.

kubectl and other Go clients send built-in kinds as protobuf and don't fall back to JSON. Responses are
always JSON, which these clients accept. `protobuf_fields.json` maps field numbers to names;
`scripts/protobuf_fields.go` writes it.
"""

import base64
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib.resources import files
from typing import Any, Literal

import msgspec

from kubesim.apiserver.api_messages import Object, decode

__all__ = [
    "PROTOBUF",
    "ProtobufField",
    "ProtobufMessage",
    "UnreadableProtobufError",
    "protobuf_message",
    "protobuf_message_of",
    "read_object",
]


class ProtobufField(msgspec.Struct, frozen=True, array_like=True):
    name: str
    """The name of the field in JSON."""
    type: str
    """The type of the value or list item: a message, a scalar, or a type with a special encoding."""
    held: Literal["one", "unless zero", "many", "map", "inline"]


ProtobufMessage = dict[int, ProtobufField]


class _Table(msgspec.Struct, frozen=True):
    kinds: dict[str, str]
    messages: dict[str, ProtobufMessage]


@cache
def _table() -> _Table:
    content = files("kubesim.apiserver").joinpath("protobuf_fields.json").read_bytes()
    return msgspec.json.decode(content, type=_Table, strict=False)


def protobuf_message(name: str) -> ProtobufMessage:
    return _table().messages[name]


def protobuf_message_of(api_version: str, kind: str) -> str | None:
    """Return the name of the message that holds objects of a kind."""
    # Every group has the same DeleteOptions.
    known = "v1 DeleteOptions" if kind == "DeleteOptions" else f"{api_version} {kind}"
    return _table().kinds.get(known)


PROTOBUF = "application/vnd.kubernetes.protobuf"

_MAGIC = b"k8s\0"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class UnreadableProtobufError(ValueError):
    """The body is not Kubernetes protobuf, or of an unknown kind."""


def read_object(body: bytes) -> Object:
    """Decode the envelope {typeMeta = 1 {apiVersion = 1, kind = 2}, raw = 2} and the object in it."""
    if not body.startswith(_MAGIC):
        raise UnreadableProtobufError("the body does not start with the magic number of Kubernetes' protobuf")
    try:
        return _read(body)
    except UnreadableProtobufError:
        raise
    except (ValueError, TypeError, AttributeError, OverflowError) as error:
        # A field that is not of its type: text that is no UTF-8, a number where a message should be, …
        raise UnreadableProtobufError(f"damaged protobuf: {error}") from error


def _read(body: bytes) -> Object:
    envelope = dict(_fields(body[len(_MAGIC) :]))
    of_type = dict(_fields(envelope.get(1, b"")))
    api_version, kind = of_type.get(1, b"").decode(), of_type.get(2, b"").decode()
    name = protobuf_message_of(api_version, kind)
    if name is None:
        raise UnreadableProtobufError(f"no protobuf message is known for kind {kind!r} of {api_version!r}")
    return {"apiVersion": api_version, "kind": kind, **_message(name, envelope.get(2, b""))}


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Yield number and value of each field on the wire; integers are not yet signed."""
    position = 0
    while position < len(data):
        key, position = _varint(data, position)
        match key & 7:
            case 0:
                value, position = _varint(data, position)
                yield key >> 3, value
                continue
            case 2:
                length, position = _varint(data, position)
            case 1:
                length = 8
            case 5:
                length = 4
            case wire_type:
                raise UnreadableProtobufError(f"unknown wire type {wire_type} in a protobuf body")
        if position + length > len(data):
            raise UnreadableProtobufError("a protobuf body ends in the middle of a field")
        yield key >> 3, data[position : position + length]
        position += length


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while position < len(data):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise UnreadableProtobufError("a protobuf body ends in the middle of a number")


def _message(name: str, data: bytes) -> Object:
    known = protobuf_message(name)
    found: Object = {}
    for number, value in _fields(data):
        if field := known.get(number):  # newer clients may know fields that we don't
            _put(found, field, value)
    return found


def _put(found: Object, field: ProtobufField, value: Any) -> None:
    match field.held:
        case "inline":
            found.update(_message(field.type, value))
        case "many":
            found.setdefault(field.name, []).append(_value(field.type, value))
        case "map":
            entry = dict(_fields(value))
            content = _value(field.type, entry.get(2, b""))
            found.setdefault(field.name, {})[entry.get(1, b"").decode()] = content
        case "one":
            found[field.name] = _value(field.type, value)
        case "unless zero":  # protobuf always sends these, JSON only if they say something
            if content := _value(field.type, value):
                found[field.name] = content


def _value(type_name: str, value: Any) -> Any:
    read = _SIMPLE.get(type_name)
    return read(value) if read else _message(type_name, value)


def _int(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _text(value: bytes) -> str:
    return value.decode()


def _quantity(value: bytes) -> str:
    return dict(_fields(value)).get(1, b"").decode() or "0"


def _int_or_string(value: bytes) -> int | str:
    parts = dict(_fields(value))
    return parts.get(3, b"").decode() if parts.get(1) else _int(parts.get(2, 0))


def _time(value: bytes) -> str | None:
    moment = _moment(value)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ") if moment else None


def _micro_time(value: bytes) -> str | None:
    moment = _moment(value)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ") if moment else None


def _moment(value: bytes) -> datetime | None:
    if not value:
        return None
    parts = dict(_fields(value))
    return _EPOCH + timedelta(seconds=_int(parts.get(1, 0)), microseconds=parts.get(2, 0) // 1000)


def _embedded(value: bytes) -> Any:
    """Decode JSON inside protobuf, for values without a fixed type."""
    raw = dict(_fields(value)).get(1, b"")
    return decode(raw) if raw else None


_SIMPLE: dict[str, Callable[[Any], Any]] = {
    "string": _text,
    "bool": bool,
    "int": _int,
    "bytes": lambda value: base64.b64encode(value).decode(),
    "Quantity": _quantity,
    "IntOrString": _int_or_string,
    "Time": _time,
    "MicroTime": _micro_time,
    "RawExtension": _embedded,
    "FieldsV1": _embedded,
}
