"""The fields of each kind that decisions depend on, and the type of each field.

Other fields are not saved: environment variables, arguments and probes can hold secrets, and no rule reads
them. The type of a field determines how it is validated and anonymized.
"""

from collections.abc import Mapping
from typing import Final

from rescheduler.cluster.sources.pod_fields import (
    CLAIM_SPEC,
    CONDITION,
    DISKS,
    METADATA,
    NAME,
    NODE_TERMS,
    OWNER,
    PLAIN,
    POD,
    POD_SPEC,
    READ_ONLY,
    SELECTOR,
    STRUCT_FIELDS,
    FieldKind,
    FieldSpec,
    FieldTree,
    plain,
)

__all__ = [
    "ATTACHMENT",
    "BUDGET",
    "CAPACITY",
    "CLAIM",
    "CSI_DRIVER",
    "CSI_NODE",
    "FIELDS",
    "MIGRATION",
    "NAMESPACE",
    "NODE",
    "NODE_METRICS",
    "PERSISTENT_VOLUME",
    "POD_METRICS",
    "PRIORITY_CLASS",
    "STORAGE_CLASS",
    "STRUCT_FIELDS",
    "WORKLOAD",
    "FieldKind",
    "FieldSpec",
    "FieldTree",
]

NODE: Final[FieldTree] = {
    "metadata": METADATA,
    "spec": {"providerID": NAME, "unschedulable": PLAIN, "taints": FieldKind.TAINT},
    "status": {
        "capacity": FieldKind.AMOUNTS,
        "allocatable": FieldKind.AMOUNTS,
        "conditions": CONDITION,
        "volumesInUse": FieldKind.DRIVER,
        "volumesAttached": {"name": FieldKind.DRIVER},
        "declaredFeatures": PLAIN,
    },
}
NAMESPACE: Final[FieldTree] = {
    "metadata": {**METADATA, "name": FieldKind.NAMESPACE},
    "spec": plain("finalizers"),
    "status": plain("phase"),
}

_TEMPLATE: Final[FieldTree] = {
    "metadata": {"name": NAME, "labels": FieldKind.LABELS, "annotations": FieldKind.ANNOTATIONS},
    "spec": POD_SPEC,
}
_UPDATE: Final[FieldTree] = {
    "type": PLAIN,
    "rollingUpdate": {
        "maxSurge": FieldKind.ANYTHING,
        "maxUnavailable": FieldKind.ANYTHING,
        "partition": PLAIN,
    },
}
_JOB_SPEC: Final[dict[str, FieldSpec]] = {
    **plain("parallelism", "completions", "completionMode", "backoffLimit", "suspend"),
    "selector": SELECTOR,
    "template": _TEMPLATE,
}
WORKLOAD: Final[FieldTree] = {
    "metadata": METADATA,
    "spec": {
        **plain("replicas", "minReadySeconds", "paused", "podManagementPolicy", "revisionHistoryLimit"),
        **plain("progressDeadlineSeconds", "schedule", "concurrencyPolicy"),
        **_JOB_SPEC,
        "strategy": _UPDATE,
        "updateStrategy": _UPDATE,
        "serviceName": NAME,
        "ordinals": plain("start"),
        "volumeClaimTemplates": {"metadata": {"name": NAME, "labels": FieldKind.LABELS}, "spec": CLAIM_SPEC},
        "jobTemplate": {"metadata": {"labels": FieldKind.LABELS}, "spec": _JOB_SPEC},
    },
    "status": {
        **plain("observedGeneration", "replicas", "readyReplicas", "availableReplicas", "updatedReplicas"),
        **plain("currentReplicas", "fullyLabeledReplicas", "desiredNumberScheduled", "numberReady"),
        **plain("currentNumberScheduled", "numberAvailable", "numberMisscheduled", "updatedNumberScheduled"),
        **plain("ready", "succeeded", "failed", "startTime", "completionTime"),
        "active": FieldKind.ANYTHING,
        "currentRevision": NAME,
        "updateRevision": NAME,
        "conditions": CONDITION,
    },
}
BUDGET: Final[FieldTree] = {
    "metadata": METADATA,
    "spec": {
        "minAvailable": FieldKind.ANYTHING,
        "maxUnavailable": FieldKind.ANYTHING,
        "selector": SELECTOR,
        "unhealthyPodEvictionPolicy": PLAIN,
    },
    "status": {
        **plain("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"),
        "observedGeneration": PLAIN,
        "disruptedPods": FieldKind.TIMES,
        "conditions": CONDITION,
    },
}
PRIORITY_CLASS: Final[FieldTree] = {
    "metadata": METADATA,
    **plain("value", "globalDefault", "preemptionPolicy"),
}

CLAIM: Final[FieldTree] = {
    "metadata": {**METADATA, "name": FieldKind.CLAIM},
    "spec": CLAIM_SPEC,
    "status": {**plain("phase", "accessModes"), "capacity": FieldKind.AMOUNTS},
}
PERSISTENT_VOLUME: Final[FieldTree] = {
    "metadata": METADATA,
    "spec": {
        "capacity": FieldKind.AMOUNTS,
        **plain("accessModes", "volumeMode", "persistentVolumeReclaimPolicy"),
        "storageClassName": NAME,
        "volumeAttributesClassName": NAME,
        "claimRef": {"namespace": FieldKind.NAMESPACE, "name": FieldKind.CLAIM, "uid": FieldKind.UID},
        "nodeAffinity": {"required": NODE_TERMS},
        "csi": {"driver": FieldKind.DRIVER, "volumeHandle": NAME, **READ_ONLY},
        "local": {"path": NAME},
        **DISKS,
        "azureFile": {"shareName": NAME},
    },
    "status": plain("phase"),
}
STORAGE_CLASS: Final[FieldTree] = {
    "metadata": METADATA,
    "provisioner": FieldKind.DRIVER,
    **plain("volumeBindingMode", "reclaimPolicy", "allowVolumeExpansion"),
    "allowedTopologies": {"matchLabelExpressions": FieldKind.REQUIREMENT},
}
CSI_NODE: Final[FieldTree] = {
    "metadata": METADATA,
    "spec": {
        "drivers": {
            "name": FieldKind.DRIVER,
            "nodeID": NAME,
            "topologyKeys": FieldKind.LABEL_KEY,
            "allocatable": {"count": PLAIN},
        }
    },
}
CSI_DRIVER: Final[FieldTree] = {
    "metadata": {**METADATA, "name": FieldKind.DRIVER},
    "spec": plain("attachRequired", "storageCapacity", "preventPodSchedulingIfMissing"),
}
CAPACITY: Final[FieldTree] = {
    "metadata": METADATA,
    "storageClassName": NAME,
    "nodeTopology": SELECTOR,
    **plain("capacity", "maximumVolumeSize"),
}
ATTACHMENT: Final[FieldTree] = {
    "metadata": METADATA,
    "spec": {
        "attacher": FieldKind.DRIVER,
        "nodeName": NAME,
        "source": {"persistentVolumeName": NAME},
    },
    "status": plain("attached"),
}

_NAMED_POD: Final[FieldTree] = {"name": NAME, "uid": FieldKind.UID}
MIGRATION: Final[FieldTree] = {
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
        "workload": OWNER,
        "conditions": CONDITION,
    },
}
POD_METRICS: Final[FieldTree] = {
    "metadata": METADATA,
    **plain("timestamp", "window"),
    "containers": {"name": NAME, "usage": FieldKind.AMOUNTS},
}
NODE_METRICS: Final[FieldTree] = {
    "metadata": METADATA,
    **plain("timestamp", "window"),
    "usage": FieldKind.AMOUNTS,
    "capacity": FieldKind.AMOUNTS,
}

FIELDS: Final[Mapping[str, FieldTree]] = {
    "Pod": POD,
    "Node": NODE,
    "Namespace": NAMESPACE,
    **dict.fromkeys(("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob"), WORKLOAD),
    "PodDisruptionBudget": BUDGET,
    "PriorityClass": PRIORITY_CLASS,
    "PersistentVolume": PERSISTENT_VOLUME,
    "PersistentVolumeClaim": CLAIM,
    "StorageClass": STORAGE_CLASS,
    "CSINode": CSI_NODE,
    "CSIDriver": CSI_DRIVER,
    "CSIStorageCapacity": CAPACITY,
    "VolumeAttachment": ATTACHMENT,
    "PodMigration": MIGRATION,
    "PodMetrics": POD_METRICS,
    "NodeMetrics": NODE_METRICS,
}
"""The kept fields by kind, without `apiVersion` and `kind`, which are always kept."""
