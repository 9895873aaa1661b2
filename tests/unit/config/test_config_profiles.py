"""Several profiles in one file: what each has for itself, and what is refused."""

from datetime import timedelta

import pytest
import yaml

from kubevalues import parse_selector
from rescheduler.config.config_loader import load_content
from rescheduler.config.config_validation import BUILT_IN_STRATEGIES
from rescheduler.config.descheduler_conversion import convert_descheduler_policy
from rescheduler.config.scheduler_file import render_effective


def profiles_of(*args):
    return {"profiles": [{"pluginConfig": [{"name": "Rescheduler", "args": each}]} for each in args]}


def path(number):
    return f"profiles[{number}].pluginConfig[0].args"


def test_each_profile_has_its_own_settings_and_the_rest_is_that_of_the_first(loading):
    policy = loading.data(
        **profiles_of(
            {"namespaceSelector": "team=a", "imbalanceThreshold": 10, "maxRetries": 7},
            {"namespaceSelector": "team=b", "enabledStrategies": ["TopologySpread"]},
            {"namespaceSelector": "team notin (a,b)", "maxMovesPerHour": {"total": "5%"}},
        )
    ).configuration.policy
    first, second, third = policy.every_profile
    assert [str(each.namespace_selector) for each in (first, second, third)] == [
        "team=a", "team=b", "team notin (a,b)",
    ]  # fmt: skip
    assert [each.imbalance_threshold for each in (first, second, third)] == [10, 20, 20]
    assert [each.max_retries for each in (first, second, third)] == [7, 7, 7]
    assert (first.max_moves_per_hour.total, third.max_moves_per_hour.total) == (None, "5%")
    assert policy.enables("TopologySpread")
    assert not policy.enables("CostOptimization")


def test_the_effective_configuration_shows_all_profiles_and_loads_again(loading):
    loaded = loading.data(
        **profiles_of({"nodeSelector": "pool=a"}, {"nodeSelector": "pool=b", "minGain": 0.5})
    )
    text = render_effective(loaded.configuration)
    assert loading.text(text).configuration == loaded.configuration
    assert text.count("nodeSelector:") == 2
    assert text.count("dryRun:") == 1


def test_all_overlapping_profiles_are_refused_at_once(loading):
    faults = loading.faults(
        loading.data,
        **profiles_of(
            {"namespaceSelector": "team=a"},
            {"nodeSelector": "pool=b"},
            {"namespaceSelector": "team in (a,c)"},
        ),
    )
    narrow = '{"namespaceSelector": "team in (a,c)", "nodeSelector": ""}'
    pool = '{"namespaceSelector": "", "nodeSelector": "pool=b"}'
    allowed = "is not allowed: selectors that can't match the same namespace and node as"
    assert sorted(faults) == [
        f"{path(1)}: {pool} {allowed} {path(0)}",
        f"{path(2)}: {narrow} {allowed} {path(0)}",
        f"{path(2)}: {narrow} {allowed} {path(1)}",
    ]


@pytest.mark.parametrize(
    "args",
    [
        pytest.param(({"namespaceSelector": "team=a"}, {"namespaceSelector": "team!=a"}), id="namespaces"),
        pytest.param(({"nodeSelector": "spot"}, {"nodeSelector": "!spot"}), id="nodes"),
        pytest.param(
            (
                {"namespaceSelector": "team=a", "nodeSelector": "pool=x"},
                {"namespaceSelector": "team=b", "nodeSelector": "pool=x"},
                {"namespaceSelector": "team=a", "nodeSelector": "pool=y"},
            ),
            id="both",
        ),
    ],
)
def test_profiles_that_differ_in_namespaces_or_nodes_are_allowed(loading, args):
    assert len(loading.data(**profiles_of(*args)).configuration.policy.every_profile) == len(args)


def test_faults_of_all_profiles_are_reported_with_their_paths(loading):
    faults = loading.faults(
        loading.data,
        **profiles_of(
            {"namespaceSelector": "team=a", "cpuThreshold": 200}, {"nodeSelector": "a=b,a=c", "dryRun": True}
        ),
    )
    assert [fault.partition(": ")[0] for fault in faults] == [
        f"{path(0)}.cpuThreshold",
        f"{path(1)}.dryRun",
        f"{path(1)}.nodeSelector",
    ]
    assert "set it in the first profile only, because it holds for all" in faults[1]


def test_a_limit_per_hour_of_any_profile_needs_the_migrations_of_an_hour(loading):
    (fault,) = loading.faults(
        loading.data,
        **profiles_of(
            {"namespaceSelector": "team=a", "migrationTTL": "30m", "podCooldown": "10m"},
            {"namespaceSelector": "team!=a", "maxMovesPerHour": {"total": 5}},
        ),
    )
    assert fault.startswith(f"{path(1)}.maxMovesPerHour: migrationTTL (30m) is too short: at least 1h")


def test_one_profile_must_not_fill_what_another_empties(loading):
    fills = {"namespaceSelector": "team=a", "enabledStrategies": ["LoadBalancing"]}
    empties = {"namespaceSelector": "team=b", "enabledStrategies": ["CostOptimization"]}
    (fault,) = loading.faults(loading.data, **profiles_of(fills, empties))
    assert fault.startswith(f"{path(1)}.enabledStrategies: ")
    apart = profiles_of({**fills, "nodeSelector": "pool=a"}, {**empties, "nodeSelector": "pool=b"})
    assert loading.data(**apart)


def test_two_of_us_in_one_profile_are_refused_with_both_paths(loading):
    ours = {"name": "Rescheduler", "args": {}}
    (fault,) = loading.faults(loading.data, profiles=[{}, {"pluginConfig": [ours, {"name": "A"}, ours]}])
    assert fault == (
        'profiles[1].pluginConfig[2].name: "Rescheduler" is not allowed: '
        "one Rescheduler in each profile; the other is profiles[1].pluginConfig[0]"
    )


def low(number):
    return {"thresholds": {"cpu": 20}, "targetThresholds": {"cpu": 50 + number}}


def descheduler_policy(*selectors, plugins=None, evictors=({}, {}), **top):
    """By default, each profile has LowNodeUtilization."""
    profiles = []
    for number, labels in enumerate(selectors):
        evictor = {"namespaceLabelSelector": {"matchLabels": labels}} if labels else {}
        evictor |= evictors[number]
        name, args = ("LowNodeUtilization", low(number)) if plugins is None else plugins[number]
        config = [{"name": "DefaultEvictor", "args": evictor}, {"name": name, "args": args}]
        enabled = {"deschedule" if name == "PodLifeTime" else "balance": {"enabled": [name]}}
        profiles.append({"name": f"p{number}", "pluginConfig": config, "plugins": enabled})
    document = {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy", "profiles": profiles}
    document |= top
    text, notes = convert_descheduler_policy(yaml.safe_dump(document).encode(), "policy.yaml")
    policy = load_content(text.encode(), BUILT_IN_STRATEGIES, source="converted").configuration.policy
    return policy, notes


def test_a_plugin_that_empties_what_another_profile_fills_is_left_out():
    fills = ("LowNodeUtilization", {**low(0), "useDeviationThresholds": True})
    empties = ("HighNodeUtilization", {"thresholds": {"cpu": 20}})
    policy, notes = descheduler_policy({"team": "a"}, {"team": "b"}, plugins=[fills, empties])
    assert [each.enabled_strategies for each in policy.every_profile] == [("LoadBalancing",), ()]
    assert any("HighNodeUtilization left out" in note for note in notes)


def test_profiles_of_the_descheduler_for_other_namespaces_stay_separate():
    policy, notes = descheduler_policy({"team": "a"}, {"team": "b"})
    first, second = policy.every_profile
    assert (first.namespace_selector, second.namespace_selector) == (
        parse_selector("team=a"),
        parse_selector("team=b"),
    )
    assert (first.cpu_threshold, second.cpu_threshold) == (50, 51)
    assert not policy.dry_run
    assert not any("become one" in note for note in notes)


def test_separate_profiles_of_the_descheduler_have_arguments_of_their_own():
    """Nothing is lost, so nothing stops the moves."""
    ages = [("PodLifeTime", {"maxPodLifeTimeSeconds": hours * 3600}) for hours in (24, 1)]
    policy, notes = descheduler_policy({"team": "a"}, {"team": "b"}, plugins=ages)
    lives = [each.pod_life_time.max_pod_life_time for each in policy.every_profile]
    assert lives == [timedelta(hours=24), timedelta(hours=1)]
    assert (policy.dry_run, notes) == (False, [])


def test_separate_profiles_of_the_descheduler_share_the_limit_of_all():
    policy, notes = descheduler_policy({"team": "a"}, {"team": "b"}, maxNoOfPodsToEvictTotal=21)
    assert [each.max_reschedule_pods for each in policy.every_profile] == [10, 10]
    assert any("equal shares" in note for note in notes)


@pytest.mark.parametrize(
    ("first", "second", "setting", "stops"),
    [
        ({"labelSelector": {"matchLabels": {"tier": "web"}}}, {}, "excludedPodSelector", True),
        ({"priorityThreshold": {"value": 10}}, {"priorityThreshold": {"value": 99}}, "maxPriority", True),
        ({"minPodAge": "1h"}, {"minPodAge": "1m"}, "minPodAge", True),
        ({"minReplicas": 3}, {"minReplicas": 2}, "minReplicasForEvict", True),
        ({"evictLocalStoragePods": True}, {}, "includeLocalStorage", False),
    ],
    ids=["labels", "priorities", "ages", "replicas", "local storage"],
)
def test_what_one_of_the_profiles_that_become_one_protects_is_not_moved(first, second, setting, stops):
    """The evictor of one profile would hold for the plugins of the other, too."""
    policy, notes = descheduler_policy({}, {}, evictors=[first, second])
    assert any(f"DefaultEvictor differs between profiles: {setting} left out" in note for note in notes)
    assert policy.dry_run == stops
    assert not policy.include_local_storage


def test_profiles_of_the_descheduler_that_overlap_become_one():
    policy, notes = descheduler_policy({}, {})
    assert len(policy.every_profile) == 1
    assert any("become one" in note for note in notes)
    assert not policy.dry_run
    narrow, notes = descheduler_policy({"team": "a"}, {})
    assert narrow.namespace_selector.selects_everything
    assert narrow.dry_run, "pods of other teams would be moved by the first profile's plugins"
