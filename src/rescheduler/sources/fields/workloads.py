"""Workloads, budgets and priority classes."""

from typing import Final

from rescheduler.sources.fields.common import CONDITION, METADATA, SELECTOR
from rescheduler.sources.fields.pods import CLAIM_SPEC, POD_SPEC
from rescheduler.sources.fields.what import NAME, PLAIN, Fields, Tree, What, plain

__all__ = ["BUDGET", "PRIORITY_CLASS", "WORKLOAD"]

_TEMPLATE: Final[Tree] = {
    "metadata": {"name": NAME, "labels": What.LABELS, "annotations": What.MARKS},
    "spec": POD_SPEC,
}
_UPDATE: Final[Tree] = {
    "type": PLAIN,
    "rollingUpdate": {"maxSurge": What.ANYTHING, "maxUnavailable": What.ANYTHING, "partition": PLAIN},
}
_JOB_SPEC: Final[dict[str, Fields]] = {
    **plain("parallelism", "completions", "completionMode", "backoffLimit", "suspend"),
    "selector": SELECTOR,
    "template": _TEMPLATE,
}
WORKLOAD: Final[Tree] = {
    "metadata": METADATA,
    "spec": {
        **plain("replicas", "minReadySeconds", "paused", "podManagementPolicy", "revisionHistoryLimit"),
        **plain("progressDeadlineSeconds", "schedule", "concurrencyPolicy"),
        **_JOB_SPEC,
        "strategy": _UPDATE,
        "updateStrategy": _UPDATE,
        "serviceName": NAME,
        "ordinals": plain("start"),
        "volumeClaimTemplates": {"metadata": {"name": NAME, "labels": What.LABELS}, "spec": CLAIM_SPEC},
        "jobTemplate": {"metadata": {"labels": What.LABELS}, "spec": _JOB_SPEC},
    },
    "status": {
        **plain("observedGeneration", "replicas", "readyReplicas", "availableReplicas", "updatedReplicas"),
        **plain("currentReplicas", "fullyLabeledReplicas", "desiredNumberScheduled", "numberReady"),
        **plain("currentNumberScheduled", "numberAvailable", "numberMisscheduled", "updatedNumberScheduled"),
        **plain("ready", "succeeded", "failed", "startTime", "completionTime"),
        "active": What.ANYTHING,
        "currentRevision": NAME,
        "updateRevision": NAME,
        "conditions": CONDITION,
    },
}
BUDGET: Final[Tree] = {
    "metadata": METADATA,
    "spec": {
        "minAvailable": What.ANYTHING,
        "maxUnavailable": What.ANYTHING,
        "selector": SELECTOR,
        "unhealthyPodEvictionPolicy": PLAIN,
    },
    "status": {
        **plain("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"),
        "observedGeneration": PLAIN,
        "disruptedPods": What.TIMES,
        "conditions": CONDITION,
    },
}
PRIORITY_CLASS: Final[Tree] = {
    "metadata": METADATA,
    **plain("value", "globalDefault", "preemptionPolicy"),
}
