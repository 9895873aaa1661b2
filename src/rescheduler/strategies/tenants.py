"""Kinds of pods that strategies tell apart."""

from rescheduler.model.pods import PodRecord

__all__ = ["NODE_BOUND", "belongs_to_node", "is_ours"]

NODE_BOUND = frozenset({"DaemonSet", "Node"})
"""Kinds of owners whose pods come and go with their node."""
_MIRROR = "kubernetes.io/config.mirror"


def is_ours(pod: PodRecord) -> bool:
    """One of the pods that this program runs in."""
    return pod.labels.get("app.kubernetes.io/name") == "rescheduler"


def belongs_to_node(pod: PodRecord) -> bool:
    """It comes and goes with its node: a pod of a DaemonSet, or one that the kubelet itself started."""
    return _MIRROR in pod.marks or (pod.owner is not None and pod.owner.kind in NODE_BOUND)
