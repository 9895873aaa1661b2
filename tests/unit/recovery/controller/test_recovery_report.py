"""The report over all workloads."""

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
    return sandboxes.report(terms, MADE_S, {}, NOW, lambda _: ())


@pytest.mark.parametrize("terms", [FailedPodsPolicy(), BY_DEFAULT], ids=["", "where it is on by default"])
def test_a_workload_without_rescheduling_is_not_reported(terms):
    """It counts neither as failing nor against its node."""
    assert report({"scheduling-retries": "0"}, terms) == RecoveryReport()


def test_no_setting_is_reported_where_it_is_on_by_default():
    reported = report({}, BY_DEFAULT)
    assert [each.allowed for each in reported.failing] == [3, 3, 3]
    assert list(reported.suspects) == ["bad"]
