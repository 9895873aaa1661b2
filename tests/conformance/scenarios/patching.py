"""JSON patches, merge patches, and what is refused of any patch."""

from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube.api_resources import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    Patch,
    json_patch,
    merge_patch,
    strategic_patch,
)
from tests.conformance.cluster_under_test import ClusterUnderTest
from tests.conformance.objects import config_map, deployment, pod
from tests.conformance.scenario import scenario


@scenario("every operation of a JSON patch does what RFC 6902 says")
async def operations(cluster: ClusterUnderTest) -> None:
    await cluster.create(CONFIG_MAPS, config_map("settings", labels={"a": "1", "with/slash": "2"}))
    changes = {
        "add": [{"op": "add", "path": "/data/b", "value": "2"}],
        "add over what is there": [{"op": "add", "path": "/data/b", "value": "3"}],
        "replace": [{"op": "replace", "path": "/data/a", "value": "4"}],
        "move": [{"op": "move", "from": "/data/a", "path": "/data/c"}],
        "copy": [{"op": "copy", "from": "/data/c", "path": "/data/d"}],
        "remove": [{"op": "remove", "path": "/data/d"}],
        "an escaped name": [{"op": "remove", "path": "/metadata/labels/with~1slash"}],
        "test, then replace": [
            {"op": "test", "path": "/data/c", "value": "4"},
            {"op": "replace", "path": "/data/c", "value": "5"},
        ],
        "into a list": [
            {"op": "add", "path": "/metadata/finalizers", "value": ["example.com/b"]},
            {"op": "add", "path": "/metadata/finalizers/0", "value": "example.com/a"},
            {"op": "add", "path": "/metadata/finalizers/-", "value": "example.com/c"},
        ],
        "out of a list": [{"op": "remove", "path": "/metadata/finalizers/1"}],
        "all finalizers": [{"op": "remove", "path": "/metadata/finalizers"}],
    }
    for what, change in changes.items():
        fields = ("data", "metadata.labels", "metadata.finalizers")
        await cluster.patched(what, CONFIG_MAPS, "settings", json_patch(change), *fields)


@scenario("a JSON patch that can't be applied is refused, and the message names the operation")
async def impossible_operations(cluster: ClusterUnderTest) -> None:
    await cluster.create(CONFIG_MAPS, config_map("settings"))
    changes = {
        "remove what is not there": [{"op": "remove", "path": "/data/zzz"}],
        "replace what is not there": [{"op": "replace", "path": "/data/zzz", "value": "1"}],
        "add below nothing": [{"op": "add", "path": "/metadata/labels/a", "value": "b"}],
        "test of another value": [{"op": "test", "path": "/data/a", "value": "2"}],
        "test of nothing": [{"op": "test", "path": "/data/zzz", "value": "2"}],
        "move from nowhere": [{"op": "move", "from": "/data/zzz", "path": "/data/b"}],
        "an operation nobody knows": [{"op": "frobnicate", "path": "/data/a"}],
        "a path without slash": [{"op": "add", "path": "data", "value": "1"}],
    }
    for what, change in changes.items():
        await cluster.patched(what, CONFIG_MAPS, "settings", json_patch(change))


@scenario("a merge patch sets, removes with null, and replaces lists whole")
async def merging(cluster: ClusterUnderTest) -> None:
    await cluster.create(CONFIG_MAPS, config_map("settings", labels={"a": "1"}, finalizers=["example.com/a"]))
    changes = {
        "set": {"data": {"b": "2"}},
        "remove": {"data": {"a": None}},
        "remove what is not there": {"data": {"zzz": None}},
        "a list": {"metadata": {"finalizers": ["example.com/b"]}},
        "an empty list": {"metadata": {"finalizers": []}},
        "all labels": {"metadata": {"labels": None}},
        "nothing": {},
    }
    for what, change in changes.items():
        fields = ("data", "metadata.labels", "metadata.finalizers")
        await cluster.patched(what, CONFIG_MAPS, "settings", merge_patch(change), *fields)


@scenario("a patch needs an object to be there")
async def missing(cluster: ClusterUnderTest) -> None:
    label = {"metadata": {"labels": {"a": "b"}}}
    for patch in (merge_patch(label), strategic_patch(label), json_patch([])):
        await cluster.patched(patch.content_type, CONFIG_MAPS, "nobody", patch)
    await cluster.patched("a deployment", DEPLOYMENTS, "nobody", merge_patch(label))


@scenario("a patch of an unknown content type is refused with those that are known")
async def content_types(cluster: ClusterUnderTest) -> None:
    await cluster.create(CONFIG_MAPS, config_map("settings"))
    body = b'{"data":{"b":"1"}}'
    for content_type in ("application/json", "text/plain", "application/merge-patch+json; charset=utf-8"):
        await cluster.patched(content_type, CONFIG_MAPS, "settings", Patch(content_type, body), "data")


@scenario("a patch that is no JSON, or not of the right shape, is a bad request")
async def malformed(cluster: ClusterUnderTest) -> None:
    await cluster.create(CONFIG_MAPS, config_map("settings"))
    path = CONFIG_MAPS.object_path(cluster.namespace, "settings")
    bodies = {
        "application/json-patch+json": [b"{", b'{"op":"add"}', b'"text"'],
        "application/merge-patch+json": [b"{", b"[]", b'"text"'],
        "application/strategic-merge-patch+json": [b"{", b"[]"],
    }
    for content_type, broken in bodies.items():
        for body in broken:
            # Only the code: the words are those of the JSON reader.
            answer = await cluster.asked("", "PATCH", path, body=body, content_type=content_type)
            cluster.saw(f"{body.decode()} as {content_type}", answer.code)


@scenario("a patch may not turn an object into an invalid one, or into another")
async def invalid_results(cluster: ClusterUnderTest) -> None:
    await cluster.create(PODS, pod("one"))
    await cluster.create(DEPLOYMENTS, deployment("web"))
    changes = {
        "the name": (PODS, "one", {"metadata": {"name": "other"}}),
        "the namespace": (PODS, "one", {"metadata": {"namespace": "other"}}),
        "the uid": (PODS, "one", {"metadata": {"uid": "00000000-0000-0000-0000-000000000009"}}),
        "a bad label": (PODS, "one", {"metadata": {"labels": {"a": "b c"}}}),
        "a label that is a number": (PODS, "one", {"metadata": {"labels": {"a": 7}}}),
        "no containers": (DEPLOYMENTS, "web", {"spec": {"template": {"spec": {"containers": None}}}}),
        "replicas as text": (DEPLOYMENTS, "web", {"spec": {"replicas": "three"}}),
        "fewer than none": (DEPLOYMENTS, "web", {"spec": {"replicas": -1}}),
        "the creation time": (PODS, "one", {"metadata": {"creationTimestamp": "2001-01-01T00:00:00Z"}}),
    }
    for what, (resource, name, change) in changes.items():
        await cluster.patched(what, resource, name, merge_patch(change), "metadata.name", "metadata.labels")
    path = PODS.object_path(cluster.namespace, "one")
    for other in ({"kind": "ConfigMap"}, {"apiVersion": "v2"}):
        answer = await cluster.asked(
            "", "PATCH", path, body=other, content_type="application/merge-patch+json"
        )
        cluster.saw(str(other), [answer.code, answer.json["reason"]])


@scenario("patches without a version never conflict: all of them are applied")
async def side_by_side(cluster: ClusterUnderTest) -> None:
    await cluster.create(CONFIG_MAPS, config_map("settings"))
    for number in range(5):
        change = merge_patch({"data": {f"key-{number}": "x"}})
        await cluster.client.patch(CONFIG_MAPS, cluster.key("settings"), change)
    left = await cluster.read(CONFIG_MAPS, "settings")
    cluster.saw("data", left and left["data"])
