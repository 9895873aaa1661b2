"""A page is the same, wherever the network splits it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.protobuf_writer import enveloped
from rescheduler.cluster.codecs.record_resources import POD_CODEC
from rescheduler.cluster.pod_record import PodRecord
from rescheduler.kube.codecs import negotiated_codec
from rescheduler.kube.codecs.codec import ListPage, Undecodable
from rescheduler.kube.codecs.negotiated_codec import StreamedPage
from tests.unit.kube.codecs.bodies import CAPTURED, JSON, PROTOBUF, body_of, both, pod
from tests.unit.kube.codecs.manifests import SCHEMA

LISTED = {
    "metadata": {"resourceVersion": "42", "continue": "token", "remainingItemCount": 3},
    "items": [pod(f"pod-{n}", labels={"n": str(n)}) for n in range(20)],
}


@pytest.fixture(autouse=True)
def tiny_pieces(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(negotiated_codec, "PIECE_BYTES", 100)


def arrived(content_type: str, chunks: list[bytes]) -> ListPage[PodRecord]:
    page = StreamedPage(POD_CODEC, content_type)
    for chunk in chunks:
        page.feed(chunk)
    return page.finish()


def cut(body: bytes, size: int) -> list[bytes]:
    return [body[at : at + size] for at in range(0, len(body), size)]


@both
@pytest.mark.parametrize("size", [1, 2, 7, 99, 250, 10_000])
def test_pieces_of_any_size_give_the_same_page(form: str, size: int):
    content_type, body = body_of(form, LISTED)
    assert arrived(content_type, cut(body, size)) == POD_CODEC.decode_page(content_type, body)


@pytest.mark.parametrize("name", ["pods.protobuf", "first-page.protobuf", "pods.json"])
def test_so_do_the_answers_of_a_real_server(name: str):
    content_type = PROTOBUF if name.endswith("protobuf") else JSON
    body = (CAPTURED / name).read_bytes()
    assert arrived(content_type, cut(body, 333)) == POD_CODEC.decode_page(content_type, body)


def test_what_is_decoded_is_not_held_any_longer():
    content_type, body = body_of("protobuf", LISTED)
    page = StreamedPage(POD_CODEC, content_type)
    longest = 0
    for chunk in cut(body, 50):
        page.feed(chunk)
        longest = max(longest, len(page._rest))
    assert longest < len(body) / 4
    assert len(page.finish().items) == 20


def test_an_empty_list_has_its_version():
    content_type, body = body_of("protobuf", {"metadata": {"resourceVersion": "42"}, "items": []})
    assert arrived(content_type, cut(body, 3)) == ListPage([], "42")


@both
def test_an_answer_that_is_cut_off_anywhere_is_refused(form: str):
    content_type, body = body_of(form, LISTED)
    for end in range(0, len(body) - 1, 5):
        with pytest.raises(Undecodable):
            arrived(content_type, cut(body[:end], 60))


def test_a_damaged_item_is_located_in_the_whole():
    damaged = [pod("pod-20") | {"spec": {"overhead": {"cpu": {"string": "much"}}}}]
    body = enveloped(SCHEMA.encode("PodList", {"items": LISTED["items"] + damaged}), "PodList")
    with pytest.raises(Undecodable, match="much") as whole:
        POD_CODEC.decode_page(PROTOBUF, body)
    with pytest.raises(Undecodable, match="much") as in_pieces:
        arrived(PROTOBUF, cut(body, 90))
    assert in_pieces.value.position == whole.value.position


def test_a_compressed_object_is_refused():
    body = b"k8s\0\x12\x00\x1a\x04gzip"
    with pytest.raises(Undecodable, match="gzip"):
        arrived(PROTOBUF, [body])


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_damage_is_refused_or_read_alike(data: st.DataObject):
    body = bytearray((CAPTURED / "pods.protobuf").read_bytes())
    at = data.draw(st.integers(0, len(body) - 1))
    body[at] = data.draw(st.integers(0, 255))
    chunks = cut(bytes(body), data.draw(st.integers(20, 2000)))
    try:
        expected = POD_CODEC.decode_page(PROTOBUF, bytes(body))
    except Undecodable:
        with pytest.raises(Undecodable):
            arrived(PROTOBUF, chunks)
    else:
        assert arrived(PROTOBUF, chunks) == expected
