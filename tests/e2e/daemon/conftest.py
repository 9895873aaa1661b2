"""A separate control plane, because the daemon reads the whole cluster."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rescheduler.kube.api_resources import DEPLOYMENTS
from rescheduler.kube.client import Client
from tests.e2e.daemon.processes import Cluster, Replica, define_podmigrations, write_config
from tests.e2e.permissions import DAEMON, kubeconfig_as
from tests.stories import objects
from tests.stories.migrations.moves import Moves
from tests.stories.sandbox import AT_ONCE, Sandbox, until_usable
from tests.testbed import ControlPlane
from tests.testbed.options import QUICK

Run = Callable[..., Awaitable[Replica]]
Lopsided = Callable[..., Awaitable[Moves]]


@pytest.fixture(scope="package")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with ControlPlane(tmp_path_factory.mktemp("daemon"), QUICK) as started:
        define_podmigrations(started)
        yield started


@pytest.fixture
def cluster(control_plane: ControlPlane, namespace: str, tmp_path: Path) -> Cluster:
    """Our Lease and state are in the namespace of the test."""
    account = kubeconfig_as(control_plane, DAEMON, namespace, tmp_path)
    return Cluster(account, control_plane.kubeconfig, write_config(tmp_path / "config.json"), namespace)


@pytest.fixture
async def run(cluster: Cluster) -> AsyncIterator[Run]:
    """await run(): one more replica, which ends with the test."""
    async with contextlib.AsyncExitStack() as stack:

        async def started(*arguments: str) -> Replica:
            replica = await cluster.replica(*arguments)
            stack.push_async_callback(replica.end)
            return replica

        yield started


@pytest.fixture
def lopsided(client: Client, namespace: str, start_kubelet: Callable[..., Awaitable[Any]]) -> Lopsided:
    """await lopsided(): as in the original documentation, one node has 85 % load and the other 45 %."""

    async def make(startup: str = "1s") -> Moves:
        kubelet = await start_kubelet({"pods": [AT_ONCE]}, nodes=2)
        moves = Moves(Sandbox(client, namespace, kubelet, await until_usable(client, kubelet, 2)))
        source, target = moves.sandbox.nodes
        for app, replicas, other in (("web", 17, target), ("api", 9, source)):
            await moves.sandbox.cordon(other)
            spec = objects.pod_spec(moves.sandbox.kubelet.name, cpu="400m")
            await client.create(
                DEPLOYMENTS, objects.deployment(moves.sandbox.namespace, app, replicas, spec)
            )  # fmt: skip
            await moves.sandbox.until_ready(replicas, app=app)
            await moves.sandbox.cordon(other, on=False)
        # Slower than the adoption: else the ReplicaSet may keep its own replacement, and drop another pod.
        moves.sandbox.behave({"startup": startup, "termination": "0s"})
        return moves

    return make
