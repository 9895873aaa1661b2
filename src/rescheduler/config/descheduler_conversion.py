"""Convert a policy of the descheduler into a rescheduler configuration, and list what has no counterpart.

Where the policy protects pods in a way that we can't express, the result has `dryRun: true`, and a comment
says why: it must not move pods that the descheduler would have left alone.
"""

import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from itertools import combinations
from typing import Any, Final

import yaml

from kubevalues import Selector, can_overlap, parse_selector
from kubevalues.duration import short_duration
from rescheduler.config.config_loader import load_content
from rescheduler.config.config_validation import BUILT_IN_STRATEGIES, FieldPath, escape_unprintable, path_text
from rescheduler.config.descheduler_policy import (
    DeschedulerPlugin,
    DeschedulerPolicy,
    EvictionPlugin,
    ExtraPodProtection,
    MetricsSource,
    NodeAffinityType,
    NoEvictionPolicy,
    PodProtection,
    SpreadAction,
    read_descheduler_policy,
)
from rescheduler.config.policy import Policy
from rescheduler.config.policy_blocks import Preference, setting_name
from rescheduler.config.profiles import PROFILE_SETTINGS

__all__ = ["convert_descheduler_policy"]

_HEADER: Final = (
    "Converted from a DeschedulerPolicy by `rescheduler config from-descheduler`.",
    "Check it with `rescheduler plan --config FILE` before you let it move pods.",
)
_MAX_RESTARTS: Final = 1000
_RETRIES: Final = 3


def convert_descheduler_policy(content: bytes, source: str) -> tuple[str, list[str]]:
    """Return the configuration file, and what has no counterpart, which is in its comments, too.

    Raise `ConfigurationError` with every fault of the policy.
    """
    policy, plugins = read_descheduler_policy(content, source)
    conversion = _Conversion()
    conversion.convert(policy, plugins)
    conversion.separate(policy, plugins)
    # What the policy allows and we don't, such as a node selector that no node can match, is refused here.
    load_content(conversion.file().encode(), BUILT_IN_STRATEGIES, source=f"{source}, converted")
    return conversion.file(), conversion.notes


class _Conversion:
    def __init__(self) -> None:
        self.notes: list[str] = []
        self._args: dict[str, Any] = {}
        self._strategies: list[str] = []
        self._preferences: list[str] = []
        self._drift: dict[str, Any] = {}
        self._failed_pods: dict[str, Any] = {}
        self._excluded = list(Policy().excluded_namespaces)
        self._is_measured = False
        self._profiles: list[dict[str, Any]] = []
        """The settings of each profile, if there are several that don't overlap."""

    def separate(self, policy: DeschedulerPolicy, plugins: Sequence[DeschedulerPlugin]) -> None:
        """Keep several profiles if no namespace belongs to two; else, one has to do for all."""
        if len(policy.profiles) < 2:
            return
        selectors = []
        for place in range(len(policy.profiles)):
            own = _Conversion()
            own.convert(policy, [plugin for plugin in plugins if plugin.path[1] == place])
            # One that is left out is left out of all: it empties nodes that another profile would fill.
            strategies = [name for name in own._strategies if name in self._strategies]
            self._profiles.append({"enabledStrategies": strategies, **own._args})
            selectors.append(str(own._args.get("namespaceSelector", "")))
        pairs = combinations(map(parse_selector, selectors), 2)
        if not any(can_overlap(*pair) for pair in pairs):
            return
        self._profiles = []
        self._note(("profiles",), "profiles that select the same namespaces become one, for all strategies")
        if len(set(selectors)) > 1:
            del self._args["namespaceSelector"]
            self._note(("profiles",), "namespaceLabelSelector differs between profiles", protects=True)

    def convert(self, policy: DeschedulerPolicy, plugins: Iterable[DeschedulerPlugin]) -> None:
        """Convert everything; enabled plugins in the order of the file."""
        parts: Mapping[EvictionPlugin, Callable[[DeschedulerPlugin], None]] = {
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
                self._note(plugin.path, f"{plugin.plugin} is not enabled in this profile: left out")
        for plugin in enabled:
            parts[plugin.plugin](plugin)
        kinds = {plugin.plugin for plugin in enabled}
        if (EvictionPlugin.TAINTS in kinds) != (EvictionPlugin.NODE_AFFINITY in kinds):
            self._note((), "PlacementDrift considers taints, node selectors and node affinity alike")
        self._limits(policy)
        self._usage(policy)
        self._finish(policy)

    def _note(self, path: FieldPath, why: str, *, protects: bool = False) -> None:
        """Note what has no counterpart. What protects pods must not get lost: then nothing is moved."""
        where = f"{path_text(path)}: " if path else ""
        if protects:
            self._args["dryRun"] = True
            why += " (it protects pods, so dryRun is true)"
        self.notes.append(escape_unprintable(where + why))

    def _enable(self, strategy: str) -> None:
        if strategy not in self._strategies:
            self._strategies.append(strategy)

    def _prefer(self, preference: Preference) -> None:
        self._enable("PlacementDrift")
        if preference not in self._preferences:
            self._preferences.append(str(preference))

    # -- plugins

    def _filter(self, plugin: DeschedulerPlugin) -> None:
        """Convert which pods a plugin considers: what it excludes is excluded for all strategies."""
        for name in ("namespaces", "evictable_namespaces"):
            names = getattr(plugin.args, name, None)
            self._exclude_namespaces(names.exclude if names is not None else ())
            if names is not None and names.include:
                where = (*plugin.path, setting_name(name), "include")
                self._note(where, "strategies are not limited to namespaces", protects=True)
        if getattr(plugin.args, "label_selector", None) is not None:
            self._note((*plugin.path, "labelSelector"), "a strategy is for all pods", protects=True)

    def _exclude_namespaces(self, names: Iterable[str]) -> None:
        self._excluded += [name for name in names if name not in self._excluded]

    def _duplicates(self, plugin: DeschedulerPlugin) -> None:
        self._filter(plugin)
        self._prefer(Preference.DUPLICATES)
        if plugin.args.exclude_owner_kinds:
            self._note((*plugin.path, "excludeOwnerKinds"), "owner kinds can't be excluded", protects=True)

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
            self._note((*plugin.path, "topologyBalanceNodeFit"), "a pod moves only if it fits elsewhere")

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
        args = plugin.args
        if args.use_deviation_thresholds:
            self._enable("LoadBalancing")
            tolerated = [low + args.target_thresholds[name] for name, low in args.thresholds.items()]
            self._args["imbalanceThreshold"] = min(100.0, *tolerated)
            self._args["balanceResources"] = sorted(args.thresholds)
        else:
            self._enable("ResourceOptimization")
            self._args["cpuThreshold"] = args.target_thresholds.get("cpu", 100.0)
            self._args["memoryThreshold"] = args.target_thresholds.get("memory", 100.0)
            where = (*plugin.path, "thresholds")
            self._note(where, "targets need not be below a threshold: they only stay below targetThresholds")
            for name in sorted(set(args.target_thresholds) - {"cpu", "memory"}):
                where = (*plugin.path, "targetThresholds", name)
                self._note(where, "ResourceOptimization knows cpu and memory; LoadBalancing balances others")
        usage = args.metrics_utilization
        self._is_measured |= usage.metrics_server or usage.source is not None
        if usage.prometheus:
            where = (*plugin.path, "metricsUtilization", "prometheus", "query")
            self._note(where, "left out: add it to customMetrics, with one value per label node")
        if args.number_of_nodes:
            self._note((*plugin.path, "numberOfNodes"), "acts on one underused node, too")
        if args.eviction_limits:
            self._note((*plugin.path, "evictionLimits"), "see maxConcurrentPerNode, which limits at any time")

    def _high_utilization(self, plugin: DeschedulerPlugin) -> None:
        self._filter(plugin)
        self._enable("CostOptimization")
        why = "CostOptimization empties any node whose pods all fit elsewhere, the cheapest to empty first"
        self._note((*plugin.path, "thresholds"), f"{why}; it acts where an autoscaler removes empty nodes")
        for name in ("number_of_nodes", "eviction_modes"):
            if getattr(plugin.args, name):
                self._note((*plugin.path, setting_name(name)), why)

    def _life_time(self, plugin: DeschedulerPlugin) -> None:
        args, age_s = plugin.args, plugin.args.max_pod_life_time_seconds
        self._exclude_namespaces(args.namespaces.exclude)
        by_state = args.conditions or args.exit_codes or (args.states and "Running" not in args.states)
        if by_state or set(args.states) - {"Running"} or age_s is None:
            self._note(plugin.path, "running pods are moved for their age alone; failing pods: failedPods")
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
        if self._args.setdefault("podLifeTime", made) != made:
            self._note(plugin.path, "PodLifeTime has one set of arguments", protects=True)

    def _restarts(self, plugin: DeschedulerPlugin) -> None:
        threshold = plugin.args.pod_restart_threshold
        self._failed_pods["restartThreshold"] = min(threshold, _MAX_RESTARTS)
        if threshold > _MAX_RESTARTS:
            self._note((*plugin.path, "podRestartThreshold"), f"the highest is {_MAX_RESTARTS}")
        if plugin.args.states:
            self._note((*plugin.path, "states"), "only pods in CrashLoopBackOff count")
        self._retries(plugin)

    def _failed(self, plugin: DeschedulerPlugin) -> None:
        for name in ("reasons", "exit_codes", "min_pod_lifetime_seconds", "exclude_owner_kinds"):
            if getattr(plugin.args, name):
                self._note((*plugin.path, setting_name(name)), "every failed pod counts", protects=True)
        self._retries(plugin)

    def _retries(self, plugin: DeschedulerPlugin) -> None:
        """Set who may be retried: failing pods move only where namespaces or labels are named."""
        names, pods = plugin.args.namespaces, plugin.args.label_selector
        self._exclude_namespaces(names.exclude)
        entry: dict[str, Any] = {"namespaces": list(names.include)} if names.include else {}
        if pods is not None and not pods.selects_everything:
            entry["podSelector"] = str(pods)
        if not entry:
            why = "failing pods are moved where namespaces or labels are named (failedPods.defaultRetries)"
            self._note(plugin.path, f"{why}, or the workload has the annotation scheduling-retries")
            return
        entries = self._failed_pods.setdefault("defaultRetries", [])
        if (made := {**entry, "retries": _RETRIES}) not in entries:
            entries.append(made)

    # -- which pods may be moved

    def _evictor(self, plugin: DeschedulerPlugin) -> None:
        args, path = plugin.args, plugin.path
        if args.label_selector is not None:
            self._only_pods(args.label_selector, (*path, "labelSelector"))
        if args.namespace_label_selector is not None:
            self._args["namespaceSelector"] = str(args.namespace_label_selector)
        if args.node_selector:
            self._note((*path, "nodeSelector"), "targets are all nodes that the scheduler would allow")
        if args.priority_threshold.value is not None:
            self._args["maxPriority"] = max(args.priority_threshold.value - 1, -(2**31))
        if args.priority_threshold.name:
            where = (*path, "priorityThreshold", "name")
            self._note(where, "set maxPriority to one less than its value", protects=True)
        if args.min_replicas is not None:
            self._args["minReplicasForEvict"] = max(1, args.min_replicas)
        if args.min_pod_age is not None:
            self._args["minPodAge"] = short_duration(args.min_pod_age)
        if args.no_eviction_policy is NoEvictionPolicy.MANDATORY:
            why = "label these pods scheduler.alpha.kubernetes.io/rescheduling=disabled"
            self._note((*path, "noEvictionPolicy"), why, protects=True)
        self._protections(args, path)

    def _only_pods(self, chosen: Selector, path: FieldPath) -> None:
        """Exclude all other pods, which a selector can say only if it has one requirement."""
        others = chosen.requirements[0].negation if len(chosen.requirements) == 1 else None
        if others is None:
            self._note(path, "excludedPodSelector can't exclude all other pods", protects=True)
            return
        self._args["excludedPodSelector"] = str(Selector.of([others]))

    def _protections(self, args: Any, path: FieldPath) -> None:
        disabled, extra = set(args.pod_protections.default_disabled), set(args.pod_protections.extra_enabled)
        disabled |= {PodProtection.LOCAL_STORAGE} if args.evict_local_storage_pods else set()
        disabled |= {PodProtection.DAEMON_SETS} if args.evict_daemon_set_pods else set()
        disabled |= {PodProtection.CRITICAL} if args.evict_system_critical_pods else set()
        disabled |= {PodProtection.FAILED_BARE} if args.evict_failed_bare_pods else set()
        extra |= {ExtraPodProtection.CLAIMS} if args.ignore_pvc_pods else set()
        extra |= {ExtraPodProtection.WITHOUT_BUDGET} if args.ignore_pods_without_pdb else set()
        if PodProtection.LOCAL_STORAGE in disabled:
            self._args["includeLocalStorage"] = True
        for each, why in (
            (PodProtection.DAEMON_SETS, "pods of DaemonSets belong to their node and are never moved"),
            (PodProtection.CRITICAL, "system pods move only in maintenance (maintenanceIncludesSystem)"),
            (PodProtection.FAILED_BARE, "failed pods without a controller: annotate them scheduling-retries"),
        ):
            if each in disabled:
                self._note(path, f"{each}: {why}")
        for every, why in (
            (ExtraPodProtection.CLAIMS, "pods with claims are moved where their volumes allow it"),
            (ExtraPodProtection.WITHOUT_BUDGET, "workloads without a budget get one while they are moved"),
        ):
            if every in extra:
                self._note(path, f"{every}: {why}", protects=True)

    # -- everything else

    def _limits(self, policy: DeschedulerPolicy) -> None:
        if (total := policy.max_no_of_pods_to_evict_total) is not None:
            self._args |= {"maxReschedulePods": total} if total else {"dryRun": True}
        if policy.max_no_of_pods_to_evict_per_node is not None:
            self._note(("maxNoOfPodsToEvictPerNode",), "see maxConcurrentPerNode, a limit at any time")
        if policy.max_no_of_pods_to_evict_per_namespace is not None:
            self._note(("maxNoOfPodsToEvictPerNamespace",), "namespaces get fair shares of maxReschedulePods")
        if (seconds := policy.grace_period_seconds) is not None:
            if seconds:
                self._args["gracePeriodSeconds"] = min(seconds, 86_400)
            else:
                self._note(("gracePeriodSeconds",), "0 would delete pods before they stop; left out")

    def _usage(self, policy: DeschedulerPolicy) -> None:
        """Set the usage source: the descheduler counts requests unless a plugin asks for metrics."""
        server = next(
            (each for each in policy.metrics_providers if each.source is MetricsSource.PROMETHEUS), None
        )
        if not {"LoadBalancing", "ResourceOptimization"} & set(self._strategies):
            return
        if not self._is_measured:
            self._args["usageSource"] = "requests"
        elif server is not None and server.prometheus.url:
            self._args |= {"usageSource": "prometheus", "prometheus": {"url": server.prometheus.url}}
            if server.prometheus.auth_token:
                self._note(("metricsProviders",), "mount the Secret, and set prometheus.bearerTokenFile")
        else:
            self._args["usageSource"] = "metrics"

    def _finish(self, policy: DeschedulerPolicy) -> None:
        if "LoadBalancing" in self._strategies and "CostOptimization" in self._strategies:
            self._strategies.remove("CostOptimization")
            self._note(
                (), "HighNodeUtilization left out: it empties nodes that LowNodeUtilization would fill"
            )
        if policy.node_selector is not None and not policy.node_selector.selects_everything:
            nodes = dict.fromkeys(self._strategies, str(policy.node_selector))
            self._args["strategyNodeSelectors"] = nodes
        self._drift |= {"preferences": self._preferences} if self._preferences else {}
        self._args |= {"placementDrift": self._drift} if self._drift else {}
        self._args |= {"failedPods": self._failed_pods} if self._failed_pods else {}
        self._args |= {"excludedNamespaces": self._excluded}
        # The descheduler evicts no pod without a controller: it would be gone.
        self._args["includeBarePods"] = False

    def file(self) -> str:
        """Return the configuration file, with the notes as comments."""
        args = {"enabledStrategies": self._strategies, **self._args}
        profiles = [args]
        if self._profiles:
            own = {setting_name(name) for name in PROFILE_SETTINGS}
            profiles = [
                {name: value for name, value in each.items() if name in own} for each in self._profiles
            ]
            profiles[0] |= {name: value for name, value in args.items() if name not in own}
        document = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [{"pluginConfig": [{"name": "Rescheduler", "args": each}]} for each in profiles],
        }
        lines = [*_HEADER, *(("", "Without a counterpart, or different:") if self.notes else ())]
        for note in self.notes:
            lines += textwrap.wrap(note, 100, initial_indent="- ", subsequent_indent="  ")
        head = "".join(f"# {line}".rstrip() + "\n" for line in lines)
        return head + yaml.safe_dump(document, sort_keys=False)
