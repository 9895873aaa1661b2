"""The simulated filters against answers of a real kube-scheduler, recorded by tests/e2e/scheduler_truth."""

import pytest

from tests.e2e.scheduler_truth.comparison import faults
from tests.e2e.scheduler_truth.recorded import Recorded, read
from tests.e2e.scheduler_truth.verdicts import Refused

CLUSTERS = list(read())


@pytest.mark.parametrize(
    "cluster", [pytest.param(cluster, id=f"cluster {n}") for n, cluster in enumerate(CLUSTERS)]
)
def test_filters_say_what_the_real_scheduler_said(cluster: Recorded) -> None:
    wrong = [
        (pod["metadata"]["name"], node, found)
        for pod, node, truth in cluster.answers
        if (found := faults(cluster.objects, pod, node, truth, ["simulator"]))
    ]
    assert not wrong


def test_every_rule_is_among_the_answers() -> None:
    rules = {
        truth.rule for cluster in CLUSTERS for _, _, truth in cluster.answers if isinstance(truth, Refused)
    }
    assert len(rules) == 11
