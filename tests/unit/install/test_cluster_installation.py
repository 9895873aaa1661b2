"""An installation is found only by objects that an administrator wrote, never by those of a tenant."""

import pytest

from kubesim.apiserver.api_server import ApiServer
from kubesim.apiserver.kind_registry import BUILT_IN
from rescheduler.config.policy import Configuration
from rescheduler.daemon.components import lease_key
from rescheduler.install.cluster_installation import (
    AmbiguousInstallation,
    find_installation,
    find_installation_to_remove,
    installed_namespaces,
)
from rescheduler.install.manifests import install_manifests
from rescheduler.kube.api_resources import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    NAMESPACES,
    merge_patch,
    resource_of_object,
)
from rescheduler.kube.client import Client
from rescheduler.kube.transport import InProcessTransport

SERVED = {kind.name for kind in BUILT_IN}
LEASE = {
    "apiVersion": "coordination.k8s.io/v1",
    "kind": "Lease",
    "metadata": {"name": "rescheduler", "labels": {"rescheduler.dev/install-id": "tenant"}},
    "spec": {"holderIdentity": "the-tenant", "leaseDurationSeconds": 3600},
}


@pytest.fixture
async def client():
    client = Client(InProcessTransport(ApiServer(seed=1).handle))
    for name in ("platform", "tenant"):
        await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return client


async def install(client, namespace, kinds=None):
    for item in install_manifests(namespace=namespace):
        is_wanted = item["kind"] in (SERVED if kinds is None else kinds)
        if is_wanted and item["kind"] != "CustomResourceDefinition":
            await client.create(resource_of_object(item), item)


async def forge(client):
    """Create all that a tenant with `edit` can."""
    await install(client, "tenant", {"Deployment", "ConfigMap", "Service", "Role"})
    lease = {**LEASE, "metadata": {**LEASE["metadata"], "namespace": "tenant"}}
    await client.create(resource_of_object(lease), lease)


async def test_a_tenant_can_not_make_an_installation(client):
    await forge(client)
    assert await installed_namespaces(client) == []
    assert await lease_key(client, Configuration()) == "kube-system/rescheduler"


async def test_the_real_installation_is_found_beside_a_forged_one(client):
    await forge(client)
    await install(client, "platform")
    assert await lease_key(client, Configuration()) == "platform/rescheduler"


async def test_a_binding_of_ours_that_says_another_namespace_is_not_believed(client):
    binding = next(
        item for item in install_manifests(namespace="platform") if item["kind"] == "ClusterRoleBinding"
    )
    binding["metadata"]["labels"]["rescheduler.dev/install-id"] = "tenant"
    await client.create(resource_of_object(binding), binding)
    await forge(client)
    assert await installed_namespaces(client) == []


async def test_several_installations_are_named(client):
    await install(client, "platform")
    await install(client, "tenant")
    with pytest.raises(AmbiguousInstallation, match=r"several namespaces: platform, tenant.*--namespace"):
        await find_installation(client, "rescheduler")


@pytest.mark.parametrize("resource", [DEPLOYMENTS, CONFIG_MAPS], ids=lambda each: each.kind)
async def test_an_incomplete_installation(client, resource):
    """Without its Deployment or configuration it is no installation, but it can be removed."""
    await install(client, "platform")
    await client.delete(resource, "platform/rescheduler")
    with pytest.raises(AmbiguousInstallation, match="rescheduler uninstall --namespace platform"):
        await find_installation(client, "rescheduler")
    assert await find_installation_to_remove(client) == "platform"


@pytest.mark.parametrize("resource", [DEPLOYMENTS, CONFIG_MAPS], ids=lambda each: each.kind)
async def test_an_object_of_our_name_with_another_install_id_is_not_ours(client, resource):
    await install(client, "platform")
    other = merge_patch({"metadata": {"labels": {"rescheduler.dev/install-id": "other"}}})
    await client.patch(resource, "platform/rescheduler", other)
    with pytest.raises(AmbiguousInstallation, match=r"with the label rescheduler\.dev/install-id=platform"):
        await find_installation(client, "rescheduler")


async def test_a_lease_of_another_installation_in_our_namespace_is_not_believed(client):
    await install(client, "platform")
    lease = {**LEASE, "metadata": {**LEASE["metadata"], "namespace": "platform"}}
    await client.create(resource_of_object(lease), lease)
    with pytest.raises(AmbiguousInstallation, match="its Lease has another value"):
        await find_installation(client, "rescheduler")
