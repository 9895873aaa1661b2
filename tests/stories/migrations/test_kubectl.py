"""What kubectl shows of migrations."""

import json

import pytest

from tests.stories.migrations.moving import SetMoves
from tests.stories.migrations.test_definition import wish
from tests.testbed import ControlPlane

pytestmark = pytest.mark.control_plane(reason="tests/kubectl shows what kubectl makes of the simulator")


async def test_kubectl_shows_pod_from_to_phase_and_age(
    set_moves: SetMoves, control_plane: ControlPlane
) -> None:
    moves = await set_moves(nodes=1)
    control_plane.kubectl("apply", "-f", "-", stdin=json.dumps(wish(moves.stage.namespace)))
    shown = control_plane.kubectl("get", "pmig", "-n", moves.stage.namespace).splitlines()
    assert shown[0].split() == ["NAME", "POD", "FROM", "TO", "PHASE", "AGE"]
    assert shown[1].split()[:4] == ["move", "web", "a", "Pending"], "where to is shown once it is settled"
    assert "move" in control_plane.kubectl("get", "rescheduler", "-n", moves.stage.namespace)


async def test_a_postponed_migration_is_shown_as_pending(
    set_moves: SetMoves, control_plane: ControlPlane
) -> None:
    """Its status is written without the phase, which is the default: the column was blank."""
    moves = await set_moves(nodes=1)
    namespace = moves.stage.namespace
    control_plane.kubectl("apply", "-f", "-", stdin=json.dumps(wish(namespace)))
    postponed = json.dumps({"status": {"phase": None, "step": "Queued", "message": "the node is busy"}})
    control_plane.kubectl(
        "patch", "pmig", "move", "-n", namespace, "--subresource=status", "--type=merge", "-p", postponed
    )
    shown = control_plane.kubectl("get", "pmig", "move", "-n", namespace, "--no-headers")
    assert shown.split()[3] == "Pending"
