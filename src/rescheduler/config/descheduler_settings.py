"""Convert the plugins and limits of a descheduler policy into settings, and note what has no counterpart."""

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any, Final

from kubevalues import Selector
from kubevalues.duration import short_duration
from rescheduler.config.config_validation import FieldPath, escape_unprintable, path_text
from rescheduler.config.descheduler_policy import (
    METRIC_RESOURCE,
    DeschedulerPlugin,
    DeschedulerPolicy,
    EvictionPlugin,
    ExtraPodProtection,
    MetricsSource,
    NodeAffinityType,
    NoEvictionPolicy,
    PodProtection,
    SpreadAction,
)
from rescheduler.config.policy import Policy
from rescheduler.config.policy_blocks import Preference, setting_name

__all__ = ["EVICTOR_SETTINGS", "HIGH_LEFT_OUT", "DeschedulerSettings"]

EVICTOR_SETTINGS: Final = (
    "excludedPodSelector",
    "includeLocalStorage",
    "maxPriority",
    "minPodAge",
    "minReplicasForEvict",
    "namespaceSelector",
)
"""The settings that DefaultEvictor is converted to."""

HIGH_LEFT_OUT: Final = "HighNodeUtilization left out: it empties nodes that LowNodeUtilization would fill"

_MAX_RESTARTS: Final = 1000
_RETRIES: Final = 3
_DRIFT: Final = "taints, node selectors and node affinity"
_SPREAD: Final = "topology spread constraints and anti-affinity"


class DeschedulerSettings:
    """The settings to which plugins of a policy are converted, for one profile or for all."""

    def __init__(self, policy: DeschedulerPolicy, plugins: Iterable[DeschedulerPlugin]) -> None:
        self.notes: list[str] = []
        self.args: dict[str, Any] = {}
        self.strategies: list[str] = []
        self._preferences: list[str] = []
        self._drift: dict[str, Any] = {}
        self._failed_pods: dict[str, Any] = {}
        self._excluded = list(Policy().excluded_namespaces)
        self._is_measured = False
        self._metrics: list[dict[str, Any]] = []
        self._convert(policy, plugins)

    def _convert(self, policy: DeschedulerPolicy, plugins: Iterable[DeschedulerPlugin]) -> None:
        """Convert the enabled plugins in the order of the file, then the rest of the policy."""
        converters: Mapping[EvictionPlugin, Callable[[DeschedulerPlugin], None]] = {
            EvictionPlugin.EVICTOR: self._evictor,
            EvictionPlugin.HIGH: self._high_utilization,
            EvictionPlugin.LOW: self._low_utilization,
            EvictionPlugin.LIFE_TIME: self._life_time,
            EvictionPlugin.DUPLICATES: self._duplicates,
            EvictionPlugin.FAILED: self._failed,
            EvictionPlugin.RESTARTS: self._restarts,
            EvictionPlugin.ANTI_AFFINITY: self._anti_affinity,
            EvictionPlugin.NODE_AFFINITY: self._node_affinity,
            EvictionPlugin.TAINTS: self._taints,
            EvictionPlugin.SPREAD: self._spread,
        }
        enabled = [plugin for plugin in plugins if plugin.enabled]
        for plugin in plugins:
            if not plugin.enabled:
                self.note(plugin.path, f"{plugin.plugin} is not enabled in this profile: left out")
        for plugin in enabled:
            converters[plugin.plugin](plugin)
        kinds = {plugin.plugin for plugin in enabled}
        for strategy, covered, what in (
            ("PlacementDrift", {EvictionPlugin.TAINTS, EvictionPlugin.NODE_AFFINITY}, _DRIFT),
            ("TopologySpread", {EvictionPlugin.ANTI_AFFINITY, EvictionPlugin.SPREAD}, _SPREAD),
        ):
            if strategy in self.strategies and not covered <= kinds:
                self.note((), f"{strategy} considers {what} alike")
        self._limits(policy)
        self._usage(policy)
        self._finish(policy)

    def note(self, path: FieldPath, why: str, *, protects: bool = False) -> None:
        """Note a setting without a counterpart. If it protects pods, the result is a dry run."""
        where = f"{path_text(path)}: " if path else ""
        if protects:
            self.args["dryRun"] = True
            why += " (it protects pods, so dryRun is true)"
        self.notes.append(escape_unprintable(where + why))

    def _enable(self, strategy: str) -> None:
        if strategy not in self.strategies:
            self.strategies.append(strategy)

    def _prefer(self, preference: Preference) -> None:
        self._enable("PlacementDrift")
        if preference not in self._preferences:
            self._preferences.append(str(preference))

    # -- plugins

    def _filter(self, plugin: DeschedulerPlugin) -> None:
        """Convert which pods a plugin considers. Namespaces that it excludes are excluded for all."""
        for name in ("namespaces", "evictable_namespaces"):
            names = getattr(plugin.args, name, None)
            self._exclude_namespaces(names.exclude if names is not None else ())
            if names is not None and names.include:
                where = (*plugin.path, setting_name(name), "include")
                chosen = f"kubernetes.io/metadata.name in ({','.join(names.include)})"
                why = (
                    f"strategies are not limited to namespaces, but profiles are: namespaceSelector {chosen}"
                )
                self.note(where, why, protects=True)
        if getattr(plugin.args, "label_selector", None) is not None:
            self.note((*plugin.path, "labelSelector"), "a strategy considers all pods", protects=True)

    def _exclude_namespaces(self, names: Iterable[str]) -> None:
        self._excluded += [name for name in names if name not in self._excluded]

    def _duplicates(self, plugin: DeschedulerPlugin) -> None:
        self._filter(plugin)
        self._prefer(Preference.DUPLICATES)
        if plugin.args.exclude_owner_kinds:
            self.note((*plugin.path, "excludeOwnerKinds"), "owner kinds can't be excluded", protects=True)

    def _anti_affinity(self, plugin: DeschedulerPlugin) -> None:
        self._filter(plugin)
        self._enable("TopologySpread")

    def _spread(self, plugin: DeschedulerPlugin) -> None:
        self._filter(plugin)
        if SpreadAction.HARD in plugin.args.constraints:
            self._enable("TopologySpread")
        if SpreadAction.SOFT in plugin.args.constraints:
            self._prefer(Preference.POD_TOPOLOGY_SPREAD)
        if not plugin.args.topology_balance_node_fit:
            self.note((*plugin.path, "topologyBalanceNodeFit"), "a pod moves only if it fits elsewhere")

    def _node_affinity(self, plugin: DeschedulerPlugin) -> None:
        self._filter(plugin)
        self._enable("PlacementDrift")
        if NodeAffinityType.PREFERRED in plugin.args.node_affinity_type:
            self._prefer(Preference.NODE_AFFINITY)

    def _taints(self, plugin: DeschedulerPlugin) -> None:
        self._filter(plugin)
        self._enable("PlacementDrift")
        if plugin.args.include_prefer_no_schedule:
            self._prefer(Preference.TAINT_TOLERATION)
        for name, taints in (
            ("excludedTaints", plugin.args.excluded_taints),
            ("includedTaints", plugin.args.included_taints),
        ):
            if taints:
                self._drift[name] = [*dict.fromkeys([*self._drift.get(name, ()), *taints])]

    def _low_utilization(self, plugin: DeschedulerPlugin) -> None:
        self._filter(plugin)
        args, usage = plugin.args, plugin.args.metrics_utilization
        self._is_measured |= usage.metrics_server or usage.source is not None
        is_query = METRIC_RESOURCE in args.thresholds
        if args.use_deviation_thresholds:
            self._enable("LoadBalancing")
            tolerated = [low + args.target_thresholds[name] for name, low in args.thresholds.items()]
            self.args["imbalanceThreshold"] = min(100.0, *tolerated)
            self.args["balanceResources"] = self._metric(plugin) if is_query else sorted(args.thresholds)
        elif is_query:
            why = "LowNodeUtilization left out: ResourceOptimization considers only cpu and memory"
            self.note((*plugin.path, "targetThresholds"), f"{why}; LoadBalancing balances customMetrics")
        else:
            self._enable("ResourceOptimization")
            self.args["cpuThreshold"] = args.target_thresholds.get("cpu", 100.0)
            self.args["memoryThreshold"] = args.target_thresholds.get("memory", 100.0)
            where = (*plugin.path, "thresholds")
            self.note(where, "targets need not be below a threshold: they only stay below targetThresholds")
            for name in sorted(set(args.target_thresholds) - {"cpu", "memory"}):
                where = (*plugin.path, "targetThresholds", name)
                self.note(
                    where, "ResourceOptimization considers only cpu and memory; LoadBalancing balances others"
                )
        if usage.prometheus and not is_query:
            where = (*plugin.path, "metricsUtilization", "prometheus", "query")
            self.note(where, "left out: add it to customMetrics, with one value per label node")
        if args.number_of_nodes:
            self.note((*plugin.path, "numberOfNodes"), "rescheduler also acts on one underused node")
        if args.eviction_limits:
            self.note((*plugin.path, "evictionLimits"), "see maxConcurrentPerNode, which limits at any time")

    def _metric(self, plugin: DeschedulerPlugin) -> list[str]:
        """Add the query to the custom metrics, where 1 is 100 % of a node, and return the metric's name."""
        query = plugin.args.metrics_utilization.prometheus["query"]
        name = f"metric-{plugin.path[1]}"
        # The descheduler finds the node in the label instance.
        by_node = f'label_replace({query}, "node", "$1", "instance", "(.+)")'
        self._metrics.append({"name": name, "query": by_node, "capacity": 1})
        return [name]

    def _high_utilization(self, plugin: DeschedulerPlugin) -> None:
        self._filter(plugin)
        self._enable("CostOptimization")
        why = "CostOptimization empties any node whose pods all fit elsewhere, the cheapest to empty first"
        self.note((*plugin.path, "thresholds"), f"{why}; it acts where an autoscaler removes empty nodes")
        for name in ("number_of_nodes", "eviction_modes"):
            if getattr(plugin.args, name):
                self.note((*plugin.path, setting_name(name)), why)

    def _life_time(self, plugin: DeschedulerPlugin) -> None:
        args, age_s = plugin.args, plugin.args.max_pod_life_time_seconds
        self._exclude_namespaces(args.namespaces.exclude)
        by_state = args.conditions or args.exit_codes or (args.states and "Running" not in args.states)
        if by_state or set(args.states) - {"Running"} or age_s is None:
            self.note(
                plugin.path, "running pods are moved for their age alone; for failing pods, see failedPods"
            )
        if by_state or age_s is None:
            return
        self._enable("PodLifeTime")
        made = {
            "maxPodLifeTime": short_duration(timedelta(seconds=max(age_s, 60))),
            "namespaces": list(args.namespaces.include),
            "podSelector": str(args.label_selector or ""),
            "includedOwnerKinds": list(args.owner_kinds.include),
            "excludedOwnerKinds": list(args.owner_kinds.exclude),
        }
        made = {name: value for name, value in made.items() if value}
        if self.args.setdefault("podLifeTime", made) != made:
            self.note(plugin.path, "PodLifeTime has one set of arguments", protects=True)

    def _restarts(self, plugin: DeschedulerPlugin) -> None:
        threshold = plugin.args.pod_restart_threshold
        self._failed_pods["restartThreshold"] = min(threshold, _MAX_RESTARTS)
        if threshold > _MAX_RESTARTS:
            self.note((*plugin.path, "podRestartThreshold"), f"the maximum is {_MAX_RESTARTS}")
        if plugin.args.states:
            self.note((*plugin.path, "states"), "only pods in CrashLoopBackOff count")
        self._retries(plugin)

    def _failed(self, plugin: DeschedulerPlugin) -> None:
        for name in ("reasons", "exit_codes", "min_pod_lifetime_seconds", "exclude_owner_kinds"):
            if getattr(plugin.args, name):
                self.note((*plugin.path, setting_name(name)), "every failed pod counts", protects=True)
        self._retries(plugin)

    def _retries(self, plugin: DeschedulerPlugin) -> None:
        """Set which pods may be retried: failing pods move only where namespaces or labels are named."""
        names, pods = plugin.args.namespaces, plugin.args.label_selector
        self._exclude_namespaces(names.exclude)
        entry: dict[str, Any] = {"namespaces": list(names.include)} if names.include else {}
        if pods is not None and not pods.selects_everything:
            entry["podSelector"] = str(pods)
        if not entry:
            why = "failing pods are moved where namespaces or labels are named (failedPods.defaultRetries)"
            self.note(plugin.path, f"{why}, or the workload has the annotation scheduling-retries")
            return
        self.note(
            plugin.path, "pods there that fail in other ways get another node, too (docs/failing-pods.md)"
        )
        entries = self._failed_pods.setdefault("defaultRetries", [])
        if (made := {**entry, "retries": _RETRIES}) not in entries:
            entries.append(made)

    # -- which pods may be moved

    def _evictor(self, plugin: DeschedulerPlugin) -> None:
        args, path = plugin.args, plugin.path
        if args.label_selector is not None:
            self._only_pods(args.label_selector, (*path, "labelSelector"))
        if args.namespace_label_selector is not None:
            self.args["namespaceSelector"] = str(args.namespace_label_selector)
        if args.node_selector:
            self.note((*path, "nodeSelector"), "targets are all nodes that the scheduler would allow")
        if args.priority_threshold.value is not None:
            self.args["maxPriority"] = max(args.priority_threshold.value - 1, -(2**31))
        if args.priority_threshold.name:
            where = (*path, "priorityThreshold", "name")
            self.note(where, "set maxPriority to one less than its value", protects=True)
        if args.min_replicas is not None:
            self.args["minReplicasForEvict"] = max(1, args.min_replicas)
            if args.min_replicas > 1:
                self.note((*path, "minReplicas"), "only for pods that can't be moved make-before-break")
        if args.min_pod_age is not None:
            self.args["minPodAge"] = short_duration(args.min_pod_age)
        if args.no_eviction_policy is NoEvictionPolicy.MANDATORY:
            why = "label these pods scheduler.alpha.kubernetes.io/rescheduling=disabled"
            self.note((*path, "noEvictionPolicy"), why, protects=True)
        self._protections(args, path)

    def _only_pods(self, chosen: Selector, path: FieldPath) -> None:
        """Exclude all other pods, which is possible only if the selector has one requirement."""
        others = chosen.requirements[0].negation if len(chosen.requirements) == 1 else None
        if others is None:
            self.note(path, "excludedPodSelector can't exclude all other pods", protects=True)
            return
        self.args["excludedPodSelector"] = str(Selector.of([others]))

    def _protections(self, args: Any, path: FieldPath) -> None:
        disabled, extra = set(args.pod_protections.default_disabled), set(args.pod_protections.extra_enabled)
        disabled |= {PodProtection.LOCAL_STORAGE} if args.evict_local_storage_pods else set()
        disabled |= {PodProtection.DAEMON_SETS} if args.evict_daemon_set_pods else set()
        disabled |= {PodProtection.CRITICAL} if args.evict_system_critical_pods else set()
        disabled |= {PodProtection.FAILED_BARE} if args.evict_failed_bare_pods else set()
        extra |= {ExtraPodProtection.CLAIMS} if args.ignore_pvc_pods else set()
        extra |= {ExtraPodProtection.WITHOUT_BUDGET} if args.ignore_pods_without_pdb else set()
        if PodProtection.LOCAL_STORAGE in disabled:
            self.args["includeLocalStorage"] = True
        for each, why in (
            (PodProtection.DAEMON_SETS, "pods of DaemonSets belong to their node and are never moved"),
            (PodProtection.CRITICAL, "system pods move only in maintenance (maintenanceIncludesSystem)"),
            (PodProtection.FAILED_BARE, "annotate failed pods without a controller with scheduling-retries"),
        ):
            if each in disabled:
                self.note(path, f"{each}: {why}")
        for every, why in (
            (ExtraPodProtection.CLAIMS, "pods with claims are moved where their volumes allow it"),
            (ExtraPodProtection.WITHOUT_BUDGET, "workloads without a budget get one while they are moved"),
        ):
            if every in extra:
                self.note(path, f"{every}: {why}", protects=True)

    # -- everything else

    def _limits(self, policy: DeschedulerPolicy) -> None:
        if (total := policy.max_no_of_pods_to_evict_total) is not None:
            self.args |= {"maxReschedulePods": total} if total else {"dryRun": True}
            why = "per check: set reschedulingInterval to your --descheduling-interval"
            self.note(("maxNoOfPodsToEvictTotal",), why)
        if policy.max_no_of_pods_to_evict_per_node is not None:
            self.note(("maxNoOfPodsToEvictPerNode",), "see maxConcurrentPerNode, a limit at any time")
        if policy.max_no_of_pods_to_evict_per_namespace is not None:
            self.note(("maxNoOfPodsToEvictPerNamespace",), "namespaces get fair shares of maxReschedulePods")
        if (seconds := policy.grace_period_seconds) is not None:
            if seconds:
                self.args["gracePeriodSeconds"] = min(seconds, 86_400)
            else:
                self.note(("gracePeriodSeconds",), "0 would delete pods before they stop; left out")

    def _usage(self, policy: DeschedulerPolicy) -> None:
        """Set the usage source: the descheduler counts requests unless a plugin asks for metrics."""
        server = next(
            (each for each in policy.metrics_providers if each.source is MetricsSource.PROMETHEUS), None
        )
        has_url = server is not None and bool(server.prometheus.url)
        if self._metrics and has_url:
            self.args["customMetrics"] = self._metrics
        elif self._metrics:
            self.strategies.remove("LoadBalancing")
            del self.args["balanceResources"]
            why = "LowNodeUtilization left out: its query needs the url of a Prometheus"
            self.note(("metricsProviders",), why)
        if not {"LoadBalancing", "ResourceOptimization"} & set(self.strategies):
            return
        if not self._is_measured:
            self.args["usageSource"] = "requests"
        elif server is not None and server.prometheus.url:
            self.args |= {"usageSource": "prometheus", "prometheus": {"url": server.prometheus.url}}
            if server.prometheus.auth_token:
                self.note(("metricsProviders",), "mount the Secret, and set prometheus.bearerTokenFile")
        else:
            self.args["usageSource"] = "metrics"

    def _finish(self, policy: DeschedulerPolicy) -> None:
        if "LoadBalancing" in self.strategies and "CostOptimization" in self.strategies:
            self.strategies.remove("CostOptimization")
            self.note((), HIGH_LEFT_OUT)
        if policy.node_selector is not None and not policy.node_selector.selects_everything:
            # Not strategyNodeSelectors: failing pods of other nodes must stay, too.
            self.args["nodeSelector"] = str(policy.node_selector)
        self._drift |= {"preferences": self._preferences} if self._preferences else {}
        self.args |= {"placementDrift": self._drift} if self._drift else {}
        self.args |= {"failedPods": self._failed_pods} if self._failed_pods else {}
        self.args |= {"excludedNamespaces": self._excluded}
        # The descheduler evicts no pod without a controller, because nothing would recreate it.
        self.args["includeBarePods"] = False
