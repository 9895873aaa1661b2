"""A saved cluster continues as it was: running pods keep running."""

import asyncio

from tests.unit.kubesim.controllers.conftest import names, template


def pod(name, kind, owner, **labels):
    reference = {
        "apiVersion": "apps/v1",
        "kind": kind,
        "name": owner,
        "uid": f"uid-of-{owner}",
        "controller": True,
    }
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": labels, "ownerReferences": [reference]},
        "spec": {**template()["spec"], "nodeName": "n1"},
        "status": {"phase": "Running", "conditions": [ready]},
    }


async def test_pods_whose_owners_were_not_saved_are_kept_and_not_replaced(sim):
    zone = "topology.kubernetes.io/zone"
    saved = [
        pod("web-h-0", "ReplicaSet", "web-h", app="web", **{"pod-template-hash": "h", zone: "a"}),
        pod("web-h-1", "ReplicaSet", "web-h", app="web", **{"pod-template-hash": "h", zone: "b"}),
        *(
            pod(f"db-{n}", "StatefulSet", "db", app="db", **{
                "controller-revision-hash": "db-x", "statefulset.kubernetes.io/pod-name": f"db-{n}"})
            for n in (0, 1)
        ),
    ]  # fmt: skip
    sim.server.load(saved)
    await asyncio.sleep(60)
    pods = await sim.pods()
    assert names(pods) == ["db-0", "db-1", "web-h-0", "web-h-1"]
    assert all(each["metadata"]["ownerReferences"] for each in pods)


async def test_daemons_whose_revision_was_not_saved_are_not_replaced(sim):
    content = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "agent", "namespace": "default", "uid": "uid-of-agent"},
        "spec": {"selector": {"matchLabels": {"app": "agent"}}, "template": template("agent")},
    }
    sim.server.load(
        [content, pod("agent-old", "DaemonSet", "agent", app="agent", **{"controller-revision-hash": "x"})]
    )
    pods = await sim.until_ready(3)
    assert "agent-old" in names(pods)
    assert {each["metadata"]["labels"]["controller-revision-hash"] for each in pods} == {"x"}


async def test_a_replica_set_that_is_only_a_name_is_left_alone(sim):
    metadata = {"name": "ghost", "namespace": "default", "uid": "u"}
    sim.server.load([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata}])
    await asyncio.sleep(10)
    assert not await sim.pods()
