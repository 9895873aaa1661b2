"""Our protobuf schemas name fields as Kubernetes does, with the same numbers and types.

A wrong number would not fail: the field would just never be there.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from rescheduler.kube.codecs import api_pb2, views_pb2
from tests.e2e.client_truth.upstream import comments, compiled, upstream_messages

SOURCES = Path(__file__).parents[3] / "src"
FILES = (api_pb2, views_pb2)
OURS: dict[str, Descriptor] = {
    name: message for file in FILES for name, message in file.DESCRIPTOR.message_types_by_name.items()
}


@pytest.fixture(scope="module")
def pairs() -> list[tuple[Descriptor, Descriptor]]:
    """Each message of ours that bears an upstream name, or says what it is a view of."""
    upstream = upstream_messages()
    meant = {name: upstream[name] for name in OURS if name in upstream}
    files = ("rescheduler/kube/codecs/api.proto", "rescheduler/kube/codecs/views.proto")
    for message, comment in comments(compiled(SOURCES, *files)):
        if viewed := re.match(r"\s*view of (\w+)", comment):
            meant[message.name] = upstream[viewed.group(1)]
        elif "an entry of" in comment:  # of a map from text to text
            meant[message.name] = upstream["ObjectMeta"].fields_by_name["labels"].message_type
    return [(OURS[ours], theirs) for ours, theirs in meant.items()]


def test_every_field_has_upstreams_number_name_and_type(
    pairs: list[tuple[Descriptor, Descriptor]],
) -> None:
    assert [fault for ours, theirs in pairs for fault in faults(ours, theirs)] == []


def test_every_message_of_ours_is_compared(pairs: list[tuple[Descriptor, Descriptor]]) -> None:
    compared = {message.name for ours, _ in pairs for message in reached(ours)}
    assert set(OURS) - compared == set()


def test_a_wrong_number_is_found() -> None:
    container, status = OURS["Container"], upstream_messages()["ContainerStatus"]
    found = "\n".join(faults(container, status))
    assert "image = 2 is state upstream" in found
    assert "resources = 8 is containerID upstream" in found


def faults(ours: Descriptor, theirs: Descriptor) -> Iterator[str]:
    for field in ours.fields:
        named = f"{ours.name} (upstream {theirs.full_name}): {field.name} = {field.number}"
        upstream = theirs.fields_by_number.get(field.number)
        if upstream is None:
            yield f"{named} is not there upstream"
        elif upstream.name != field.name:
            yield f"{named} is {upstream.name} upstream"
        elif upstream.is_repeated != field.is_repeated:
            yield f"{named} differs in being repeated"
        elif not (upstream.type == field.type or _kept_as_bytes(field, upstream)):
            yield f"{named} has type {field.type}, upstream {upstream.type}"
        elif field.message_type is not None:
            yield from faults(field.message_type, upstream.message_type)


def _kept_as_bytes(ours: FieldDescriptor, theirs: FieldDescriptor) -> bool:
    """A message that we don't look into: on the wire it is bytes."""
    return ours.type == FieldDescriptor.TYPE_BYTES and theirs.type == FieldDescriptor.TYPE_MESSAGE


def reached(message: Descriptor) -> Iterator[Descriptor]:
    yield message
    for field in message.fields:
        if field.message_type is not None:
            yield from reached(field.message_type)
