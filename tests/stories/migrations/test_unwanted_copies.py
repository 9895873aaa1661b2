"""A workload that is scaled to zero deletes the copy at once, whatever budget covers it."""

from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from rescheduler.api.podmigration import MigrationPhase
from tests.stories.migrations import interferences
from tests.stories.migrations.moves import MakeMoves, Moves
from tests.stories.objects import ready_since

SOON_S = 30.0
"""Far less than the `migrationTimeout` of these tests, which is ten minutes."""

Act = Callable[..., Awaitable[None]]


@pytest.mark.parametrize(
    ("replicas", "act", "left"),
    [
        pytest.param(1, interferences.deleted, 0, id="deleted"),
        pytest.param(1, interferences.deleted_in_the_foreground, 0, id="deleted in the foreground"),
        pytest.param(1, interferences.scaled_to_zero, 0, id="scaled to zero"),
        pytest.param(3, interferences.deleted, 0, id="deleted, with three replicas"),
        pytest.param(3, interferences.scaled_to_zero, 0, id="scaled to zero, from three"),
        pytest.param(3, interferences.scaled_down, 2, id="scaled down from three to two"),
    ],
)
@pytest.mark.parametrize(
    "budget", [{"minAvailable": 1}, pytest.param({"maxUnavailable": 0}, marks=pytest.mark.full)], ids=str
)
async def test_while_the_copy_settles_the_workload_is(
    make_moves: MakeMoves, replicas: int, act: Act, left: int, budget: dict[str, int]
) -> None:
    # A copy that is not wanted ends before it has settled. One that is still wanted settles first.
    settle_time = timedelta(seconds=20) if left else timedelta(minutes=5)
    moves: Moves = await make_moves(nodes=4, settle_time=settle_time)
    sandbox = moves.sandbox
    await sandbox.deployment(replicas)
    await sandbox.budget(**budget)
    source = (await sandbox.pods())[0]
    key = await moves.create_migration(source, await sandbox.free_node())
    async with moves.executing():
        await moves.copy_of(key, ready_since)
        await act(moves, key, source)
        migration = await moves.until_finished(key, timeout_s=SOON_S)
        await moves.until_nothing_left()
        await moves.until_served(left)
    assert left or migration.status.phase is MigrationPhase.FAILED, migration.status
