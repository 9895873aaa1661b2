"""Loading: many objects at once, and clusters saved to a file."""

import gzip
import json

import pytest
import yaml

from kubesim.apiserver.simulated_cluster import UnreadableCluster, parse_saved_cluster

POD = {
    "kind": "Pod",
    "apiVersion": "v1",
    "metadata": {
        "name": "web-1", "namespace": "shop", "uid": "pod-uid", "labels": {"app": "web"},
        "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "rs-uid",
             "controller": True}
        ],
    },
    "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]},
    "status": {"phase": "Running"},
}  # fmt: skip
NODE = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n1"}}
CLUSTER = {"kind": "List", "apiVersion": "v1", "items": [NODE, POD]}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        pytest.param("c.json", json.dumps(CLUSTER).encode(), id="JSON"),
        pytest.param("c.yaml", yaml.safe_dump(CLUSTER).encode(), id="YAML"),
        pytest.param("c.json.gz", gzip.compress(json.dumps(CLUSTER).encode()), id="JSON, gzipped"),
        pytest.param(
            "c", gzip.compress(yaml.safe_dump(CLUSTER).encode()), id="YAML, gzipped, whatever its name"
        ),
    ],
)
def test_a_saved_cluster_is_read_from(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    assert parse_saved_cluster(path.read_bytes(), source=str(path)) == CLUSTER["items"]


def test_lists_within_the_list_are_taken_apart(tmp_path):
    bare = {name: value for name, value in POD.items() if name not in {"kind", "apiVersion"}}
    nested = {"kind": "List", "items": [{"kind": "PodList", "apiVersion": "v1", "items": [bare]}]}
    path = tmp_path / "c.json"
    path.write_text(json.dumps(nested))
    assert parse_saved_cluster(path.read_bytes(), source=str(path)) == [POD]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b'{"items": [', "invalid JSON"),
        (b"a: [", "neither JSON nor YAML"),
        (b"just text", "not a list of objects"),
        (b'{"items": [1]}', r"items\[0\]: expected an object, got an integer"),
        (b'{"items": [{"kind": "Pod"}]}', r"items\[0\] has no kind or no metadata.name"),
        (b"\x1f\x8bnonsense", "corrupt gzip data"),
    ],
)
def test_what_is_none_is_refused_with_the_reason(tmp_path, content, why):
    path = tmp_path / "c"
    path.write_bytes(content)
    with pytest.raises(UnreadableCluster, match=why):
        parse_saved_cluster(path.read_bytes(), source=str(path))


async def test_objects_keep_their_identity_and_status(api):
    api.server.load([json.loads(json.dumps(NODE)), json.loads(json.dumps(POD))])
    pod = (await api.get("/api/v1/namespaces/shop/pods/web-1")).body
    assert (pod["metadata"]["uid"], pod["status"]["phase"]) == ("pod-uid", "Running")


async def test_missing_owners_and_namespaces_are_made_up_so_that_nothing_is_collected(api, clock):
    pod = json.loads(json.dumps(POD))
    pod["metadata"]["labels"]["topology.kubernetes.io/zone"] = "a"  # as bindings add: no selector has it
    api.server.load([pod])
    clock.advance(5)
    assert (await api.get("/api/v1/namespaces/shop")).body["status"]["phase"] == "Active"
    owner = (await api.get("/apis/apps/v1/namespaces/shop/replicasets/web")).body
    assert owner["metadata"]["uid"] == "rs-uid"
    assert owner["spec"]["replicas"] == 1
    assert owner["spec"]["selector"] == {"matchLabels": {"app": "web"}}
    assert "nodeName" not in owner["spec"]["template"]["spec"]
    assert (await api.get("/api/v1/namespaces/shop/pods/web-1")).status == 200


async def test_objects_of_unknown_kinds_are_handed_back(api):
    strange = {"kind": "Gadget", "apiVersion": "x.io/v1", "metadata": {"name": "g"}}
    assert api.server.load([strange]) == [strange]
