"""Usage over `metrics.k8s.io` through the real API server's aggregation: there, and not there."""

from collections.abc import Awaitable, Callable
from typing import Any

from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.cluster.sources.metrics_api import MetricsApiReader
from rescheduler.cluster.usage_readings import UsageReadings, UsageUnavailable
from rescheduler.kube.client import Client
from tests.testbed.fake_kubelet.nodes import KUBELET_LABEL
from tests.testbed.usage import UsageApi

RULES = {
    "pods": [{"startup": "0s", "usage": {"cpu": "75%", "memory": "100Mi"}}],
    "nodes": [{"usage": {"cpu": "200m", "memory": "1Gi"}}],
}


async def test_usage_is_read_while_it_is_served_and_missed_in_words_otherwise(
    client: Client, namespace: str, start_kubelet: Any, eventually: Callable[..., Awaitable[Any]]
) -> None:
    reader = MetricsApiReader(client)
    outcome = await reader.read()
    assert isinstance(outcome, UsageUnavailable)
    assert outcome.why.startswith("the cluster does not serve metrics.k8s.io/v1beta1.")

    kubelet = await start_kubelet(RULES, nodes=1)
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "400m"}}}
    spec = {"nodeSelector": {KUBELET_LABEL: kubelet.name}, "containers": [container]}
    metadata = {"name": "web", "namespace": namespace}
    await client.create(PODS.as_json, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})

    async def measured() -> UsageReadings | None:
        outcome = await reader.read()
        known = isinstance(outcome, UsageReadings) and f"{namespace}/web" in outcome.pods
        return outcome if known else None

    async with UsageApi(client, kubelet).running():
        readings = await eventually(measured)
    pod, node = readings.pods[f"{namespace}/web"], readings.nodes[f"{kubelet.name}-0001"]
    assert (pod.cpu_millis, pod.memory_bytes) == (300, 100 * 2**20)
    assert (node.cpu_millis, node.memory_bytes) == (500, 2**30 + 100 * 2**20)
