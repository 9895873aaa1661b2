"""A cluster that the filler wrote behaves like one that the API server built."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from rescheduler.cluster.codecs.record_resources import NODES, PODS
from rescheduler.kube.client import Client
from tests.testbed import ControlPlane
from tests.testbed.fake_kubelet.heartbeats import Heartbeats
from tests.testbed.fake_kubelet.nodes import KUBELET_LABEL
from tests.testbed.filler.processes import Filling, fill_nodes, fill_pods

BEAT_EVERY_S = 3.0


@pytest.mark.parametrize(
    "straight", [pytest.param(False, id="through the API"), pytest.param(True, id="straight into etcd")]
)
async def test_a_fake_kubelet_that_takes_over_finds_nothing_to_do(
    client: Client,
    control_plane: ControlPlane,
    start_kubelet: Any,
    eventually: Callable[..., Awaitable[Any]],
    straight: bool,
) -> None:
    etcd = control_plane.etcd_url if straight else ""
    filling = Filling(
        control_plane.kubeconfig, nodes=5, pods=40, prefix="filled", kubelet="late", processes=2, etcd=etcd
    )
    await fill_nodes(filling)
    nodes = (await client.list(NODES.as_json, labels=f"{KUBELET_LABEL}=late")).items
    # However long that takes, the controller manager must not give the nodes up and mark their pods.
    beating = asyncio.create_task(Heartbeats(client, lambda: nodes, BEAT_EVERY_S).run())
    await asyncio.to_thread(fill_pods, filling)
    filled = {node["metadata"]["name"] for node in nodes}
    found = (await client.list(PODS.as_json, labels="app.kubernetes.io/name")).items
    pods = [pod for pod in found if pod["spec"].get("nodeName") in filled]  # other tests may have left some
    assert len(pods) == 40
    assert {pod["status"]["phase"] for pod in pods} == {"Running"}
    kubelet = await start_kubelet({"pods": [{"startup": "0s"}]}, nodes=0, name="late")

    async def alive() -> bool:
        ready = [node for node in kubelet.played.values() if not node.node["spec"].get("taints")]
        return kubelet.idle and len(ready) == 5

    await eventually(alive)
    beating.cancel()
    assert kubelet.done["update"] == 0
    for pod in pods:
        await client.delete(PODS, f"{pod['metadata']['namespace']}/{pod['metadata']['name']}", grace_s=0)
    for node in nodes:
        await client.delete(NODES, node["metadata"]["name"])
