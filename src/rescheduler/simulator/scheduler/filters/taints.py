"""Taints keep pods away that don't tolerate them; a cordoned node counts as if it had one."""

from collections.abc import Iterable

from rescheduler.simulator.exchange import Object
from rescheduler.simulator.scheduler.nodes import NodeView
from rescheduler.simulator.scheduler.pods import PodView
from rescheduler.simulator.scheduler.refusals import Check, Refusal
from rescheduler.simulator.scheduler.view import ClusterView

__all__ = ["has_untolerated_taint", "taints", "unschedulable"]

_CORDONED = Refusal("NodeUnschedulable", ("node(s) were unschedulable",))
_TAINTED = Refusal("TaintToleration", ("node(s) had untolerated taint(s)",))
_KEEPS_AWAY = frozenset({"NoSchedule", "NoExecute"})
_UNSCHEDULABLE: Object = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def unschedulable(pod: PodView, _: ClusterView) -> Check | None:
    if _tolerated(_UNSCHEDULABLE, pod.spec.get("tolerations") or ()):
        return None

    def check(node: NodeView) -> Refusal | None:
        return _CORDONED if node.unschedulable else None

    return check


def taints(pod: PodView, _: ClusterView) -> Check:
    def check(node: NodeView) -> Refusal | None:
        return _TAINTED if has_untolerated_taint(pod, node) else None

    return check


def has_untolerated_taint(pod: PodView, node: NodeView) -> bool:
    if not node.taints:
        return False
    tolerations = pod.spec.get("tolerations") or ()
    return any(
        taint.get("effect") in _KEEPS_AWAY and not _tolerated(taint, tolerations) for taint in node.taints
    )


def _tolerated(taint: Object, tolerations: Iterable[Object]) -> bool:
    return any(_tolerates(toleration, taint) for toleration in tolerations)


def _tolerates(toleration: Object, taint: Object) -> bool:
    """The operators Lt and Gt are behind a feature gate that is off: they tolerate nothing."""
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint.get("key"):
        return False
    match toleration.get("operator") or "Equal":
        case "Equal":
            return (toleration.get("value") or "") == (taint.get("value") or "")
        case "Exists":
            return True
        case _:
            return False
