"""Workloads that the facts don't need: StatefulSets, with and without claims."""

from typing import Any

from rescheduler.kube.resources import PERSISTENT_VOLUMES, STATEFUL_SETS, Object
from tests.e2e.facts import objects
from tests.e2e.facts.stage import Stage

__all__ = ["claim_templates", "provided_volumes", "stateful_set"]


async def stateful_set(stage: Stage, replicas: int, *, app: str = "web", **spec: Any) -> None:
    """All its pods ready."""
    template: Object = {
        "metadata": {"labels": {"app": app}},
        "spec": objects.pod_spec(stage.kubelet.name, **spec.pop("pod", {})),
    }
    await stage.client.create(
        STATEFUL_SETS,
        {
            "apiVersion": STATEFUL_SETS.api_version,
            "kind": STATEFUL_SETS.kind,
            "metadata": {"namespace": stage.namespace, "name": app},
            "spec": {
                "replicas": replicas,
                "serviceName": app,
                "selector": {"matchLabels": {"app": app}},
                "template": template,
                **spec,
            },
        },
    )
    await stage.until_ready(replicas, app=app)


async def provided_volumes(stage: Stage, count: int) -> None:
    """Volumes that any node can use, but only one at a time."""
    for number in range(count):
        await stage.client.create(
            PERSISTENT_VOLUMES,
            {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "metadata": {"name": f"{stage.namespace}-{number}"},
                "spec": {
                    "capacity": {"storage": "1Gi"},
                    "accessModes": ["ReadWriteOnce"],
                    "persistentVolumeReclaimPolicy": "Retain",
                    "storageClassName": stage.namespace,
                    "hostPath": {"path": "/data"},
                },
            },
        )


def claim_templates(stage: Stage) -> Object:
    return {
        "volumeClaimTemplates": [
            {
                "metadata": {"name": "data"},
                "spec": {
                    "storageClassName": stage.namespace,
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1Gi"}},
                },
            }
        ]
    }
