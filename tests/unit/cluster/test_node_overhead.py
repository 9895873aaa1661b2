"""What a node uses in addition to its pods."""

from hypothesis import given
from hypothesis import strategies as st

from rescheduler.cluster.trusted_usage import node_overhead
from rescheduler.cluster.usage_readings import UsageReading, UsageReadings
from rescheduler.config.policy import UsageSource


def used(cpu_millis, memory_bytes=0, at_s=60.0):
    return UsageReading(cpu_millis, memory_bytes, at_s)


def rest(pods, nodes, node_of):
    return node_overhead(UsageReadings(UsageSource.METRICS, pods, nodes), node_of).nodes


def test_the_rest_is_the_node_without_its_pods():
    pods = {"a/x": used(100, 10), "a/y": used(200, 20), "a/z": used(400, 40)}
    nodes = {"n": used(1000, 100), "m": used(500, 50)}
    node_of = {"a/x": "n", "a/y": "n", "a/z": "m"}
    assert rest(pods, nodes, node_of) == {"n": used(700, 70), "m": used(100, 10)}


def test_a_node_without_pods_is_all_rest():
    assert rest({}, {"n": used(100)}, {}) == {"n": used(100)}


def test_a_pod_that_was_not_measured_leaves_the_rest_of_its_node_open():
    assert rest({"a/x": used(1)}, {"n": used(100), "m": used(5)}, {"a/x": "n", "a/y": "n"}) == {"m": used(5)}


def test_measured_at_different_moments_the_rest_is_never_less_than_nothing():
    assert rest({"a/x": used(150, 1)}, {"n": used(100, 5)}, {"a/x": "n"}) == {"n": used(0, 4)}


def test_pods_elsewhere_and_pods_that_are_gone_do_not_count():
    pods = {"a/x": used(10), "a/gone": used(50)}
    assert rest(pods, {"n": used(100)}, {"a/x": "unmeasured"}) == {"n": used(100)}


def test_the_pods_stay_as_they_are():
    readings = UsageReadings(UsageSource.METRICS, {"a/x": used(10)}, {"n": used(100)}, ("note",))
    after = node_overhead(readings, {"a/x": "n"})
    assert (after.pods, after.notes, after.source) == (readings.pods, readings.notes, readings.source)


@given(st.dictionaries(st.sampled_from("abcdefgh"), st.tuples(st.integers(0, 999), st.sampled_from("nm"))))
def test_rest_and_pods_together_are_the_node(pods):
    readings = {key: used(amount, 2 * amount) for key, (amount, _) in pods.items()}
    node_of = {key: node for key, (_, node) in pods.items()}
    nodes = {"n": used(10_000, 20_000), "m": used(10_000, 20_000)}
    for name, found in rest(readings, nodes, node_of).items():
        on_it = sum(amount for amount, node in pods.values() if node == name)
        assert (found.cpu_millis + on_it, found.memory_bytes + 2 * on_it) == (10_000, 20_000)
