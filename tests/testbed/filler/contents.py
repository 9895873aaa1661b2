"""The contents of a filled cluster: workloads of many sizes, spread unevenly. The same numbers give the same
cluster.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

__all__ = ["NAMESPACES", "Workload", "plan", "pod_object", "replica_set_object"]

Object = dict[str, Any]

NAMESPACES = tuple(f"team-{letter}" for letter in "abcdefgh")
TEMPLATES = 40
SIZES = (1, 1, 2, 2, 3, 3, 3, 5, 8, 10, 20, 50)
"""Of workloads: most are small, most pods belong to large ones."""
CPU = ("25m", "50m", "100m", "150m", "200m", "250m", "300m", "500m")
MEMORY = ("64Mi", "96Mi", "128Mi", "256Mi", "384Mi", "512Mi", "1Gi")
HOTTEST, COOLEST = 1.5, 0.5
"""How many pods a node gets, compared with the average."""


@dataclass(frozen=True)
class Workload:
    name: str
    namespace: str
    template: int
    nodes: tuple[str, ...]
    """One for each pod."""

    @property
    def labels(self) -> dict[str, str]:
        return {
            "app.kubernetes.io/name": f"service-{self.template:02}",
            "app.kubernetes.io/instance": self.name.rpartition("-")[0],
            "pod-template-hash": self.name.rpartition("-")[2],
        }

    def pod_name(self, ordinal: int) -> str:
        return f"{self.name}-{ordinal:05x}"


def plan(nodes: list[str], pods: int, seed: int = 0) -> Iterator[Workload]:
    """Workloads with that many pods in all."""
    rng = random.Random(seed)
    weights = [rng.uniform(COOLEST, HOTTEST) for _ in nodes]
    places = rng.choices(nodes, weights, k=pods) if nodes else []
    number = 0
    while places:
        size = min(rng.choice(SIZES), len(places))
        template = rng.randrange(TEMPLATES)
        revision = f"{rng.getrandbits(40):010x}"
        yield Workload(
            name=f"service-{template:02}-{number:05}-{revision}",
            namespace=NAMESPACES[template % len(NAMESPACES)],
            template=template,
            nodes=tuple(places[:size]),
        )
        del places[:size]
        number += 1


def replica_set_object(workload: Workload) -> Object:
    selector = {"matchLabels": workload.labels}
    template = {"metadata": {"labels": workload.labels}, "spec": _spec(workload.template)}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": workload.name, "namespace": workload.namespace, "labels": workload.labels},
        "spec": {"replicas": len(workload.nodes), "selector": selector, "template": template},
    }


def pod_object(workload: Workload, ordinal: int, owner_uid: str = "") -> Object:
    metadata: Object = {
        "name": workload.pod_name(ordinal),
        "namespace": workload.namespace,
        "labels": workload.labels,
        "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": "9090"},
    }
    if owner_uid:
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": workload.name, "uid": owner_uid}
        metadata["ownerReferences"] = [owner | {"controller": True, "blockOwnerDeletion": True}]
    spec = _spec(workload.template) | {"nodeName": workload.nodes[ordinal]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _spec(template: int) -> Object:
    """Return a typical spec of a service: probes, environment, a configuration, sometimes a constraint."""
    rng = random.Random(template)
    name = f"service-{template:02}"
    requests = {"cpu": rng.choice(CPU), "memory": rng.choice(MEMORY)}
    probe = {"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 10}
    container = {
        "name": "main",
        "image": f"registry.example.com/shop/{name}:1.{template}.0",
        "ports": [{"containerPort": 8080, "name": "http"}],
        "resources": {"requests": requests, "limits": {"memory": "2Gi"}},
        "env": [{"name": f"SETTING_{number}", "value": f"value-{number}"} for number in range(6)],
        "readinessProbe": probe,
        "livenessProbe": probe | {"initialDelaySeconds": 30},
        "volumeMounts": [
            {"name": "config", "mountPath": "/etc/config"},
            {"name": "scratch", "mountPath": "/tmp"},
        ],
    }
    spec: Object = {
        "containers": [container],
        "volumes": [
            {"name": "config", "configMap": {"name": name}},
            {"name": "scratch", "emptyDir": {}},
        ],
        "terminationGracePeriodSeconds": 30,
    }
    if template % 4 == 0:
        selector = {"matchLabels": {"app.kubernetes.io/name": name}}
        spec["topologySpreadConstraints"] = [
            {
                "maxSkew": 2,
                "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": selector,
            }
        ]
    if template % 5 == 0:
        container_2 = {
            "name": "proxy",
            "image": "registry.example.com/mesh/proxy:2.1",
            "resources": {"requests": {"cpu": "10m"}},
        }
        spec["containers"] = [container, container_2]
    return spec
