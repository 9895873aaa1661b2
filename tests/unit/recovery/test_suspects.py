"""Nodes on which several workloads fail are suspect, for a while."""

from datetime import timedelta

from rescheduler.config.policy import FailedPods
from rescheduler.recovery.ledger import Ledger, Try
from rescheduler.recovery.suspects import Failure, failures_in, suspects

TERMS = FailedPods()
NOW = 10_000.0


def failing(node, *workloads, ago_s=60):
    return [Failure(node, workload, NOW - ago_s) for workload in workloads]


def test_three_different_workloads_make_a_node_suspect():
    failures = failing("n1", "Deployment/shop/c", "Deployment/shop/a", "Job/shop/a")
    assert suspects(failures, TERMS, NOW) == {"n1": ("Deployment/shop/a", "Deployment/shop/c", "Job/shop/a")}


def test_one_workload_does_not_however_often_it_fails():
    assert suspects(failing("n1", "a", "a", "a", "b"), TERMS, NOW) == {}


def test_what_is_long_past_does_not_count():
    failures = failing("n1", "a", "b") + failing("n1", "c", ago_s=1800)
    assert suspects(failures, TERMS, NOW) == {}


def test_how_many_and_how_long_is_set():
    terms = FailedPods(suspect_after=2, suspect_window=timedelta(hours=1))
    failures = failing("n1", "a") + failing("n1", "c", ago_s=1800)
    assert suspects(failures, terms, NOW) == {"n1": ("a", "c")}


def test_every_try_on_record_is_a_failure_of_its_node():
    ledger = Ledger().with_failure("x", Try(5, "n1", "p"), 1).with_failure("x", Try(6, "n2", "q"), 1)
    ledger = ledger.with_failure("y", Try(7), 1)
    assert list(failures_in(ledger, "w")) == [Failure("n1", "w", 5), Failure("n2", "w", 6)]
