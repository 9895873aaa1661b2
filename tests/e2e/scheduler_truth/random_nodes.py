"""Nodes that differ in all that filters look at, some of them lacking it."""

from random import Random

from tests.e2e.scheduler_truth.worlds import NODES, Object

__all__ = ["TAINTS", "ZONES", "random_nodes"]

ZONES = ("east", "west", "south")
TAINTS: tuple[Object, ...] = (
    {"key": "dedicated", "value": "batch", "effect": "NoSchedule"},
    {"key": "dedicated", "value": "web", "effect": "NoExecute"},
    {"key": "spot", "effect": "NoSchedule"},
    {"key": "old", "value": "yes", "effect": "PreferNoSchedule"},
)


def random_nodes(dice: Random) -> list[Object]:
    tainted = dice.choice((0.0, 0.2, 0.5))
    return [_node(name, dice, tainted) for name in NODES]


def _node(name: str, dice: Random, tainted: float) -> Object:
    labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": dice.choice(ZONES)}
    for label in list(labels):
        if dice.random() < 0.12:
            del labels[label]
    if dice.random() < 0.6:
        labels["disk"] = dice.choice(("ssd", "hdd"))
    if dice.random() < 0.7:
        labels["generation"] = dice.choice(("3", "5", "7", "next", "0"))
    spec: Object = {}
    if dice.random() < tainted:
        spec["taints"] = dice.sample(TAINTS, dice.randint(1, 2))
    if dice.random() < tainted / 2:
        spec["unschedulable"] = True
    allocatable = {
        "cpu": dice.choice(("2", "3500m", "4", "8")),
        "memory": dice.choice(("4Gi", "4000M", "6Gi", "12Gi")),
        "ephemeral-storage": "20Gi",
        "pods": str(dice.choice((3, 5, 8, 20))),
    }
    if dice.random() < 0.6:
        allocatable["example.com/gpu"] = str(dice.randint(0, 3))
    if dice.random() < 0.3:
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
