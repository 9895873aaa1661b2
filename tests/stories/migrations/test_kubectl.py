"""What kubectl shows about migrations."""

import asyncio
import json

import pytest

from rescheduler.api.podmigration import MigrationPhase
from tests.stories.fixtures import Eventually
from tests.stories.migrations.moves import MakeMoves
from tests.stories.migrations.test_definition import podmigration
from tests.stories.sandbox import node_of
from tests.testbed import ControlPlane

pytestmark = pytest.mark.control_plane(reason="tests/kubectl shows what kubectl makes of the simulator")


async def test_kubectl_shows_pod_from_to_phase_and_age(
    make_moves: MakeMoves, control_plane: ControlPlane
) -> None:
    moves = await make_moves(nodes=1)
    control_plane.kubectl("apply", "-f", "-", stdin=json.dumps(podmigration(moves.sandbox.namespace)))
    shown = control_plane.kubectl("get", "pmig", "-n", moves.sandbox.namespace).splitlines()
    assert shown[0].split() == ["NAME", "POD", "FROM", "TO", "PHASE", "AGE"]
    assert shown[1].split()[:4] == ["move", "web", "a", "Pending"], "where to is shown once it is settled"
    assert "move" in control_plane.kubectl("get", "rescheduler", "-n", moves.sandbox.namespace)


async def test_a_postponed_migration_is_shown_as_pending(
    make_moves: MakeMoves, control_plane: ControlPlane
) -> None:
    """Its status is written without the phase, which is the default: the column was blank."""
    moves = await make_moves(nodes=1)
    namespace = moves.sandbox.namespace
    control_plane.kubectl("apply", "-f", "-", stdin=json.dumps(podmigration(namespace)))
    postponed = json.dumps({"status": {"phase": None, "step": "Queued", "message": "the node is busy"}})
    control_plane.kubectl(
        "patch", "pmig", "move", "-n", namespace, "--subresource=status", "--type=merge", "-p", postponed
    )
    shown = control_plane.kubectl("get", "pmig", "move", "-n", namespace, "--no-headers")
    assert shown.split()[3] == "Pending"


async def test_describe_shows_the_event_of_the_start(
    make_moves: MakeMoves, control_plane: ControlPlane, eventually: Eventually
) -> None:
    moves = await make_moves(nodes=2)
    sandbox = moves.sandbox
    await sandbox.deployment(1)
    (pod,) = await sandbox.pods()
    target = await sandbox.free_node()
    key = await moves.create_migration(pod, target)
    describe = ("describe", "pmig", key.split("/")[1], "-n", sandbox.namespace)

    async def started() -> list[str]:
        described = await asyncio.to_thread(control_plane.kubectl, *describe)
        _, _, events = described.partition("\nEvents:")
        return [line for line in events.splitlines() if "MigrationStarted" in line]

    async with moves.executing():
        migration = await moves.until_finished(key)
        (line,) = await eventually(started)  # Events are written beside the move
    assert migration.status.phase is MigrationPhase.COMPLETED, migration.status
    assert line.split()[0] == "Normal"
    assert f"moves {pod['metadata']['name']} from {node_of(pod)} to {target}" in line
