"""No object name, however it was written, can change which object a request addresses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.cluster.codecs.record_resources import NODES, PODS
from rescheduler.kube import errors
from rescheduler.kube.api_resources import NAMESPACES, InvalidPathSegment, merge_patch, path_segment

HOSTILE = [
    pytest.param("..", id="the folder above"),
    pytest.param(".", id="the folder itself"),
    pytest.param("../../kube-system/pods/etcd", id="a path to another namespace"),
    pytest.param("a/b", id="two parts"),
    pytest.param("a%2fb", id="two parts, encoded"),
    pytest.param("%2e%2e", id="the folder above, encoded"),
    pytest.param("a\\..\\b", id="back slashes"),
    pytest.param("", id="nothing, which would be the whole collection"),
    pytest.param("a" * 254, id="longer than any name"),
    pytest.param("a\r\nHost: evil", id="another header"),
    pytest.param("a\0b", id="a zero byte"),
    pytest.param("\ud800", id="half a character"),
]
VERBS = {
    "get": lambda client, key: client.get(PODS, key),
    "patch": lambda client, key: client.patch(PODS, key, merge_patch({})),
    "delete": lambda client, key: client.delete(PODS, key),
    "evict": lambda client, key: client.evict(key),
    "a subresource": lambda client, key: client.patch(PODS.status, key, merge_patch({})),
    "replace": lambda client, key: client.replace(
        PODS.as_json, {"metadata": dict(zip(("namespace", "name"), key.split("/", 1), strict=True))}
    ),
}


@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
@pytest.mark.parametrize("name", HOSTILE)
async def test_a_hostile_name_is_refused_before_anything_is_sent(client, server, verb, name):
    with pytest.raises(errors.InvalidName) as refused:
        await verb(client, f"shop/{name}")
    assert not refused.value.retriable
    assert "Fix the name" in str(refused.value)
    assert server.asked == []


@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
@pytest.mark.parametrize("namespace", ["..", "a/../kube-system", "a%2fb", "a" * 254])
async def test_so_is_a_hostile_namespace(client, server, verb, namespace):
    with pytest.raises(errors.InvalidName):
        await verb(client, f"{namespace}/web")
    with pytest.raises(errors.InvalidName):
        await client.list(PODS, namespace=namespace)
    with pytest.raises(errors.InvalidName):
        await client.create(PODS.as_json, {"metadata": {"namespace": namespace, "name": "web"}})
    with pytest.raises(errors.InvalidName):
        client.watch(PODS, namespace=namespace)
    assert server.asked == []


@pytest.mark.parametrize(("resource", "key"), [(NODES, ".."), (NAMESPACES, ""), (NODES, "")])
async def test_so_is_a_hostile_name_of_an_object_of_the_cluster(client, server, resource, key):
    with pytest.raises(errors.InvalidName):
        await client.delete(resource, key)
    assert server.asked == []


@pytest.mark.parametrize("name", ["a?b=c", "a#b", "system:node:a", "a b", "ü", "a;b", "a&b"])
async def test_any_other_character_is_encoded_and_stays_in_the_name(client, server, name):
    with pytest.raises(errors.KubeError):
        await client.get(PODS, f"shop/{name}")
    (asked,) = server.asked
    assert asked.query == {}
    assert asked.path == f"/api/v1/namespaces/shop/pods/{path_segment(name)}"


@given(st.text())
def test_whatever_is_let_through_is_one_part_and_nothing_but_a_part(text):
    try:
        part = path_segment(text)
    except InvalidPathSegment:
        return
    assert part.isascii()
    assert not set(part) & set("/?#\\ ")
    assert part not in {"", ".", ".."}
