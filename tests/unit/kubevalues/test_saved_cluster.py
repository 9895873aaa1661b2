"""The file format of a saved cluster. The simulator's tests cover JSON, YAML and gzip."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubevalues.saved_cluster import SavedCluster, UnreadableCluster, parse_cluster

NODE = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n1"}}
POD = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "web", "namespace": "shop"}}


def parsed(content: object) -> SavedCluster:
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    return parse_cluster(raw, source="c.json")


def test_each_object_is_known_by_kind_and_name_and_place():
    found = parsed({"kind": "List", "items": [NODE, {"kind": "PodList", "apiVersion": "v1", "items": [POD]}]})
    assert [(each.place, each.title) for each in found.objects] == [
        ("items[0]", "Node n1"),
        ("items[1].items[0]", "Pod shop/web"),
    ]
    assert found.objects[1].content() == POD


def test_items_of_a_list_of_one_kind_need_not_say_it():
    bare = {"metadata": {"name": "web", "namespace": "shop"}}
    found = parsed({"kind": "PodList", "apiVersion": "v1", "items": [bare]})
    assert found.objects[0].content() == POD


def test_the_time_and_what_is_complete_are_reported_by_annotations():
    reported = {"rescheduler.dev/saved-at": "2026-03-02T12:00:00Z", "rescheduler.dev/saved-kinds": "Node,Pod"}
    found = parsed({"kind": "List", "metadata": {"annotations": reported}, "items": [NODE]})
    assert (found.saved_at, found.complete_kinds) == ("2026-03-02T12:00:00Z", {"Node", "Pod"})
    bare = parsed({"kind": "List", "metadata": None, "items": []})
    assert (bare.saved_at, bare.complete_kinds) == ("", frozenset())


def test_every_fault_is_reported_at_once_with_its_place():
    items = [1, {"kind": 3}, {"kind": "Pod"}, {"kind": "Pod", "metadata": {"name": "web"}}]
    with pytest.raises(UnreadableCluster) as caught:
        parsed({"items": [NODE, *items]})
    assert str(caught.value).splitlines() == [
        "c.json: 4 errors",
        "  items[1]: expected an object, got an integer",
        "  items[2].kind: expected a string, got an integer",
        "  items[3] has no kind or no metadata.name",
        "  items[4] (Pod web) has no apiVersion",
    ]


def test_of_very_many_faults_the_first_are_reported():
    with pytest.raises(UnreadableCluster, match="and 80 more"):
        parsed({"items": [1] * 100})


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        pytest.param(b"", "not a list of objects", id="an empty file"),
        pytest.param(b"[1]", "not a list of objects", id="a list of something"),
        pytest.param(b'{"kind": "Pod"}', "not a list of objects", id="a single object"),
        pytest.param(b'{"items": 3}', "items: expected a list", id="items that are no list"),
        pytest.param(b'{"items": [{"ki', "invalid JSON: .*truncated", id="truncated JSON"),
        pytest.param(b'{"items": []} {"items": []}', "invalid JSON", id="two files in one"),
        pytest.param(b'{"items":' + b"[" * 100_000, "invalid JSON", id="JSON nested very deep"),
        pytest.param(b"- " * 5_000, "nested too deeply", id="YAML nested very deep"),
        pytest.param(b"items: &a\n- *a", "alias", id="YAML that holds itself"),
        pytest.param(b"items:\n- &a {x: 1}\n- *a", r"items\[1\] is an alias", id="YAML with aliases"),
        pytest.param(b"a: [", r"neither JSON nor YAML: [^<>]* at line \d, column \d$", id="broken YAML"),
        pytest.param(b"? [a]\n: b", "neither JSON nor YAML", id="YAML with a list as a key"),
        pytest.param(b"a: !!binary aGk=", "a is a bytes", id="YAML with bytes"),
        pytest.param(b"a: 1\n---\nb: 2", "single document", id="several YAML documents"),
        pytest.param(b"\xff\xfe\x00", "neither JSON nor YAML|not a list", id="binary"),
        pytest.param(b"\x1f\x8b\x08", "corrupt gzip data", id="truncated gzip"),
    ],
)
def test_what_is_no_list_is_refused_with_the_reason(raw, why):
    with pytest.raises(UnreadableCluster, match=why):
        parsed(raw)


def test_times_in_yaml_stay_texts_and_numbers_as_keys_become_texts():
    metadata = b"{name: n, creationTimestamp: 2026-03-02T12:00:00Z, 1: x}"
    raw = b"items:\n- {kind: Node, apiVersion: v1, metadata: " + metadata + b"}"
    found = parsed(raw).objects[0].content()["metadata"]
    assert found == {"name": "n", "creationTimestamp": "2026-03-02T12:00:00Z", "1": "x"}


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_no_bytes_at_all_give_a_traceback(raw):
    try:
        parsed(raw)
    except UnreadableCluster as error:
        assert str(error).startswith("c.json")  # noqa: PT017 - either way is fine
