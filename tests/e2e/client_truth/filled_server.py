"""Create the rich objects on a server, with their statuses."""

from collections.abc import Mapping
from typing import NamedTuple

from rescheduler.cluster.codecs.record_resources import NODES, PODS
from rescheduler.kube.access.cluster_config import load_cluster_access
from rescheduler.kube.api_resources import (
    PRIORITY_CLASSES,
    ApiResource,
    Object,
    api_resource,
    identity_of_object,
    merge_patch,
)
from rescheduler.kube.client import Client
from rescheduler.kube.http_transport import HttpTransport
from tests.e2e.client_truth import rich
from tests.testbed import ControlPlane

__all__ = ["FilledServer", "stock"]

RUNTIME_CLASSES = api_resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", namespaced=False)


class FilledServer(NamedTuple):
    """Versions before anything was there, for watches that see it all come."""

    pods_before: str
    nodes_before: str


async def stock(plane: ControlPlane) -> FilledServer:
    client = Client(HttpTransport(load_cluster_access(plane.kubeconfig)))
    try:
        before = FilledServer(*[(await client.list(each)).resource_version for each in (PODS, NODES)])
        await client.create(RUNTIME_CLASSES, rich.RUNTIME_CLASS)
        await client.create(PRIORITY_CLASSES, rich.URGENT)
        for wanted in rich.PODS:
            await _make(client, PODS.as_json, wanted)
        for wanted in rich.NODES:
            await _make(client, NODES.as_json, wanted)
        # Finalizers and a node without a kubelet keep these two in the state of being deleted.
        await client.delete(PODS, "default/marked")
        await client.delete(NODES, "loaded")
        # And these come and go, so that a watch reports a deletion.
        await client.create(PODS, rich.PODS[0] | {"metadata": {"name": "brief", "namespace": "default"}})
        await client.delete(PODS, "default/brief")
        await client.create(NODES, rich.NODES[0] | {"metadata": {"name": "brief"}})
        await client.delete(NODES, "brief")
    finally:
        await client.close()
    return before


async def _make(client: Client, resource: ApiResource[Object], wanted: Mapping[str, object]) -> None:
    made = await client.create(resource, wanted)
    if status := wanted.get("status"):
        await client.patch(resource.status, identity_of_object(made).key, merge_patch({"status": status}))
