"""When Karpenter will remove a node, read from its NodeClaim where such objects exist."""

import asyncio
import contextlib
from datetime import UTC, datetime, timedelta

import pytest

from rescheduler.cluster.codecs.record_resources import NODES
from rescheduler.config.policy import Policy
from rescheduler.daemon.node_evictions import NodeClaimWatch
from rescheduler.kube.api_resources import CUSTOM_RESOURCE_DEFINITIONS, api_resource, merge_patch
from rescheduler.kube.client import Client
from rescheduler.kube.informer import Informer
from rescheduler.migrations.runtime_state import RuntimeState, RuntimeStateHolder

NODE_CLAIMS = api_resource("karpenter.sh", "v1", "nodeclaims", "NodeClaim", namespaced=False)
TIMESTAMP = "karpenter.sh/nodeclaim-termination-timestamp"
END = datetime(2026, 1, 1, 12, tzinfo=UTC)
DELETED = END - timedelta(seconds=30)
"""When pods with the default grace period are deleted."""


async def add_kind(client):
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "nodeclaims", "singular": "nodeclaim", "kind": "NodeClaim"}
    spec = {"group": "karpenter.sh", "scope": "Cluster", "names": names, "versions": [version]}
    await client.create(
        CUSTOM_RESOURCE_DEFINITIONS, {"metadata": {"name": "nodeclaims.karpenter.sh"}, "spec": spec}
    )


async def add_node(client, labels):
    await client.create(NODES.as_json, {"metadata": {"name": "worker", "labels": labels}, "spec": {}})


async def claim(client, timestamp):
    await client.create(
        NODE_CLAIMS,
        {
            "apiVersion": NODE_CLAIMS.api_version,
            "kind": NODE_CLAIMS.kind,
            "metadata": {"name": "claim", "annotations": {TIMESTAMP: timestamp}},
            "status": {"nodeName": "worker"},
        },
    )


@contextlib.asynccontextmanager
async def watching(client):
    runtime, nodes = RuntimeStateHolder(RuntimeState(Policy())), Informer(client, NODES)
    watch = asyncio.create_task(NodeClaimWatch(client, nodes, runtime).run())
    try:
        async with nodes.running():
            await nodes.synced()
            yield runtime
    finally:
        watch.cancel()


async def until(runtime, deadlines):
    async with asyncio.timeout(60):
        while runtime.current.node_deadlines != deadlines:  # noqa: ASYNC110 - virtual time
            await asyncio.sleep(0.1)


async def test_are_known_until_the_claim_is_gone(client):
    await add_kind(client)
    await add_node(client, {"karpenter.sh/nodepool": "default"})
    await claim(client, END.isoformat())
    async with watching(client) as runtime:
        await until(runtime, {"worker": DELETED})
        sooner = END - timedelta(minutes=1)
        change = merge_patch({"metadata": {"annotations": {TIMESTAMP: sooner.isoformat()}}})
        await client.patch(NODE_CLAIMS, "claim", change)
        await until(runtime, {"worker": DELETED - timedelta(minutes=1)})
        await client.delete(NODE_CLAIMS, "claim")
        await until(runtime, {})


@pytest.mark.parametrize(
    "timestamp",
    ["soon", "2026-01-01T12:00:00", "9" * 5000, "0001-01-01T00:00:00Z"],
    ids=lambda text: text[:25],
)
async def test_a_timestamp_that_means_nothing_is_no_deadline(timestamp, client):
    await add_kind(client)
    await add_node(client, {"karpenter.sh/nodepool": "default"})
    await claim(client, timestamp)
    async with watching(client) as runtime:
        await asyncio.sleep(30)
        assert runtime.current.node_deadlines == {}


@pytest.mark.parametrize(
    ("labels", "is_asked_for"),
    [({}, False), ({"karpenter.sh/nodepool": "default"}, True)],
    ids=["without", "with"],
)
async def test_are_asked_for_in_clusters_of_karpenter_only(labels, is_asked_for, client):
    """Elsewhere the server does not have the kind: every request would fail."""
    await add_node(client, labels)
    asked = []
    observed = Client(client.transport, observer=lambda call, _code, _seconds: asked.append(call.resource))
    async with watching(observed):
        await asyncio.sleep(30)
    assert ("nodeclaims.karpenter.sh" in asked) is is_asked_for, asked
