"""A control plane with the alpha APIs for the lifecycle of nodes and pods, and a daemon with its account."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rescheduler.kube.client import Client
from tests.e2e.daemon.processes import Cluster, Replica, define_podmigrations, write_config
from tests.e2e.permissions import DAEMON, kubeconfig_as
from tests.stories.migrations.moves import Moves
from tests.stories.sandbox import AT_ONCE, Sandbox, until_usable
from tests.testbed import ControlPlane, Part
from tests.testbed.options import QUICK

__all__ = ["Daemon", "MakeShop"]

Daemon = Callable[..., Awaitable[Replica]]
MakeShop = Callable[..., Awaitable[Moves]]

LIFECYCLE = replace(
    QUICK,
    feature_gates={"EvictionRequestAPI": True},
    flags={**QUICK.flags, Part.API_SERVER: ("--runtime-config=lifecycle.k8s.io/v1alpha1=true",)},
)


@pytest.fixture(scope="package")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with ControlPlane(tmp_path_factory.mktemp("lifecycle"), LIFECYCLE) as started:
        define_podmigrations(started)
        yield started


@pytest.fixture
async def daemon(control_plane: ControlPlane, namespace: str, tmp_path: Path) -> AsyncIterator[Daemon]:
    """await daemon(**args): a daemon with these settings, which leads and ends with the test."""
    account = await asyncio.to_thread(kubeconfig_as, control_plane, DAEMON, namespace, tmp_path)
    config = tmp_path / "config.json"
    cluster = Cluster(account, control_plane.kubeconfig, config, namespace)
    async with contextlib.AsyncExitStack() as stack:

        async def start(**args: Any) -> Replica:
            write_config(config, **args)
            replica = await cluster.replica()
            stack.push_async_callback(replica.end)
            await replica.until_said("Leading")
            return replica

        yield start


@pytest.fixture
def make_shop(client: Client, namespace: str, start_kubelet: Callable[..., Awaitable[Any]]) -> MakeShop:
    """await make_shop(nodes=3): nodes on which pods are ready after a second."""

    async def make(nodes: int = 3) -> Moves:
        kubelet = await start_kubelet({"pods": [AT_ONCE]}, nodes=nodes)
        moves = Moves(Sandbox(client, namespace, kubelet, await until_usable(client, kubelet, nodes)))
        moves.sandbox.behave({"startup": "1s", "termination": "0s"})
        return moves

    return make
