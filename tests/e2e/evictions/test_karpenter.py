"""The real Karpenter removes nodes, with its provider without a cloud, on the real control plane.

Each case runs without rescheduler, too: that shows what Karpenter does by itself.
"""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rescheduler.cluster.codecs.record_resources import NODES, PODS
from rescheduler.kube.api_resources import DEPLOYMENTS, Object, merge_patch
from rescheduler.kube.client import Client
from rescheduler.kube.informer import Informer, ListOptions
from tests.e2e.evictions.conftest import Installed
from tests.e2e.evictions.peers import (
    NODE_CLAIMS,
    NODE_POOLS,
    Peer,
    install_karpenter,
    node_pool,
    start_karpenter,
)
from tests.stories.observer import Observer, observing
from tests.stories.sandbox import AT_ONCE, Sandbox, node_of
from tests.stories.waiting import until
from tests.testbed import ControlPlane
from tests.testbed.fake_kubelet.nodes import KUBELET_LABEL

pytestmark = pytest.mark.full

_HELD: Mapping[str, Any] = {
    "consolidationPolicy": "WhenEmptyOrUnderutilized",
    "consolidateAfter": "0s",
    "budgets": [{"nodes": "0"}],
}
_STARTUP_S = 2


@dataclass
class KarpenterNodes:
    """The nodes that Karpenter provides for the pods of one namespace."""

    client: Client
    sandbox: Sandbox
    karpenter: Peer
    pool: str

    async def provide(self, **spec: Any) -> None:
        """Let Karpenter provide nodes from now on, and remove none by itself."""
        await self.client.create(NODE_POOLS, node_pool(self.pool, self.sandbox.kubelet.name, _HELD, **spec))

    async def consolidate(self) -> None:
        change = {"spec": {"disruption": {"budgets": [{"nodes": "100%"}]}}}
        await self.client.patch(NODE_POOLS, self.pool, merge_patch(change))

    async def claims(self) -> list[Object]:
        labels = f"karpenter.sh/nodepool={self.pool}"
        return (await self.client.list(NODE_CLAIMS, labels=labels)).items

    async def delete_claim_of(self, node: str) -> None:
        (claim,) = (each for each in await self.claims() if each["status"].get("nodeName") == node)
        await self.client.delete(NODE_CLAIMS, claim["metadata"]["name"])

    async def until_nodes(self, count: int, without: str = "", within_s: float = 150) -> list[str]:
        def enough(nodes: Mapping[str, Object]) -> list[str]:
            return list(nodes) if len(nodes) == count and without not in nodes else []

        labels = f"{KUBELET_LABEL}={self.sandbox.kubelet.name}"
        return await until(self.client, NODES.as_json, "", enough, labels=labels, timeout_s=within_s)

    async def one_app_per_node(self, apps: list[str]) -> None:
        """Create as many nodes as apps, each under-used, with one replica of one of them."""
        sandbox = self.sandbox
        await sandbox.deployment(len(apps), app="filler", pod={"cpu": "2500m"})
        for app in apps:
            await sandbox.deployment(1, app=app, pod={"cpu": "1200m"})
        assert len({node_of(pod) for app in apps for pod in await sandbox.pods(app)}) == len(apps)
        await self.client.delete(DEPLOYMENTS, sandbox.key("filler"))
        await until(self.client, PODS.as_json, sandbox.namespace, lambda pods: not pods, labels="app=filler")

    @contextlib.asynccontextmanager
    async def watching(self, apps: list[str]) -> AsyncIterator[list[Observer]]:
        async with contextlib.AsyncExitStack() as stack:
            namespace = self.sandbox.namespace
            yield [await stack.enter_async_context(observing(self.client, namespace, app)) for app in apps]


@pytest.fixture
async def karpenter_nodes(
    control_plane: ControlPlane,
    client: Client,
    namespace: str,
    start_kubelet: Callable[..., Awaitable[Any]],
    tmp_path: Path,
) -> AsyncIterator[KarpenterNodes]:
    install_karpenter(control_plane)
    kubelet = await start_kubelet({"pods": [AT_ONCE]}, nodes=0)
    karpenter = start_karpenter(control_plane, namespace, tmp_path)
    yield KarpenterNodes(client, Sandbox(client, namespace, kubelet, []), karpenter, namespace)
    control_plane.kubectl("delete", "pdb,deployments", "--all", "-n", namespace)
    # Without it nothing removes the finalizers of its objects.
    for kind in (NODE_POOLS, NODE_CLAIMS):
        for each in (await client.list(kind)).items:
            await client.delete(kind, each["metadata"]["name"])
    await until(client, NODE_CLAIMS, "", lambda claims: not claims, timeout_s=60)
    karpenter.stop()


both = pytest.mark.parametrize("rescheduled", [True, False], ids=["with rescheduler", "without rescheduler"])


@both
async def test_consolidation(
    rescheduled: bool, karpenter_nodes: KarpenterNodes, installed: Installed
) -> None:
    """Under-used nodes are removed. With rescheduler, no single replica was ever missing."""
    apps = ["plain", "budgeted", "other"]
    await karpenter_nodes.provide()
    await karpenter_nodes.one_app_per_node(apps)
    await karpenter_nodes.sandbox.budget(app="budgeted", maxUnavailable=1)
    karpenter_nodes.sandbox.behave({"startup": f"{_STARTUP_S}s", "termination": "0s"})
    if rescheduled:
        await installed.start()
    async with karpenter_nodes.watching(apps) as seen:
        await karpenter_nodes.consolidate()
        await karpenter_nodes.until_nodes(1)
    lost = {app: each.lost_s(1) for app, each in zip(apps, seen, strict=True)}
    print(f"ready-seconds lost: {lost}")
    if rescheduled:
        assert not any(lost.values()), lost
        reasons = [each["spec"]["reason"] for each in await installed.migrations()]
        assert len(reasons) >= 2
        assert all("karpenter" in reason for reason in reasons), reasons
        (found,) = (await installed.cluster.status())["autoscalers"]
        assert found["name"] == "karpenter"
        assert "NodePool" in found["how"], "the daemon may list them"
    else:
        assert sum(each > _STARTUP_S / 2 for each in lost.values()) >= 2, lost
    assert {
        node_of(pod) for app in apps for pod in await karpenter_nodes.sandbox.until_ready(1, app=app)
    } == {*await karpenter_nodes.until_nodes(1)}


@both
@pytest.mark.parametrize("budget", [{"minAvailable": 1}, {"maxUnavailable": 0}], ids=str)
async def test_budget_that_allows_nothing(
    rescheduled: bool, budget: dict[str, int], karpenter_nodes: KarpenterNodes, installed: Installed
) -> None:
    """Karpenter provides no node for a pod that it can't evict, and can't evict it: its own deadlock. The
    Pending copy ends it: the new node comes first."""
    await karpenter_nodes.provide()
    await karpenter_nodes.sandbox.deployment(1, pod={"cpu": "2500m"})
    await karpenter_nodes.sandbox.budget(**budget)
    karpenter_nodes.sandbox.behave({"startup": f"{_STARTUP_S}s", "termination": "0s"})
    if rescheduled:
        await installed.start()
    (node,) = await karpenter_nodes.until_nodes(1)
    async with karpenter_nodes.watching(["web"]) as (seen,):
        await karpenter_nodes.delete_claim_of(node)
        if rescheduled:
            await karpenter_nodes.until_nodes(1, without=node)
        else:
            with pytest.raises(AssertionError):
                await karpenter_nodes.until_nodes(1, without=node, within_s=30)
    assert seen.lost_s(1) == 0


@both
async def test_end_of_the_termination_grace_period(
    rescheduled: bool, karpenter_nodes: KarpenterNodes, installed: Installed
) -> None:
    """Karpenter deletes what budgets hold 30 s before the end: the grace period of pods. Two moves at a time
    would be too slow."""
    apps = [f"app-{number}" for number in range(6)]
    await karpenter_nodes.provide(terminationGracePeriod="75s")
    for app in apps:
        await karpenter_nodes.sandbox.deployment(1, app=app, pod={"cpu": "600m"})
        await karpenter_nodes.sandbox.budget(app, app=app, minAvailable=1)
    (node,) = await karpenter_nodes.until_nodes(1)
    karpenter_nodes.sandbox.behave({"startup": "8s", "termination": "0s"})
    if rescheduled:
        await installed.start()
    async with karpenter_nodes.watching(apps) as seen:
        await karpenter_nodes.delete_claim_of(node)
        await karpenter_nodes.until_nodes(1, without=node)
        for app in apps:
            await karpenter_nodes.sandbox.until_ready(1, app=app)
    lost = [each.lost_s(1) for each in seen]
    print(f"ready-seconds lost: {lost}")
    assert [each > 0 for each in lost] == [not rescheduled] * len(apps), lost


async def test_no_node_too_many(karpenter_nodes: KarpenterNodes, installed: Installed) -> None:
    """The pods of the node that goes fill the new one exactly. Karpenter does not count them beside their
    copies."""
    apps = ["one", "two", "three"]
    await karpenter_nodes.provide()
    for app in apps:
        await karpenter_nodes.sandbox.deployment(1, app=app, pod={"cpu": "1200m"})
    (node,) = await karpenter_nodes.until_nodes(1)
    karpenter_nodes.sandbox.behave({"startup": "15s", "termination": "0s"})
    await installed.start()
    claims: set[str] = set()

    def note(_old: Object | None, new: Object | None) -> None:
        if new is not None:
            claims.add(new["metadata"]["name"])

    informer = Informer(
        karpenter_nodes.client,
        NODE_CLAIMS,
        ListOptions(labels=f"karpenter.sh/nodepool={karpenter_nodes.pool}"),
    )
    informer.subscribe(note)
    async with informer.running(), karpenter_nodes.watching(apps) as seen:
        await karpenter_nodes.delete_claim_of(node)
        await karpenter_nodes.until_nodes(1, without=node)
    assert not any(each.lost_s(1) for each in seen)
    assert len(claims) == 2, claims
