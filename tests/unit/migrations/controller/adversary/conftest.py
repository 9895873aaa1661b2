"""Fixtures that more than one attack needs."""

import pytest

from tests.unit.recovery.controller.conftest import set_simulated_ward, set_ward, steered  # noqa: F401


@pytest.fixture
def set_evicting(set_moves):
    """A bare pod whose copy serves beside it: a budget does not let it go. Nobody executes."""

    async def set_it():
        moves = await set_moves(3)
        pod = await moves.stage.until_pod_ready(await moves.stage.pod("web"))
        await moves.stage.budget(minAvailable=2)
        key = await moves.wish(pod, await moves.stage.free_node())
        async with moves.executing():
            await moves.until(key, lambda migration: migration.status.step == "Evicting")
            copy = await moves.copy_of(key)
        return moves, key, pod, copy

    return set_it
