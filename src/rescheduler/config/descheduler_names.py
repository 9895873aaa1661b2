"""What a policy of the descheduler (`descheduler/v1alpha2`) names: plugins, protections, kinds of metrics."""

from enum import StrEnum
from typing import Final

__all__ = [
    "METRIC_RESOURCE",
    "EvictionPlugin",
    "ExtraPodProtection",
    "MetricsSource",
    "NoEvictionPolicy",
    "NodeAffinityType",
    "PodProtection",
    "SpreadAction",
]

METRIC_RESOURCE: Final = "MetricResource"
"""What thresholds are for if a query of Prometheus measures nodes: its value, where 1 is 100 %."""


class EvictionPlugin(StrEnum):
    EVICTOR = "DefaultEvictor"
    HIGH = "HighNodeUtilization"
    LOW = "LowNodeUtilization"
    LIFE_TIME = "PodLifeTime"
    DUPLICATES = "RemoveDuplicates"
    FAILED = "RemoveFailedPods"
    RESTARTS = "RemovePodsHavingTooManyRestarts"
    ANTI_AFFINITY = "RemovePodsViolatingInterPodAntiAffinity"
    NODE_AFFINITY = "RemovePodsViolatingNodeAffinity"
    TAINTS = "RemovePodsViolatingNodeTaints"
    SPREAD = "RemovePodsViolatingTopologySpreadConstraint"


class MetricsSource(StrEnum):
    KUBERNETES = "KubernetesMetrics"
    PROMETHEUS = "Prometheus"


class NodeAffinityType(StrEnum):
    REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
    PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


class SpreadAction(StrEnum):
    HARD = "DoNotSchedule"
    SOFT = "ScheduleAnyway"


class NoEvictionPolicy(StrEnum):
    PREFERRED = "Preferred"
    MANDATORY = "Mandatory"


class PodProtection(StrEnum):
    LOCAL_STORAGE = "PodsWithLocalStorage"
    DAEMON_SETS = "DaemonSetPods"
    CRITICAL = "SystemCriticalPods"
    FAILED_BARE = "FailedBarePods"


class ExtraPodProtection(StrEnum):
    CLAIMS = "PodsWithPVC"
    WITHOUT_BUDGET = "PodsWithoutPDB"
    RESOURCE_CLAIMS = "PodsWithResourceClaims"
