"""A node counts as hot after several consecutive checks above its threshold."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.cluster.trusted_usage import HotNodeHistory, hot_subjects
from rescheduler.config.policy import UsageSource
from rescheduler.daemon.checker import heating_nodes

METRICS = UsageSource.METRICS
CHECKS = 3


def seen(*checks, source=METRICS):
    """Which nodes count as hot after these checks, each with the nodes that it found too hot."""
    heat = HotNodeHistory()
    for too_hot in checks:
        heat = heat.after(too_hot, source)
    return hot_subjects(heat, checks[-1], CHECKS)


def test_a_node_that_stays_too_hot_is_hot():
    assert seen({"a"}) == set()
    assert seen({"a"}, {"a"}) == set()
    assert seen({"a"}, {"a"}, {"a"}) == {"a"}
    assert seen({"a"}, {"a"}, {"a"}, {"a"}) == {"a"}


def test_one_cooler_check_restarts_the_count():
    assert seen({"a"}, {"a"}, {}, {"a"}) == set()
    assert seen({"a"}, {"a"}, {}, {"a"}, {"a"}, {"a"}) == {"a"}


def test_every_node_counts_for_itself():
    assert seen({"a", "b"}, {"a"}, {"a", "b"}) == {"a"}


@pytest.mark.parametrize("first_checks", [1, 2])
def test_after_a_start_nothing_is_hot_before_enough_checks(first_checks):
    assert seen(*[{"a", "b", "c"}] * first_checks) == set()


def test_without_checks_before_everything_too_hot_is_hot_at_once():
    assert hot_subjects(None, {"a", "b"}, CHECKS) == {"a", "b"}


def test_load_from_requests_does_not_fluctuate_so_it_counts_at_once():
    assert seen({"a"}, source=UsageSource.REQUESTS) == {"a"}


def test_load_from_another_source_restarts_the_count():
    heat = HotNodeHistory()
    for source in (METRICS, METRICS, UsageSource.PROMETHEUS):
        heat = heat.after({"a"}, source)
    assert hot_subjects(heat, {"a"}, CHECKS) == set()
    assert heat.checks == 1


def test_a_pause_of_the_measurements_is_like_a_start():
    heat = HotNodeHistory()
    for source in (METRICS, METRICS, UsageSource.REQUESTS, METRICS):
        heat = heat.after({"a"}, source)
    assert hot_subjects(heat, {"a"}, CHECKS) == set()


def test_one_check_is_enough_if_so_configured():
    assert hot_subjects(HotNodeHistory().after({"a"}, METRICS), {"a"}, 1) == {"a"}


def test_strategies_that_judge_differently_count_apart():
    heat = HotNodeHistory()
    for too_hot in ({("LoadBalancing", "a")}, {("LoadBalancing", "a"), ("ResourceOptimization", "a")}):
        heat = heat.after(too_hot, METRICS)
    assert hot_subjects(heat, too_hot, 2) == {("LoadBalancing", "a")}


@given(st.lists(st.sets(st.sampled_from("abc")), min_size=1, max_size=12), st.integers(1, 5))
def test_hot_is_exactly_what_each_of_the_last_checks_found(checks, needed):
    heat = HotNodeHistory()
    for number, too_hot in enumerate(checks, start=1):
        heat = heat.after(too_hot, METRICS)
        lately = checks[max(0, number - needed) : number]
        expected = set.intersection(*lately) if number >= needed else set()
        assert hot_subjects(heat, too_hot, needed) == expected
        assert heat.checks == number


def test_fifty_noisy_checks_around_a_threshold_seldom_make_a_node_hot():
    noise = random.Random(7)
    heat, hot_checks = HotNodeHistory(), 0
    for _ in range(50):
        too_hot = {"a"} if noise.gauss(70, 5) > 80 else set()
        heat = heat.after(too_hot, METRICS)
        hot_checks += bool(hot_subjects(heat, too_hot, CHECKS))
    assert hot_checks == 0


def test_nodes_that_are_not_hot_for_long_enough_are_named_from_the_first_check_on():
    """A dry run that says nothing for three checks looks broken."""
    first = HotNodeHistory().after(["b", ("ResourceOptimization", "a")], UsageSource.METRICS)
    assert heating_nodes(first, 3) == ("a in 1 of 3 checks", "b in 1 of 3 checks")
    third = first.after(["b"], UsageSource.METRICS).after(["b"], UsageSource.METRICS)
    assert heating_nodes(third, 3) == ()
    assert heating_nodes(HotNodeHistory().after(["b"], UsageSource.REQUESTS), 3) == (), "not smoothed"
