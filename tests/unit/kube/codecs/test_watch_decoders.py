"""Watch events in both encodings, wherever the network splits them."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rescheduler.cluster.codecs.record_resources import POD_CODEC
from rescheduler.kube.codecs.codec import ApiStatus, Undecodable
from tests.unit.kube.codecs.bodies import CAPTURED, JSON, WATCH, both, pod, stream_of, watched
from tests.unit.kube.codecs.manifests import Json

EVENTS: list[Json] = [
    {"type": "ADDED", "object": pod("a", resourceVersion="8")},
    {"type": "MODIFIED", "object": pod("a", resourceVersion="9", labels={"x": "y" * 700_000})},
    {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "10"}}},
    {
        "type": "BOOKMARK",
        "object": {
            "metadata": {"resourceVersion": "11", "annotations": {"k8s.io/initial-events-end": "true"}}
        },
    },
    {"type": "DELETED", "object": pod("a", resourceVersion="12")},
    {
        "type": "ERROR",
        "object": {"status": "Failure", "code": 410, "reason": "Expired", "message": "too old"},
    },
]


@both
def test_each_kind_of_event(form: str):
    content_type, stream = stream_of(form, EVENTS)
    added, modified, bookmark, end, deleted, error = watched(POD_CODEC, content_type, [stream])
    assert (added.type, added.object.key, added.resource_version) == ("ADDED", "shop/a", "8")
    assert (modified.type, modified.resource_version) == ("MODIFIED", "9")
    assert (bookmark.type, bookmark.object, bookmark.resource_version) == ("BOOKMARK", None, "10")
    assert not bookmark.initial_events_end
    assert (end.type, end.initial_events_end) == ("BOOKMARK", True)
    assert (deleted.type, deleted.resource_version) == ("DELETED", "12")
    assert error.status == ApiStatus("Failure", "too old", "Expired", 410)


@both
@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_chunks_may_be_cut_anywhere(form: str, data: st.DataObject):
    content_type, stream = stream_of(form, [EVENTS[n] for n in (0, 2, 3, 4, 5)])
    cuts = sorted(data.draw(st.sets(st.integers(0, len(stream)), max_size=12)))
    edges = [0, *cuts, len(stream)]
    chunks = [stream[start:end] for start, end in itertools.pairwise(edges)]
    assert watched(POD_CODEC, content_type, chunks) == watched(POD_CODEC, content_type, [stream])


@both
def test_chunks_of_one_byte(form: str):
    content_type, stream = stream_of(form, EVENTS[2:])
    chunks = [stream[n : n + 1] for n in range(len(stream))]
    assert watched(POD_CODEC, content_type, chunks) == watched(POD_CODEC, content_type, [stream])


@both
def test_an_event_that_has_not_ended_is_not_reported(form: str):
    content_type, stream = stream_of(form, EVENTS[:1])
    assert watched(POD_CODEC, content_type, [stream[:-1]]) == []


def test_empty_lines_are_no_events():
    assert watched(POD_CODEC, JSON, [b"\n\r\n  \n"]) == []


@pytest.mark.parametrize(("form", "content_type"), [("json", JSON), ("protobuf", WATCH)])
def test_the_watch_of_a_real_server(form: str, content_type: str):
    events = watched(POD_CODEC, content_type, [(CAPTURED / f"watch.{form}").read_bytes()])
    kinds = [event.type for event in events]
    assert kinds[0] == "ADDED"
    assert kinds[-3:] == ["DELETED", "BOOKMARK", "BOOKMARK"]
    assert events[0].object.key == "wire-check/brief"
    versions = [int(event.resource_version) for event in events]
    assert versions == sorted(versions)


@pytest.mark.parametrize(("form", "content_type"), [("json", JSON), ("protobuf", WATCH)])
def test_a_real_server_ends_a_watch_from_a_compacted_version(form: str, content_type: str):
    (event,) = watched(POD_CODEC, content_type, [(CAPTURED / f"watch-expired.{form}").read_bytes()])
    assert event.type == "ERROR"
    assert (event.status.code, event.status.reason) == (410, "Expired")


@both
def test_what_came_before_the_damage_is_reported(form: str):
    content_type, stream = stream_of(form, EVENTS[:1])
    damage = b"{\n" if form == "json" else b"\x00\x00\x00\x01\xff"
    decoder = POD_CODEC.watch_decoder(content_type)
    reported = decoder.feed(stream + damage)
    assert next(reported).object.key == "shop/a"
    with pytest.raises(Undecodable):
        next(reported)
