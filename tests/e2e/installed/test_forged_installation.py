"""What a tenant with `edit` in one namespace creates there is never taken for an installation."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rescheduler.api.podmigration_crd import PODMIGRATION_CRD_NAME
from rescheduler.daemon.own_objects import read_state
from rescheduler.install.install_options import DaemonValues, Options, WebhookValues
from rescheduler.install.manifests import install_manifests
from rescheduler.kube.api_resources import CONFIG_MAPS, DEPLOYMENTS, LEASES
from rescheduler.kube.client import Client
from tests.e2e.installed.commands import Done, apply_manifests, rescheduler
from tests.stories.sandbox import AT_ONCE
from tests.testbed import ControlPlane
from tests.testbed.options import QUICK

Play = Callable[..., Awaitable[Any]]
Run = Callable[..., Awaitable[Done]]

WITHOUT_PODS = Options(daemon=DaemonValues(replicas=0), webhook=WebhookValues(replicas=0))
"""So that a node can be drained at once: pods that have just started are not moved."""
AS_TENANT = ("--as=mallory", "--as-group=system:authenticated", "-n", "tenant")


@pytest.fixture(scope="module")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with ControlPlane(tmp_path_factory.mktemp("forged"), QUICK) as started:
        started.kubectl("create", "namespace", "tenant")
        started.kubectl(
            "create", "rolebinding", "mallory", "-n", "tenant", "--clusterrole=edit", "--user=mallory"
        )
        yield started


@pytest.fixture
def run(control_plane: ControlPlane) -> Run:
    async def invoke(*arguments: str) -> Done:
        return await asyncio.to_thread(rescheduler, *arguments, kubeconfig=control_plane.kubeconfig)

    return invoke


def forged() -> list[dict[str, Any]]:
    """All that is installed, as far as `edit` may write it, and a Lease that is held for an hour."""
    writable = {"Deployment", "ConfigMap", "Service"}
    items = [item for item in install_manifests(WITHOUT_PODS, namespace="tenant") if item["kind"] in writable]
    labels = items[0]["metadata"]["labels"]
    state = {"pause": json.dumps({"paused": False}), "status": "{}"}
    lease = {
        "holderIdentity": "mallory",
        "leaseDurationSeconds": 3600,
        "renewTime": "2099-01-01T00:00:00.000000Z",
    }
    return [
        *items,
        {
            "apiVersion": "v1", "kind": "ConfigMap", "data": state,
            "metadata": {"name": "rescheduler-state", "namespace": "tenant", "labels": labels},
        },
        {
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": lease,
            "metadata": {"name": "rescheduler", "namespace": "tenant", "labels": labels},
        },
    ]  # fmt: skip


async def in_tenant(client: Client) -> dict[str, tuple[str, str]]:
    """Return uid and version of what could be written to; of Deployments the generation: status changes."""
    found = {}
    for resource in (CONFIG_MAPS, LEASES, DEPLOYMENTS):
        for item in (await client.list(resource, namespace="tenant")).items:
            about = item["metadata"]
            version = about["generation" if resource is DEPLOYMENTS else "resourceVersion"]
            found[f"{resource.kind} {about['name']}"] = (about["uid"], str(version))
    return found


async def test_a_tenants_objects_neither_receive_nor_hold_up_what_users_request(
    client: Client, control_plane: ControlPlane, start_kubelet: Play, run: Run, tmp_path: Path
) -> None:
    kubelet = await start_kubelet({"pods": [AT_ONCE]}, nodes=2)
    node = min(kubelet.played)
    manifests = json.dumps({"apiVersion": "v1", "kind": "List", "items": forged()})
    await asyncio.to_thread(control_plane.kubectl, "apply", *AS_TENANT, "-f", "-", stdin=manifests)
    binding = next(
        item for item in install_manifests(namespace="tenant") if item["kind"] == "ClusterRoleBinding"
    )
    with pytest.raises(RuntimeError, match="forbidden"):
        control_plane.kubectl("create", *AS_TENANT, "-f", "-", stdin=json.dumps(binding))
    before = await in_tenant(client)

    drained = await run("drain", node, "--install")
    assert drained.returncode == 0, drained.stdout + drained.stderr
    assert "mallory" not in drained.stderr
    assert await client.get(LEASES, "kube-system/rescheduler"), "before it is installed"

    values = tmp_path / "values.yaml"
    values.write_text(json.dumps({"daemon": {"replicas": 0}, "webhook": {"replicas": 0}}))
    options = ("--namespace", "platform", "--create-namespace", "--values", str(values))
    await asyncio.to_thread(apply_manifests, control_plane, *options)
    control_plane.wait_until_served(PODMIGRATION_CRD_NAME)
    paused = await run("pause", "--why", "the fair")
    assert "Paused (ConfigMap platform/rescheduler-state)" in paused.stdout, paused.stderr
    assert (await read_state(client, "platform"))[0].why == "the fair"
    status = await run("status", "-o", "json")
    assert json.loads(status.stdout)["pause"]["paused"] is True
    resumed = await run("resume")
    assert "Resumed (ConfigMap platform/rescheduler-state)" in resumed.stdout, resumed.stderr
    await asyncio.to_thread(control_plane.kubectl, "uncordon", node)
    drained = await run("drain", node)
    assert drained.returncode == 0, drained.stdout + drained.stderr
    assert (await client.get(LEASES, "platform/rescheduler"))["metadata"]["labels"]
    removed = await run("uninstall", "--yes", "--history")
    assert removed.returncode == 0, removed.stdout + removed.stderr
    assert "tenant" not in removed.stdout
    assert await in_tenant(client) == before
