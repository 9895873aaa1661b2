"""Settings that contradict each other are refused together."""

import pytest


def test_a_cooldown_must_be_remembered(loading):
    (fault,) = loading.arg_faults(podCooldown="2h", migrationTTL="1h")
    assert fault == (
        "migrationTTL: 1h is too short: at least podCooldown (2h) is required, "
        "because it depends on finished migrations"
    )
    assert loading.policy(podCooldown="2h", migrationTTL="2h").pod_cooldown


def test_a_cooldown_beyond_the_default_memory_is_refused_too(loading):
    (fault,) = loading.arg_faults(podCooldown="25h")
    assert fault.startswith("migrationTTL: 24h is too short")


def test_a_faulty_setting_is_reported_once_and_not_checked_against_its_default(loading):
    (fault,) = loading.arg_faults(podCooldown="25h", migrationTTL="long")
    assert fault.startswith('migrationTTL: "long" is not allowed')


BOTH = ["LoadBalancing", "CostOptimization"]


@pytest.mark.parametrize(
    "selectors",
    [
        {},
        {"LoadBalancing": "pool=a"},
        {"LoadBalancing": "pool=a", "CostOptimization": "zone=b"},
        {"LoadBalancing": "pool in (a,b)", "CostOptimization": "pool in (b,c)"},
        {"LoadBalancing": "pool=a", "CostOptimization": ""},
    ],
)
def test_balancing_and_cost_on_nodes_that_may_be_the_same_are_refused(loading, selectors):
    (fault,) = loading.arg_faults(enabledStrategies=BOTH, strategyNodeSelectors=selectors)
    assert fault.startswith("strategyNodeSelectors: ")
    assert "can't match the same node" in fault


@pytest.mark.parametrize(
    "selectors",
    [
        {"LoadBalancing": "pool=a", "CostOptimization": "pool=b"},
        {"LoadBalancing": "!spot", "CostOptimization": "spot"},
        {"LoadBalancing": "cores<9", "CostOptimization": "cores>8"},
    ],
)
def test_balancing_and_cost_on_different_nodes_are_fine(loading, selectors):
    assert loading.policy(enabledStrategies=BOTH, strategyNodeSelectors=selectors)


def test_one_of_them_alone_needs_no_selector(loading):
    assert loading.policy(enabledStrategies=["CostOptimization", "NodeMaintenance"])


def test_a_selector_that_no_node_can_match_is_refused(loading):
    (fault,) = loading.arg_faults(strategyNodeSelectors={"LoadBalancing": "a=b,a=c"})
    assert fault == (
        'strategyNodeSelectors.LoadBalancing: "a=b,a=c" is not allowed: a selector that some node can match'
    )


@pytest.mark.parametrize(
    ("kind", "handover", "allowed"),
    [
        ("Pod", "Evict", "one of Auto, Copy"),
        ("Pod", "Adopt", "one of Auto, Copy"),
        ("StatefulSet", "Adopt", "one of Auto, Evict"),
        ("Job", "Copy", "one of Auto, Evict"),
        ("ReplicaSet", "Copy", "one of Auto, Adopt, Evict"),
        ("Rollout.argoproj.io", "Copy", "one of Auto, Adopt, Evict"),
        ("DaemonSet", "Auto", "no handover"),
    ],
)
def test_handovers_that_would_lose_or_double_pods_are_refused(loading, kind, handover, allowed):
    (fault,) = loading.arg_faults(handovers={kind: handover})
    assert f'"{handover}" is not allowed: {allowed}' in fault


def test_a_window_without_length_or_days_is_refused(loading):
    faults = loading.arg_faults(
        windows=[{"from": "08:00", "to": "8:00"}, {"from": "00:00", "to": "24:00", "days": []}]
    )
    assert [fault.split(":")[0] for fault in faults] == ["windows[0]", "windows[1]"]
    assert 'a whole day is from "00:00" to "24:00"' in faults[0]


def test_retries_by_default_for_every_pod_are_refused(loading):
    (fault,) = loading.arg_faults(failedPods={"defaultRetries": [{"retries": 3}]})
    assert "an entry with namespaces, a podSelector or both" in fault


@pytest.mark.parametrize(
    ("election", "fault"),
    [
        (
            {"leaseDuration": "10s"},
            "leaderElection.leaseDuration: 10s is too short: more than renewDeadline (10s)",
        ),
        (
            {"retryPeriod": "9s"},
            "leaderElection.renewDeadline: 10s is too short: more than 1.2 times retryPeriod (9s)",
        ),
        (
            {"leaseDuration": "-15s"},
            'leaderElection.leaseDuration: "-15s" is not allowed: a duration of at least 1s',
        ),
        ({"leaderElect": "true"}, 'leaderElection.leaderElect: "true" is not allowed: true or false'),
        ({"resourceName": "A B"}, 'leaderElection.resourceName: "A B" is not allowed: the name of a Lease'),
        ({"resourceLock": "endpoints"}, 'leaderElection.resourceLock: "endpoints" is not allowed: leases'),
    ],
)
def test_an_election_that_can_not_work_is_refused(loading, election, fault):
    (found,) = loading.faults(loading.data, leaderElection=election)
    assert found.startswith(fault)


def test_a_strategy_with_nodes_but_not_enabled_is_noted(loading):
    loaded = loading.args(strategyNodeSelectors={"CostOptimization": "a=b"})
    assert any("CostOptimization is not in enabledStrategies" in note for note in loaded.notes)
