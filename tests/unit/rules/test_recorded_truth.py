"""Our rules against answers that a real kube-scheduler gave, written down by tests/e2e/scheduler_truth."""

import pytest

from tests.e2e.scheduler_truth.comparison import faults
from tests.e2e.scheduler_truth.recorded import Recorded, read

WORLDS = list(read())


@pytest.mark.parametrize("world", [pytest.param(world, id=f"world {n}") for n, world in enumerate(WORLDS)])
def test_rules_say_what_the_real_scheduler_said(world: Recorded) -> None:
    wrong = [
        (pod["metadata"]["name"], node, found)
        for pod, node, truth in world.answers
        if (found := faults(world.objects, pod, node, truth, ["rules"]))
    ]
    assert not wrong
