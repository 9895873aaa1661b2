"""The Kubernetes client library of another project works with the simulator.

Its models are generated from Kubernetes' own API and refuse what is malformed, so every answer that it takes
is shaped as the real server shapes it.
"""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from kubernetes_asyncio import client, config, watch
from kubernetes_asyncio.client.exceptions import ApiException

from kubesim import ApiServer
from kubesim.apiserver.api_messages import Object
from kubesim.kubelets import Kubelets
from kubesim.scenario import initial_objects
from kubesim.scenario.scenario_file import lopsided_shop
from kubesim.sockets.loopback_server import serve


@pytest.fixture(scope="module")
def shop() -> list[Object]:
    return initial_objects(lopsided_shop(), datetime.now(UTC))


@pytest.fixture
async def api(tmp_path: Path, shop: list[Object]) -> AsyncIterator[client.ApiClient]:
    server = ApiServer(seed=1)
    server.load(shop)
    Kubelets(server.cluster)
    async with await serve(server, token="secret") as running:
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(running.kubeconfig)
        settings = client.Configuration()
        await config.load_kube_config(str(kubeconfig), client_configuration=settings)
        async with client.ApiClient(settings) as connection:
            yield connection


async def test_it_reads_nodes_pods_and_workloads_as_typed_objects(api):
    nodes = await client.CoreV1Api(api).list_node()
    assert [node.metadata.name for node in nodes.items] == [f"worker-{number}" for number in range(1, 7)]
    conditions = {(each.type, each.status) for node in nodes.items for each in node.status.conditions}
    assert ("Ready", "True") in conditions
    page = await client.CoreV1Api(api).list_namespaced_pod("shop", label_selector="app=web", limit=4)
    rest = await client.CoreV1Api(api).list_namespaced_pod(
        "shop", label_selector="app=web", limit=4, _continue=page.metadata._continue
    )
    assert (len(page.items), len(rest.items)) == (4, 2)
    web = await client.AppsV1Api(api).read_namespaced_deployment("web", "shop")
    assert (web.spec.replicas, web.status.ready_replicas) == (6, 6)


async def test_it_creates_changes_and_deletes(api):
    core = client.CoreV1Api(api)
    made = await core.create_namespaced_config_map(
        "shop", client.V1ConfigMap(metadata=client.V1ObjectMeta(name="settings"), data={"a": "1"})
    )
    made.data["a"] = "2"
    changed = await core.replace_namespaced_config_map("settings", "shop", made)
    assert changed.data == {"a": "2"}
    with pytest.raises(ApiException, match="the object has been modified") as refused:
        await core.replace_namespaced_config_map("settings", "shop", made)
    assert refused.value.status == 409
    patched = await core.patch_namespaced_config_map("settings", "shop", {"data": {"b": "3"}})
    assert patched.data == {"a": "2", "b": "3"}
    await core.delete_namespaced_config_map("settings", "shop")
    with pytest.raises(ApiException) as gone:
        await core.read_namespaced_config_map("settings", "shop")
    assert gone.value.status == 404


async def test_it_scales_and_reads_the_scale(api):
    apps = client.AppsV1Api(api)
    await apps.patch_namespaced_deployment_scale("web", "shop", {"spec": {"replicas": 9}})
    scale = await apps.read_namespaced_deployment_scale("web", "shop")
    assert (scale.spec.replicas, scale.status.selector) == (9, "app=web")


async def test_a_budget_refuses_its_eviction(api):
    core = client.CoreV1Api(api)
    pods = await core.list_namespaced_pod("shop", label_selector="app=checkout")
    name = pods.items[0].metadata.name
    eviction = client.V1Eviction(metadata=client.V1ObjectMeta(name=name, namespace="shop"))
    with pytest.raises(ApiException, match="violate the pod's disruption budget") as refused:
        await core.create_namespaced_pod_eviction(name, "shop", eviction)
    assert refused.value.status == 429


async def test_it_watches_a_pod_start_and_end(api):
    core = client.CoreV1Api(api)
    start = (await core.list_namespaced_pod("shop")).metadata.resource_version
    container = client.V1Container(name="main", image="example.com/app:1")
    pod = client.V1Pod(
        metadata=client.V1ObjectMeta(name="one"),
        spec=client.V1PodSpec(containers=[container], node_name="worker-6"),
    )
    await core.create_namespaced_pod("shop", pod)
    reported = []
    stream = watch.Watch()
    async with stream.stream(
        core.list_namespaced_pod,
        "shop",
        resource_version=start,
        field_selector="metadata.name=one",
        timeout_seconds=30,
    ) as events:
        async for event in events:
            reported.append((event["type"], event["object"].status.phase))
            if reported[-1] == ("MODIFIED", "Running") and not event["object"].metadata.deletion_timestamp:
                await core.delete_namespaced_pod("one", "shop")
            if event["type"] == "DELETED":
                break
    assert reported[0] == ("ADDED", "Pending")
    assert ("MODIFIED", "Running") in reported
    assert reported[-1][0] == "DELETED"


async def test_it_applies_on_the_server_side(api):
    core = client.CoreV1Api(api)
    wanted = {
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "applied", "namespace": "shop"}, "data": {"a": "1"},
    }  # fmt: skip
    made = await core.patch_namespaced_config_map(
        "applied", "shop", wanted, field_manager="somebody", _content_type="application/apply-patch+yaml"
    )
    assert made.data == {"a": "1"}


async def test_a_wrong_token_is_refused(api):
    api.configuration.api_key["BearerToken"] = "Bearer wrong"
    with pytest.raises(ApiException) as refused:
        await client.CoreV1Api(api).list_node()
    assert refused.value.status == 401
