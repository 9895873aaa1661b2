"""Define the settings, as frozen values that the rest of the program reads.

Each setting is declared only here: its type and allowed values (annotation), its default, and its meaning
(the docstring below it, for operators).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any

from kubevalues import EVERYTHING, NOTHING, Selector
from rescheduler.api.podmigration import Handover
from rescheduler.config.metric_settings import CustomMetric, Prometheus, balanced_resource
from rescheduler.config.move_limits import MovesPerHour, Window
from rescheduler.config.notification_settings import NotificationSink
from rescheduler.config.policy_blocks import (
    BLOCK_CONFIG,
    Cost,
    EvacuationSignal,
    MakeRoomPolicy,
    PlacementDriftPolicy,
    PodLifeTimePolicy,
)
from rescheduler.config.setting_rules import (
    InvalidSetting,
    duration,
    flag,
    integer,
    label_key,
    namespace,
    number,
    object_name,
    one_of,
    owner_kind,
    plugin_arguments,
    request_rate,
    selector,
    strategy_name,
    text,
)

__all__ = [
    "ClientConnection",
    "Configuration",
    "DefaultRetries",
    "FailedPodsPolicy",
    "HaltWhen",
    "LeaderElection",
    "Namespace",
    "NodeAutoscaler",
    "Policy",
    "SafeEvictionMode",
    "SafeEvictions",
    "UsageSource",
    "ZeroBudget",
]


class UsageSource(StrEnum):
    AUTO = "auto"
    REQUESTS = "requests"
    METRICS = "metrics"
    PROMETHEUS = "prometheus"


class ZeroBudget(StrEnum):
    """The cases in which pods whose budget allows no disruption may be moved make-before-break."""

    NEVER = "never"
    MAINTENANCE = "maintenance"
    ALWAYS = "always"


class SafeEvictionMode(StrEnum):
    """The pods that are moved before another client may evict them."""

    AUTO = "auto"
    ALL = "all"
    ANNOTATED = "annotated"
    OFF = "off"


class NodeAutoscaler(StrEnum):
    """The component that removes nodes that are not needed."""

    AUTO = "auto"
    KARPENTER = "karpenter"
    CLUSTER_AUTOSCALER = "clusterAutoscaler"
    OTHER = "other"
    NONE = "none"


_SECOND = timedelta(seconds=1)
_NONE = timedelta()
_EXAMPLE = "app=web,tier in (a,b),!legacy"

Flag = Annotated[bool, flag()]
Percent = Annotated[float, number(0, 100)]
Share = Annotated[float, number(0, 1, above=True)]
Count = Annotated[int, integer(1)]
Namespace = Annotated[str, namespace()]
Duration = Annotated[timedelta, duration(_NONE)]
PositiveDuration = Annotated[timedelta, duration(_SECOND)]
StrategyName = Annotated[str, strategy_name()]
PodSelector = Annotated[Selector, selector("pods", _EXAMPLE)]
NodeSelector = Annotated[Selector, selector("nodes", "pool=batch")]
NamespaceSelector = Annotated[Selector, selector("namespaces", "rescheduling=enabled or rescheduling!=off")]

PluginArguments = Annotated[Mapping[str, Any], plugin_arguments()]


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultRetries:
    __pydantic_config__ = BLOCK_CONFIG

    namespaces: tuple[Namespace, ...] = ()
    """Namespaces it applies to; empty means all."""
    pod_selector: PodSelector = EVERYTHING
    """Pods it applies to; empty means all."""
    retries: Annotated[int, integer(0, 100)]
    """Moves allowed per failing replica; 0 turns recovery off."""

    def __post_init__(self) -> None:
        # Failing pods are moved only where that is requested, so an entry must select something.
        if not self.namespaces and self.pod_selector.selects_everything:
            raise InvalidSetting("an entry with namespaces, a podSelector or both")


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedPodsPolicy:
    __pydantic_config__ = BLOCK_CONFIG

    enabled: Flag = True
    """Whether pods that keep failing get another node, where their owner allows it."""
    recovery_window: PositiveDuration = timedelta(minutes=10)
    """How long a pod must run without failing before its attempts are reset."""
    restart_threshold: Annotated[int, integer(1, 1000)] = 3
    """Restarts of a crashing container before its pod counts as failing."""
    stuck_after: PositiveDuration = timedelta(minutes=5)
    """How long image, volume, create and init errors must last before a pod counts as failing."""
    node_lost_after: PositiveDuration = timedelta(minutes=5)
    """How long a node must be not Ready before its pods count as lost."""
    force_on_lost_nodes: Flag = False
    """Whether pods on a lost node may be force-deleted, without confirmation from the kubelet."""
    default_retries: tuple[DefaultRetries, ...] = ()
    """Retries for workloads without the annotation `scheduling-retries`; the first match applies."""
    max_retries: Annotated[int, integer(1, 100)] = 10
    """Maximum that the annotation `scheduling-retries` may request; larger values are capped."""
    suspect_after: Count = 3
    """Workloads, in at least two namespaces, that must fail on a node before it is suspect. Suspect nodes are
    used last."""
    suspect_window: PositiveDuration = timedelta(minutes=30)
    """How long a failure counts against its node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HaltWhen:
    __pydantic_config__ = BLOCK_CONFIG

    failure_ratio: Share = 0.5
    """Share of recent migrations that must fail to stop all moves."""
    not_ready_share: Share = 0.3
    """Share of nodes that must be not Ready to stop all moves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SafeEvictions:
    __pydantic_config__ = BLOCK_CONFIG

    mode: Annotated[SafeEvictionMode, one_of(SafeEvictionMode)] = SafeEvictionMode.AUTO
    """Which pods are moved before another client may evict them. `auto`: pods that Adopt can move, if their
    eviction would leave fewer ready pods than requested or be refused by their budget. `all`: every pod that
    can be moved make-before-break. `annotated`: only where the annotation `rescheduler.dev/safe-evictions`
    says so. `off`: none, whatever annotations say."""
    deadline: Annotated[timedelta, duration(timedelta(seconds=10))] = timedelta(minutes=10)
    """How long such a move may take; then the eviction is left to the API server. The annotation
    `rescheduler.dev/safe-evictions-deadline` can shorten it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The args of the plugin `Rescheduler`."""

    __pydantic_config__ = BLOCK_CONFIG

    # The eight settings of the original plugin.
    rescheduling_interval: PositiveDuration = timedelta(seconds=30)
    """Time between checks."""
    enabled_strategies: tuple[StrategyName, ...] = ("LoadBalancing", "ResourceOptimization")
    """Strategies that propose moves, in order of precedence."""
    cpu_threshold: Percent = 80.0
    """A node with more CPU load than this, in percent, is overloaded (ResourceOptimization)."""
    memory_threshold: Percent = 80.0
    """A node with more memory load than this, in percent, is overloaded (ResourceOptimization)."""
    imbalance_threshold: Percent = 20.0
    """Spread between node loads, in percentage points, that LoadBalancing tolerates."""
    max_reschedule_pods: Annotated[int, integer(1, why="dryRun stops all moves")] = 10
    """Maximum number of moves per check."""
    excluded_namespaces: tuple[Namespace, ...] = ("kube-system", "kube-public")
    """Namespaces whose pods are never moved."""
    excluded_pod_selector: Annotated[Selector, selector("pods", _EXAMPLE, empty=NOTHING)] = NOTHING
    """Pods that are never moved; empty means none."""

    # Measurements, and how strategies use them.
    dry_run: Flag = False
    """Plan and report, but move nothing."""
    balance_resources: tuple[Annotated[str, balanced_resource()], ...] = ("cpu", "memory")
    """Resources whose load LoadBalancing evens out, and names of `customMetrics`."""
    custom_metrics: tuple[CustomMetric, ...] = ()
    """Metrics that Prometheus provides beside the usage of cpu and memory, such as pressure (PSI), disk and
    network. Those in `balanceResources` are read at every check."""
    usage_source: Annotated[UsageSource, one_of(UsageSource)] = UsageSource.AUTO
    """Source of load. `auto` uses Prometheus if its `url` is set, otherwise the metrics API if it is
    available, otherwise requests. Pods without measurements count with their requests."""
    prometheus: Prometheus = field(default_factory=Prometheus)
    """The Prometheus server that provides usage."""
    usage_half_life: PositiveDuration = timedelta(minutes=5)
    """Half-life of the smoothing of usage: a reading this old counts half."""
    hot_checks: Count = 3
    """Number of consecutive checks that must find a node too hot before it counts as hot."""
    min_gain: Annotated[float, number(0, 1)] = 0.01
    """Minimum relative improvement of a move."""
    strategy_node_selectors: Mapping[StrategyName, NodeSelector] = field(default_factory=dict)
    """Nodes that each strategy considers; a strategy without an entry considers all nodes."""
    strategy_args: Mapping[StrategyName, PluginArguments] = field(default_factory=dict)
    """Arguments of strategies that plugins add, by strategy; each plugin defines and validates its own."""
    cost: Cost = field(default_factory=Cost)
    """Cost of nodes (CostOptimization)."""
    make_room: MakeRoomPolicy = field(default_factory=MakeRoomPolicy)
    """Room for pods that can't be scheduled (MakeRoom)."""
    placement_drift: PlacementDriftPolicy = field(default_factory=PlacementDriftPolicy)
    """Pods on nodes that they would not be scheduled to today (PlacementDrift)."""
    pod_life_time: PodLifeTimePolicy = field(default_factory=PodLifeTimePolicy)
    """Pods that are moved because of their age (PodLifeTime)."""
    node_autoscaler: Annotated[NodeAutoscaler, one_of(NodeAutoscaler)] = NodeAutoscaler.AUTO
    """Component that removes nodes that are not needed. `auto` detects Karpenter and the cluster autoscaler.
    With one, LoadBalancing does not refill nodes that it would remove. CostOptimization empties only nodes
    that it removes. `other` means another component, which removes every empty node."""

    # Which pods may be moved.
    namespace_selector: NamespaceSelector = EVERYTHING
    """Namespaces whose pods may be moved, by their labels; empty means all. Pods of other namespaces are not
    moved, like those of `excludedNamespaces`."""
    node_selector: NodeSelector = EVERYTHING
    """Nodes whose pods may be moved, and to which pods are moved for a better placement; empty means all."""
    min_pod_age: Duration = timedelta(minutes=5)
    """Younger pods are not moved, nor are pods whose readiness changed within this time, except off nodes in
    maintenance, by `drain` and by `move`."""
    max_priority: Annotated[int | None, integer(-(2**31))] = None
    """Pods with a higher priority are not moved; unset means no limit."""
    include_jobs: Flag = False
    """Whether pods of Jobs may be moved; they start again from the beginning."""
    include_local_storage: Flag = False
    """Whether pods with local data may be moved; they lose it."""
    include_bare_pods: Flag = True
    """Whether pods without a controller may be moved (only with `restartPolicy: Always`)."""
    min_replicas_for_evict: Count = 2
    """Workloads with fewer replicas are not evicted for balance or cost."""
    move_under_zero_budget: Annotated[ZeroBudget, one_of(ZeroBudget)] = ZeroBudget.MAINTENANCE
    """When pods whose budget allows no disruption may be moved make-before-break."""
    maintenance_includes_system: Flag = False
    """Whether maintenance moves system pods too."""
    known_schedulers: tuple[Annotated[str, text("the name of a scheduler", r"\S+")], ...] = (
        "default-scheduler",
    )
    """Pods of other schedulers are not moved."""
    pod_group_label: Annotated[str, label_key()] = "scheduling.x-k8s.io/pod-group"
    """Pods of one namespace with the same value of this label are moved together or not at all."""

    # How moves are made.
    handovers: Mapping[Annotated[str, owner_kind()], Annotated[Handover, one_of(Handover)]] = field(
        default_factory=dict
    )
    """Handover per kind of owner (`Pod` for pods without one); `Auto` chooses per pod."""
    max_concurrent_migrations: Count = 10
    """Maximum number of concurrent migrations."""
    max_concurrent_per_node: Count = 2
    """Maximum number of concurrent migrations from or to one node."""
    max_concurrent_per_workload: Count = 1
    """Maximum number of concurrent migrations of one workload."""
    migration_timeout: PositiveDuration = timedelta(minutes=10)
    """Time after which a migration that has not handed over is rolled back."""
    max_retries: Annotated[int, integer(0, 100)] = 3
    """Retries of a migration that failed for a transient reason."""
    settle_time: Duration = timedelta(seconds=10)
    """How long a copy must be ready before its source is removed."""
    steer_timeout: PositiveDuration = timedelta(minutes=1)
    """How long a steered replacement may be Unschedulable before its steering is removed."""
    allow_unsteered: Flag = False
    """Whether pods may be evicted when their replacements can't be steered."""
    scheduler_extender: Flag = False
    """Whether the scheduler calls our extender, which steers replacements without the webhook."""
    restricted_copies: Flag = False
    """Whether admission policies refuse copies with access to their host. `rescheduler manifests` and the
    chart set it if they install these policies."""
    temporary_budget: Flag = True
    """Whether a workload without a budget gets a temporary one while its pods are evicted."""
    grace_period_seconds: Annotated[
        int | None, integer(1, 86_400, why="0 would delete pods before they stop")
    ] = None
    """Grace period of evictions; unset means the pod's own."""

    # When, how often, and when to stop.
    pod_cooldown: Duration = timedelta(minutes=30)
    """How long a pod is not moved again after a move, successful or not; on a node in maintenance, only after
    a failed move."""
    migration_ttl: PositiveDuration = timedelta(hours=24)
    """How long finished migrations are kept; at least `podCooldown`, which depends on them."""
    windows: tuple[Window, ...] = ()
    """Times at which moves may start; empty means always. Moves of failing pods ignore them."""
    max_moves_per_hour: MovesPerHour = field(default_factory=MovesPerHour)
    """How many moves may start per hour. Every move counts, but only those for a better placement wait:
    not `move`, `drain`, maintenance, failing pods and evictions by other clients."""
    halt_when: HaltWhen = HaltWhen()
    """Conditions under which no moves start."""
    failed_pods: FailedPodsPolicy = FailedPodsPolicy()
    """Recovery of pods that keep failing on their node."""
    safe_evictions: SafeEvictions = SafeEvictions()
    """Moves of pods that other clients want to evict."""
    evacuate_on: tuple[EvacuationSignal, ...] = ()
    """Taints and conditions of nodes that have to be emptied, such as spot interruptions. Such a node is
    emptied like one in maintenance, whether or not NodeMaintenance is enabled."""
    notifications: tuple[NotificationSink, ...] = ()
    """Receivers of halts, failed migrations, exhausted retries and finished maintenance."""
    workload_metrics: Annotated[int, integer(0, 500)] = 0
    """How many workloads have metrics of their own: those with the most migrations. The others count
    together, as `other`; 0 means no such metrics."""

    def in_window(self, moment: datetime) -> bool:
        """Return whether moves may start at that moment."""
        return not self.windows or any(window.is_open(moment) for window in self.windows)

    def nodes_of(self, strategy: str) -> Selector:
        """Return the nodes that the strategy considers."""
        return self.strategy_node_selectors.get(strategy, EVERYTHING) & self.node_selector

    def enables(self, strategy: str) -> bool:
        """Return whether some profile enables the strategy."""
        return any(strategy in each.enabled_strategies for each in self.every_profile)

    @property
    def every_profile(self) -> "tuple[Policy, ...]":
        """Return the policy of each profile; there is at least one."""
        return (self,)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConnection:
    __pydantic_config__ = BLOCK_CONFIG

    kubeconfig: Annotated[str | None, text("the path of a kubeconfig file")] = None
    """Kubeconfig file; unset means the one that kubectl uses, or the service account inside a cluster."""
    qps: Annotated[float, request_rate()] = 50.0
    """Requests per second to the API server; negative for no limit."""
    burst: Count = 100
    """Requests that may exceed `qps` in a burst."""

    @property
    def is_limited(self) -> bool:
        return self.qps != math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderElection:
    __pydantic_config__ = BLOCK_CONFIG

    leader_elect: Flag = True
    """Whether only one of several instances is active."""
    lease_duration: PositiveDuration = timedelta(seconds=15)
    """How long other instances wait after the leader's last renewal; longer than `renewDeadline`."""
    renew_deadline: PositiveDuration = timedelta(seconds=10)
    """How long the leader tries to renew before it steps down; longer than 1.2 times `retryPeriod`."""
    retry_period: Annotated[timedelta, duration(timedelta(milliseconds=100))] = timedelta(seconds=2)
    """Time between attempts."""
    resource_name: Annotated[str, object_name("Lease")] = "rescheduler"
    """Name of the Lease; must not be the scheduler's."""
    resource_namespace: Annotated[str | None, namespace()] = None
    """Namespace of the Lease; unset means the rescheduler's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """All settings of the file for rescheduler; without a file, the defaults."""

    policy: Policy = Policy()
    client_connection: ClientConnection = ClientConnection()
    leader_election: LeaderElection = LeaderElection()
