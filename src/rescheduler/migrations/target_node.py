"""Whether the target node can keep the copy, or the replacement that is to come.

A pod on a lost node still says that it is ready, for a while.
"""

from typing import Final

from rescheduler.migrations.scene import Happened, Scene
from rescheduler.migrations.steps import Event
from rescheduler.model.nodes import Taint
from rescheduler.model.pods import PodRecord
from rescheduler.rules.taints import tolerates

__all__ = ["TARGET_LOST", "target_loss", "target_lost"]

TARGET_LOST: Final = "TargetLost"

_OF_READINESS: Final = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})
"""Taints that follow the condition Ready with some delay. The condition itself is newer."""


def target_lost(scene: Scene) -> Happened | None:
    """Return the end of an attempt whose target node can't keep the pod; None if it can."""
    if loss := target_loss(scene):
        return Happened(Event.TARGET_LOST, loss, TARGET_LOST)
    return None


def target_loss(scene: Scene) -> str:
    """Say why the target node can't keep the pod; empty if it can, or if none was chosen (Evict)."""
    copy = scene.target
    name = copy.node if copy is not None and copy.node else scene.migration.target_node
    if not name:
        return ""
    node = scene.nodes.get(name)
    if node is None:
        return f"target node {name} is gone"
    if not node.is_ready:
        return f"target node {name} is not ready"
    if node.deleted_s is not None:
        return f"target node {name} is being deleted"
    pod = copy or scene.source
    evicting = [taint for taint in node.taints if pod is not None and _evicts(taint, pod)]
    if evicting:
        return f"target node {name} has the taint {evicting[0].key}:NoExecute, which evicts the pod"
    return ""


def _evicts(taint: Taint, pod: PodRecord) -> bool:
    """Tolerating it for some seconds only delays the eviction."""
    if taint.effect != "NoExecute" or taint.key in _OF_READINESS:
        return False
    return not any(
        tolerates(toleration, taint) and toleration.toleration_seconds is None
        for toleration in pod.constraints.tolerations
    )
