"""Whatever sizes and settings a Deployment has, its bounds hold at every step; deletion order is total."""

from datetime import UTC, datetime, timedelta

from hypothesis import example, given
from hypothesis import strategies as st

from kubesim.controllers import deployment_sizes
from kubesim.controllers.cron_job_controller import next_time
from kubesim.controllers.deployment_sizes import DeploymentReplicaSets
from kubesim.controllers.pod_index import (
    IndexedCondition,
    IndexedMetadata,
    IndexedPod,
    IndexedPodSpec,
    IndexedPodStatus,
)
from kubesim.controllers.replica_set_controller import first_to_go

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
BOUNDS = st.one_of(st.integers(0, 5), st.integers(0, 100).map("{}%".format))


def deployment(replicas, surge, unavailable):
    rolling = {"maxSurge": surge, "maxUnavailable": unavailable}
    return {
        "metadata": {"name": "d"},
        "spec": {"replicas": replicas, "strategy": {"type": "RollingUpdate", "rollingUpdate": rolling}},
    }


def replica_set(number, size, available, maximum=0):
    annotations = {"deployment.kubernetes.io/max-replicas": str(maximum)} if maximum else {}
    return {
        "metadata": {
            "name": f"r{number}",
            "creationTimestamp": f"2026-01-01T00:00:{number:02}Z",
            "annotations": annotations,
        },
        "spec": {"replicas": size},
        "status": {"replicas": size, "availableReplicas": min(size, available)},
    }


@st.composite
def replica_sets(draw):
    wanted = deployment(draw(st.integers(0, 20)), draw(BOUNDS), draw(BOUNDS))
    counts = draw(st.lists(st.tuples(st.integers(0, 15), st.integers(0, 15)), min_size=1, max_size=4))
    members = [replica_set(number, *count) for number, count in enumerate(counts)]
    return DeploymentReplicaSets(wanted, members[-1], tuple(members[:-1]))


def total(family, changed):
    return sum(changed.get(each["metadata"]["name"], each["spec"]["replicas"]) for each in family.all)


@given(replica_sets())
def test_growing_never_exceeds_the_surge(family):
    before = sum(each["spec"]["replicas"] for each in family.all)
    grown = {family.new["metadata"]["name"]: deployment_sizes.new_size(family)}
    limit = family.deployment["spec"]["replicas"] + deployment_sizes.max_surge(family.deployment)
    assert total(family, grown) <= max(before, limit)


@given(replica_sets())
def test_shrinking_never_takes_an_available_pod_that_is_needed(family):
    shrunk = deployment_sizes.rolled_down(family)
    least = family.deployment["spec"]["replicas"] - deployment_sizes.max_unavailable(family.deployment)
    available = sum(each["status"]["availableReplicas"] for each in family.all)
    # A ReplicaSet gives up what is not available first, so this many available pods are left at least.
    left = sum(
        min(
            each["status"]["availableReplicas"],
            shrunk.get(each["metadata"]["name"], each["spec"]["replicas"]),
        )
        for each in family.all
    )
    assert left >= min(available, least)
    assert all(size >= 0 for size in shrunk.values())


def test_unready_new_pods_protect_unready_old_ones():
    """10 wanted, 2 may be missing, 3 more may be there: 8 old pods of which 7 work, 5 new ones that don't."""
    family = DeploymentReplicaSets(deployment(10, 3, 2), replica_set(1, 5, 0), (replica_set(0, 8, 7),))
    assert deployment_sizes.rolled_down(family) == {}
    assert deployment_sizes.rolled_down(family.with_new(replica_set(1, 5, 2))) == {"r0": 6}


def test_a_status_that_counts_pods_asked_to_go_removes_no_others():
    """3 wanted, none may be missing: one of 3 old pods was asked to go, and 2 of 3 new ones work."""
    old, new = replica_set(0, 2, 2), replica_set(1, 2, 2)
    behind = {**old, "status": {"replicas": 3, "availableReplicas": 3}}
    assert deployment_sizes.rolled_down(DeploymentReplicaSets(deployment(3, 1, 0), new, (behind,))) == {}
    assert deployment_sizes.rolled_down(DeploymentReplicaSets(deployment(3, 1, 0), new, (old,))) == {"r0": 1}


@given(st.integers(1, 20), st.lists(st.integers(1, 10), min_size=2, max_size=4))
@example(1, [1, 1, 1, 1])
def test_scaling_during_a_rollout(wanted, counts):
    """It grows to what is allowed and never shrinks below it."""
    members = [replica_set(number, size, 0, maximum=sum(counts)) for number, size in enumerate(counts)]
    family = DeploymentReplicaSets(deployment(wanted, 1, 0), members[-1], tuple(members[:-1]))
    allowed, after = wanted + 1, total(family, deployment_sizes.proportional(family))
    # Shares are rounded; only the largest takes what is left over, as far as it can.
    assert after == allowed if sum(counts) <= allowed else allowed <= after <= sum(counts)


@st.composite
def pods(draw):
    uid = str(draw(st.integers(0, 10**6)))
    made = (NOW - timedelta(seconds=draw(st.integers(0, 3)) ** 8)).strftime("%Y-%m-%dT%H:%M:%SZ")
    ready = [IndexedCondition("Ready", "True", made)] if draw(st.booleans()) else []
    return IndexedPod(
        IndexedMetadata(name=uid, uid=uid, creation_timestamp=made),
        IndexedPodSpec(node_name=draw(st.sampled_from(["", "a", "b"]))),
        IndexedPodStatus(phase=draw(st.sampled_from(["Pending", "Running"])), conditions=tuple(ready)),
    )


@given(st.lists(pods(), unique_by=lambda pod: pod.uid, max_size=8), st.randoms())
def test_the_order_of_deletion_does_not_depend_on_the_order_of_the_pods(found, rng):
    shuffled = list(found)
    rng.shuffle(shuffled)
    assert first_to_go(found, found, 3, NOW) == first_to_go(shuffled, shuffled, 3, NOW)


@given(st.lists(pods(), unique_by=lambda pod: pod.uid, min_size=1, max_size=8))
def test_no_ready_pod_goes_before_one_that_has_no_node(found):
    order = first_to_go(found, found, len(found), NOW)
    nodes = [bool(pod.node) for pod in order]
    assert nodes == sorted(nodes)


@given(
    st.sampled_from(["*", "*/7", "3", "10-20", "0,30"]),
    st.sampled_from(["*", "*/5", "4", "22-23"]),
    st.sampled_from(["*", "1", "15"]),
    st.sampled_from(["*", "mon", "1-5"]),
    st.integers(0, 10**7),
)
def test_the_next_time_is_later_and_nothing_is_left_out_before_it(minute, hour, day, weekday, offset):
    schedule, after = f"{minute} {hour} {day} * {weekday}", NOW + timedelta(seconds=offset)
    found = next_time(schedule, after)
    assert found > after
    assert next_time(schedule, found - timedelta(seconds=1)) == found
    assert next_time(schedule, after + (found - after) / 2) == found


def test_a_fixed_interval_counts_from_the_last_time():
    assert next_time("@every 1h30m", NOW) == NOW + timedelta(minutes=90)
