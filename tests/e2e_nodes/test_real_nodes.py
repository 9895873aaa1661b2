"""Real kubelets, containers, Services and DNS: what the other tests on real nodes rely on."""

import asyncio
import json
from typing import Any

from rescheduler.kube.access.cluster_config import load_cluster_access
from rescheduler.kube.client import Client
from rescheduler.kube.http_transport import HttpTransport
from tests.e2e_nodes.conftest import Eventually
from tests.e2e_nodes.workloads import answers, cluster_ip, deployment, load_pod, names_of_pods, service
from tests.testbed import ControlPlane
from tests.testbed.nodes import Nodes
from tests.testbed.nodes.kubelet_usage import KubeletUsage
from tests.testbed.usage import UsageApi

SPREAD = [
    {
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
]


def conditions(nodes: Nodes, kind: str) -> dict[str, str]:
    """The status of a condition on each node."""
    listed = json.loads(nodes.kubectl("get", "nodes", "-o", "json"))["items"]
    return {
        node["metadata"]["name"]: condition["status"]
        for node in listed
        for condition in node["status"]["conditions"]
        if condition["type"] == kind
    }


def test_pods_spread_over_zones_answer_through_a_service_by_its_name(
    nodes: Nodes, namespace: str, eventually: Eventually
) -> None:
    """A pod on one node finds the Service by cluster DNS, and its kube-proxy reaches pods on all three."""
    nodes.apply(deployment(namespace, "web", 3, topologySpreadConstraints=SPREAD), service(namespace, "web"))
    eventually(lambda: len(set(names_of_pods(nodes, namespace, "web").values())) == 3)
    address = cluster_ip(nodes, namespace, "web")
    # Requests fail on a node whose kube-proxy does not know a ready pod of the Service yet.
    eventually(lambda: all(answers(node, nodes, address) for node in nodes))
    url = f"http://web.{namespace}.svc.cluster.local/"
    nodes.apply(load_pod(namespace, "load", url, rate=50, seconds=4))
    nodes.kubectl(
        "wait", "-n", namespace, "pod/load", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=60s"
    )
    found = json.loads(nodes.kubectl("logs", "-n", namespace, "load"))
    assert (found["requests"], found["errors"]) == (200, {})
    assert found["answeredBy"].keys() == names_of_pods(nodes, namespace, "web").keys()


def test_usage_comes_from_the_kubelets_and_a_slow_node_uses_less(
    control_plane: ControlPlane, nodes: Nodes, namespace: str, eventually: Eventually
) -> None:
    """`kubectl top` shows a pod that burns a core, and a fifth of one after its node was slowed down."""
    nodes.apply(deployment(namespace, "burner", 1), service(namespace, "burner"))
    (name, node), *_ = eventually(lambda: list(names_of_pods(nodes, namespace, "burner").items()))
    usage = KubeletUsage(nodes)

    def cores() -> float:
        usage.scrape()
        found = json.loads(
            nodes.kubectl("get", "--raw", f"/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods")
        )
        return sum(int(pod["containers"][0]["usage"]["cpu"].rstrip("n")) / 1e9 for pod in found["items"])

    def shown_nodes() -> set[str]:
        usage.scrape()
        try:
            shown = nodes.kubectl("top", "nodes", "--no-headers")
        except RuntimeError:  # no node was measured twice yet
            return set()
        # A node without usage is shown too, as unknown.
        return {line.split()[0] for line in shown.splitlines() if "unknown" not in line}

    async def scenario() -> None:
        client = Client(HttpTransport(load_cluster_access(control_plane.kubeconfig)))
        try:
            async with UsageApi(client, usage).running():
                await asyncio.to_thread(look)
        finally:
            await client.close()

    def look() -> None:
        proxied = f"/api/v1/namespaces/{namespace}/services/burner:80/proxy/burn?for=120s"
        nodes.kubectl("get", "--raw", proxied)
        eventually(lambda: cores() > 0.3, timeout_s=90)
        eventually(lambda: shown_nodes() == {each.name for each in nodes}, timeout_s=90)
        nodes[node].slow_down(cores=0.2)
        try:
            eventually(lambda: 0 < cores() < 0.25, timeout_s=90)
        finally:
            nodes[node].speed_up()

    asyncio.run(scenario())
    nodes.kubectl("delete", "pod", "-n", namespace, name, "--grace-period=0", "--force")


def test_a_killed_a_frozen_and_a_cut_off_node_are_noticed_and_come_back(
    nodes: Nodes, eventually: Eventually
) -> None:
    """The controller manager marks each of them unknown; afterwards the same node is Ready again."""
    killed, frozen, cut_off = nodes
    killed.kill()
    frozen.pause()
    cut_off.partition()
    try:
        eventually(lambda: set(conditions(nodes, "Ready").values()) == {"Unknown"}, timeout_s=90)
    finally:
        frozen.resume()
        cut_off.repair()
        killed.start()
    nodes.route_services()
    nodes.wait_ready()
    nodes.kubectl("rollout", "status", "-n", "kube-system", "deployment/coredns", "--timeout=120s")


def test_a_full_disk_is_reported_as_pressure(nodes: Nodes, eventually: Eventually) -> None:
    *_, node = nodes
    node.fill_disk()
    try:
        eventually(lambda: conditions(nodes, "DiskPressure")[node.name] == "True", timeout_s=90)
    finally:
        node.free_disk()
    eventually(lambda: conditions(nodes, "DiskPressure")[node.name] == "False", timeout_s=90)
    nodes.wait_ready()


def test_a_throttled_cable_makes_answers_slow_and_loses_none(
    nodes: Nodes, namespace: str, eventually: Eventually
) -> None:
    first, *_, last = nodes
    pinned = {"nodeSelector": {"kubernetes.io/hostname": first.name}}
    nodes.apply(deployment(namespace, "web", 1, **pinned), service(namespace, "web"))
    eventually(lambda: names_of_pods(nodes, namespace, "web"))
    address = cluster_ip(nodes, namespace, "web")

    def measured() -> Any:
        program = str(nodes.binaries.programs / "loadgen")
        return json.loads(
            last.run(program, f"-url=http://{address}/", "-rate=20", "-duration=2s", "-timeout=20s")
        )

    eventually(lambda: answers(last, nodes, address))
    fast = measured()
    first.slow_down(kilobits_per_s=32)
    try:
        slow = measured()
    finally:
        first.speed_up()
    assert (fast["failed"], slow["failed"]) == (0, 0)
    assert slow["p50Ms"] > fast["p50Ms"] * 2
