"""The cost of many concurrent migrations, and no lost ready pod: a small `bench/migrations.py`."""

import pytest

from bench.migrations import broken_promises, evicted, migrated
from kubesim.virtual_time import run_virtual

SIZE = 6, 8, 4


@pytest.mark.parametrize("budget", [{"maxUnavailable": 0}, {"maxUnavailable": 1}], ids=["at zero", "at one"])
def test_eleven_writes_three_reads_and_no_ready_second_lost(budget):
    assert broken_promises(run_virtual(migrated(*SIZE, budget=budget)), SIZE[1]) == []


def test_slow_starters_cost_no_more_reads_than_quick_ones():
    quick = run_virtual(migrated(*SIZE, startup="5s"))
    slow = run_virtual(migrated(*SIZE, startup="25s"))
    assert slow.took_s > quick.took_s + 20
    assert slow.counts == quick.counts


def test_the_same_moves_by_plain_eviction_are_noticed():
    found = run_virtual(evicted(*SIZE))
    assert found.moved == SIZE[1]
    assert found.lost_s > 5 * found.moved
