"""Lists and single objects in both encodings."""

from pathlib import Path

import pytest

from bench.protobuf_writer import Schema, enveloped, schema_from
from rescheduler.cluster.codecs.record_resources import POD_CODEC, NodeReader
from rescheduler.cluster.node_record import NodeRecord
from rescheduler.kube.codecs.codec import ListPage
from rescheduler.kube.codecs.negotiated_codec import NegotiatedCodec
from tests.unit.kube.codecs.bodies import CAPTURED, JSON, PROTOBUF, body_of, both, pod
from tests.unit.kube.codecs.manifests import SCHEMA


@both
def test_a_page_has_its_items_its_version_and_the_way_on(form: str):
    listed = {
        "metadata": {"resourceVersion": "42", "continue": "token", "remainingItemCount": 3},
        "items": [pod("a"), pod("b")],
    }
    page = POD_CODEC.decode_page(*body_of(form, listed))
    assert [item.key for item in page.items] == ["shop/a", "shop/b"]
    assert (page.resource_version, page.continue_token, page.remaining) == ("42", "token", 3)


@both
def test_the_last_page_has_no_token_and_nothing_remains(form: str):
    page = POD_CODEC.decode_page(*body_of(form, {"metadata": {"resourceVersion": "42"}, "items": []}))
    assert page == ListPage([], "42")


@pytest.mark.parametrize("count", [1, 63, 64, 65, 129])
def test_items_come_whole_and_in_order_however_many_are_read_in_one_go(count: int):
    listed = {"metadata": {"resourceVersion": "1"}, "items": [pod(f"pod-{n}") for n in range(count)]}
    page = POD_CODEC.decode_page(*body_of("protobuf", listed))
    assert [item.name for item in page.items] == [f"pod-{n}" for n in range(count)]


def test_a_list_is_never_unpacked_as_a_whole():
    read: list[int] = []

    class Counting(NodeReader):
        def from_protobuf(self, items: bytes) -> list[NodeRecord]:
            found = super().from_protobuf(items)
            read.append(len(found))
            return found

    listed = {"items": [{"metadata": {"name": f"node-{n}"}} for n in range(1000)]}
    body = enveloped(SCHEMA.encode("NodeList", listed), "NodeList")
    page = NegotiatedCodec("nodes", Counting(), lambda node: node.resource_version).decode_page(
        PROTOBUF, body
    )
    assert len(page.items) == sum(read) == 1000
    assert max(read) <= 64


def test_items_and_metadata_may_come_in_any_order():
    first, second = (SCHEMA.encode("PodList", {"items": [pod(name)]}) for name in "ab")
    meta = SCHEMA.encode("PodList", {"metadata": {"resourceVersion": "5"}})
    page = POD_CODEC.decode_page(PROTOBUF, enveloped(first + meta + second, "PodList"))
    assert [item.name for item in page.items] == ["a", "b"]
    assert page.resource_version == "5"


def test_an_empty_list_may_be_null():
    assert POD_CODEC.decode_page(JSON, b'{"metadata":{"resourceVersion":"1"},"items":null}').items == []


@pytest.mark.parametrize(("form", "content_type"), [("json", JSON), ("protobuf", PROTOBUF)])
def test_the_page_of_a_real_server_says_how_many_follow(form: str, content_type: str):
    page = POD_CODEC.decode_page(content_type, (CAPTURED / f"first-page.{form}").read_bytes())
    assert len(page.items) == 1
    assert page.continue_token
    assert page.remaining == 2


@pytest.mark.parametrize(("form", "content_type"), [("json", JSON), ("protobuf", PROTOBUF)])
def test_a_single_pod_of_a_real_server(form: str, content_type: str):
    found = POD_CODEC.decode_one(content_type, (CAPTURED / f"pod.{form}").read_bytes())
    assert (found.key, found.node) == ("wire-check/plain", "node-2")


def test_fields_of_later_versions_are_skipped():
    later = b"\xfa\x3e\x03abc" + b"\xf8\x3e\x01" + b"\xf9\x3e" + bytes(8) + b"\xfd\x3e" + bytes(4)
    raw = SCHEMA.encode("PodList", {"items": [pod("a")]})
    assert len(POD_CODEC.decode_page(PROTOBUF, enveloped(later + raw + later, "PodList")).items) == 1


def test_protobuf_is_asked_for_first_and_json_accepted():
    assert POD_CODEC.accept == "application/vnd.kubernetes.protobuf, application/json"
    assert POD_CODEC.watch_accept == "application/vnd.kubernetes.protobuf;stream=watch, application/json"


def test_the_writer_of_these_tests_writes_what_the_server_writes(tmp_path: Path):
    """Otherwise reader and writer could share one misunderstanding."""
    proto = tmp_path / "some.proto"
    proto.write_text("message Some {\n  optional string name = 1;\n  repeated int32 n = 2;\n}\n")
    schema: Schema = schema_from(proto)
    assert schema.encode("Some", {"name": "ab", "n": [1, 300]}) == b"\x0a\x02ab\x10\x01\x10\xac\x02"
    assert enveloped(b"x", "Pod").startswith(b"k8s\0\x0a\x09\x0a\x02v1\x12\x03Pod\x12\x01x")
