"""Bytes that are not what they should be: one clear error, never a crash."""

import contextlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.protobuf_writer import enveloped
from rescheduler.cluster.codecs.record_resources import NODE_CODEC, POD_CODEC
from rescheduler.kube.codecs.codec import OBJECT_CODEC, Undecodable
from rescheduler.kube.codecs.negotiated_codec import decode_any_status
from tests.unit.kube.codecs.bodies import CAPTURED, JSON, PROTOBUF, WATCH, pod, watched
from tests.unit.kube.codecs.manifests import SCHEMA, Json


def test_the_message_says_what_where_and_why():
    with pytest.raises(Undecodable) as caught:
        POD_CODEC.decode_page(JSON, b'{"items":[{},{"metadata":{"name":5}}]}')
    error = caught.value
    assert (error.resource, error.content_type) == ("pods", JSON)
    assert error.position == "$.items[1].metadata.name"
    assert "Expected `str`, got `int`" in str(error)


def test_malformed_json_is_located_by_its_byte():
    with pytest.raises(Undecodable) as caught:
        POD_CODEC.decode_one(JSON, b'{"metadata":{,}}')
    assert caught.value.position == "byte 13"


def test_of_many_items_the_one_that_is_damaged_is_located():
    listed = {"items": [pod(f"pod-{n}") for n in range(9)]}
    listed["items"][6]["spec"] = {"containers": [{"name": "a", "resources": {"requests": {"cpu": "much"}}}]}
    body = enveloped(SCHEMA.encode("PodList", listed), "PodList")
    with pytest.raises(Undecodable, match="'much' is not a quantity") as caught:
        POD_CODEC.decode_page(PROTOBUF, body)
    at = int(str(caught.value.position).removeprefix("byte "))
    assert body.index(b"pod-5") < at < body.index(b"pod-6") < body.index(b"much")


@pytest.mark.parametrize(
    ("body", "why"),
    [
        pytest.param(b"", "does not begin with k8s", id="nothing"),
        pytest.param(b'{"kind":"Pod"}', "does not begin with k8s", id="JSON under the name of protobuf"),
        pytest.param(b"k8s\0", "the envelope is empty", id="an empty envelope"),
        pytest.param(b"k8s\0\x12\x05ab", "truncated", id="an envelope that is cut off"),
        pytest.param(b"k8s\0\x12\xff", "truncated", id="a length that is cut off"),
        pytest.param(b"k8s\0" + b"\xff" * 12, "too long", id="a number without end"),
        pytest.param(b"k8s\0\x0b", "unknown wire type 3", id="groups, which Kubernetes never had"),
        pytest.param(b"k8s\0\x12\x00\x1a\x04gzip", "encoding b'gzip'", id="a compressed object"),
    ],
)
def test_what_is_no_protobuf_is_refused_with_the_reason(body: bytes, why: str):
    for decode in (POD_CODEC.decode_one, POD_CODEC.decode_page, NODE_CODEC.decode_page):
        with pytest.raises(Undecodable, match=why):
            decode(PROTOBUF, body)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b'{"type":"SHOUTED","object":{}}\n', id="a type of event that doesn't exist"),
        pytest.param(b'{"type":"BOOKMARK","object":{}}\n', id="a bookmark without a version"),
        pytest.param(b'{"object":{}}\n', id="no type"),
        pytest.param(b"[]\n", id="no event at all"),
    ],
)
def test_what_is_no_event_is_refused(line: bytes):
    with pytest.raises(Undecodable):
        watched(POD_CODEC, JSON, [line])


@pytest.mark.parametrize(
    "spec",
    [
        {"nodeSelector": ["a"]},
        {"tolerations": "all"},
        {"containers": [{"name": "a", "ports": [7]}]},
        {"volumes": [{"name": "v", "hostPath": "x"}]},
        {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": 5}}]},
        {"affinity": {"nodeAffinity": 3}},
        {"overhead": {"cpu": "a lot"}},
        {"schedulingGates": [None, 3]},
    ],
    ids=lambda spec: next(iter(spec)),
)
def test_parts_of_the_wrong_type_are_refused_and_not_stumbled_over(spec: Json):
    with pytest.raises(Undecodable):
        POD_CODEC.decode_one(JSON, json.dumps({"spec": spec}).encode())


def test_nesting_without_end_is_refused():
    with pytest.raises(Undecodable):
        POD_CODEC.decode_one(JSON, b'{"spec":{"affinity":' + b'{"a":' * 100_000)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_damaged_bytes_are_read_or_refused_but_never_crash(data: st.DataObject):
    name, codec, content_type = data.draw(
        st.sampled_from(
            [
                ("pods.json", POD_CODEC, JSON),
                ("pods.protobuf", POD_CODEC, PROTOBUF),
                ("nodes.json", NODE_CODEC, JSON),
                ("nodes.protobuf", NODE_CODEC, PROTOBUF),
            ]
        )
    )
    body = bytearray((CAPTURED / name).read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(body) - 1))
        body[at] = data.draw(st.integers(0, 255))
    cut = data.draw(st.one_of(st.none(), st.integers(0, len(body))))
    with contextlib.suppress(Undecodable):
        codec.decode_page(content_type, bytes(body[:cut]))


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200), st.sampled_from([JSON, PROTOBUF, WATCH, ""]))
def test_random_bytes_are_refused_but_never_crash(body: bytes, content_type: str):
    for use in (
        POD_CODEC.decode_one,
        POD_CODEC.decode_page,
        NODE_CODEC.decode_one,
        OBJECT_CODEC.decode_page,
        decode_any_status,
    ):
        with contextlib.suppress(Undecodable):
            use(content_type, body)
    with contextlib.suppress(Undecodable):
        watched(POD_CODEC, content_type, [body])
