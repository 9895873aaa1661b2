"""Whatever happens to calls, watches and clocks of several leaders at once: moved, or exactly as before."""

import pytest

from kubesim.virtual_time import run_virtual
from tests.unit.migrations.controller.adversary.storm import Storm

STORMS = {
    "two who lead at once": {},
    "three who lead at once": {"controllers": 3},
    "caches that are half a minute behind": {"lag_s": 30.0},
    "clocks that are minutes apart": {"skew_s": 300.0},
}


@pytest.mark.parametrize("storm", STORMS.values(), ids=STORMS)
@pytest.mark.parametrize("seed", range(2))
def test_no_pod_is_lost_no_budget_broken_and_nothing_left_behind_by(storm, seed, caplog):
    assert run_virtual(Storm(seed, **storm).run()) == []
    assert "a bug in rescheduler" not in caplog.text
