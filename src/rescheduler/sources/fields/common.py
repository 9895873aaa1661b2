"""What many kinds have."""

from typing import Final

from rescheduler.sources.fields.what import NAME, PLAIN, Fields, Tree, What, plain

__all__ = ["AMOUNTS", "CONDITION", "METADATA", "NODE_TERM", "NODE_TERMS", "OWNER", "SELECTOR"]

OWNER: Final[Tree] = {
    "apiVersion": What.KIND,
    "kind": What.KIND,
    "name": NAME,
    "uid": What.UID,
    "controller": PLAIN,
    "blockOwnerDeletion": PLAIN,
}
METADATA: Final[dict[str, Fields]] = {
    "name": NAME,
    "namespace": What.NAMESPACE,
    "uid": What.UID,
    **plain("generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"),
    "labels": What.LABELS,
    "annotations": What.MARKS,
    "ownerReferences": OWNER,
    "finalizers": NAME,
}
CONDITION: Final[Tree] = {
    "type": What.CONDITION,
    "status": PLAIN,
    "reason": What.CONDITION,
    **plain("lastTransitionTime", "lastHeartbeatTime", "lastUpdateTime", "observedGeneration"),
}
SELECTOR: Final[Tree] = {"matchLabels": What.LABELS, "matchExpressions": What.REQUIREMENT}
NODE_TERM: Final[Tree] = {
    "matchExpressions": What.REQUIREMENT,
    "matchFields": What.FIELD_REQUIREMENT,
}
NODE_TERMS: Final[Tree] = {"nodeSelectorTerms": NODE_TERM}
AMOUNTS: Final[Tree] = {"requests": What.AMOUNTS, "limits": What.AMOUNTS}
