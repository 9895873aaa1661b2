"""PodDisruptionBudgets: compute how many of their pods may be evicted now.

The expected number of pods comes from the scale subresource of their controllers. If it is unknown for one
pod, the budget allows no disruption.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from kubesim.apiserver.api_messages import Object
from kubesim.apiserver.kind_registry import ResourceKind
from kubesim.common_fields import condition, format_timestamp, scaled, seconds_since
from kubesim.controllers.controller_base import (
    ChangeHandler,
    ControllerContext,
    SelectingController,
    split_key,
)
from kubesim.controllers.pod_index import IndexedOwnerReference, IndexedPod
from kubesim.controllers.selector_index import SelectorIndex, read_selector

__all__ = ["DisruptionController"]

_DELETION_TIMEOUT_S = 120.0


class NoScale(Exception):  # noqa: N818 - what is missing; becomes a condition of the budget
    """The expected number of pods is unknown; the message goes into the budget."""


class DisruptionController(SelectingController):
    name = "disruption-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._budgets = self.kind("policy/v1", "PodDisruptionBudget")
        self.selectors = SelectorIndex(context.store.collection(self._budgets).ordered())

    def watches(self) -> Mapping[ResourceKind, ChangeHandler]:
        return {self._budgets: self.own_changed}

    def pod_changed(self, before: IndexedPod | None, after: IndexedPod | None) -> None:
        self.enqueue_selecting(before, after)

    async def reconcile(self, key: str) -> float | None:
        budget = self.context.read(self._budgets, *split_key(key))
        if budget is None:
            return None
        selector = read_selector(budget["spec"].get("selector"))
        pods = self.context.pods.selected(budget["metadata"]["namespace"], selector)
        now = self.context.now()
        try:
            expected, desired = self._expected(budget["spec"], pods)
        except (NoScale, ValueError) as problem:
            await self.writes.set_status(self._budgets, budget, _failed(budget, str(problem), now))
            return None
        disrupted = _unconfirmed(budget, pods, now)
        healthy = sum(1 for pod in pods if pod.ready and not pod.deleting and pod.name not in disrupted)
        status = _status(budget, healthy, desired, expected, disrupted, now)
        await self.writes.set_status(self._budgets, budget, status)
        waits = [_DELETION_TIMEOUT_S - seconds_since(since, now) for since in disrupted.values()]
        return max(0.0, min(waits)) if waits else None

    # -- how many there should be

    def _expected(self, spec: Object, pods: list[IndexedPod]) -> tuple[int, int]:
        """Return the expected number of pods, and how many of them must be healthy."""
        if (most := spec.get("maxUnavailable")) is not None:
            expected = self._scale(pods)
            return expected, max(0, expected - scaled(most, expected, round_up=True))
        least = spec.get("minAvailable")
        if isinstance(least, str):
            expected = self._scale(pods)
            return expected, scaled(least, expected, round_up=True)
        return len(pods), least or 0

    def _scale(self, pods: Iterable[IndexedPod]) -> int:
        scales: dict[str, int] = {}
        seen: set[str] = set()
        for pod in pods:
            owner = pod.controller
            if owner is None or owner.uid in seen:
                continue  # a pod without a controller adds nothing to the expected count
            seen.add(owner.uid)
            uid, scale = self._scale_of(pod, owner)
            scales[uid] = scale
        return sum(scales.values())

    def _scale_of(self, pod: IndexedPod, owner: IndexedOwnerReference) -> tuple[str, int]:
        kind = self.context.cluster.kinds.named(owner.api_version, owner.kind)
        if kind is None:
            raise NoScale(f'no matches for kind "{owner.kind}" in version "{owner.api_version}"')
        if "scale" not in kind.subresources:
            raise NoScale(f"{kind.resource} does not implement the scale subresource")
        found = self.context.read(kind, pod.namespace, owner.name)
        if found is None or found["metadata"]["uid"] != owner.uid:
            raise NoScale(f'found no controllers for pod "{pod.name}"')
        above = _controller_of(found) if kind.name == "ReplicaSet" else None
        if above is not None and above["kind"] == "Deployment":
            deployments = self.kind("apps/v1", "Deployment")
            deployment = self.context.read(deployments, pod.namespace, above["name"])
            if deployment is None or deployment["metadata"]["uid"] != above["uid"]:
                raise NoScale(f'found no controllers for pod "{pod.name}"')
            return above["uid"], deployment["spec"]["replicas"]
        return owner.uid, self._replicas(kind, found)

    def _replicas(self, kind: ResourceKind, content: Object) -> int:
        path = self.context.cluster.admission.scale_paths(kind).replicas
        value: Any = content
        for step in filter(None, path.split(".")):
            value = value.get(step) if isinstance(value, dict) else None
        if value is None:
            raise NoScale(f'Internal error occurred: the spec replicas field "{path}" does not exist')
        return int(value)


def _controller_of(content: Object) -> Object | None:
    references = content["metadata"].get("ownerReferences") or ()
    return next((ref for ref in references if ref.get("controller")), None)


# -- the status


def _unconfirmed(budget: Object, pods: Iterable[IndexedPod], now: datetime) -> dict[str, str]:
    """Return evicted pods that still exist; they don't count as healthy for some time."""
    disrupted: dict[str, str] = budget.get("status", {}).get("disruptedPods") or {}
    return {
        pod.name: disrupted[pod.name]
        for pod in pods
        if not pod.deleting
        and pod.name in disrupted
        and seconds_since(disrupted[pod.name], now) <= _DELETION_TIMEOUT_S
    }


def _status(
    budget: Object, healthy: int, desired: int, expected: int, disrupted: dict[str, str], now: datetime
) -> Object:
    generation = budget["metadata"].get("generation", 0)
    # Without expected pods, allow nothing: pods may be created before the next reconcile.
    allowed = max(0, healthy - desired) if expected > 0 else 0
    status: Object = {
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "disruptionsAllowed": allowed,
        "expectedPods": expected,
        "observedGeneration": generation,
    }
    if disrupted:
        status["disruptedPods"] = disrupted
    value, reason = ("True", "SufficientPods") if allowed else ("False", "InsufficientPods")
    status["conditions"] = _conditions(budget, value, reason, "", generation, now)
    return status


def _failed(budget: Object, message: str, now: datetime) -> Object:
    """Return the previous status with no disruption allowed."""
    status = dict(budget.get("status", {}))
    status["disruptionsAllowed"] = 0
    seen = status.get("observedGeneration", 0)
    status["conditions"] = _conditions(budget, "False", "SyncFailed", message, seen, now)
    return status


def _conditions(
    budget: Object, value: str, reason: str, message: str, generation: int, now: datetime
) -> list[Object]:
    before = condition(budget.get("status", {}), "DisruptionAllowed") or {}
    since = before.get("lastTransitionTime") if before.get("status") == value else None
    new: Object = {
        "type": "DisruptionAllowed",
        "status": value,
        "observedGeneration": generation,
        "lastTransitionTime": since or format_timestamp(now),
        "reason": reason,
        "message": message,
    }
    if not generation:
        del new["observedGeneration"]
    others = budget.get("status", {}).get("conditions") or ()
    return [*(item for item in others if item["type"] != "DisruptionAllowed"), new]
