"""How the readings of a source become the usage of a check, over consecutive checks."""

import pytest

from rescheduler.cluster.trusted_usage import UsageSubjects, usage_for_check
from rescheduler.cluster.usage_readings import Smoothing, UsageReading, UsageReadings, UsageUnavailable
from rescheduler.config.policy import UsageSource

METRICS = UsageSource.METRICS
SUBJECTS = UsageSubjects(
    node_of={"a/x": "n", "a/y": "n"}, pod_uids={"a/x": "1", "a/y": "2"}, node_uids={"n": "3"}
)
DOWN = UsageUnavailable(METRICS, "it is down.")


def measured(x, y, node, at_s):
    pods = {"a/x": UsageReading(x, 0, at_s), "a/y": UsageReading(y, 0, at_s)}
    return UsageReadings(METRICS, pods, {"n": UsageReading(node, 0, at_s)})


class Loop:
    """What a loop of checks keeps."""

    def __init__(self, smoothing: Smoothing | None) -> None:
        self.smoothing = smoothing

    def check(self, outcome, now_s, subjects=SUBJECTS):
        usage, self.smoothing = usage_for_check(
            outcome, subjects, now_s=now_s, half_life_s=300, smoothing=self.smoothing
        )
        return usage


@pytest.fixture
def loop():
    return Loop(Smoothing())


def test_a_single_plan_takes_readings_as_they_are_and_keeps_nothing():
    single = Loop(None)
    for number, spike in enumerate((100, 4000)):
        usage = single.check(measured(spike, 0, spike + 50, at_s=30.0 * number), 30.0 * number)
        assert usage.pods["a/x"].cpu_millis == spike
        assert usage.nodes["n"].cpu_millis == 50
    assert single.smoothing is None


def test_in_a_loop_a_spike_is_smoothed(loop):
    loop.check(measured(100, 0, 150, at_s=0), 0)
    usage = loop.check(measured(4000, 0, 4050, at_s=30), 30)
    assert 100 < usage.pods["a/x"].cpu_millis < 400
    assert usage.nodes["n"].cpu_millis == 50, "the spike was the pod's, not the node's own"


def test_when_a_pod_leaves_its_load_leaves_with_it_at_once(loop):
    for number in range(10):
        loop.check(measured(3000, 500, 3700, at_s=30.0 * number), 30.0 * number)
    without = UsageSubjects({"a/y": "n"}, {"a/y": "2"}, {"n": "3"})
    usage = loop.check(measured(0, 500, 700, at_s=300), 300, without)
    load = usage.nodes["n"].cpu_millis + sum(used.cpu_millis for used in usage.pods.values())
    assert load == 700


def test_a_source_that_fails_for_a_while_is_bridged_then_requests_count(loop):
    loop.check(measured(100, 200, 350, at_s=0), 0)
    bridged = loop.check(DOWN, 30)
    assert (bridged.source, bridged.pods["a/x"].cpu_millis, bridged.nodes["n"].cpu_millis) == (
        METRICS,
        100,
        50,
    )
    assert bridged.notes == ("usage of 30s ago is used: it is down.",)
    given_up = loop.check(DOWN, 301)
    assert (given_up.source, given_up.pods) == (UsageSource.REQUESTS, {})
    assert given_up.notes == ("requests are used as load: it is down.",)
    back = loop.check(measured(100, 200, 350, at_s=330), 330)
    assert (back.source, back.notes) == (METRICS, ())


def test_a_single_plan_without_an_answer_goes_by_requests():
    usage = Loop(None).check(DOWN, 0)
    assert (usage.source, usage.notes) == (UsageSource.REQUESTS, ("requests are used as load: it is down.",))
