"""The real scheduler puts the replicas of each program on different nodes where there are any."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from rescheduler.cluster.codecs.record_resources import NODES, PODS
from rescheduler.cluster.pod_record import PodRecord
from rescheduler.install.install_options import Options
from rescheduler.install.manifests import install_manifests
from rescheduler.kube.api_resources import DEPLOYMENTS, merge_patch
from rescheduler.kube.client import Client
from tests.stories import objects
from tests.stories.sandbox import AT_ONCE
from tests.testbed.fake_kubelet.nodes import KUBELET_LABEL

Eventually = Callable[..., Awaitable[Any]]
Play = Callable[..., Awaitable[Any]]

ZONE = "topology.kubernetes.io/zone"
PROGRAMS = {"daemon": "rescheduler", "webhook": "rescheduler-webhook"}


async def start(client: Client, namespace: str, kubelet: str) -> None:
    chosen = Options(node_selector={KUBELET_LABEL: kubelet})
    for item in install_manifests(chosen, namespace=namespace):
        if item["kind"] == "Deployment":
            await client.create(DEPLOYMENTS, item)


async def pods(
    client: Client, namespace: str, component: str, revision: str, eventually: Eventually
) -> list[PodRecord]:
    """Return the two pods of a revision when the rollout is over."""

    async def rolled_out() -> list[PodRecord]:
        deployment = await client.get(DEPLOYMENTS, f"{namespace}/{PROGRAMS[component]}")
        status = deployment.get("status", {})
        is_over = status.get("observedGeneration") == deployment["metadata"]["generation"] and all(
            status.get(count) == 2 for count in ("replicas", "updatedReplicas", "availableReplicas")
        )
        found = await client.list(
            PODS, namespace=namespace, labels=f"app.kubernetes.io/component={component}"
        )
        alive = [pod for pod in found.items if not pod.is_terminating]
        return alive if is_over and len(alive) == 2 and revision in json.dumps(deployment) else []

    return list(await eventually(rolled_out, timeout_s=90))


async def roll_out(client: Client, namespace: str, revision: str) -> None:
    annotations = {"metadata": {"annotations": {"revision": revision}}}
    for name in PROGRAMS.values():
        await client.patch(
            DEPLOYMENTS, f"{namespace}/{name}", merge_patch({"spec": {"template": annotations}})
        )


@pytest.mark.parametrize(
    "zone",
    [
        pytest.param(None, id="nodes without zone labels"),
        pytest.param("zone-a", id="nodes of one zone"),
    ],
)
async def test_replicas_run_on_different_nodes(
    client: Client, namespace: str, start_kubelet: Play, eventually: Eventually, zone: str | None
) -> None:
    """Also after rollouts, and if one node is much fuller."""
    kubelet = await start_kubelet({"pods": [AT_ONCE]}, nodes=2)
    _, full = sorted(kubelet.played)
    for node in kubelet.played:
        await client.patch(NODES, node, merge_patch({"metadata": {"labels": {ZONE: zone}}}))
    spec = objects.pod_spec(kubelet.name, cpu="6", nodeName=full)
    await client.create(PODS, objects.pod(namespace, "filler", spec))
    await start(client, namespace, kubelet.name)
    for revision in ("", "second", "third"):
        if revision:
            await roll_out(client, namespace, revision)
        for component in PROGRAMS:
            found = await pods(client, namespace, component, revision, eventually)
            assert len({pod.node for pod in found}) == 2, f"{component}, revision {revision or 'first'}"


async def test_two_replicas_are_in_two_zones_where_there_are_two(
    client: Client, namespace: str, start_kubelet: Play, eventually: Eventually
) -> None:
    kubelet = await start_kubelet({"pods": [AT_ONCE]}, nodes=4)
    names = sorted(kubelet.played)
    zones = dict(zip(names, "aabb", strict=True))
    for node, zone in zones.items():
        await client.patch(NODES, node, merge_patch({"metadata": {"labels": {ZONE: zone}}}))
    await start(client, namespace, kubelet.name)
    for component in PROGRAMS:
        found = await pods(client, namespace, component, "", eventually)
        assert {zones[pod.node] for pod in found} == {"a", "b"}


async def test_on_a_single_node_both_replicas_run_and_a_rollout_comes_to_its_end(
    client: Client, namespace: str, start_kubelet: Play, eventually: Eventually
) -> None:
    kubelet = await start_kubelet({"pods": [AT_ONCE]}, nodes=1)
    await start(client, namespace, kubelet.name)
    for revision in ("", "second"):
        if revision:
            await roll_out(client, namespace, revision)
        for component in PROGRAMS:
            assert len(await pods(client, namespace, component, revision, eventually)) == 2
