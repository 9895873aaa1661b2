"""Rules for pods when they are created and when their status is written; see `pod_updates` for the rest."""

from collections.abc import Iterator
from functools import lru_cache

from rescheduler.simulator.admission import causes, names
from rescheduler.simulator.admission.validation.numbers import check_not_negative
from rescheduler.simulator.admission.validation.pod_spec import check_pod_spec
from rescheduler.simulator.exchange import Object, decode, encode
from rescheduler.simulator.failures import Cause

__all__ = ["check_new_pod", "check_pod", "check_pod_status"]

_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_INT32 = range(-(1 << 31), 1 << 31)


def check_pod(pod: Object) -> Iterator[Cause]:
    """What holds for new and for changed pods."""
    spec = pod["spec"]
    yield from _check_deletion_cost(pod["metadata"].get("annotations", {}))
    yield from _spec_faults(encode(spec))
    yield from check_not_negative(spec, ["terminationGracePeriodSeconds"], "spec")
    for group in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(group, ())):
            image = container.get("image", "")
            if image != image.strip():
                detail = "must not have leading or trailing whitespace"
                yield causes.invalid(f"spec.{group}[{index}].image", image, detail)


@lru_cache(maxsize=512)
def _spec_faults(spec: bytes) -> tuple[Cause, ...]:
    """Pods of one workload have the same spec, and it costs more to check than to encode."""
    return tuple(check_pod_spec(decode(spec), "spec", in_pod=True))


def _check_deletion_cost(annotations: dict[str, str]) -> Iterator[Cause]:
    """Which of its pods a replica set removes first."""
    if _DELETION_COST not in annotations:
        return
    cost = annotations[_DELETION_COST]
    digits = cost.removeprefix("-")
    if not digits.isdecimal() or int(cost) not in _INT32 or (digits != "0" and digits.startswith("0")):
        yield causes.invalid(f"metadata.annotations[{_DELETION_COST}]", cost, "must be a 32bit integer")


def check_new_pod(pod: Object) -> Iterator[Cause]:
    yield from check_pod(pod)
    spec = pod["spec"]
    if spec.get("ephemeralContainers"):
        yield causes.forbidden("spec.ephemeralContainers", "cannot be set on create")
    if spec.get("nodeName") and spec.get("schedulingGates"):
        yield causes.forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared")


def check_pod_status(new: Object, old: Object) -> Iterator[Cause]:
    status, before = new.get("status", {}), old.get("status", {})
    nominated, nominated_before = status.get("nominatedNodeName", ""), before.get("nominatedNodeName", "")
    if nominated and nominated != nominated_before:
        for complaint in names.dns_subdomain(nominated):
            yield causes.invalid("status.nominatedNodeName", nominated, complaint)
        if old["spec"].get("nodeName"):
            detail = "may not be set on pods that are already bound to a node"
            yield causes.forbidden("status.nominatedNodeName", detail)
    for index, condition in enumerate(status.get("conditions", ())):
        for complaint in names.qualified_name(condition.get("type", "")):
            yield causes.invalid(f"status.conditions[{index}].type", condition.get("type", ""), complaint)
    quality, quality_before = status.get("qosClass", ""), before.get("qosClass", "")
    if quality_before and quality != quality_before:
        yield causes.immutable("status.qosClass", quality)
