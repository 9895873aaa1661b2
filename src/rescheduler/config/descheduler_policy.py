"""Declare the policy of the descheduler: `descheduler/v1alpha2` of version 0.36, with all plugins.

Names, types and allowed values are those of `pkg/api/v1alpha2` and of `pkg/framework/plugins/*/types.go`
there. Values that its validation refuses are refused here, with path and line.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Any, Final, TypeVar

from kubevalues import Selector, SelectorError, selector_from_object
from rescheduler.config.config_validation import FieldPath
from rescheduler.config.policy import Namespace
from rescheduler.config.policy_blocks import BLOCK_CONFIG, TaintName
from rescheduler.config.setting_rules import (
    InvalidSetting,
    SettingRule,
    duration,
    flag,
    integer,
    number,
    one_of,
    owner_kind,
    plugin_arguments,
    resource_name,
    selector,
    text,
)

__all__ = [
    "METRIC_RESOURCE",
    "PLUGIN_ARGUMENTS",
    "DeschedulerPlugin",
    "DeschedulerPolicy",
    "DeschedulerProfile",
    "EvictionPlugin",
    "ExtraPodProtection",
    "MetricsSource",
    "NoEvictionPolicy",
    "NodeAffinityType",
    "PodProtection",
    "SpreadAction",
]


METRIC_RESOURCE: Final = "MetricResource"
"""The name in thresholds for the value of a Prometheus query that measures nodes, where 1 is 100 %."""


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


def _label_selector() -> SettingRule:
    def read(value: object) -> Selector:
        if not isinstance(value, dict):
            raise InvalidSetting
        try:
            return selector_from_object(value)
        except SelectorError as error:
            raise InvalidSetting(str(error)) from None

    return SettingRule("map", "a label selector with matchLabels and matchExpressions", read)


def _measured_resource() -> SettingRule:
    """Allow the name of a resource, or `METRIC_RESOURCE`."""
    resource = resource_name()

    def read(value: object) -> str:
        return METRIC_RESOURCE if value == METRIC_RESOURCE else str(resource.read(value))

    return SettingRule("string", f"{resource.allowed}, or {METRIC_RESOURCE} for the value of a query", read)


_Flag = Annotated[bool, flag()]
_Count = Annotated[int | None, integer(0)]
_Text = Annotated[str, text()]
_Map = Annotated[Mapping[str, Any], plugin_arguments()]
_Pods = Annotated[Selector | None, _label_selector()]
_Percents = Mapping[Annotated[str, resource_name()], Annotated[float, number(0, 100)]]
_MetricPercents = Mapping[Annotated[str, _measured_resource()], Annotated[float, number(0, 100)]]
_EvictionMode = Annotated[str, text("OnlyThresholdingResources", r"OnlyThresholdingResources")]
_OwnerKind = Annotated[str, owner_kind()]
T = TypeVar("T")


def _block(kind: type[T]) -> type[T]:
    """Make the class a frozen block of settings."""
    kind.__pydantic_config__ = BLOCK_CONFIG  # type: ignore[attr-defined]
    return dataclass(frozen=True, kw_only=True)(kind)


@_block
class _Names:
    include: tuple[Namespace, ...] = ()
    exclude: tuple[Namespace, ...] = ()

    def __post_init__(self) -> None:
        if self.include and self.exclude:
            raise InvalidSetting("only one of include and exclude")


@_block
class _PodFilter:
    """The settings of most plugins that select the pods to consider."""

    namespaces: _Names = field(default_factory=_Names)
    label_selector: _Pods = None


@_block
class _Priority:
    value: Annotated[int | None, integer(-(2**31))] = None
    name: _Text = ""


@_block
class _Protections:
    extra_enabled: tuple[Annotated[ExtraPodProtection, one_of(ExtraPodProtection)], ...] = ()
    default_disabled: tuple[Annotated[PodProtection, one_of(PodProtection)], ...] = ()
    config: _Map = field(default_factory=dict)


@_block
class _EvictorArgs:
    node_selector: Annotated[str, selector("nodes", "pool=batch")] = ""
    label_selector: _Pods = None
    namespace_label_selector: _Pods = None
    priority_threshold: _Priority = field(default_factory=_Priority)
    node_fit: _Flag = False
    min_replicas: _Count = None
    min_pod_age: Annotated[timedelta | None, duration(timedelta())] = None
    no_eviction_policy: Annotated[NoEvictionPolicy | None, one_of(NoEvictionPolicy)] = None
    pod_protections: _Protections = field(default_factory=_Protections)
    evict_local_storage_pods: _Flag = False
    evict_daemon_set_pods: _Flag = False
    evict_system_critical_pods: _Flag = False
    ignore_pvc_pods: _Flag = False
    ignore_pods_without_pdb: _Flag = False
    evict_failed_bare_pods: _Flag = False


@_block
class _MetricsUtilization:
    metrics_server: _Flag = False
    source: Annotated[MetricsSource | None, one_of(MetricsSource)] = None
    prometheus: _Map = field(default_factory=dict)


@_block
class _LowArgs:
    thresholds: _MetricPercents
    target_thresholds: _MetricPercents
    use_deviation_thresholds: _Flag = False
    number_of_nodes: _Count = None
    metrics_utilization: _MetricsUtilization = field(default_factory=_MetricsUtilization)
    evictable_namespaces: _Names = field(default_factory=_Names)
    eviction_limits: _Map = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.thresholds or set(self.thresholds) != set(self.target_thresholds):
            raise InvalidSetting("thresholds and targetThresholds for the same resources, at least one")
        above = [name for name, low in self.thresholds.items() if low > self.target_thresholds[name]]
        if above and not self.use_deviation_thresholds:
            raise InvalidSetting(f"thresholds up to targetThresholds, also for {above[0]}")
        has_query = bool(self.metrics_utilization.prometheus.get("query"))
        if METRIC_RESOURCE in self.thresholds and not (has_query and len(self.thresholds) == 1):
            raise InvalidSetting(f"{METRIC_RESOURCE} alone, and with metricsUtilization.prometheus.query")


@_block
class _HighArgs:
    thresholds: _Percents
    number_of_nodes: _Count = None
    eviction_modes: tuple[_EvictionMode, ...] = ()
    evictable_namespaces: _Names = field(default_factory=_Names)


@_block
class _DuplicatesArgs:
    namespaces: _Names = field(default_factory=_Names)
    exclude_owner_kinds: tuple[_Text, ...] = ()


@_block
class _OwnerKinds(_Names):
    include: tuple[_OwnerKind, ...] = ()
    exclude: tuple[_OwnerKind, ...] = ()


@_block
class _LifeTimeArgs(_PodFilter):
    owner_kinds: _OwnerKinds = field(default_factory=_OwnerKinds)
    max_pod_life_time_seconds: _Count = None
    states: tuple[_Text, ...] = ()
    conditions: tuple[_Map, ...] = ()
    exit_codes: tuple[Annotated[int, integer(-(2**31))], ...] = ()
    including_init_containers: _Flag = False
    including_ephemeral_containers: _Flag = False


@_block
class _FailedArgs(_PodFilter):
    exclude_owner_kinds: tuple[_Text, ...] = ()
    min_pod_lifetime_seconds: _Count = None
    reasons: tuple[_Text, ...] = ()
    exit_codes: tuple[Annotated[int, integer(-(2**31))], ...] = ()
    including_init_containers: _Flag = False


@_block
class _RestartsArgs(_PodFilter):
    pod_restart_threshold: Annotated[int, integer(1)]
    including_init_containers: _Flag = False
    states: tuple[_Text, ...] = ()


@_block
class _NodeAffinityArgs(_PodFilter):
    node_affinity_type: tuple[Annotated[NodeAffinityType, one_of(NodeAffinityType)], ...]


@_block
class _TaintsArgs(_PodFilter):
    include_prefer_no_schedule: _Flag = False
    excluded_taints: tuple[TaintName, ...] = ()
    included_taints: tuple[TaintName, ...] = ()

    def __post_init__(self) -> None:
        if self.excluded_taints and self.included_taints:
            raise InvalidSetting("only one of excludedTaints and includedTaints")


@_block
class _SpreadArgs(_PodFilter):
    constraints: tuple[Annotated[SpreadAction, one_of(SpreadAction)], ...] = (SpreadAction.HARD,)
    topology_balance_node_fit: _Flag = True


PLUGIN_ARGUMENTS: Final[Mapping[EvictionPlugin, type]] = {
    EvictionPlugin.EVICTOR: _EvictorArgs,
    EvictionPlugin.HIGH: _HighArgs,
    EvictionPlugin.LOW: _LowArgs,
    EvictionPlugin.LIFE_TIME: _LifeTimeArgs,
    EvictionPlugin.DUPLICATES: _DuplicatesArgs,
    EvictionPlugin.FAILED: _FailedArgs,
    EvictionPlugin.RESTARTS: _RestartsArgs,
    EvictionPlugin.ANTI_AFFINITY: _PodFilter,
    EvictionPlugin.NODE_AFFINITY: _NodeAffinityArgs,
    EvictionPlugin.TAINTS: _TaintsArgs,
    EvictionPlugin.SPREAD: _SpreadArgs,
}

_PluginName = Annotated[EvictionPlugin, one_of(EvictionPlugin)]


@_block
class _PluginSet:
    enabled: tuple[_PluginName, ...] = ()
    disabled: tuple[_Text, ...] = ()


@_block
class _Plugins:
    presort: _PluginSet = field(default_factory=_PluginSet)
    sort: _PluginSet = field(default_factory=_PluginSet)
    deschedule: _PluginSet = field(default_factory=_PluginSet)
    balance: _PluginSet = field(default_factory=_PluginSet)
    filter: _PluginSet = field(default_factory=_PluginSet)
    preevictionfilter: _PluginSet = field(default_factory=_PluginSet)


@_block
class _PluginConfig:
    name: _PluginName
    args: _Map = field(default_factory=dict)


@_block
class DeschedulerProfile:
    name: _Text = ""
    plugin_config: tuple[_PluginConfig, ...] = ()
    plugins: _Plugins = field(default_factory=_Plugins)


@_block
class _PrometheusServer:
    url: _Text = ""
    auth_token: _Map = field(default_factory=dict)


@_block
class _Provider:
    source: Annotated[MetricsSource | None, one_of(MetricsSource)] = None
    prometheus: _PrometheusServer = field(default_factory=_PrometheusServer)


@_block
class DeschedulerPolicy:
    """The file as a whole, apart from the arguments of plugins."""

    api_version: Annotated[str, text("descheduler/v1alpha2", r"descheduler/v1alpha2")]
    kind: Annotated[str, text("DeschedulerPolicy", r"DeschedulerPolicy")]
    profiles: tuple[DeschedulerProfile, ...] = ()
    node_selector: Annotated[Selector | None, selector("nodes", "pool=batch")] = None
    max_no_of_pods_to_evict_per_node: _Count = None
    max_no_of_pods_to_evict_per_namespace: _Count = None
    max_no_of_pods_to_evict_total: _Count = None
    eviction_failure_event_notification: _Flag = False
    metrics_collector: Mapping[_Text, _Flag] = field(default_factory=dict)
    metrics_providers: tuple[_Provider, ...] = ()
    grace_period_seconds: _Count = None


@dataclass(frozen=True, slots=True)
class DeschedulerPlugin:
    """A plugin that a profile enables or configures, with its arguments."""

    plugin: EvictionPlugin
    path: FieldPath
    args: Any
    enabled: bool
