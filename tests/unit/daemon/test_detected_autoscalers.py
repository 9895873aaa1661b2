"""The daemon finds node autoscalers by what the server shows, and says so in its status."""

import pytest

from rescheduler.kube.api_resources import (
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    NAMESPACES,
    NODE_POOLS,
)


@pytest.fixture
def found(status):
    """Read the autoscalers from the daemon's status."""

    async def read():
        written = await status()
        return written is not None and written.autoscalers

    return read


async def test_the_cluster_autoscaler_is_found_by_its_status(
    make_moves, start, client, server, found, eventually
):
    await make_moves(2)
    stamp = server.clock.now().strftime("%Y-%m-%d %H:%M:%S.000000000 +0000 UTC")
    if "kube-system" not in {each["metadata"]["name"] for each in (await client.list(NAMESPACES)).items}:
        await client.create(
            NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system"}}
        )
    metadata = {
        "namespace": "kube-system",
        "name": "cluster-autoscaler-status",
        "annotations": {"cluster-autoscaler.kubernetes.io/last-updated": stamp},
    }
    await client.create(CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    running = await start()
    await running.until_checked(1)
    (autoscaler,) = await eventually(found, 60)
    assert autoscaler.name == "clusterAutoscaler"
    assert autoscaler.how == "ConfigMap kube-system/cluster-autoscaler-status"
    # It is uninstalled: its status is not written any more.
    checks = running.received.checks
    await running.until(lambda: len(checks) > 25, timeout_s=1000)
    assert not await found()


async def test_karpenter_is_found_by_its_node_pools(make_moves, start, client, found, eventually):
    """Without a node of a NodePool: what the server lists is what counts."""
    await make_moves(2)
    names = {"plural": "nodepools", "singular": "nodepool", "kind": "NodePool"}
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    spec = {"group": "karpenter.sh", "scope": "Cluster", "names": names, "versions": [version]}
    await client.create(
        CUSTOM_RESOURCE_DEFINITIONS,
        {
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "nodepools.karpenter.sh"}, "spec": spec,
        },
    )  # fmt: skip
    about = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "general"}}
    await client.create(NODE_POOLS, about)
    running = await start()
    await running.until_checked(1)
    (autoscaler,) = await eventually(found, 60)
    assert (autoscaler.name, autoscaler.how) == ("karpenter", "1 NodePool")
