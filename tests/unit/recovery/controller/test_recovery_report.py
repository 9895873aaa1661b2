"""What is told of all families together."""

import pytest

from rescheduler.config.policy import DefaultRetries, FailedPodsPolicy
from rescheduler.recovery.controller.recovery_report import ExaminationCache, RecoveryReport
from rescheduler.recovery.failing_pods import examine_pod
from tests.building import NOW, cluster
from tests.failing_pods import crashing

BY_DEFAULT = FailedPodsPolicy(default_retries=(DefaultRetries(namespaces=("shop", "bank"), retries=3),))
KEYS = ("shop/web", "shop/api", "bank/db")
MADE_S = dict.fromkeys(("bad", "b", "c"), 0.0)


def report(annotations, terms):
    made, sandboxes = cluster().nodes(*MADE_S), ExaminationCache()
    for key in KEYS:
        made.deployment(key, on=["bad"], annotations=annotations, **crashing())
    snapshot = made.snapshot()
    for key in KEYS:
        sandboxes.observe(key, examine_pod(snapshot, terms, snapshot.pods.row[f"{key}-1-0"]))
    return sandboxes.report(terms, MADE_S, {}, NOW)


@pytest.mark.parametrize("terms", [FailedPodsPolicy(), BY_DEFAULT], ids=["", "where it is on by default"])
def test_who_allows_no_rescheduling_is_told_neither_as_failing_nor_against_a_node(terms):
    assert report({"scheduling-retries": "0"}, terms) == RecoveryReport()


def test_who_says_nothing_is_told_of_where_it_is_on_by_default():
    told = report({}, BY_DEFAULT)
    assert [each.allowed for each in told.failing] == [3, 3, 3]
    assert list(told.suspects) == ["bad"]
