"""More workloads for stories: StatefulSets, pods with volumes, and pods of unknown owners."""

from typing import Any

from rescheduler.kube.api_resources import PERSISTENT_VOLUMES, STATEFUL_SETS, Object, api_resource
from tests.stories import objects
from tests.stories.sandbox import Sandbox
from tests.stories.waiting import until_object

__all__ = ["CLAIMS", "claim_spec", "claim_templates", "ephemeral_volume", "provided_volumes", "stateful_set"]

CLAIMS = api_resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")


async def stateful_set(
    sandbox: Sandbox, replicas: int, *, app: str = "web", annotations: Object | None = None, **spec: Any
) -> None:
    """All its pods ready, each with those annotations."""
    template: Object = {
        "metadata": {"labels": {"app": app}, "annotations": annotations or {}},
        "spec": objects.pod_spec(sandbox.kubelet.name, **spec.pop("pod", {})),
    }
    await sandbox.client.create(
        STATEFUL_SETS,
        {
            "apiVersion": STATEFUL_SETS.api_version,
            "kind": STATEFUL_SETS.kind,
            "metadata": {"namespace": sandbox.namespace, "name": app},
            "spec": {
                "replicas": replicas,
                "serviceName": app,
                "selector": {"matchLabels": {"app": app}},
                "template": template,
                **spec,
            },
        },
    )
    await sandbox.until_ready(replicas, app=app)


async def provided_volumes(sandbox: Sandbox, count: int) -> None:
    """Volumes that any node can use, but only one at a time; ready to be claimed."""
    names = [f"{sandbox.namespace}-{number}" for number in range(count)]
    for name in names:
        await sandbox.client.create(
            PERSISTENT_VOLUMES,
            {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "metadata": {"name": name},
                "spec": {
                    "capacity": {"storage": "1Gi"},
                    "accessModes": ["ReadWriteOnce"],
                    "persistentVolumeReclaimPolicy": "Retain",
                    "storageClassName": sandbox.namespace,
                    "nfs": {"server": "storage.example.com", "path": "/data"},
                },
            },
        )

    for name in names:
        # A claim that comes before finds nothing, and asks again only a quarter of a minute later.
        await until_object(sandbox.client, PERSISTENT_VOLUMES.as_json, name, _is_available)


def _is_available(volume: Object) -> bool:
    return volume.get("status", {}).get("phase") == "Available"


def claim_templates(sandbox: Sandbox) -> Object:
    return {"volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim_spec(sandbox)}]}


def ephemeral_volume(sandbox: Sandbox, name: str) -> Object:
    """One that every pod has for itself, and that goes with it."""
    return {"name": name, "ephemeral": {"volumeClaimTemplate": {"spec": claim_spec(sandbox)}}}


def claim_spec(sandbox: Sandbox) -> Object:
    return {
        "storageClassName": sandbox.namespace,
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    }
