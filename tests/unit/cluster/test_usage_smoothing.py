"""Usage as an average over time: one spike moves nothing, a lasting change is followed."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.cluster.usage_readings import (
    CLOCK_SET_BACK_S,
    Smoothing,
    UsageReading,
    UsageReadings,
    map_in_slices,
    smooth,
)
from rescheduler.config.policy import UsageSource

HALF_LIFE_S = 300.0
POD = "shop/web-0"

amounts = st.integers(0, 2**50)
steps_s = st.floats(0.001, 10_000)


def measured(cpu_millis, at_s, memory_bytes=0, name=POD, source=UsageSource.METRICS):
    return UsageReadings(source, {name: UsageReading(cpu_millis, memory_bytes, at_s)})


def check(before, readings, *, half_life_s=HALF_LIFE_S, pods=None, nodes=None):
    """One check; the pods that are there are those measured, unless said otherwise."""
    pod_uids = dict.fromkeys(readings.pods, "uid") if pods is None else pods
    node_uids = dict.fromkeys(readings.nodes, "uid") if nodes is None else nodes
    return smooth(before, readings, half_life_s, pod_uids=pod_uids, node_uids=node_uids)


def after(*readings, half_life_s=HALF_LIFE_S):
    """The average of cpu after these (millis, time), exactly."""
    state = Smoothing()
    for cpu_millis, at_s in readings:
        state, _ = check(state, measured(cpu_millis, at_s), half_life_s=half_life_s)
    return state.pods[POD].cpu_millis


def test_the_first_reading_is_taken_as_it_is():
    _, readings = check(Smoothing(), measured(250, 1000, memory_bytes=77))
    assert readings.pods == {POD: UsageReading(250, 77, 1000)}


def test_what_lies_one_half_life_back_counts_half():
    assert after((1000, 0), (0, HALF_LIFE_S)) == pytest.approx(500)
    assert after((1000, 0), (0, HALF_LIFE_S), (0, 2 * HALF_LIFE_S)) == pytest.approx(250)


@given(st.lists(st.tuples(amounts, steps_s), min_size=1, max_size=20), st.floats(1, 100_000))
def test_an_average_lies_between_the_least_and_the_most_that_was_read(path, half_life_s):
    at_s, readings = 0.0, []
    for amount, step_s in path:
        at_s += step_s
        readings.append((amount, at_s))
    least, most = min(a for a, _ in readings), max(a for a, _ in readings)
    assert least * (1 - 1e-9) <= after(*readings, half_life_s=half_life_s) <= most * (1 + 1e-9)


@given(amounts, st.lists(steps_s, max_size=20), st.floats(1, 100_000))
def test_what_never_changes_stays_exactly_what_it_is(amount, steps, half_life_s):
    at_s, readings = 0.0, [(amount, 0.0)]
    for step_s in steps:
        at_s += step_s
        readings.append((amount, at_s))
    assert after(*readings, half_life_s=half_life_s) == amount


@given(
    st.integers(0, 10**6),
    st.integers(0, 10**6),
    st.floats(1, 3600),
    st.lists(st.floats(0.001, 0.999), max_size=10, unique=True),
)
def test_however_the_time_is_cut_into_checks_the_average_is_the_same(first, then, span_s, cuts):
    at_once = after((first, 0), (then, span_s))
    in_pieces = after((first, 0), *((then, cut * span_s) for cut in sorted(cuts)), (then, span_s))
    assert in_pieces == pytest.approx(at_once, rel=1e-9, abs=1e-6)


@given(amounts, amounts, amounts, st.floats(1, 1000))
def test_more_usage_never_lowers_the_average(first, less, more, span_s):
    less, more = sorted((less, more))
    assert after((first, 0), (less, span_s)) <= after((first, 0), (more, span_s))


def test_one_spike_moves_little_and_is_soon_forgotten():
    quiet = [(200, at_s) for at_s in range(0, 600, 30)]
    spiked = after(*quiet, (4000, 600))
    assert spiked < 500, "thirty seconds at twenty times the load"
    calm = [(200, at_s) for at_s in range(630, 1230, 30)]
    assert after(*quiet, (4000, 600), *calm) < 270


def test_a_lasting_change_is_followed():
    risen = [(2000, at_s) for at_s in range(30, 1530, 30)]
    assert after((200, 0), *risen) > 1900, "after five half-lives"


def test_fifty_noisy_checks_stay_near_the_truth():
    noise = random.Random(1)
    state, seen = Smoothing(), []
    for number in range(50):
        reading = measured(max(0, round(noise.gauss(1000, 300))), 30.0 * number)
        state, readings = check(state, reading)
        seen.append(readings.pods[POD].cpu_millis)
    assert all(abs(each - 1000) < 150 for each in seen[20:]), seen


def test_a_slow_drift_is_not_rounded_away():
    state = Smoothing()
    for number in range(2000):
        # One thousandth more in two hours and a half: less in each check than any whole unit.
        state, readings = check(state, measured(100 + number // 300, 30.0 * number))
    assert readings.pods[POD].cpu_millis in (105, 106)


def test_a_measurement_that_is_seen_twice_counts_once():
    twice = after((1000, 0), (0, 60), (0, 60), (0, 60))
    assert twice == after((1000, 0), (0, 60))


def test_an_older_measurement_of_a_replica_that_lags_is_skipped():
    assert after((1000, 100), (0, 90)) == 1000
    assert after((1000, 100), (0, 90), (500, 130)) == after((1000, 100), (500, 130))


def test_a_clock_that_was_set_back_starts_again():
    assert after((1000, 10_000), (0, 10_000 - CLOCK_SET_BACK_S - 1)) == 0


def test_another_pod_of_the_same_name_starts_again():
    state, _ = check(Smoothing(), measured(1000, 0), pods={POD: "first"})
    state, readings = check(state, measured(10, 30), pods={POD: "second"})
    assert readings.pods[POD] == UsageReading(10, 0, 30)


def test_a_replaced_pod_that_is_not_measured_yet_does_not_inherit():
    state, _ = check(Smoothing(), measured(1000, 0), pods={POD: "first"})
    _, readings = check(state, UsageReadings(UsageSource.METRICS), pods={POD: "second"})
    assert readings.pods == {}


def test_pods_and_nodes_that_are_gone_are_forgotten():
    both = UsageReadings(UsageSource.METRICS, {POD: UsageReading(1, 1, 0)}, {"n-1": UsageReading(1, 1, 0)})
    state, _ = check(Smoothing(), both)
    state, readings = check(state, both, pods={}, nodes={})
    assert (state.pods, state.nodes, readings.pods, readings.nodes) == ({}, {}, {}, {})


def test_a_pod_that_was_not_measured_this_time_keeps_its_average_and_its_time():
    state, _ = check(Smoothing(), measured(100, 1000))
    state, readings = check(state, UsageReadings(UsageSource.METRICS), pods={POD: "uid"})
    assert readings.pods == {POD: UsageReading(100, 0, 1000)}
    state, _ = check(state, measured(0, 1000 + HALF_LIFE_S))
    assert state.pods[POD].cpu_millis == pytest.approx(50), "the gap weighs as the time it was"


def test_another_source_starts_again():
    state, _ = check(Smoothing(), measured(1000, 0))
    _, readings = check(state, measured(10, 30, source=UsageSource.PROMETHEUS))
    assert readings.pods[POD].cpu_millis == 10


def test_nodes_are_smoothed_alike_and_notes_are_kept():
    def node(amount, at_s):
        return UsageReadings(
            UsageSource.METRICS, nodes={"n-1": UsageReading(amount, 2 * amount, at_s)}, notes=("odd",)
        )

    state, _ = check(Smoothing(), node(1000, 0))
    _, readings = check(state, node(0, HALF_LIFE_S))
    assert readings.nodes == {"n-1": UsageReading(500, 1000, HALF_LIFE_S)}
    assert readings.notes == ("odd",)


def test_the_state_that_was_passed_in_is_left_alone():
    state, _ = check(Smoothing(), measured(1000, 0))
    kept = dict(state.pods)
    check(state, measured(0, 300))
    assert state.pods == kept


def test_mapping_in_slices_gives_what_mapping_at_once_gives() -> None:
    values = list(range(45_001))
    assert map_in_slices(str, values) == [str(value) for value in values]
    assert map_in_slices(str, []) == []
