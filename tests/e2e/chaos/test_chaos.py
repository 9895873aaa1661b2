"""A short round of chaos; three long ones are part of `make e2e-full`."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.chaos.chaos_round import play_round

LASTS_S = 45.0


async def test_a_short_round_of_chaos_loses_no_pod_harms_nobody_and_leaves_nothing(
    tmp_path: Path, unused_tcp_port_factory: Callable[[], int], capsys: pytest.CaptureFixture[str]
) -> None:
    summary = await play_round(1, LASTS_S, tmp_path, unused_tcp_port_factory())
    with capsys.disabled():
        print(f"\n{summary}")
    assert summary.faults == [], f"see {tmp_path}"
