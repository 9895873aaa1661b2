"""Nodes that differ in everything that filters read."""

from random import Random

from tests.e2e.scheduler_truth.random_cluster import NODES, Object

__all__ = ["TAINTS", "ZONES", "random_nodes"]

ZONES = ("east", "west", "south")
TAINTS: tuple[Object, ...] = (
    {"key": "dedicated", "value": "batch", "effect": "NoSchedule"},
    {"key": "dedicated", "value": "web", "effect": "NoExecute"},
    {"key": "spot", "effect": "NoSchedule"},
    {"key": "old", "value": "yes", "effect": "PreferNoSchedule"},
)


def random_nodes(rng: Random) -> list[Object]:
    tainted = rng.choice((0.0, 0.2, 0.5))
    return [_node(name, rng, tainted) for name in NODES]


def _node(name: str, rng: Random, tainted: float) -> Object:
    labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": rng.choice(ZONES)}
    for label in list(labels):
        if rng.random() < 0.12:
            del labels[label]
    if rng.random() < 0.6:
        labels["disk"] = rng.choice(("ssd", "hdd"))
    if rng.random() < 0.7:
        labels["generation"] = rng.choice(("3", "5", "7", "next", "0"))
    spec: Object = {}
    if rng.random() < tainted:
        spec["taints"] = rng.sample(TAINTS, rng.randint(1, 2))
    if rng.random() < tainted / 2:
        spec["unschedulable"] = True
    allocatable = {
        "cpu": rng.choice(("2", "3500m", "4", "8")),
        "memory": rng.choice(("4Gi", "4000M", "6Gi", "12Gi")),
        "ephemeral-storage": "20Gi",
        "pods": str(rng.choice((3, 5, 8, 20))),
    }
    if rng.random() < 0.6:
        allocatable["example.com/gpu"] = str(rng.randint(0, 3))
    if rng.random() < 0.3:
        allocatable["hugepages-2Mi"] = "64Mi"
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": {
            "capacity": allocatable,
            "allocatable": allocatable,
            "conditions": [{"type": "Ready", "status": "True", "reason": "Truth", "message": "asked"}],
        },
    }
