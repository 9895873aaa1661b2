"""A protobuf message as the JSON of the same object would be: plain dicts, lists, texts and numbers.

Slow, and meant for parts that many objects share: those are decoded once, so both encodings can take the
same way from here on. Times are seconds since 1970.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

__all__ = ["builtins_of"]

Read = Callable[[Any], Any]


class _Field(NamedTuple):
    name: str
    read: Read | None
    """None where the value is what is wanted."""


class _Fields(dict[FieldDescriptor, _Field]):
    """Asking a descriptor takes longer than reading the field, so each is asked once."""

    def __missing__(self, field: FieldDescriptor) -> _Field:
        found = self[field] = _Field(field.name, _reader(field))
        return found


_FIELDS = _Fields()


def builtins_of(message: Message) -> dict[str, Any]:
    found = {}
    for field, value in message.ListFields():
        name, read = _FIELDS[field]
        found[name] = value if read is None else read(value)
    return found


def _reader(field: FieldDescriptor) -> Read | None:
    kind = field.message_type
    if kind is not None and kind.containing_type is not None:  # our files nest nothing but entries of maps
        return _map_of(_single(kind.fields_by_name["value"]))
    one = _single(field)
    if not field.is_repeated:
        return one
    return list if one is None else lambda parts: [one(part) for part in parts]


def _map_of(one: Read | None) -> Read:
    # Not `items()`: a map of protobuf has it from Python, which takes twice as long.
    if one is None:
        return lambda entries: {key: entries[key] for key in entries}
    return lambda entries: {key: one(entries[key]) for key in entries}


def _single(field: FieldDescriptor) -> Read | None:
    if field.type == FieldDescriptor.TYPE_BYTES:
        return lambda _: {}  # a volume of which only the kind matters
    if field.message_type is None:
        return None
    if field.message_type.name == "Quantity":
        return lambda quantity: quantity.string
    if field.message_type.name == "Time":
        return lambda time: time.seconds
    return builtins_of
