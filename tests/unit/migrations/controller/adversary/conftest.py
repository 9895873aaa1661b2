"""Fixtures that several attacks share."""

import pytest

from tests.unit.recovery.controller.conftest import make_recovery, make_simulated_recovery, steered  # noqa: F401


@pytest.fixture
def set_evicting(make_moves):
    """A bare pod whose copy serves beside it: a budget does not let it go. No controller runs."""

    async def make():
        moves = await make_moves(3)
        pod = await moves.sandbox.until_pod_ready(await moves.sandbox.pod("web"))
        await moves.sandbox.budget(minAvailable=2)
        key = await moves.create_migration(pod, await moves.sandbox.free_node())
        async with moves.executing():
            await moves.until(key, lambda migration: migration.status.step == "Evicting")
            copy = await moves.copy_of(key)
        return moves, key, pod, copy

    return make
