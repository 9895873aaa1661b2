"""Three rounds of chaos of three minutes each, with an observer that reads only the API.

A round is repeated with `SEED=11 make e2e-full ARGS="-k chaos"`; what the chaos did, and when, is in
`chaos.log` in the folder that a failure names.
"""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.chaos.chaos_round import play_round

pytestmark = pytest.mark.full

LASTS_S = float(os.environ.get("ROUND_S", "180"))
SEEDS = [int(seed) for seed in os.environ.get("SEED", "11 12 13").split()]


@pytest.mark.parametrize("seed", SEEDS)
async def test_no_eviction_leaves_too_few_pods_nothing_else_is_harmed_and_nothing_is_left(
    seed: int, tmp_path: Path, unused_tcp_port_factory: Callable[[], int], capsys: pytest.CaptureFixture[str]
) -> None:
    summary = await play_round(seed, LASTS_S, tmp_path, unused_tcp_port_factory())
    with capsys.disabled():
        print(f"\n{summary}")
    assert summary.faults == [], f"see {tmp_path}"
