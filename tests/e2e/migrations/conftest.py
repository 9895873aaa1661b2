"""A control plane that knows PodMigration as the program defines it, and stages on which pods are moved."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rescheduler.api.podmigration_crd import PODMIGRATION_CRD_NAME, podmigration_crd
from rescheduler.kube.access.cluster_config import load_cluster_access
from rescheduler.kube.client import Client
from rescheduler.kube.http_transport import HttpTransport
from tests.e2e.facts.stage import AT_ONCE, Stage, until_usable
from tests.e2e.migrations.moving import Moves, SetMoves
from tests.e2e.permissions import DAEMON, kubeconfig_as
from tests.testbed import ControlPlane, Part
from tests.testbed.fake_kubelet import FakeKubelet
from tests.testbed.options import QUICK
from tests.testbed.usage import UsageApi


@pytest.fixture(scope="package")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Another than that of the facts, where the kind of this name is a simpler one."""
    with ControlPlane(tmp_path_factory.mktemp("migrations"), QUICK) as started:
        started.kubectl("apply", "-f", "-", stdin=json.dumps(podmigration_crd()))
        started.kubectl(
            "wait", "--for=condition=Established", f"customresourcedefinition/{PODMIGRATION_CRD_NAME}"
        )
        # It asks which kinds there are only every half a minute, or when it starts.
        started.restart(Part.CONTROLLER_MANAGER)
        yield started


@pytest.fixture
def tell_usage(client: Client) -> Callable[[FakeKubelet], AbstractAsyncContextManager[UsageApi]]:
    """async with tell_usage(kubelet): the metrics API tells what its pods use."""
    return lambda kubelet: UsageApi(client, kubelet).running()


@pytest.fixture
def ephemeral_claims() -> None:
    """Somebody makes the claims of ephemeral volumes: here the controller manager."""


@pytest.fixture
async def ours(control_plane: ControlPlane, namespace: str, tmp_path: Path) -> AsyncIterator[Client]:
    """As the service account of the daemon."""
    made = Client(
        HttpTransport(load_cluster_access(kubeconfig_as(control_plane, DAEMON, namespace, tmp_path)))
    )
    yield made
    await made.close()


@pytest.fixture
def set_moves(client: Client, ours: Client, namespace: str, play: Callable[..., Awaitable[Any]]) -> SetMoves:
    """await set_moves(nodes=3, **policy): a stage with so many nodes, on which pods are ready at once."""

    async def set_it(nodes: int = 4, **policy: Any) -> Moves:
        kubelet = await play({"pods": [AT_ONCE]}, nodes=nodes)
        stage = Stage(client, namespace, kubelet, await until_usable(client, kubelet, nodes))
        moves = Moves(stage, ours=ours)
        moves.policy = replace(moves.policy, **policy)
        return moves

    return set_it
