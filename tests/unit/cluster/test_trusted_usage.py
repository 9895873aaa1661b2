"""Fresh usage counts as load; where it is missing, requests count, and the plan reports that."""

import pytest

from rescheduler.cluster.trusted_usage import STALE_AFTER_S, TrustedUsage, fresh_usage
from rescheduler.cluster.usage_readings import UsageReading, UsageReadings, UsageUnavailable
from rescheduler.config.policy import UsageSource

NOW_S = 1_000_000.0
FRESH = UsageReading(100, 2**20, NOW_S - 15)
STALE = UsageReading(100, 2**20, NOW_S - STALE_AFTER_S - 1)
METRICS = UsageSource.METRICS


def usage(pods=None, nodes=None, *, running=(), there=(), failure="", notes=()):
    return fresh_usage(
        UsageReadings(METRICS, pods or {}, nodes or {}, notes),
        pods=running,
        nodes=there,
        now_s=NOW_S,
        failure=UsageUnavailable(METRICS, failure) if failure else None,
    )


def test_fresh_readings_count_and_nothing_is_said():
    counts = usage({"a/x": FRESH}, {"n": FRESH}, running=["a/x"], there=["n"])
    assert counts == TrustedUsage(METRICS, {"a/x": FRESH}, {"n": FRESH})


def test_readings_of_pods_and_nodes_that_are_not_there_are_dropped():
    counts = usage({"a/x": FRESH, "a/gone": FRESH}, {"gone": FRESH}, running=["a/x"], there=["n"])
    assert (set(counts.pods), set(counts.nodes), counts.notes) == ({"a/x"}, set(), ())


@pytest.mark.parametrize(
    ("age_s", "counts"),
    [
        pytest.param(STALE_AFTER_S, True, id="just fresh enough"),
        pytest.param(STALE_AFTER_S + 1, False, id="too old"),
        pytest.param(-60.0, True, id="from a clock that is ahead of ours"),
    ],
)
def test_a_reading_counts_for_five_minutes(age_s, counts):
    read = {"a/x": UsageReading(1, 1, NOW_S - age_s), "a/y": FRESH}
    found = usage(read, {"n": read["a/x"]}, running=["a/x", "a/y"], there=["n"])
    assert ("a/x" in found.pods) is counts
    assert ("n" in found.nodes) is counts


def test_one_missing_pod_is_named():
    counts = usage({"a/x": FRESH}, running=["a/x", "a/y"])
    assert counts.source is METRICS
    assert counts.notes == ("usage of pod a/y is missing: its requests are used instead",)


def test_many_missing_pods_are_counted_and_the_first_named():
    running = [f"a/pod-{number:02}" for number in reversed(range(12))]
    counts = usage({"a/x": FRESH}, running=["a/x", *running])
    assert counts.notes == (
        "usage of 12 pods is missing (a/pod-00, a/pod-01, a/pod-02, …): their requests are used instead",
    )


def test_stale_pods_are_distinguished_from_missing_ones():
    counts = usage({"a/x": FRESH, "a/y": STALE}, running=["a/x", "a/y", "a/z"])
    assert counts.notes == (
        "usage of pod a/z is missing: its requests are used instead",
        "usage of pod a/y is older than 5m: its requests are used instead",
    )


def test_if_nothing_is_fresh_the_source_is_requests():
    assert usage({"a/x": STALE}, {"n": FRESH}, running=["a/x"], there=["n"]) == TrustedUsage(
        UsageSource.REQUESTS,
        notes=("requests are used as load: the usage of all pods from metrics is older than 5m",),
    )
    assert usage({}, running=["a/x"]).notes == (
        "requests are used as load: the usage of all pods from metrics is missing",
    )


def test_a_source_that_fails_is_said_with_its_reason():
    counts = usage(running=["a/x"], failure="Prometheus does not answer.")
    assert counts == TrustedUsage(
        UsageSource.REQUESTS, notes=("requests are used as load: Prometheus does not answer.",)
    )


def test_while_a_source_fails_what_is_known_of_late_goes_on_counting():
    counts = usage({"a/x": FRESH}, running=["a/x"], failure="Prometheus does not answer.")
    assert counts.source is METRICS
    assert counts.notes == ("usage of 15s ago is used: Prometheus does not answer.",)


def test_without_pods_there_is_nothing_to_say():
    assert usage() == TrustedUsage(UsageSource.REQUESTS)


def test_what_the_reader_noted_is_passed_on():
    assert usage({"a/x": FRESH}, running=["a/x"], notes=("odd",)).notes == ("odd",)
    assert usage(running=["a/x"], notes=("odd",)).notes[0] == "odd"


def test_who_wants_requests_gets_them_without_a_word():
    counts = fresh_usage(UsageReadings(UsageSource.REQUESTS), pods=["a/x"], nodes=["n"], now_s=NOW_S)
    assert counts == TrustedUsage(UsageSource.REQUESTS)
