"""A protobuf message as the JSON of the same object would be: plain dicts, lists, texts and numbers.

Slow, and meant for parts that many objects share: those are decoded once, so both encodings can take the
same way from here on. Times are seconds since 1970.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

__all__ = ["builtins_of"]


def builtins_of(message: Message) -> dict[str, Any]:
    return {field.name: _reader(field)(value) for field, value in message.ListFields()}


@cache
def _reader(field: FieldDescriptor) -> Callable[[Any], Any]:
    kind = field.message_type
    if kind is not None and kind.containing_type is not None:  # our files nest nothing but entries of maps
        one = _single(kind.fields_by_name["value"])
        return lambda entries: {key: one(value) for key, value in entries.items()}
    one = _single(field)
    return (lambda parts: [one(part) for part in parts]) if field.is_repeated else one


def _single(field: FieldDescriptor) -> Callable[[Any], Any]:
    if field.type == FieldDescriptor.TYPE_BYTES:
        return lambda _: {}  # a volume of which only the kind matters
    if field.message_type is None:
        return lambda value: value
    if field.message_type.name == "Quantity":
        return lambda quantity: quantity.string
    if field.message_type.name == "Time":
        return lambda time: time.seconds
    return builtins_of
