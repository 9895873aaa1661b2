"""An upgrade in the middle of a move: the next version continues what the previous one started."""

from collections.abc import Callable

import pytest

from rescheduler.api.podmigration import MigrationPhase
from rescheduler.api.podmigration_crd import PODMIGRATION_CRD_NAME, podmigration_crd
from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS
from rescheduler.kube.api_resources import CUSTOM_RESOURCE_DEFINITIONS, apply_patch
from tests.stories.migrations.moves import MakeMoves
from tests.stories.migrations.test_crash import (
    deployed,
    finished_by_another,
    is_eviction,
    is_new_pod,
    moving_until,
    stateful,
)

ADDED_SINCE = ("siblings", "workload", "stepSince", "retryAt")
"""Fields of the status that the first version did not write."""


@pytest.mark.parametrize(
    ("set_up", "replicas", "last"),
    [
        pytest.param(deployed, 2, is_new_pod, id="Adopt, when the copy is created"),
        pytest.param(deployed, 2, is_eviction, id="Adopt, when the source is evicted"),
        pytest.param(stateful, 3, is_eviction, id="Evict, when the source is evicted"),
    ],
)
async def test_a_migration_that_an_older_version_has_begun_comes_to_its_end(
    make_moves: MakeMoves, set_up: Callable, replicas: int, last: Callable
) -> None:
    moves = await make_moves()
    await set_up(moves.sandbox)
    async with moving_until(moves, last) as (key, seen):
        item = await moves.client.get(POD_MIGRATIONS, key)
        for name in ADDED_SINCE:
            item["status"].pop(name, None)
        await moves.client.replace(POD_MIGRATIONS.status, item)
        await moves.client.patch(
            CUSTOM_RESOURCE_DEFINITIONS,
            PODMIGRATION_CRD_NAME,
            apply_patch(podmigration_crd(), field_manager="upgrade", force=True),
        )
        migration = await finished_by_another(moves, key, replicas)
    assert migration.status.phase is MigrationPhase.COMPLETED, migration.status
    assert set_up is stateful or min(seen.ready) == replicas
