"""The metrics API computes the usage of pods and nodes from their patterns."""

import pytest

from kubesim.apiserver.metrics_server import MeasuredUsage
from kubesim.behaviour import load_behaviour
from kubesim.kubelets import KubeletMeter, Kubelets

PODS, METRICS = "/api/v1/namespaces/default/pods", "/apis/metrics.k8s.io/v1beta1"
RULES = {
    "pods": [
        {"match": {"container": "leaky"}, "usage": {"memory": {"start": "0", "end": "600Mi", "over": "10m"}}},
        {"usage": {"cpu": "80%", "memory": "64Mi"}},
    ],
    "nodes": [{"usage": {"cpu": "10%", "memory": "1Gi"}}],
}


@pytest.fixture
async def kubelets(api, clock):
    status = {"allocatable": {"cpu": "4", "memory": "8Gi"}}
    await api.post("/api/v1/nodes", {"metadata": {"name": "n"}, "status": status})
    kubelets = Kubelets(api.server.cluster, load_behaviour(RULES))
    api.server.usage.meter = KubeletMeter(api.server.cluster, kubelets)
    for name in ("a", "leaky"):
        container = {"name": name, "image": "i", "resources": {"requests": {"cpu": "500m"}}}
        pod = {"metadata": {"name": name}, "spec": {"nodeName": "n", "containers": [container]}}
        await api.post(PODS, pod)
    clock.advance(15)
    return kubelets


async def usage(api, what):
    return (await api.get(f"{METRICS}/{what}")).body


async def test_pods_and_nodes_are_measured(api, kubelets):
    pod = await usage(api, "namespaces/default/pods/a")
    assert pod["containers"] == [{"name": "a", "usage": {"cpu": "400000000n", "memory": "65536Ki"}}]
    assert pod["timestamp"] == "2026-01-01T00:00:15Z"
    node = await usage(api, "nodes/n")
    assert node["usage"]["cpu"] == "1200000000n", "two pods and a tenth of the node"
    listed = (await usage(api, "pods"))["items"]
    assert [item["metadata"]["name"] for item in listed] == ["a", "leaky"]


async def test_usage_follows_the_time_in_steps_of_a_metrics_servers_reading(api, clock, kubelets):
    async def memory():
        pod = await usage(api, "namespaces/default/pods/leaky")
        return int(pod["containers"][0]["usage"]["memory"].removesuffix("Ki"))

    clock.advance(300)
    half = await memory()
    assert 0.45 < half / (600 * 1024) < 0.55
    clock.advance(14)
    assert await memory() == half, "not read again yet"
    clock.advance(1)
    assert await memory() > half


async def test_nothing_is_known_of_pods_that_do_not_run_and_of_dead_nodes(api, clock, kubelets):
    pod = {"metadata": {"name": "waits"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    await api.post(PODS, pod)
    assert (await api.get(f"{METRICS}/namespaces/default/pods/waits")).status == 404
    kubelets.kill("n")
    assert (await api.get(f"{METRICS}/namespaces/default/pods/a")).status == 404
    assert (await usage(api, "nodes"))["items"] == []


async def test_declared_usage_precedes_measured_usage(api, clock, kubelets):
    api.server.usage.set_node("n", MeasuredUsage(cpu_cores=1.5, memory_bytes=1024), now=clock.now())
    assert (await usage(api, "nodes/n"))["usage"] == {"cpu": "1500000000n", "memory": "1Ki"}


async def test_new_rules_count_at_once(api, clock, kubelets):
    await usage(api, "nodes/n")
    kubelets.add_rules_first(load_behaviour({"pods": [{"match": {"container": "a"}, "usage": {"cpu": "1"}}]}))
    pod = await usage(api, "namespaces/default/pods/a")
    assert pod["containers"][0]["usage"]["cpu"] == "1000000000n"
