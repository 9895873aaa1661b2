"""The simulated filters against answers of a real kube-scheduler, recorded by tests/e2e/scheduler_truth."""

import pytest

from tests.e2e.scheduler_truth.comparison import faults
from tests.e2e.scheduler_truth.recorded import Recorded, read
from tests.e2e.scheduler_truth.verdicts import Refused

WORLDS = list(read())


@pytest.mark.parametrize("world", [pytest.param(world, id=f"world {n}") for n, world in enumerate(WORLDS)])
def test_filters_say_what_the_real_scheduler_said(world: Recorded) -> None:
    wrong = [
        (pod["metadata"]["name"], node, found)
        for pod, node, truth in world.answers
        if (found := faults(world.objects, pod, node, truth, ["simulator"]))
    ]
    assert not wrong


def test_every_rule_is_among_the_answers() -> None:
    rules = {truth.rule for world in WORLDS for _, _, truth in world.answers if isinstance(truth, Refused)}
    assert len(rules) == 11
