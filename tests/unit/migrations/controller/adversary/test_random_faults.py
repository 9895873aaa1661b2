"""With random faults of requests, watches and clocks, a pod is moved or stays as before."""

import pytest

from kubesim.virtual_time import run_virtual
from tests.unit.migrations.controller.adversary.random_faults import RandomFaultsRun

FAULTS = {
    "two who lead at once": {},
    "three who lead at once": {"controllers": 3},
    "caches that are half a minute behind": {"lag_s": 30.0},
    "clocks that are minutes apart": {"skew_s": 300.0},
}


@pytest.mark.parametrize("faults", FAULTS.values(), ids=FAULTS)
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.size)])
def test_no_pod_is_lost_no_budget_broken_and_nothing_left_behind_by(faults, seed, caplog):
    assert run_virtual(RandomFaultsRun(seed, **faults).run()) == []
    assert "a bug in rescheduler" not in caplog.text
