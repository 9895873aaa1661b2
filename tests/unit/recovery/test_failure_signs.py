"""Which pods are failing, by their failure signs, and which are not."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.config.policy import FailedPodsPolicy
from rescheduler.recovery.failure_signs import FailureKind, failure_of, next_failure_check_s
from tests.building import NOW, node_record, pod_record
from tests.failing_pods import ago, container, crashing, failed, lost, status_of
from tests.objects import node_object, pod_object

TERMS = FailedPodsPolicy()
WELL = node_record(node_object("a"))
GOING = "2026-03-02T11:00:00Z"


def pod(**parts):
    return pod_record(pod_object("shop/x", on=parts.pop("on", "a"), **parts))


def trouble(it, node=WELL, terms=TERMS, now=NOW):
    return failure_of(it, node, terms, now)


def kind_of(it, node=WELL):
    found = trouble(it, node)
    return found and found.kind


def waiting(reason, **parts):
    return status_of(container(waiting=reason), phase="Pending", **parts)


SIDECAR = container("proxy", ready=True)
LOOP = container(waiting="CrashLoopBackOff", last_exit=1, restarts=5)

FAILING = [
    pytest.param(crashing(restarts=3), FailureKind.CRASH_LOOP, id="it crashed and was restarted three times"),
    pytest.param(
        status_of(container(exit_code=137, reason="OOMKilled", restarts=4)),
        FailureKind.CRASH_LOOP,
        id="it has just been killed for its memory once more",
    ),
    pytest.param(
        status_of(LOOP, SIDECAR), FailureKind.CRASH_LOOP, id="a container crashes beside a healthy sidecar"
    ),
    pytest.param(
        status_of(container(waiting="CrashLoopBackOff", last_exit=0, restarts=9)),
        FailureKind.CRASH_LOOP,
        id="it ends well where it should run forever",
    ),
    pytest.param(waiting("ErrImagePull"), FailureKind.IMAGE_ERROR, id="its image can't be pulled"),
    pytest.param(waiting("ImagePullBackOff"), FailureKind.IMAGE_ERROR, id="its image is waited for again"),
    pytest.param(
        waiting("ErrImageNeverPull"), FailureKind.IMAGE_ERROR, id="its image is not there and never pulled"
    ),
    pytest.param(
        waiting("CreateContainerConfigError"), FailureKind.CREATE_ERROR, id="its configuration is missing"
    ),
    pytest.param(waiting("RunContainerError"), FailureKind.CREATE_ERROR, id="it can't be run"),
    pytest.param(waiting("SomethingNew"), FailureKind.CREATE_ERROR, id="an unknown error"),
    pytest.param(
        waiting("ContainerCreating", sandbox=False),
        FailureKind.STUCK_CREATING,
        id="its volumes or its network don't come",
    ),
    pytest.param(
        waiting("ContainerCreating"), FailureKind.STUCK_CREATING, id="its kubelet does not say how far it is"
    ),
    pytest.param(failed(), FailureKind.FAILED, id="it has failed"),
    pytest.param(failed(reason="Evicted"), FailureKind.EVICTED, id="its kubelet evicted it"),
    pytest.param(failed(reason="OutOfcpu"), FailureKind.FAILED, id="its kubelet did not take it"),
    pytest.param(
        status_of(
            container(waiting="PodInitializing"),
            inits=[container("setup", waiting="CrashLoopBackOff", last_exit=1, restarts=4)],
            phase="Pending",
        ),
        FailureKind.INIT_FAILURE,
        id="its init container crashes",
    ),
    pytest.param(
        status_of(
            container(waiting="PodInitializing"),
            inits=[container("setup", waiting="ImagePullBackOff")],
            phase="Pending",
        ),
        FailureKind.IMAGE_ERROR,
        id="the image of its init container can't be pulled",
    ),
    pytest.param(
        status_of(
            container(waiting="PodInitializing"),
            inits=[
                container("one", exit_code=0, ended_ago_s=900),
                container("two", waiting="RunContainerError"),
            ],
            phase="Pending",
        ),
        FailureKind.CREATE_ERROR,
        id="its second init container can't be run",
    ),
]


@pytest.mark.parametrize(("parts", "kind"), FAILING)
def test_it_is_failing_when(parts, kind):
    found = trouble(pod(**parts))
    assert found is not None
    assert found.kind is kind
    assert found.since_s <= NOW


NOT_FAILING = [
    pytest.param(status_of(container(ready=True), ready=True), id="it is ready"),
    pytest.param(status_of(container()), id="it runs and is slow to become ready"),
    pytest.param(status_of(container(last_exit=1, restarts=2)), id="it runs again after two crashes"),
    pytest.param(crashing(restarts=2), id="it crashed, and fewer times than the threshold"),
    pytest.param(
        status_of(container(waiting="CrashLoopBackOff", last_exit=1, restarts=7, ran_s=86_400)),
        id="one crash after a day of running well, with restarts from long ago",
    ),
    pytest.param(status_of(LOOP, phase="Succeeded"), id="it has done its work"),
    pytest.param(crashing() | {"on": ""}, id="it is on no node"),
    pytest.param(
        waiting("ErrImagePull", began_ago_s=200), id="its image could not be pulled for a short while"
    ),
    pytest.param(
        waiting("ContainerCreating", began_ago_s=200), id="it has been in creation for a short while"
    ),
    pytest.param(
        waiting("ContainerCreating", sandbox=True), id="it has its sandbox and pulls a large image slowly"
    ),
    pytest.param(
        waiting("ContainerCreating", began_ago_s=None), id="it is unknown when its kubelet accepted it"
    ),
    pytest.param(
        status_of(container(waiting="PodInitializing"), inits=[container("migrate")], phase="Pending"),
        id="its init container takes its time",
    ),
    pytest.param(
        status_of(LOOP, inits=[container("migrate", restarts=1, last_exit=0)]),
        id="it starts again after its node restarted, and its containers report the time before that",
    ),
    pytest.param(
        status_of(
            container(waiting="PodInitializing"),
            inits=[container("wait-for-db", waiting="CrashLoopBackOff", last_exit=1, restarts=1)],
            phase="Pending",
        ),
        id="its init container failed once",
    ),
    pytest.param(
        status_of(
            container(waiting="PodInitializing"),
            inits=[container("wait-for-db", waiting="CrashLoopBackOff", last_exit=1, restarts=9)],
            began_ago_s=200,
            phase="Pending",
        ),
        id="its init container fails often, and only for a short while",
    ),
    pytest.param(
        status_of(container(waiting="ErrImagePull"), inits=[container("setup", exit_code=0, ended_ago_s=60)]),
        id="its init containers took long, and its image could not be pulled for a short while",
    ),
    pytest.param(failed(ago_s=3600) | {"owner": "ReplicaSet/web"}, id="it failed long ago and was replaced"),
    pytest.param(crashing() | {"deleted": GOING}, id="it is going, and its node is well"),
    pytest.param(failed() | {"deleted": GOING}, id="it has ended and is going"),
    pytest.param(
        status_of(container(exit_code=0, restarts=5)) | {"spec": {"restartPolicy": "OnFailure"}},
        id="one of its containers is done, and is not to be started again",
    ),
]


@pytest.mark.parametrize("parts", NOT_FAILING)
def test_it_is_left_alone_when(parts):
    assert trouble(pod(**parts)) is None


def test_a_crashing_sidecar_among_the_init_containers_counts_like_any_container():
    spec = {"initContainers": [{"name": "proxy", "restartPolicy": "Always"}]}
    crashed = container("proxy", waiting="CrashLoopBackOff", last_exit=1, restarts=3)
    it = pod(spec=spec, **status_of(container(), inits=[crashed], began_ago_s=60))
    assert kind_of(it) is FailureKind.CRASH_LOOP


def test_a_bare_pod_that_failed_long_ago_still_waits():
    assert kind_of(pod(**failed(reason="Evicted", ago_s=86_400))) is FailureKind.EVICTED


# --- lost nodes


@pytest.mark.parametrize("status", ["Unknown", "False"])
def test_a_node_that_has_not_been_ready_for_long_has_lost_its_pods(status):
    node = node_record(node_object("a", **lost(ago_s=301, status=status)))
    assert kind_of(pod(), node) is FailureKind.NODE_LOST


def test_pods_terminating_there_for_ever_are_lost_too():
    node = node_record(node_object("a", **lost()))
    assert kind_of(pod(deleted=GOING), node) is FailureKind.NODE_LOST


def test_one_that_is_going_there_has_its_grace_period():
    node = node_record(node_object("a", **lost()))
    assert kind_of(pod(deleted=ago(-30)), node) is None


def test_a_node_that_is_gone_has_lost_its_pods():
    assert kind_of(pod(**status_of(container(ready=True), ready=True)), None) is FailureKind.NODE_LOST
    assert kind_of(pod(**status_of(container(), unready_ago_s=200)), None) is None
    assert kind_of(pod(**status_of(container(), unready_ago_s=301)), None) is FailureKind.NODE_LOST


def test_a_pod_that_was_just_bound_to_an_unknown_node_is_not_lost():
    """The autoscaler made it for this pod, which has waited for an hour."""
    assert kind_of(pod(phase="Pending", ready=False), None) is None


def test_a_node_that_missed_a_few_heartbeats_has_lost_no_pod():
    node = node_record(node_object("a", **lost(ago_s=200)))
    assert kind_of(pod(), node) is None


def test_what_containers_last_said_on_a_node_that_is_silent_counts_for_nothing():
    node = node_record(node_object("a", **lost(ago_s=60)))
    assert kind_of(pod(**crashing()), node) is None
    assert next_failure_check_s(pod(**crashing()), node, TERMS, NOW) == NOW + 240


# --- thresholds, words, moments


def test_the_thresholds_are_those_of_the_configuration():
    patient = FailedPodsPolicy(
        restart_threshold=10, stuck_after=timedelta(hours=2), node_lost_after=timedelta(hours=2)
    )
    assert trouble(pod(**crashing(restarts=9)), terms=patient) is None
    assert trouble(pod(**crashing(restarts=10)), terms=patient) is not None
    assert trouble(pod(**waiting("ErrImagePull")), terms=patient) is None
    assert trouble(pod(), node_record(node_object("a", **lost())), patient) is None


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        (crashing(restarts=5), "app: CrashLoopBackOff, 5 restarts, exit code 1"),
        (waiting("ErrImagePull"), "app: ErrImagePull"),
        (failed(reason="Evicted"), "evicted by the kubelet"),
        (failed(reason="OutOfcpu"), "failed: OutOfcpu"),
        (failed(exit_code=3), "failed: app: exit code 3"),
    ],
)
def test_it_says_what_is_wrong(parts, words):
    found = trouble(pod(**parts))
    assert found is not None
    assert found.message == words


LATER = [
    pytest.param(waiting("ErrImagePull", began_ago_s=100), 200, id="an image error"),
    pytest.param(waiting("ContainerCreating", began_ago_s=299), 1, id="creation"),
    pytest.param(status_of(container()), None, id="being slow"),
    pytest.param(crashing(restarts=1), None, id="few restarts"),
    pytest.param(status_of(container(ready=True), ready=True), None, id="being well"),
]


@pytest.mark.parametrize(("parts", "in_s"), LATER)
def test_it_is_known_when_to_look_again_at(parts, in_s):
    it = pod(**parts)
    moment = next_failure_check_s(it, WELL, TERMS, NOW)
    assert moment == (None if in_s is None else NOW + in_s)
    if moment is not None:
        assert trouble(it, now=moment - 1) is None
        assert trouble(it, now=moment) is not None


SLOW = st.builds(
    container,
    waiting=st.sampled_from(["", "ContainerCreating", "PodInitializing"]),
    restarts=st.integers(0, 100),
    last_exit=st.none() | st.integers(0, 255),
)
HEALTHY = st.builds(container, ready=st.just(True), restarts=st.integers(0, 100))


@given(
    st.lists(SLOW | HEALTHY, min_size=1, max_size=3),
    st.lists(st.builds(container, exit_code=st.just(0)) | SLOW, max_size=3),
    st.integers(0, 10**6),
    st.booleans(),
)
def test_a_healthy_or_merely_slow_pod_is_never_failing(containers, inits, began_ago_s, ready):
    """Running, coming up in its sandbox, or initializing: however long, after however many restarts."""
    it = pod(**status_of(*containers, inits=inits, began_ago_s=began_ago_s, ready=ready, sandbox=True))
    assert trouble(it) is None
    assert next_failure_check_s(it, WELL, TERMS, NOW) is None


@given(
    st.sampled_from([each.values[0] for each in FAILING + NOT_FAILING]),
    st.floats(-(10**6), 10**6),
)
def test_when_nothing_is_to_come_time_alone_makes_no_pod_fail(parts, later_s):
    """So no caller has to poll: either it is failing, or it is known from when on, or it needs
    something else to happen first."""
    it = pod(**parts)
    moment = next_failure_check_s(it, WELL, TERMS, NOW)
    if trouble(it) is None and moment is None:
        assert trouble(it, now=max(NOW, NOW + later_s)) is None
