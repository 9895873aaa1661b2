"""The first move after the definition was installed, before the disruption controller knows the new kind."""

from collections.abc import Iterator

import pytest

from rescheduler.api.podmigration import MigrationPhase
from rescheduler.api.well_known_names import SYNC_REQUESTED_ANNOTATION
from rescheduler.install.cluster_installation import install_definition
from rescheduler.kube.api_resources import Object
from tests.stories.migrations.moves import MakeMoves, Moves
from tests.stories.observer import observing
from tests.testbed import ControlPlane
from tests.testbed.options import QUICK

pytestmark = [
    pytest.mark.full,
    pytest.mark.control_plane(reason="the simulated controllers know a new kind at once"),
]

DISCOVERED_WITHIN_S = 120.0
"""The controller asks for new kinds every half a minute; `migrationTimeout` is ten minutes here."""


@pytest.fixture
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Start one without the definition: a kind that was known once stays known."""
    with ControlPlane(tmp_path_factory.mktemp("fresh"), QUICK) as started:
        yield started


@pytest.mark.parametrize(
    "budget", [{"maxUnavailable": 0}, {"minAvailable": "100%"}], ids=["maxUnavailable", "a percentage"]
)
async def test_a_pod_under_a_budget_moves_as_soon_as_the_kind_is_discovered(
    make_moves: MakeMoves, budget: Object
) -> None:
    moves: Moves = await make_moves(nodes=2)
    sandbox = moves.sandbox
    await sandbox.deployment(1)
    await sandbox.budget(**budget)
    (source,) = await sandbox.pods()
    async with observing(moves.client, sandbox.namespace) as seen:
        await install_definition(moves.client)
        key = await moves.create_migration(source, await sandbox.free_node())
        async with moves.executing():
            migration = await moves.until_finished(key, timeout_s=DISCOVERED_WITHIN_S)
            await moves.until_nothing_left()
    assert migration.status.phase is MigrationPhase.COMPLETED, migration.status
    assert migration.status.attempts == 1
    assert min(seen.ready) >= 1
    (moved,) = await sandbox.until_ready(1)
    assert SYNC_REQUESTED_ANNOTATION not in moved["metadata"]["annotations"]
