"""Rounds of chaos with an observer that reads only the API: three of three minutes, and half an hour in a
cluster with 50 nodes and a thousand pods.

`SEED=11 make e2e-full ARGS="-k chaos"` repeats a round, `SEED=21 MINUTES=30 make e2e-churn` the half hour.
What the chaos did, and when, is in `chaos.log` in the folder that a failure names.
"""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.chaos.chaos_round import LARGE, SMALL, RoundSize, play_round

pytestmark = pytest.mark.full

ROUND_S = float(os.environ.get("ROUND_S", "180"))
CHURN_S = 60 * float(os.environ.get("MINUTES", "30"))
ROUND_SEEDS = [int(seed) for seed in os.environ.get("SEED", "11 12 13").split()]
CHURN_SEED = int(os.environ.get("SEED", "21").split()[0])


@pytest.mark.parametrize(
    ("seed", "lasts_s", "size"),
    [
        *(pytest.param(seed, ROUND_S, SMALL, id=f"round {seed}") for seed in ROUND_SEEDS),
        pytest.param(CHURN_SEED, CHURN_S, LARGE, id="churn"),
    ],
)
async def test_no_eviction_leaves_too_few_pods_nothing_else_is_harmed_and_nothing_is_left(
    seed: int,
    lasts_s: float,
    size: RoundSize,
    tmp_path: Path,
    unused_tcp_port_factory: Callable[[], int],
    capsys: pytest.CaptureFixture[str],
) -> None:
    summary = await play_round(seed, lasts_s, tmp_path, unused_tcp_port_factory(), size)
    with capsys.disabled():
        print(f"\n{summary}")
    assert summary.faults == [], f"see {tmp_path}"
