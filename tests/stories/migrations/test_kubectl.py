"""What kubectl shows about migrations."""

import json

import pytest

from tests.stories.migrations.moves import MakeMoves
from tests.stories.migrations.test_definition import podmigration
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
