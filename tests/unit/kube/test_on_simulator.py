"""Client and informer over HTTPS, with a kubeconfig, against the simulated API server."""

import asyncio
from pathlib import Path

import pytest

from kubesim.apiserver.api_server import ApiServer
from kubesim.apiserver.fault_injection import InjectedFault
from kubesim.sockets.loopback_server import serve
from rescheduler.cluster.codecs.record_resources import NODES, PODS
from rescheduler.kube import errors
from rescheduler.kube.access.cluster_access import StoredCredentials
from rescheduler.kube.access.cluster_config import ClusterAccess, load_cluster_access
from rescheduler.kube.api_resources import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    POD_DISRUPTION_BUDGETS,
    apply_patch,
    json_patch,
    merge_patch,
    strategic_patch,
)
from rescheduler.kube.client import Client
from rescheduler.kube.http_transport import HttpTransport
from rescheduler.kube.informer import Informer


@pytest.fixture
async def server():
    return ApiServer(seed=1)


@pytest.fixture
async def client(server, tmp_path: Path):
    """Over TLS, with a token, as a user's kubeconfig has it."""
    async with await serve(server, token="secret") as running:
        (tmp_path / "kubeconfig").write_text(running.kubeconfig)
        made = Client(
            HttpTransport(load_cluster_access(tmp_path / "kubeconfig", environment={})), timeout_s=5
        )
        yield made
        await made.close()


def config_map(name: str, **data: str) -> dict:
    metadata = {"namespace": "default", "name": name}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def pod(name: str, **labels: str) -> dict:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": "default", "name": name, "labels": labels},
        "spec": {"containers": [{"name": "main", "image": "image"}]},
    }


async def test_an_object_from_its_making_to_its_end(client):
    made = await client.create(CONFIG_MAPS, config_map("a", x="1"))
    assert await client.get(CONFIG_MAPS, "default/a") == made
    changed = await client.replace(CONFIG_MAPS, made | {"data": {"x": "2"}})
    assert changed["data"] == {"x": "2"}
    with pytest.raises(errors.Conflict):
        await client.replace(CONFIG_MAPS, made)
    with pytest.raises(errors.AlreadyExists):
        await client.create(CONFIG_MAPS, config_map("a"))
    with pytest.raises(errors.Conflict, match="the UID in the precondition"):
        await client.delete(CONFIG_MAPS, "default/a", uid="another")
    await client.delete(CONFIG_MAPS, "default/a", uid=made["metadata"]["uid"])
    with pytest.raises(errors.NotFound):
        await client.get(CONFIG_MAPS, "default/a")


async def test_a_dry_run_changes_nothing(client):
    await client.create(CONFIG_MAPS, config_map("a"), dry_run=True)
    assert "a" not in [item["metadata"]["name"] for item in (await client.list(CONFIG_MAPS)).items]


@pytest.mark.parametrize(
    "patch",
    [
        pytest.param(json_patch([{"op": "add", "path": "/data/y", "value": "2"}]), id="JSON"),
        pytest.param(merge_patch({"data": {"y": "2"}}), id="merge"),
        pytest.param(strategic_patch({"data": {"y": "2"}}), id="strategic merge"),
        pytest.param(apply_patch(config_map("a", y="2"), force=True), id="server-side apply"),
    ],
)
async def test_every_kind_of_patch_is_understood(patch, client):
    await client.create(CONFIG_MAPS, config_map("a", x="1"))
    assert (await client.patch(CONFIG_MAPS, "default/a", patch))["data"] == {"x": "1", "y": "2"}


async def test_a_deployment_is_scaled_through_its_scale(client):
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod("x")["spec"]}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"namespace": "default", "name": "web"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": template},
    }
    await client.create(DEPLOYMENTS, deployment)
    scale = await client.get(DEPLOYMENTS.scale, "default/web")
    assert (scale["kind"], scale["spec"]["replicas"]) == ("Scale", 2)
    await client.patch(DEPLOYMENTS.scale, "default/web", merge_patch({"spec": {"replicas": 5}}))
    assert (await client.get(DEPLOYMENTS, "default/web"))["spec"]["replicas"] == 5


async def test_a_budget_refuses_an_eviction_by_name(client):
    await client.create(PODS, pod("web", app="web"))
    running = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    await client.patch(PODS.status, "default/web", merge_patch({"status": running}))
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"namespace": "default", "name": "guard"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    }
    await client.create(POD_DISRUPTION_BUDGETS, budget)
    with pytest.raises(errors.BudgetRefused) as refused:
        await client.evict("default/web")
    assert refused.value.budgets == ("default/guard",)
    await client.delete(POD_DISRUPTION_BUDGETS, "default/guard")
    await client.evict("default/web", grace_s=0)


async def test_an_invalid_object_is_refused_with_its_fields(client):
    with pytest.raises(errors.Invalid) as refused:
        await client.create(PODS, pod("UPPER"))
    assert "metadata.name" in [cause.field for cause in refused.value.causes]


async def test_a_lost_answer_leaves_a_write_in_doubt_that_was_done(client, server):
    server.faults.add(InjectedFault("lose-response", verbs=("create",)))
    with pytest.raises(errors.Unreachable) as lost:
        await client.create(CONFIG_MAPS, config_map("a"))
    assert lost.value.may_have_happened
    assert await client.get(CONFIG_MAPS, "default/a")


async def test_a_wrong_token_is_unauthorized(server):
    async with await serve(server, token="secret", tls=False) as running:
        stranger = ClusterAccess(running.url, StoredCredentials(authorization="Bearer wrong"), "a test")
        client = Client(HttpTransport(stranger))
        with pytest.raises(errors.Unauthorized, match="Check the credentials"):
            await client.list(NODES)
        await client.close()


async def test_an_informer_follows_over_the_network_and_survives_lost_connections(client, server):
    informer = Informer(client, CONFIG_MAPS)
    arrived = asyncio.Event()
    informer.subscribe(lambda old, new: arrived.set() if new and new["metadata"]["name"] == "late" else None)
    async with asyncio.timeout(10), informer.running():
        await informer.synced()
        server.watches.drop()
        await client.create(CONFIG_MAPS, config_map("late"))
        await arrived.wait()
        assert "default/late" in informer
