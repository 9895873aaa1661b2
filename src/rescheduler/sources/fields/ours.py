"""Migrations, and what was measured."""

from typing import Final

from rescheduler.sources.fields.common import CONDITION, METADATA, OWNER
from rescheduler.sources.fields.what import NAME, Tree, What, plain

__all__ = ["MIGRATION", "NODE_METRICS", "POD_METRICS"]

_NAMED_POD: Final[Tree] = {"name": NAME, "uid": What.UID}
MIGRATION: Final[Tree] = {
    "metadata": METADATA,
    "spec": {
        "pod": _NAMED_POD,
        "sourceNode": NAME,
        "targetNode": NAME,
        "group": NAME,
        **plain("strategy", "handover", "groupSize", "replicas"),
    },
    "status": {
        **plain("observedGeneration", "phase", "step", "stepSince", "attempts", "retryAt", "handover"),
        **plain("failure", "startedAt", "handedOverAt", "finishedAt", "replicas"),
        "targetNode": NAME,
        "targetPod": _NAMED_POD,
        "owner": OWNER,
        "conditions": CONDITION,
    },
}
POD_METRICS: Final[Tree] = {
    "metadata": METADATA,
    **plain("timestamp", "window"),
    "containers": {"name": NAME, "usage": What.AMOUNTS},
}
NODE_METRICS: Final[Tree] = {
    "metadata": METADATA,
    **plain("timestamp", "window"),
    "usage": What.AMOUNTS,
}
