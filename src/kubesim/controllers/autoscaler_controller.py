"""HorizontalPodAutoscalers: scale workloads so that usage stays at its target.

It supports CPU and memory as a share of the requests, runs every 15 seconds, and scales down only to the
highest recommendation of the last five minutes, or of the window in its `behavior`.
"""

import math
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from kubesim.apiserver.api_messages import Object
from kubesim.apiserver.kind_registry import ResourceKind
from kubesim.common_fields import format_timestamp, set_condition
from kubesim.controllers.controller_base import ChangeHandler, ControllerBase, ControllerContext, split_key
from kubesim.controllers.pod_index import IndexedPod
from kubevalues import SelectorError, selector_from_object
from kubevalues.quantity import quantity_of

__all__ = ["AutoscalerController"]

_EVERY_S = 15.0
_TOLERANCE = 0.1
_STEADY_S = 300
_GOT_SCALE = "the HPA controller was able to get the target's current scale"
_READY = "recommended size matches current size"
_STABILIZED = (
    "recent recommendations were higher than current one, applying the highest recent recommendation"
)
_RESCALED = "the HPA controller was able to update the target scale to"
_NOT_TO_ZERO = "the HPA controller did not scale the workload to zero"
_DISABLED = "scaling is disabled since the replica count of the target is zero"
_NO_METRICS = "the HPA was unable to compute the replica count: no metrics known for pods"
_CALCULATED = "the HPA was able to successfully calculate a replica count from"
_LIMITED = {
    "TooManyReplicas": "the desired replica count is more than the maximum replica count",
    "TooFewReplicas": "the desired replica count is less than the minimum replica count",
    "DesiredWithinRange": "the desired count is within the acceptable range",
}


class AutoscalerController(ControllerBase):
    name = "horizontal-pod-autoscaler"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._autoscalers = self.kind("autoscaling/v2", "HorizontalPodAutoscaler")
        self._wanted: dict[str, list[tuple[datetime, int]]] = {}

    def watches(self) -> Mapping[ResourceKind, ChangeHandler]:
        return {self._autoscalers: self.enqueue}

    async def reconcile(self, key: str) -> float | None:
        autoscaler = self.context.read(self._autoscalers, *split_key(key))
        if autoscaler is None:
            self._wanted.pop(key, None)
            return None
        now = self.context.now()
        status = {
            k: v for k, v in autoscaler.get("status", {}).items() if k in {"conditions", "lastScaleTime"}
        }
        status["conditions"] = [dict(item) for item in status.get("conditions") or ()]
        status["observedGeneration"] = autoscaler["metadata"].get("generation", 0)
        target = self._target(autoscaler)
        if target is None:
            reference = autoscaler["spec"]["scaleTargetRef"]
            message = f"the HPA controller was unable to get the target's current scale: {reference['name']}"
            set_condition(status, "AbleToScale", "False", now=now, reason="FailedGetScale", message=message)
        else:
            await self._scale(key, autoscaler, target, status, now)
        await self.writes.set_status(self._autoscalers, autoscaler, status)
        return _EVERY_S

    def _target(self, autoscaler: Object) -> tuple[ResourceKind, Object] | None:
        reference = autoscaler["spec"]["scaleTargetRef"]
        kind = self.context.cluster.kinds.named(reference["apiVersion"], reference["kind"])
        if kind is None or "scale" not in kind.subresources:
            return None
        found = self.context.read(kind, autoscaler["metadata"]["namespace"], reference["name"])
        return None if found is None else (kind, found)

    async def _scale(
        self, key: str, autoscaler: Object, target: tuple[ResourceKind, Object], status: Object, now: datetime
    ) -> None:
        kind, content = target
        spec, current = autoscaler["spec"], content["spec"].get("replicas", 1)
        status |= {"currentReplicas": current, "desiredReplicas": current}
        report = partial(set_condition, status, now=now)
        report("AbleToScale", "True", reason="SucceededGetScale", message=_GOT_SCALE)
        wanted = self._wanted_by_metrics(autoscaler, content, status, report)
        if wanted is None:
            return
        stabilized = self._stabilized(key, spec, current, wanted, now)
        if stabilized != wanted:
            report("AbleToScale", "True", reason="ScaleDownStabilized", message=_STABILIZED)
        else:
            report("AbleToScale", "True", reason="ReadyForNewScale", message=_READY)
        size = max(spec.get("minReplicas", 1), min(spec["maxReplicas"], stabilized))
        limited = _limited(stabilized, size)
        within = "False" if size == stabilized else "True"
        report("ScalingLimited", within, reason=limited, message=_LIMITED[limited])
        status["desiredReplicas"] = size
        if size != current:
            await self._resize(kind, content, size)
            status["lastScaleTime"] = format_timestamp(now)
            report("AbleToScale", "True", reason="SucceededRescale", message=f"{_RESCALED} {size}")
            report("ScaledToZero", "False", reason="NotScaledToZero", message=_NOT_TO_ZERO)

    def _wanted_by_metrics(
        self, autoscaler: Object, content: Object, status: Object, report: Callable[..., None]
    ) -> int | None:
        """Return the recommended replicas, or None if scaling is off or usage is unknown."""
        current = status["currentReplicas"]
        if current == 0:
            report("ScalingActive", "False", reason="ScalingDisabled", message=_DISABLED)
            return None
        pods = self._pods(content)
        metrics = [each for each in autoscaler["spec"].get("metrics") or () if each["type"] == "Resource"]
        shares = [self._share(metric["resource"], pods) for metric in metrics]
        if None in shares or not shares:
            report("ScalingActive", "False", reason="FailedGetResourceMetric", message=_NO_METRICS)
            return None
        status["currentMetrics"] = [
            _shown(metric, share) for metric, share in zip(metrics, shares, strict=True)
        ]
        proposals = [
            (
                _proposal(current, len(pods), share, metric["resource"]["target"]["averageUtilization"]),
                metric["resource"]["name"],
            )
            for metric, share in zip(metrics, shares, strict=True)
        ]
        wanted, name = max(proposals, key=lambda each: each[0])
        message = f"{_CALCULATED} {name} resource utilization (percentage of request)"
        report("ScalingActive", "True", reason="ValidMetricFound", message=message)
        return wanted

    def _pods(self, content: Object) -> list[IndexedPod]:
        try:
            selector = selector_from_object(content["spec"].get("selector"))
        except SelectorError:
            return []
        found = self.context.pods.selected(content["metadata"]["namespace"], selector)
        return [pod for pod in found if pod.active and pod.ready]

    def _share(self, resource: Object, pods: list[IndexedPod]) -> int | None:
        """Return usage in percent of requests, or None if it is unknown."""
        used = asked = 0
        for pod in pods:
            record = self.context.store.find(self.context.pod_kind, pod.namespace, pod.name)
            metrics = self.context.usage.pod_metrics(record.object) if self.context.usage and record else None
            if record is None or metrics is None:
                continue
            requests = [_requested(item, resource["name"]) for item in record.object["spec"]["containers"]]
            if None in requests:
                return None
            asked += sum(amount for amount in requests if amount is not None)
            used += sum(quantity_of(item["usage"][resource["name"]]).nanos for item in metrics["containers"])
        return used * 100 // asked if asked else None

    def _stabilized(self, key: str, spec: Object, current: int, wanted: int, now: datetime) -> int:
        down = (spec.get("behavior") or {}).get("scaleDown") or {}
        steady = timedelta(seconds=down.get("stabilizationWindowSeconds", _STEADY_S))
        lately = [each for each in self._wanted.get(key, [(now, current)]) if now - each[0] < steady]
        self._wanted[key] = [*lately, (now, wanted)]
        return max(wanted, *(count for _, count in lately)) if wanted < current and lately else wanted

    async def _resize(self, kind: ResourceKind, content: Object, replicas: int) -> None:
        def edit(live: Object) -> None:
            live["spec"]["replicas"] = replicas

        await self.writes.patch(kind, content, edit)


def _limited(wanted: int, allowed: int) -> str:
    if wanted == allowed:
        return "DesiredWithinRange"
    return "TooManyReplicas" if wanted > allowed else "TooFewReplicas"


def _requested(container: Object, resource: str) -> int | None:
    amount: Any = ((container.get("resources") or {}).get("requests") or {}).get(resource)
    return None if amount is None else quantity_of(amount).nanos


def _proposal(current: int, ready: int, share: int | None, target: int) -> int:
    ratio = (share or 0) / target
    return current if abs(1 - ratio) <= _TOLERANCE else math.ceil(ratio * ready)


def _shown(metric: Object, share: int | None) -> Object:
    name = metric["resource"]["name"]
    return {"type": "Resource", "resource": {"name": name, "current": {"averageUtilization": share}}}
