"""A control plane that knows PodMigration as the program defines it, and stages on which pods are moved."""

import json
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from rescheduler.kube.client import Client
from rescheduler.migrations.definition import NAME, definition
from tests.e2e.facts.stage import AT_ONCE, Stage, until_usable
from tests.e2e.migrations.moving import Moves, SetMoves
from tests.testbed import ControlPlane, Part
from tests.testbed.options import QUICK


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Another than that of the facts, where the kind of this name is a simpler one."""
    with ControlPlane(tmp_path_factory.mktemp("migrations"), QUICK) as started:
        started.kubectl("apply", "-f", "-", stdin=json.dumps(definition()))
        started.kubectl("wait", "--for=condition=Established", f"customresourcedefinition/{NAME}")
        # It asks which kinds there are only every half a minute, or when it starts.
        started.restart(Part.CONTROLLER_MANAGER)
        yield started


@pytest.fixture
def set_moves(client: Client, namespace: str, play: Callable[..., Awaitable[Any]]) -> SetMoves:
    """await set_moves(nodes=3, **policy): a stage with so many nodes, on which pods are ready at once."""

    async def set_it(nodes: int = 4, **policy: Any) -> Moves:
        kubelet = await play({"pods": [AT_ONCE]}, nodes=nodes)
        stage = Stage(client, namespace, kubelet, await until_usable(client, kubelet, nodes))
        moves = Moves(stage)
        moves.policy = replace(moves.policy, **policy)
        return moves

    return set_it
