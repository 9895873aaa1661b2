"""Pods that are there, and pods to ask about."""

from collections.abc import Callable
from random import Random

from tests.e2e.scheduler_truth import random_constraints as constraints
from tests.e2e.scheduler_truth.random_storage import add_disk, add_volumes
from tests.e2e.scheduler_truth.worlds import HEAVY, NAMESPACES, NODES, Object

__all__ = ["asking_pod", "residents"]

Ingredient = Callable[[Random, Object], object]

_RESIDENT: tuple[tuple[Ingredient, float], ...] = (
    (constraints.add_requests, 0.6),
    (constraints.add_ports, 0.35),
    (constraints.add_anti_affinity, 0.15),
    (constraints.add_affinity, 0.1),
    (add_disk, 0.25),
)
_ASKING: tuple[tuple[Ingredient, float], ...] = (
    (constraints.add_tolerations, 3),
    (constraints.add_node_selector, 1),
    (constraints.add_node_affinity, 1.5),
    (constraints.add_requests, 4),
    (constraints.add_ports, 6),
    (constraints.add_affinity, 1.5),
    (constraints.add_anti_affinity, 3),
    (constraints.add_spread, 5),
    (add_disk, 3),
)


def residents(dice: Random, claims: dict[str, list[str]]) -> list[Object]:
    """Some of them finished, ending, or in the middle of a resize."""
    crowd = dice.choice((1, 2, 4))
    found = []
    for node in NODES:
        taken: set[int] = set()
        for _ in range(dice.randint(0, crowd)):
            pod = _pod(dice, f"resident-{len(found)}")
            pod["spec"]["nodeName"] = node
            for add, chance in _RESIDENT:
                if dice.random() < chance:
                    add(dice, pod)
            _keep_off(taken, pod)
            if dice.random() < 0.3:
                add_volumes(dice, pod, claims[pod["metadata"]["namespace"]])
            _live(dice, pod)
            found.append(pod)
    return found


def _keep_off(taken: set[int], pod: Object) -> None:
    """No host port twice on a node: no kubelet allows it, and a real scheduler forgets one with the other."""
    for container in (*pod["spec"]["containers"], *pod["spec"].get("initContainers", ())):
        numbers = {port["hostPort"] for port in container.get("ports", ())}
        if numbers & taken:
            del container["ports"]
        else:
            taken |= numbers


def _live(dice: Random, pod: Object) -> None:
    truth = pod["truth"] = {}
    fate = dice.random()
    if fate < 0.08:
        truth["status"] = {"phase": dice.choice(("Succeeded", "Failed"))}
    elif fate < 0.18:
        truth["ends"] = True
    elif fate < 0.3:
        truth["status"] = _resizing(dice, pod)


def _resizing(dice: Random, pod: Object) -> Object:
    def resources() -> Object:
        return {"cpu": dice.choice(("200m", "1", "1800m")), "memory": dice.choice(("256Mi", "2Gi"))}

    statuses = [
        {
            "name": container["name"],
            "image": "none",
            "imageID": "",
            "ready": True,
            "restartCount": 0,
            "allocatedResources": resources(),
            **({"resources": {"requests": resources()}} if dice.random() < 0.7 else {}),
        }
        for container in pod["spec"]["containers"]
    ]
    status: Object = {"phase": "Running", "containerStatuses": statuses}
    if dice.random() < 0.4:
        reason = dice.choice(("Infeasible", "Deferred"))
        status["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": reason}]
    if dice.random() < 0.3:
        status["allocatedResources"] = resources()
        status["resources"] = {"requests": resources()}
    return status


def asking_pod(dice: Random, name: str, claims: dict[str, list[str]]) -> Object:
    pod = _pod(dice, name)
    ingredients = [add for add, _ in _ASKING]
    weights = [weight for _, weight in _ASKING]
    # Ports go into sidecars too, so requests come first.
    for add in sorted(
        set(dice.choices(ingredients, weights, k=dice.choice((1, 1, 2, 3)))), key=ingredients.index
    ):
        add(dice, pod)
    if dice.random() < 0.22:
        add_volumes(dice, pod, claims[pod["metadata"]["namespace"]])
    if dice.random() < 0.75:
        pod["spec"].setdefault("tolerations", []).append({"operator": "Exists"})
    return pod


def _pod(dice: Random, name: str) -> Object:
    labels = {"app": dice.choice(constraints.APPS)}
    if dice.random() < 0.6:
        labels["tier"] = dice.choice(constraints.TIERS)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": dice.choice(tuple(NAMESPACES)), "labels": labels},
        "spec": {
            "containers": [
                {"name": f"main-{number}", "image": "none"} for number in range(dice.choice((1, 1, 2)))
            ],
            "terminationGracePeriodSeconds": 3600,
            **({"runtimeClassName": HEAVY} if dice.random() < 0.1 else {}),
        },
    }
