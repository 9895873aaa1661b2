"""A pod is read live just before it is removed without its kubelet's confirmation."""

import pytest

from kubesim import ApiServer
from rescheduler.cluster.codecs.record_resources import NODES, PODS
from rescheduler.cluster.sources.watched_objects import WatchedObjects
from rescheduler.kube.api_resources import NAMESPACES
from rescheduler.kube.client import Client
from rescheduler.kube.transport import InProcessTransport
from rescheduler.recovery.controller.recovery_reconciler import PodRemover
from rescheduler.recovery.recovery_decision import OUT_OF_SERVICE_TAINT
from tests.objects import node_object, pod_object


@pytest.fixture
async def client():
    transport = InProcessTransport(ApiServer(seed=1).handle)
    made = Client(transport)
    await made.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    yield made
    await transport.close()


async def removed(client, owner, *, ready=False, taints=()):
    """Whether a pod of that owner is removed from its node, which is like that."""
    node = node_object("lost", taints=[{"key": key, "effect": "NoExecute"} for key in taints])
    node["status"]["conditions"] = [{"type": "Ready", "status": "True" if ready else "Unknown"}]
    await client.create(NODES.as_json, node)
    item = pod_object("shop/db-0", on="lost", owner=owner)
    for name in ("uid", "resourceVersion"):
        item["metadata"].pop(name, None)
    made = await client.create(PODS, item)
    return await PodRemover(client, WatchedObjects(client)).remove_from_lost_node(made)


@pytest.mark.parametrize(
    ("owner", "ready", "taints", "expected"),
    [
        pytest.param("ReplicaSet/web", False, (), True, id="one of many, on a node that is lost"),
        pytest.param("ReplicaSet/web", True, (), False, id="one of many, whose node has come back"),
        pytest.param("StatefulSet/db", False, (), False, id="with an identity, and without a confirmation"),
        pytest.param(
            "StatefulSet/db", False, (OUT_OF_SERVICE_TAINT,), True, id="with an identity, confirmed gone"
        ),
    ],
)
async def test_a_pod_of_a_lost_node_is_removed_only_if_that_still_holds(
    client, owner, ready, taints, expected
):
    assert await removed(client, owner, ready=ready, taints=taints) is expected
