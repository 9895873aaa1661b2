"""Usage of fake nodes and their pods, through the real API server and kubectl."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any

from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube.api_resources import api_resource
from rescheduler.kube.client import Client
from tests.testbed import ControlPlane
from tests.testbed.fake_kubelet.nodes import KUBELET_LABEL
from tests.testbed.usage import UsageApi

NODE_METRICS = api_resource("metrics.k8s.io", "v1beta1", "nodes", "NodeMetrics", namespaced=False)
RULES = {
    "pods": [{"startup": "0s", "usage": {"cpu": "75%", "memory": "100Mi"}}],
    "nodes": [{"usage": {"cpu": "200m", "memory": "1Gi"}}],
}


async def test_kubectl_top_shows_what_the_rules_say(
    client: Client,
    control_plane: ControlPlane,
    namespace: str,
    start_kubelet: Any,
    eventually: Callable[..., Awaitable[Any]],
) -> None:
    kubelet = await start_kubelet(RULES, nodes=1)
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "400m"}}}
    spec = {"nodeSelector": {KUBELET_LABEL: kubelet.name}, "containers": [container]}
    metadata = {"name": "web", "namespace": namespace, "labels": {"app": "web"}}
    await client.create(PODS.as_json, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})

    async def runs() -> bool:
        found = kubelet.pods.get(f"{namespace}/web")
        return found is not None and found.whole()["status"]["phase"] == "Running"

    async def top(*arguments: str) -> str:
        return await asyncio.to_thread(control_plane.kubectl, "top", *arguments, "--no-headers")

    await eventually(runs)
    async with UsageApi(client, kubelet).running():
        node = f"{kubelet.name}-0001"
        assert re.match(rf"{node} +500m +6% +1124Mi +3%", await top("nodes", node))
        assert re.match(r"web +300m +100Mi", await top("pods", "-n", namespace, "-l", "app=web"))
        assert [found["metadata"]["name"] for found in (await client.list(NODE_METRICS)).items] == [node]
        kubelet.kill(node)
        assert (await client.list(NODE_METRICS)).items == [], "a dead node has no usage"
