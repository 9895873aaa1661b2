"""Rules for statuses, which controllers write: numbers that can't be."""

from collections.abc import Callable, Iterator

from rescheduler.simulator.admission import causes
from rescheduler.simulator.admission.validation.numbers import check_not_negative
from rescheduler.simulator.exchange import Object
from rescheduler.simulator.failures import Cause

__all__ = ["STATUS_RULES"]

_OF_BUDGETS = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")


def _check_budget(status: Object) -> Iterator[Cause]:
    yield from check_not_negative(status, _OF_BUDGETS, "status")


def _check_deployment(status: Object) -> Iterator[Cause]:
    yield from check_not_negative(status, ["observedGeneration"], "status")
    yield from _check_counts(status, "updatedReplicas", "readyReplicas", "availableReplicas")
    yield from check_not_negative(status, ["unavailableReplicas", "collisionCount"], "status")


def _check_replica_set(status: Object) -> Iterator[Cause]:
    yield from _check_counts(status, "fullyLabeledReplicas", "readyReplicas", "availableReplicas")


def _check_stateful_set(status: Object) -> Iterator[Cause]:
    counted = ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")
    yield from _check_counts(status, *counted)


def _check_counts(status: Object, *parts: str) -> Iterator[Cause]:
    """Each is a part of all replicas."""
    yield from check_not_negative(status, ["replicas", *parts], "status")
    for part in parts:
        if status.get(part, 0) > status.get("replicas", 0):
            yield causes.invalid(
                f"status.{part}", status.get(part, 0), "cannot be greater than status.replicas"
            )
    available = status.get("availableReplicas", 0)
    if available > status.get("readyReplicas", 0):
        yield causes.invalid("status.availableReplicas", available, "cannot be greater than readyReplicas")


STATUS_RULES: dict[str, Callable[[Object], Iterator[Cause]]] = {
    "Deployment.apps": _check_deployment,
    "PodDisruptionBudget.policy": _check_budget,
    "ReplicaSet.apps": _check_replica_set,
    "StatefulSet.apps": _check_stateful_set,
}
