"""What is done about a failing pod: the least disruptive action that can help, within its allowance."""

import pytest

from rescheduler.config.policy import FailedPodsPolicy
from rescheduler.recovery.attempt_ledger import FailedAttempt, ReplicaLineage
from rescheduler.recovery.failure_signs import failure_of
from rescheduler.recovery.recovery_decision import (
    OUT_OF_SERVICE_TAINT,
    ForceDelete,
    MalformedRetries,
    NoAction,
    NotRequested,
    RecordOnly,
    Reschedule,
    RestartInPlace,
    RetriesExhausted,
    RetryAllowance,
    decide_recovery,
)
from tests.building import NOW, node_record, pod_record
from tests.failing_pods import container, crashing, failed, lost, status_of
from tests.objects import node_object, pod_object

TERMS = FailedPodsPolicy()
FORCING = FailedPodsPolicy(force_on_lost_nodes=True)
THREE = RetryAllowance(3, "Deployment/web")
WELL = node_record(node_object("n1"))
LOST = node_record(node_object("n1", **lost()))
CONFIRMED = node_record(
    node_object("n1", taints=[f"{OUT_OF_SERVICE_TAINT}=nodeshutdown:NoExecute"], **lost())
)
GOING = {"deleted": "2026-03-02T11:00:00Z"}
NOTHING = ReplicaLineage()
OWNERS = ["ReplicaSet/web", "StatefulSet/db", "Job/sum", "DaemonSet/proxy", ""]


def pod(owner="ReplicaSet/web", **parts):
    parts = {**status_of(container()), **parts}
    return pod_record(pod_object("shop/x", on="n1", owner=owner, uid="this", **parts))


def decided(it, *, node=WELL, allowance=THREE, line=NOTHING, terms=TERMS):
    trouble = failure_of(it, node, terms, NOW)
    assert trouble is not None
    return decide_recovery(it, node, trouble, allowance, line, terms)


def on_record(*pods, **more):
    return ReplicaLineage(
        tuple(FailedAttempt(1, f"n{number}", pod) for number, pod in enumerate(pods, 1)), **more
    )


@pytest.mark.parametrize("owner", ["ReplicaSet/web", "StatefulSet/db", "Job/sum", ""])
def test_a_pod_that_can_not_run_here_goes_elsewhere(owner):
    assert decided(pod(owner, **crashing())) == Reschedule(1, ("n1",))


def test_it_stays_away_from_every_node_that_it_was_tried_on():
    assert decided(pod(**crashing()), line=on_record("first", "second")) == Reschedule(3, ("n1", "n2"))


def test_a_daemon_sets_pod_is_only_created_again():
    assert decided(pod("DaemonSet/proxy", **crashing())) == RestartInPlace(1)


@pytest.mark.parametrize("owner", ["ReplicaSet/web", "StatefulSet/db", "Job/sum", "DaemonSet/proxy"])
def test_what_its_controller_replaces_by_itself_is_only_noted(owner):
    assert decided(pod(owner, **failed(reason="Evicted"))) == RecordOnly(1)


def test_a_bare_pod_that_failed_is_replaced_only_by_us():
    assert decided(pod("", **failed(reason="Evicted"))) == Reschedule(1, ("n1",))


# --- how often


def test_when_the_tries_are_used_up_that_is_the_end():
    assert decided(pod(**crashing()), line=on_record("a", "b", "c")) == RetriesExhausted(3)
    assert decided(
        pod(**crashing()), line=on_record("a", "b", "c", end=FailedAttempt(9, "n4", "this"))
    ) == RetriesExhausted(3)


def test_the_third_try_is_made_although_it_is_on_record():
    """The controller may have stopped between recording it and doing it."""
    assert decided(pod(**crashing()), line=on_record("a", "b", "this")) == Reschedule(3, ("n1", "n2", "n3"))


def test_the_source_of_a_copy_that_failed_goes_on_with_the_next_number():
    assert decided(pod(**crashing()), line=on_record("this", "copy")) == Reschedule(2, ("n1", "n2"))


def test_the_source_of_the_last_copy_that_failed_is_given_up():
    ended = on_record("this", "copy", "copy-2", end=FailedAttempt(9, "n4", "copy-3"))
    assert decided(pod(**crashing()), line=ended) == RetriesExhausted(3)


def test_when_more_is_allowed_it_goes_on():
    ended = on_record("a", "b", "c", end=FailedAttempt(9, "n1", "this"))
    assert decided(pod(**crashing()), line=ended, allowance=RetryAllowance(5, "")) == Reschedule(
        4, ("n1", "n2", "n3")
    )


# --- by whose leave


@pytest.mark.parametrize(
    "allowance",
    [None, RetryAllowance(0, "Deployment/web"), MalformedRetries("Deployment", "shop/web", "off")],
)
@pytest.mark.parametrize("owner", OWNERS)
def test_nothing_is_done_unasked(allowance, owner):
    terms = FORCING
    for it, node in (
        (pod(owner, **crashing()), WELL),
        (pod(owner, **failed()), WELL),
        (pod(owner, **GOING), CONFIRMED),
        (pod(owner), LOST),
    ):
        assert isinstance(decided(it, node=node, allowance=allowance, terms=terms), NotRequested)


# --- lost nodes


@pytest.mark.parametrize("owner", ["ReplicaSet/web", "Job/sum", ""])
def test_a_pod_on_a_lost_node_goes_elsewhere(owner):
    assert decided(pod(owner), node=LOST) == Reschedule(1, ("n1",))


@pytest.mark.parametrize("owner", ["ReplicaSet/web", "Job/sum"])
def test_one_that_is_going_there_for_ever_is_removed_by_force_if_that_is_allowed(owner):
    it = pod(owner, **GOING)
    assert isinstance(decided(it, node=LOST), NoAction)
    assert decided(it, node=LOST, terms=FORCING) == ForceDelete(1)


def test_that_belongs_to_the_try_that_it_began_with():
    it = pod(**GOING)
    assert decided(it, node=LOST, terms=FORCING, line=on_record("a", "b", "this")) == ForceDelete(3)


@pytest.mark.parametrize("parts", [GOING, {}], ids=["going", "still there"])
def test_of_a_stateful_set_there_are_never_two(parts):
    """Only when it is confirmed that the node is gone can nothing run there any more."""
    it = pod("StatefulSet/db", **parts)
    assert isinstance(decided(it, node=LOST, terms=FORCING), NoAction)
    assert isinstance(decided(it, node=CONFIRMED), NoAction)
    assert decided(it, node=CONFIRMED, terms=FORCING) == ForceDelete(1)
    assert decided(it, node=None, terms=FORCING) == ForceDelete(1)


def test_nor_of_an_index_of_a_job():
    it = pod("Job/sum", labels={"batch.kubernetes.io/job-completion-index": "0"}, **GOING)
    assert isinstance(decided(it, node=LOST, terms=FORCING), NoAction)
    assert decided(it, node=CONFIRMED, terms=FORCING) == ForceDelete(1)


@pytest.mark.parametrize("parts", [GOING, {}], ids=["going", "still there"])
def test_a_daemon_sets_pod_shares_the_fate_of_its_node(parts):
    assert isinstance(decided(pod("DaemonSet/proxy", **parts), node=LOST, terms=FORCING), NoAction)


def test_a_bare_pod_that_is_going_is_not_removed_for_good():
    assert isinstance(decided(pod("", **GOING), node=LOST, terms=FORCING), NoAction)
