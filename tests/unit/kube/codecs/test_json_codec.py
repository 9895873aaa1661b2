"""Resources without records of their own, from JSON."""

import msgspec
import pytest

from rescheduler.kube.codecs.codec import OBJECT_CODEC, JsonCodec, ListPage, Undecodable
from tests.unit.kube.codecs.bodies import JSON, watched


class Budget(msgspec.Struct, rename="camel"):
    min_available: int | str | None = None


def test_objects_come_as_plain_dicts():
    body = b'{"metadata":{"resourceVersion":"3"},"items":[{"kind":"Thing","spec":{"a":[1,null]}}]}'
    page = OBJECT_CODEC.decode_page(JSON, body)
    assert page == ListPage([{"kind": "Thing", "spec": {"a": [1, None]}}], "3")


def test_events_of_objects_carry_their_version():
    line = b'{"type":"ADDED","object":{"metadata":{"resourceVersion":"9","name":"x"}}}\n'
    (event,) = watched(OBJECT_CODEC, JSON, [line])
    assert (event.resource_version, event.object["metadata"]["name"]) == ("9", "x")


def test_what_does_not_fit_the_type_names_the_resource():
    codec = JsonCodec("budgets", msgspec.json.Decoder(Budget).decode, version_of=lambda _: "")
    with pytest.raises(Undecodable, match=r"can't decode budgets from application/json at \$\.minAvailable"):
        codec.decode_one(JSON, b'{"minAvailable":[]}')


def test_only_json_is_asked_for():
    assert OBJECT_CODEC.accept == OBJECT_CODEC.watch_accept == JSON
