"""The real descheduler, and a scale-down as the cluster autoscaler does it, on the real control plane.

Each case runs without rescheduler, too: that shows what the client does by itself.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from rescheduler.cluster.codecs.record_resources import NODES, PODS
from rescheduler.kube import errors
from rescheduler.kube.api_resources import Object, merge_patch
from rescheduler.kube.client import Client
from tests.e2e.evictions.conftest import Installed
from tests.e2e.evictions.peers import start_descheduler
from tests.stories.observer import Observer, observing
from tests.stories.sandbox import Sandbox, node_of
from tests.stories.waiting import until

pytestmark = pytest.mark.full

_STARTUP_S = 2
_PLAIN, _FULL = "plain", "full"
"""Deployments with one replica: without a budget, and with one that allows nothing."""

both = pytest.mark.parametrize("rescheduled", [True, False], ids=["with rescheduler", "without rescheduler"])


@contextlib.asynccontextmanager
async def _watching(sandbox: Sandbox) -> AsyncIterator[dict[str, Observer]]:
    async with contextlib.AsyncExitStack() as stack:
        yield {
            app: await stack.enter_async_context(observing(sandbox.client, sandbox.namespace, app))
            for app in (_PLAIN, _FULL)
        }


async def _until_left(sandbox: Sandbox, node: str, *apps: str) -> None:
    """Wait until no pod of these apps is on the node."""

    def left(pods: Mapping[str, Object]) -> bool:
        return all(node_of(pod) not in {node, ""} for pod in pods.values())

    for app in apps:
        await until(sandbox.client, PODS.as_json, sandbox.namespace, left, labels=f"app={app}", timeout_s=90)


async def _deploy(sandbox: Sandbox, node: str, pod: Object | None = None) -> None:
    """Both Deployments, on that node."""
    others = [each for each in sandbox.nodes if each != node]
    sandbox.behave()
    await sandbox.cordon(*others)
    for app in (_PLAIN, _FULL):
        await sandbox.deployment(1, app=app, pod=pod)
    await sandbox.cordon(*others, on=False)
    await sandbox.budget(app=_FULL, minAvailable=1)
    sandbox.behave({"startup": f"{_STARTUP_S}s", "termination": "0s"})


# -- the descheduler


_POOL = "test.rescheduler.dev/pool"
_POLICY: Object = {
    "apiVersion": "descheduler/v1alpha2",
    "kind": "DeschedulerPolicy",
    "profiles": [
        {
            "name": "default",
            "pluginConfig": [
                {
                    "name": "RemovePodsViolatingNodeAffinity",
                    "args": {"nodeAffinityType": ["requiredDuringSchedulingIgnoredDuringExecution"]},
                }
            ],
            "plugins": {"deschedule": {"enabled": ["RemovePodsViolatingNodeAffinity"]}},
        }
    ],
}


async def _set_pool(client: Client, node: str, pool: str) -> None:
    await client.patch(NODES, node, merge_patch({"metadata": {"labels": {_POOL: pool}}}))


@both
async def test_descheduler(rescheduled: bool, installed: Installed, sandbox: Sandbox, tmp_path: Path) -> None:
    """A node no longer has the label that pods require: the descheduler evicts them.

    By itself it takes the pod without a budget down, and never gets at the other.
    """
    first = sandbox.nodes[0]
    for node in sandbox.nodes:
        await _set_pool(sandbox.client, node, "wanted")
    expression = {"key": _POOL, "operator": "In", "values": ["wanted"]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    await _deploy(sandbox, first, {"affinity": affinity})
    if rescheduled:
        await installed.start()
    async with _watching(sandbox) as seen:
        await _set_pool(sandbox.client, first, "other")
        peer = start_descheduler(installed.control_plane, sandbox.namespace, tmp_path, _POLICY, every_s=3)
        try:
            await _until_left(sandbox, first, *((_PLAIN, _FULL) if rescheduled else (_PLAIN,)))
            await sandbox.until_ready(1, app=_PLAIN)
        finally:
            peer.stop()
    print(f"ready-seconds lost: { {app: each.lost_s(1) for app, each in seen.items()} }")
    assert seen[_FULL].lost_s(1) == 0
    if rescheduled:
        assert seen[_PLAIN].lost_s(1) == 0
        reasons = [each["spec"]["reason"] for each in await installed.migrations()]
        assert len(reasons) == 2
        assert all("descheduler" in reason for reason in reasons), reasons
    else:
        assert seen[_PLAIN].lost_s(1) > _STARTUP_S / 2
        (stuck,) = await sandbox.pods(_FULL)
        assert node_of(stuck) == first


# -- the cluster autoscaler


_TO_BE_DELETED = "ToBeDeletedByClusterAutoscaler"
_RETRY_S = 10.0
"""`EvictionRetryTime` of the cluster autoscaler."""
_MAX_POD_EVICTION_S = 40.0
"""`--max-pod-eviction-time`, which is 2 minutes by default."""


async def _evict_with_retries(client: Client, pod: Object) -> bool:
    """Return whether the pod is gone in time. Every error is retried."""
    key = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
    give_up_at = time.monotonic() + _MAX_POD_EVICTION_S
    while time.monotonic() < give_up_at:
        try:
            await client.evict(key, uid=pod["metadata"]["uid"])
        except errors.NotFound:
            return True
        except errors.KubeError:
            await asyncio.sleep(_RETRY_S)
        else:
            return True
    return False


async def _scale_down(client: Client, node: str) -> bool:
    """Taint the node, evict its pods at the same time, and delete it; give up if a pod can't be evicted."""
    taint = {"key": _TO_BE_DELETED, "value": str(int(time.time())), "effect": "NoSchedule"}
    await client.patch(NODES, node, merge_patch({"spec": {"taints": [taint]}}))
    pods = (await client.list(PODS.as_json, fields=f"spec.nodeName={node}")).items
    done = await asyncio.gather(*(_evict_with_retries(client, pod) for pod in pods))
    if not all(done):
        await client.patch(NODES, node, merge_patch({"spec": {"taints": None}}))
        return False
    await until(client, PODS.as_json, "", lambda found: not found, fields=f"spec.nodeName={node}")
    await client.delete(NODES, node)
    return True


@both
async def test_scale_down(rescheduled: bool, installed: Installed, sandbox: Sandbox) -> None:
    """By itself it takes one pod down, and gives up because of the other."""
    node = sandbox.nodes[0]
    await _deploy(sandbox, node)
    if rescheduled:
        await installed.start()
    async with _watching(sandbox) as seen:
        is_removed = await _scale_down(sandbox.client.with_quick_retries(), node)
        for app in (_PLAIN, _FULL):
            await sandbox.until_ready(1, app=app)
    print(f"ready-seconds lost: { {app: each.lost_s(1) for app, each in seen.items()} }")
    assert is_removed is rescheduled
    assert seen[_FULL].lost_s(1) == 0
    assert (seen[_PLAIN].lost_s(1) == 0) is rescheduled
