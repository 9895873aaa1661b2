"""Existing pods, and pods to ask about."""

from collections.abc import Callable
from random import Random

from tests.e2e.scheduler_truth import random_constraints as constraints
from tests.e2e.scheduler_truth.random_cluster import HEAVY, NAMESPACES, NODES, Object
from tests.e2e.scheduler_truth.random_storage import add_disk, add_volumes

__all__ = ["asking_pod", "residents"]

PodFeature = Callable[[Random, Object], object]

_RESIDENT: tuple[tuple[PodFeature, float], ...] = (
    (constraints.add_requests, 0.6),
    (constraints.add_ports, 0.35),
    (constraints.add_anti_affinity, 0.15),
    (constraints.add_affinity, 0.1),
    (add_disk, 0.25),
)
_ASKING: tuple[tuple[PodFeature, float], ...] = (
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


def residents(rng: Random, claims: dict[str, list[str]]) -> list[Object]:
    """Some of them finished, ending, or in the middle of a resize."""
    crowd = rng.choice((1, 2, 4))
    found = []
    for node in NODES:
        taken: set[int] = set()
        for _ in range(rng.randint(0, crowd)):
            pod = _pod(rng, f"resident-{len(found)}")
            pod["spec"]["nodeName"] = node
            for add, chance in _RESIDENT:
                if rng.random() < chance:
                    add(rng, pod)
            _keep_off(taken, pod)
            if rng.random() < 0.3:
                add_volumes(rng, pod, claims[pod["metadata"]["namespace"]])
            _live(rng, pod)
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


def _live(rng: Random, pod: Object) -> None:
    truth = pod["truth"] = {}
    outcome = rng.random()
    if outcome < 0.08:
        truth["status"] = {"phase": rng.choice(("Succeeded", "Failed"))}
    elif outcome < 0.18:
        truth["ends"] = True
    elif outcome < 0.3:
        truth["status"] = _resizing(rng, pod)


def _resizing(rng: Random, pod: Object) -> Object:
    def resources() -> Object:
        return {"cpu": rng.choice(("200m", "1", "1800m")), "memory": rng.choice(("256Mi", "2Gi"))}

    statuses = [
        {
            "name": container["name"],
            "image": "none",
            "imageID": "",
            "ready": True,
            "restartCount": 0,
            "allocatedResources": resources(),
            **({"resources": {"requests": resources()}} if rng.random() < 0.7 else {}),
        }
        for container in pod["spec"]["containers"]
    ]
    status: Object = {"phase": "Running", "containerStatuses": statuses}
    if rng.random() < 0.4:
        reason = rng.choice(("Infeasible", "Deferred"))
        status["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": reason}]
    if rng.random() < 0.3:
        status["allocatedResources"] = resources()
        status["resources"] = {"requests": resources()}
    return status


def asking_pod(rng: Random, name: str, claims: dict[str, list[str]]) -> Object:
    pod = _pod(rng, name)
    features = [add for add, _ in _ASKING]
    weights = [weight for _, weight in _ASKING]
    # Ports go into sidecars too, so requests come first.
    for add in sorted(set(rng.choices(features, weights, k=rng.choice((1, 1, 2, 3)))), key=features.index):
        add(rng, pod)
    if rng.random() < 0.22:
        add_volumes(rng, pod, claims[pod["metadata"]["namespace"]])
    if rng.random() < 0.75:
        pod["spec"].setdefault("tolerations", []).append({"operator": "Exists"})
    return pod


def _pod(rng: Random, name: str) -> Object:
    labels = {"app": rng.choice(constraints.APPS)}
    if rng.random() < 0.6:
        labels["tier"] = rng.choice(constraints.TIERS)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": rng.choice(tuple(NAMESPACES)), "labels": labels},
        "spec": {
            "containers": [
                {"name": f"main-{number}", "image": "none"} for number in range(rng.choice((1, 1, 2)))
            ],
            "terminationGracePeriodSeconds": 3600,
            **({"runtimeClassName": HEAVY} if rng.random() < 0.1 else {}),
        },
    }
