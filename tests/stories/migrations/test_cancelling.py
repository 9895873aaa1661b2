"""A deleted migration is rolled back, or finished if its source pod was evicted, at every step."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS
from rescheduler.kube.api_resources import Object
from tests.stories.migrations.moves import MakeMoves, Moves
from tests.stories.migrations.workloads import stateful_set
from tests.stories.objects import ready_since
from tests.stories.observer import observing
from tests.stories.sandbox import node_of

A_LONG_TIME = timedelta(hours=1)
SLOW = {"startup": "10m", "termination": "0s"}


@dataclass(frozen=True)
class Moment:
    """A migration that stays at a step, because of something that `hold` has arranged."""

    step: str
    reached: Callable[[Moves, str], Any]
    hold: Callable[[Moves], Any] | None = None
    policy: dict[str, Any] = field(default_factory=dict)
    stateful: bool = False
    let_go: bool = False
    """Whether it can come to its end only when pods become ready again."""
    moved: bool = False

    @property
    def name(self) -> str:
        return f"{'Evict' if self.stateful else 'Adopt'}, {self.step}"


async def cordon_all(moves: Moves) -> None:
    await moves.sandbox.cordon(*moves.sandbox.nodes)


async def start_slowly(moves: Moves) -> None:
    moves.sandbox.behave(SLOW)


async def allow_nothing(moves: Moves) -> None:
    await moves.sandbox.budget("nothing", maxUnavailable=0)


async def unready_sibling(moves: Moves) -> None:
    """A budget that allows nothing does not allow the eviction then, although the copy serves."""
    await allow_nothing(moves)
    sibling = (await moves.sandbox.pods())[-1]
    on_its_node = {"node": node_of(sibling)}
    moves.sandbox.behave({"match": on_its_node, "readiness": "never", "startup": "0s", "termination": "0s"})
    await moves.until_pods(lambda pods: not ready_since(pods[sibling["metadata"]["name"]]))


async def a_copy(moves: Moves, key: str) -> None:
    await moves.copy_of(key)


async def a_bound_copy(moves: Moves, key: str) -> None:
    await moves.copy_of(key, node_of)


async def a_ready_copy(moves: Moves, key: str) -> None:
    await moves.copy_of(key, ready_since)


async def at_evicting(moves: Moves, key: str) -> None:
    await moves.until(key, lambda migration: migration.status.step == "Evicting")


async def at_replacing(moves: Moves, key: str) -> None:
    await moves.until(key, lambda migration: migration.status.step == "Replacing")


async def at_once(moves: Moves, key: str) -> None:
    """Whatever step that is."""


MOMENTS = (
    Moment("Queued", at_once),
    Moment("Placing", a_copy, cordon_all),
    Moment("Starting", a_bound_copy, start_slowly),
    Moment("Settling", a_ready_copy, policy={"settle_time": A_LONG_TIME}),
    # A copy that serves goes within its budget, too: here, when the sibling is back.
    Moment("Evicting", at_evicting, unready_sibling, let_go=True),
    Moment("Evicting", at_evicting, allow_nothing, stateful=True),
    Moment("Replacing", at_replacing, start_slowly, stateful=True, let_go=True, moved=True),
)


@pytest.mark.parametrize("moment", MOMENTS, ids=lambda each: each.name)
async def test_cancelled_at(make_moves: MakeMoves, moment: Moment) -> None:
    moves = await make_moves()
    sandbox = moves.sandbox
    if moment.stateful:
        await stateful_set(sandbox, 2)
    else:
        await sandbox.deployment(2)
    before = await sandbox.pods()
    source, target = before[0], await sandbox.free_node()
    if moment.hold is not None:
        await moment.hold(moves)
    async with observing(moves.client, sandbox.namespace) as seen:
        key = await moves.create_migration(source, target)
        async with moves.executing(migration_timeout=A_LONG_TIME, **moment.policy):
            await moment.reached(moves, key)
            await moves.client.delete(POD_MIGRATIONS, key)
            if moment.let_go:
                sandbox.behave()
            assert await moves.until_over(key) is None
            await moves.until_nothing_left()
    sandbox.behave()
    after = await sandbox.until_ready(2)
    assert (_uids(after) == _uids(before)) is not moment.moved
    assert moment.moved or source["metadata"]["name"] not in seen.deleted
    for pod in () if moment.moved else (source,):
        (same,) = [each for each in after if each["metadata"]["uid"] == pod["metadata"]["uid"]]
        assert same["metadata"].get("labels") == pod["metadata"].get("labels")
        assert same["metadata"].get("annotations") == pod["metadata"].get("annotations")


def _uids(pods: list[Object]) -> set[str]:
    return {pod["metadata"]["uid"] for pod in pods}
