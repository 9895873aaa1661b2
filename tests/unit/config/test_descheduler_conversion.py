"""`rescheduler config from-descheduler`: policies of descheduler 0.36 become configurations that load."""

from datetime import timedelta
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from kubevalues import parse_selector
from rescheduler.cli import main
from rescheduler.config.config_loader import load_content
from rescheduler.config.config_validation import BUILT_IN_STRATEGIES, ConfigurationError
from rescheduler.config.descheduler_conversion import convert_descheduler_policy
from rescheduler.config.descheduler_policy import EvictionPlugin
from rescheduler.config.policy import UsageSource
from rescheduler.config.policy_blocks import PodLifeTimePolicy, Preference

BALANCE = {
    "RemoveDuplicates",
    "LowNodeUtilization",
    "HighNodeUtilization",
    "RemovePodsViolatingTopologySpreadConstraint",
}
ARGS = {
    "RemovePodsViolatingNodeAffinity": {
        "nodeAffinityType": ["requiredDuringSchedulingIgnoredDuringExecution"]
    },
    "LowNodeUtilization": {"thresholds": {"cpu": 20}, "targetThresholds": {"cpu": 50}},
    "HighNodeUtilization": {"thresholds": {"cpu": 20}},
    "RemovePodsHavingTooManyRestarts": {"podRestartThreshold": 50},
    "PodLifeTime": {"maxPodLifeTimeSeconds": 86400},
}


THRESHOLDS = ("thresholds", "targetThresholds")


def policy_of(plugins, evictor=None, **top):
    """A policy that enables these plugins, with their arguments."""
    config = [{"name": name, "args": args} for name, args in plugins.items()]
    config += [{"name": "DefaultEvictor", "args": evictor}] if evictor is not None else []
    sets = {
        "balance": {"enabled": [name for name in plugins if name in BALANCE]},
        "deschedule": {"enabled": [name for name in plugins if name not in BALANCE]},
    }
    profile = {"name": "main", "pluginConfig": config, "plugins": sets}
    return {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy", "profiles": [profile], **top}


def converted(plugins=(), evictor=None, **top):
    """The policy that the result loads as, and the notes."""
    text, notes = convert_descheduler_policy(
        yaml.safe_dump(policy_of(dict(plugins), evictor, **top)).encode(), "policy.yaml"
    )
    loaded = load_content(text.encode(), BUILT_IN_STRATEGIES, source="converted")
    assert all(note.split()[0] in text for note in notes), "notes are comments of the file"
    return loaded.configuration.policy, notes


def faults(document):
    with pytest.raises(ConfigurationError) as raised:
        convert_descheduler_policy(yaml.safe_dump(document).encode(), "policy.yaml")
    return str(raised.value)


@pytest.mark.parametrize(
    ("plugin", "args", "strategies", "preferences"),
    [
        ("RemoveDuplicates", {}, ("PlacementDrift",), (Preference.DUPLICATES,)),
        (
            "RemovePodsViolatingNodeAffinity",
            {"nodeAffinityType": ["preferredDuringSchedulingIgnoredDuringExecution"]},
            ("PlacementDrift",),
            (Preference.NODE_AFFINITY,),
        ),
        ("RemovePodsViolatingNodeTaints", {}, ("PlacementDrift",), ()),
        (
            "RemovePodsViolatingNodeTaints",
            {"includePreferNoSchedule": True},
            ("PlacementDrift",),
            (Preference.TAINT_TOLERATION,),
        ),
        ("RemovePodsViolatingInterPodAntiAffinity", {}, ("TopologySpread",), ()),
        ("RemovePodsViolatingTopologySpreadConstraint", {}, ("TopologySpread",), ()),
        (
            "RemovePodsViolatingTopologySpreadConstraint",
            {"constraints": ["DoNotSchedule", "ScheduleAnyway"]},
            ("TopologySpread", "PlacementDrift"),
            (Preference.POD_TOPOLOGY_SPREAD,),
        ),
        ("LowNodeUtilization", ARGS["LowNodeUtilization"], ("ResourceOptimization",), ()),
        (
            "LowNodeUtilization",
            {**ARGS["LowNodeUtilization"], "useDeviationThresholds": True},
            ("LoadBalancing",),
            (),
        ),
        ("HighNodeUtilization", {"thresholds": {"cpu": 20}}, ("CostOptimization",), ()),
        ("PodLifeTime", {"maxPodLifeTimeSeconds": 86400}, ("PodLifeTime",), ()),
        ("PodLifeTime", {"maxPodLifeTimeSeconds": 86400, "states": ["Running"]}, ("PodLifeTime",), ()),
        ("PodLifeTime", {"maxPodLifeTimeSeconds": 86400, "states": ["Pending"]}, (), ()),
        ("PodLifeTime", {"maxPodLifeTimeSeconds": 86400, "exitCodes": [1]}, (), ()),
        ("PodLifeTime", {"states": ["Running"]}, (), ()),
        ("RemoveFailedPods", {}, (), ()),
        ("RemovePodsHavingTooManyRestarts", {"podRestartThreshold": 50}, (), ()),
    ],
)
def test_each_plugin_becomes_the_strategy_that_covers_it(plugin, args, strategies, preferences):
    policy, notes = converted({plugin: args})
    assert policy.enabled_strategies == strategies
    assert policy.placement_drift.preferences == preferences
    assert strategies or notes, "what is not covered is listed"
    assert not policy.dry_run


def test_thresholds_are_kept():
    absolute = {
        "thresholds": {"cpu": 20, "memory": 20, "pods": 20},
        "targetThresholds": {"cpu": 50, "memory": 60, "pods": 50},
    }
    policy, notes = converted({"LowNodeUtilization": absolute})
    assert (policy.cpu_threshold, policy.memory_threshold) == (50, 60)
    assert policy.usage_source is UsageSource.REQUESTS
    assert any(
        "targetThresholds.pods: ResourceOptimization considers only cpu and memory" in note for note in notes
    )
    deviation = {
        "useDeviationThresholds": True,
        "thresholds": {"cpu": 10},
        "targetThresholds": {"cpu": 15},
        "metricsUtilization": {"source": "KubernetesMetrics"},
    }
    policy, _ = converted({"LowNodeUtilization": deviation})
    assert (policy.imbalance_threshold, policy.balance_resources) == (25, ("cpu",))
    assert policy.usage_source is UsageSource.METRICS


def test_usage_from_prometheus_keeps_the_address():
    low = {
        **ARGS["LowNodeUtilization"],
        "metricsUtilization": {"source": "Prometheus", "prometheus": {"query": "q"}},
    }
    server = {
        "url": "http://prometheus:9090",
        "authToken": {"secretReference": {"name": "a", "namespace": "b"}},
    }
    policy, notes = converted(
        {"LowNodeUtilization": low}, metricsProviders=[{"source": "Prometheus", "prometheus": server}]
    )
    assert policy.usage_source is UsageSource.PROMETHEUS
    assert policy.prometheus.url == "http://prometheus:9090"
    assert any("bearerTokenFile" in note for note in notes)
    assert any("metricsUtilization.prometheus.query" in note for note in notes)


PROMETHEUS = [{"source": "Prometheus", "prometheus": {"url": "http://prometheus:9090"}}]


def by_query(**args):
    """LowNodeUtilization as the descheduler requires it for a query: MetricResource is its value."""
    measured = {"source": "Prometheus", "prometheus": {"query": "instance:node_cpu:ratio"}}
    percents = {"thresholds": {"MetricResource": 10}, "targetThresholds": {"MetricResource": 15}}
    return {"LowNodeUtilization": {**percents, "metricsUtilization": measured, **args}}


def test_a_query_that_is_balanced_becomes_a_custom_metric():
    """The descheduler finds the node in the label instance, and a value of 1 is 100 % of it."""
    policy, notes = converted(by_query(useDeviationThresholds=True), metricsProviders=PROMETHEUS)
    assert policy.enabled_strategies == ("LoadBalancing",)
    (metric,) = policy.custom_metrics
    assert metric.query == 'label_replace(instance:node_cpu:ratio, "node", "$1", "instance", "(.+)")'
    assert (metric.capacity, policy.balance_resources) == (1, (metric.name,))
    assert (policy.imbalance_threshold, notes) == (25, [])


@pytest.mark.parametrize(
    ("args", "providers"),
    [
        pytest.param({}, PROMETHEUS, id="absolute thresholds"),
        pytest.param({"useDeviationThresholds": True}, [], id="no Prometheus"),
    ],
)
def test_a_query_that_has_no_counterpart_is_left_out(args, providers):
    policy, notes = converted(by_query(**args), metricsProviders=providers)
    assert policy.enabled_strategies == ()
    assert any("LowNodeUtilization left out" in note for note in notes)


def test_failing_pods_are_moved_in_the_namespaces_of_the_policy():
    policy, _ = converted(
        {
            "RemovePodsHavingTooManyRestarts": {
                "podRestartThreshold": 50,
                "namespaces": {"include": ["shop"]},
                "labelSelector": {"matchLabels": {"app": "web"}},
            }
        }
    )
    (entry,) = policy.failed_pods.default_retries
    assert policy.failed_pods.restart_threshold == 50
    assert (entry.namespaces, entry.pod_selector, entry.retries) == (("shop",), parse_selector("app=web"), 3)


def test_the_life_time_of_pods_is_kept_with_the_pods_that_it_is_for():
    args = {
        "maxPodLifeTimeSeconds": 90000,
        "namespaces": {"include": ["shop"]},
        "labelSelector": {"matchLabels": {"app": "web"}},
        "ownerKinds": {"exclude": ["StatefulSet"]},
        "states": ["Running", "CrashLoopBackOff"],
    }
    policy, notes = converted({"PodLifeTime": args})
    setting = policy.pod_life_time
    assert (setting.max_pod_life_time, setting.namespaces) == (timedelta(hours=25), ("shop",))
    assert (setting.pod_selector, setting.excluded_owner_kinds) == (
        parse_selector("app=web"), ("StatefulSet",),
    )  # fmt: skip
    assert not policy.dry_run
    assert [note for note in notes if "age alone" in note], "the other state has no counterpart"


def test_a_life_time_that_is_too_short_is_the_shortest_possible():
    policy, _ = converted({"PodLifeTime": {"maxPodLifeTimeSeconds": 0}})
    assert policy.pod_life_time == PodLifeTimePolicy(max_pod_life_time=timedelta(minutes=1))


def test_two_different_life_times_in_one_profile_move_nothing():
    """We have one set of arguments: the second may protect pods that the first does not."""
    document = policy_of({"PodLifeTime": {"maxPodLifeTimeSeconds": 86400}})
    (profile,) = document["profiles"]
    other = {"name": "PodLifeTime", "args": {"maxPodLifeTimeSeconds": 7 * 86400}}
    document["profiles"].append({**profile, "pluginConfig": [other]})
    text, notes = convert_descheduler_policy(yaml.safe_dump(document).encode(), "policy.yaml")
    assert "dryRun: true" in text
    assert any("one set of arguments" in note for note in notes)


def test_owner_kinds_can_be_included_or_excluded_but_not_both():
    both = {"ownerKinds": {"include": ["Job"], "exclude": ["ReplicaSet"]}}
    assert "only one of include and exclude" in faults(policy_of({"PodLifeTime": both}))


def test_taints_are_kept():
    policy, _ = converted({"RemovePodsViolatingNodeTaints": {"excludedTaints": ["dedicated=gpu", "spot"]}})
    assert policy.placement_drift.excluded_taints == ("dedicated=gpu", "spot")


def test_limits_and_selectors_of_the_whole_policy_are_kept():
    policy, notes = converted(
        {"RemovePodsViolatingInterPodAntiAffinity": {"namespaces": {"exclude": ["prod"]}}},
        nodeSelector="pool=batch",
        maxNoOfPodsToEvictTotal=20,
        maxNoOfPodsToEvictPerNode=5,
        maxNoOfPodsToEvictPerNamespace=5,
        gracePeriodSeconds=60,
    )
    assert policy.node_selector == parse_selector("pool=batch"), "for failing pods, too"
    assert (policy.max_reschedule_pods, policy.grace_period_seconds) == (20, 60)
    assert policy.excluded_namespaces == ("kube-system", "kube-public", "prod")
    assert {note.split(":")[0] for note in notes} >= {
        "maxNoOfPodsToEvictPerNode",
        "maxNoOfPodsToEvictPerNamespace",
    }
    assert (
        "maxNoOfPodsToEvictTotal: per check: set reschedulingInterval to your --descheduling-interval"
        in notes
    )


@pytest.mark.parametrize(
    ("plugins", "strategy"),
    [
        pytest.param(["RemoveDuplicates"], "PlacementDrift", id="only duplicates"),
        pytest.param(["RemovePodsViolatingNodeTaints"], "PlacementDrift", id="only taints"),
        pytest.param(["RemovePodsViolatingInterPodAntiAffinity"], "TopologySpread", id="only anti-affinity"),
        pytest.param(
            ["RemovePodsViolatingTopologySpreadConstraint"], "TopologySpread", id="only spread constraints"
        ),
        pytest.param(
            ["RemovePodsViolatingNodeTaints", "RemovePodsViolatingNodeAffinity"],
            None,
            id="taints and affinity",
        ),
    ],
)
def test_a_strategy_that_does_more_than_the_plugin_is_noted(plugins, strategy):
    _, notes = converted({name: ARGS.get(name, {}) for name in plugins})
    assert [note.split()[0] for note in notes if note.endswith(" alike")] == ([strategy] if strategy else [])


def test_the_evictor_says_which_pods_may_be_moved():
    policy, notes = converted(
        {"RemovePodsViolatingInterPodAntiAffinity": {}},
        evictor={
            "minReplicas": 3,
            "minPodAge": "1h30m",
            "priorityThreshold": {"value": 1000},
            "labelSelector": {"matchLabels": {"evict": "yes"}},
            "namespaceLabelSelector": {"matchLabels": {"team": "a"}},
            "podProtections": {"defaultDisabled": ["PodsWithLocalStorage"]},
            "nodeFit": True,
        },
    )
    assert policy.namespace_selector == parse_selector("team=a")
    assert policy.min_replicas_for_evict == 3
    assert policy.min_pod_age.total_seconds() == 5400
    assert policy.max_priority == 999
    assert policy.include_local_storage
    assert not policy.include_bare_pods
    assert policy.excluded_pod_selector.matches({})
    assert not policy.excluded_pod_selector.matches({"evict": "yes"})
    assert not policy.dry_run
    assert any("minReplicas: only for pods that can't be moved make-before-break" in note for note in notes)


@pytest.mark.parametrize(
    ("plugins", "evictor", "path"),
    [
        pytest.param(
            {"RemoveDuplicates": {"namespaces": {"include": ["a"]}}},
            None,
            "namespaces.include",
            id="namespaces",
        ),
        pytest.param(
            {"RemovePodsViolatingNodeTaints": {"labelSelector": {"matchLabels": {"a": "b"}}}},
            None,
            "labelSelector",
            id="pods of one plugin",
        ),
        pytest.param(
            {"RemoveDuplicates": {"excludeOwnerKinds": ["StatefulSet"]}},
            None,
            "excludeOwnerKinds",
            id="owners",
        ),
        pytest.param(
            {}, {"priorityThreshold": {"name": "high"}}, "priorityThreshold.name", id="a priority class"
        ),
        pytest.param({}, {"ignorePvcPods": True}, "PodsWithPVC", id="pods with claims"),
        pytest.param({}, {"ignorePodsWithoutPDB": True}, "PodsWithoutPDB", id="pods without a budget"),
        pytest.param({}, {"podProtections": {"extraEnabled": ["PodsWithPVC"]}}, "PodsWithPVC", id="the same"),
        pytest.param({}, {"noEvictionPolicy": "Mandatory"}, "noEvictionPolicy", id="an annotation"),
        pytest.param(
            {}, {"labelSelector": {"matchLabels": {"a": "b", "c": "d"}}}, "labelSelector", id="two labels"
        ),
        pytest.param(
            {"RemoveFailedPods": {"reasons": ["OutOfcpu"]}}, None, "reasons", id="reasons of failures"
        ),
    ],
)
def test_protections_that_have_no_counterpart_stop_all_moves(plugins, evictor, path):
    policy, notes = converted(plugins, evictor)
    assert policy.dry_run
    assert any(path in note and "so dryRun is true" in note for note in notes)


def test_strategies_that_contradict_each_other_are_not_both_enabled():
    low = {**ARGS["LowNodeUtilization"], "useDeviationThresholds": True}
    policy, notes = converted({"LowNodeUtilization": low, "HighNodeUtilization": ARGS["HighNodeUtilization"]})
    assert policy.enabled_strategies == ("LoadBalancing",)
    assert any("HighNodeUtilization left out" in note for note in notes)


def test_plugins_that_are_not_enabled_are_left_out():
    document = policy_of({"RemoveDuplicates": {}})
    document["profiles"][0]["plugins"] = {}
    text, notes = convert_descheduler_policy(yaml.safe_dump(document).encode(), "policy.yaml")
    assert "PlacementDrift" not in text.split("apiVersion")[1]
    assert any("RemoveDuplicates is not enabled" in note for note in notes)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        pytest.param(
            policy_of({}) | {"apiVersion": "descheduler/v1alpha1"},
            'apiVersion: "descheduler/v1alpha1" is not allowed: descheduler/v1alpha2',
            id="another version",
        ),
        pytest.param(
            policy_of({"RemovePods": {}}),
            'profiles[0].pluginConfig[0].name: "RemovePods" is not allowed: one of DefaultEvictor',
            id="an unknown plugin",
        ),
        pytest.param(
            policy_of({"LowNodeUtilization": {name: {"MetricResource": 9} for name in THRESHOLDS}}),
            "MetricResource alone, and with metricsUtilization.prometheus.query",
            id="the value of no query",
        ),
        pytest.param(
            policy_of({"RemoveDuplicates": {"namespace": {}}}),
            "args.namespace: {} is not allowed: there is no such setting; did you mean namespaces?",
            id="an unknown argument",
        ),
        pytest.param(
            policy_of({"RemoveDuplicates": {"namespaces": {"include": ["a"], "exclude": ["b"]}}}),
            "is not allowed: only one of include and exclude",
            id="both kinds of namespaces",
        ),
        pytest.param(
            policy_of({"LowNodeUtilization": {"thresholds": {"cpu": 60}, "targetThresholds": {"cpu": 50}}}),
            "thresholds up to targetThresholds, also for cpu",
            id="thresholds that cross",
        ),
        pytest.param(
            policy_of({"RemovePodsViolatingNodeAffinity": {}}),
            "args.nodeAffinityType: missing: a list; each entry is one of required",
            id="a missing argument",
        ),
        pytest.param(
            policy_of({}, nodeSelector="a in (b"), "nodeSelector: ", id="a selector that ends early"
        ),
        pytest.param(
            policy_of({"RemoveDuplicates": {}}, nodeSelector="a=b,a=c"),
            "a selector that some node can match",
            id="a selector that nothing matches",
        ),
        pytest.param(["profiles"], "a map with a DeschedulerPolicy", id="a list"),
    ],
)
def test_an_invalid_policy_is_refused_with_path_and_what_is_allowed(document, message):
    assert message in faults(document)


def test_all_faults_are_reported_at_once():
    document = policy_of({"RemoveDuplicates": {"a": 1}, "LowNodeUtilization": {}}, evictor={"minPodAge": 3})
    assert faults(document).startswith("policy.yaml: 4 errors\n")


def test_the_documentation_names_every_plugin():
    page = Path("docs/descheduler.md").read_text()
    assert [name for name in EvictionPlugin if f"| {name}" not in page] == []


SELECTORS = st.fixed_dictionaries(
    {}, optional={"matchLabels": st.dictionaries(st.sampled_from("abc"), st.sampled_from("xyz"), max_size=2)}
)
NAMES = st.lists(st.sampled_from(["a", "b", "kube-system"]), max_size=2, unique=True)
FILTERS = st.fixed_dictionaries(
    {},
    optional={
        "namespaces": st.one_of(
            st.fixed_dictionaries({"include": NAMES}), st.fixed_dictionaries({"exclude": NAMES})
        )
    },
)
EVICTOR = st.fixed_dictionaries(
    {},
    optional={
        "labelSelector": SELECTORS,
        "namespaceLabelSelector": SELECTORS,
        "minReplicas": st.integers(0, 10),
        "minPodAge": st.sampled_from(["0s", "10m", "1h0m0s"]),
        "nodeFit": st.booleans(),
        "priorityThreshold": st.fixed_dictionaries({"value": st.integers(-(2**31), 2**31 - 1)}),
        "evictLocalStoragePods": st.booleans(),
        "evictDaemonSetPods": st.booleans(),
        "evictSystemCriticalPods": st.booleans(),
        "ignorePvcPods": st.booleans(),
        "evictFailedBarePods": st.booleans(),
    },
)
PLUGINS = sorted(
    {
        *BALANCE,
        *ARGS,
        "RemoveFailedPods",
        "RemovePodsViolatingInterPodAntiAffinity",
        "RemovePodsViolatingNodeTaints",
    }
)


@settings(max_examples=15, deadline=None)
@given(
    chosen=st.lists(st.sampled_from(PLUGINS), unique=True),
    filters=FILTERS,
    evictor=EVICTOR,
    grace=st.integers(0, 10**6),
    total=st.integers(0, 50),
)
def test_whatever_the_policy_the_result_loads(chosen, filters, evictor, grace, total):
    utilization = {"LowNodeUtilization", "HighNodeUtilization"}
    plugins = {
        name: {**ARGS.get(name, {}), **(filters if name not in utilization else {})} for name in chosen
    }
    policy, _ = converted(plugins, evictor, gracePeriodSeconds=grace, maxNoOfPodsToEvictTotal=total)
    assert policy.dry_run or policy.max_reschedule_pods == total


def test_the_command_prints_the_file_and_counts_the_notes(tmp_path):
    file = tmp_path / "policy.yaml"
    file.write_text(yaml.safe_dump(policy_of({"PodLifeTime": {"states": ["Failed"]}})))
    result = CliRunner().invoke(main, ["config", "from-descheduler", str(file)])
    assert result.exit_code == 0
    assert result.stderr == "note: 1 setting without a counterpart, or different: see the comments\n"
    assert "# - profiles[0].pluginConfig[0].args: running pods are moved for their age alone" in result.stdout
    checked = CliRunner().invoke(main, ["config", "check", "-"], input=result.stdout)
    assert checked.exit_code == 0
    file.write_text("kind: DeschedulerPolicy\nprofiles: 7\n")
    result = CliRunner().invoke(main, ["config", "from-descheduler", str(file)])
    assert result.exit_code == 2
    assert "line 2: profiles: 7 is not allowed" in result.stderr
    assert result.stdout == ""
