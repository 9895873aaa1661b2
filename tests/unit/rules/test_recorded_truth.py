"""Our rules against answers that a real kube-scheduler gave, written down by tests/e2e/scheduler_truth."""

import pytest

from tests.e2e.scheduler_truth.comparison import faults
from tests.e2e.scheduler_truth.recorded import Recorded, read

CLUSTERS = list(read())


@pytest.mark.parametrize(
    "cluster", [pytest.param(cluster, id=f"cluster {n}") for n, cluster in enumerate(CLUSTERS)]
)
def test_rules_say_what_the_real_scheduler_said(cluster: Recorded) -> None:
    wrong = [
        (pod["metadata"]["name"], node, found)
        for pod, node, truth in cluster.answers
        if (found := faults(cluster.objects, pod, node, truth, ["rules"]))
    ]
    assert not wrong
