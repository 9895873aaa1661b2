"""Which fields of each kind matter for deciding, and what each of them is.

What is not in here is not saved: environment, arguments and probes can hold secrets, and no rule asks for
them. What a field *is* says how it is made anonymous.
"""

from collections.abc import Mapping
from typing import Final

from rescheduler.sources.fields.cluster import NAMESPACE, NODE
from rescheduler.sources.fields.ours import MIGRATION, NODE_METRICS, POD_METRICS
from rescheduler.sources.fields.pods import POD
from rescheduler.sources.fields.storage import (
    ATTACHMENT,
    CAPACITY,
    CLAIM,
    CSI_DRIVER,
    CSI_NODE,
    PERSISTENT_VOLUME,
    STORAGE_CLASS,
)
from rescheduler.sources.fields.what import PARTS, Fields, Tree, What
from rescheduler.sources.fields.workloads import BUDGET, PRIORITY_CLASS, WORKLOAD

__all__ = ["FIELDS", "PARTS", "Fields", "Tree", "What"]

FIELDS: Final[Mapping[str, Tree]] = {
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
"""By kind; `apiVersion` and `kind` go without saying."""
