"""Which number stands for which field: the table in `fields.json`, made by `scripts/protobuf_fields.go`."""

from functools import cache
from importlib.resources import files
from typing import Literal

import msgspec

__all__ = ["Field", "Message", "message", "message_of"]


class Field(msgspec.Struct, frozen=True, array_like=True):
    name: str
    """In JSON."""
    type: str
    """Of the value, or of each in a list or map: a message, a scalar, or a type with a form of its own."""
    held: Literal["one", "unless zero", "many", "map", "inline"]


Message = dict[int, Field]


class _Table(msgspec.Struct, frozen=True):
    kinds: dict[str, str]
    messages: dict[str, Message]


@cache
def _table() -> _Table:
    content = files("rescheduler.simulator.protobuf").joinpath("fields.json").read_bytes()
    return msgspec.json.decode(content, type=_Table, strict=False)


def message(name: str) -> Message:
    return _table().messages[name]


def message_of(api_version: str, kind: str) -> str | None:
    """Name of the message that holds objects of a kind."""
    # Every group has the same DeleteOptions.
    known = "v1 DeleteOptions" if kind == "DeleteOptions" else f"{api_version} {kind}"
    return _table().kinds.get(known)
