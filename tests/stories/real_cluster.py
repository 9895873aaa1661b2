"""A real control plane as stories see it: each story has its own namespace and its own fake nodes."""

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kubesim.behaviour import load_behaviour
from rescheduler.kube.access.cluster_config import load_cluster_access
from rescheduler.kube.api_resources import NAMESPACES, Object
from rescheduler.kube.client import Client
from rescheduler.kube.http_transport import HttpTransport
from tests.e2e.permissions import kubeconfig_as
from tests.stories.sandbox import AT_ONCE, Sandbox, until_usable
from tests.testbed import ControlPlane, Extender, Options, Part
from tests.testbed.fake_kubelet import FakeKubelet, node_shapes
from tests.testbed.options import QUICK
from tests.testbed.usage import UsageApi

__all__ = [
    "BEAT_EVERY_S",
    "RealCluster",
    "control_plane",
    "install_definitions",
    "real_client",
    "real_cluster",
    "real_namespace",
    "start_kubelet",
    "started",
]

BEAT_EVERY_S = 3.0
_numbers = itertools.count(1)

StartKubelet = Callable[..., Awaitable[FakeKubelet]]


# -- control planes


@contextlib.contextmanager
def started(folder: Path, definitions: list[Object], options: Options = QUICK) -> Iterator[ControlPlane]:
    """A control plane that has these custom resources."""
    with ControlPlane(folder, options) as plane:
        install_definitions(plane, definitions)
        yield plane


def install_definitions(plane: ControlPlane, definitions: list[Object]) -> None:
    for definition in definitions:
        plane.kubectl("apply", "-f", "-", stdin=json.dumps(definition))
    plane.wait_until_served(*(each["metadata"]["name"] for each in definitions))
    # It asks which kinds there are only every half a minute, or when it starts.
    plane.restart(Part.CONTROLLER_MANAGER)


@pytest.fixture(scope="package")
def control_plane(
    nothing_is_left_running: None,
    tmp_path_factory: pytest.TempPathFactory,
    custom_resource_definitions: list[Object],
) -> Iterator[ControlPlane]:
    """The control plane of the stories. Packages that need another one have a fixture of the same name."""
    with started(tmp_path_factory.mktemp("stories"), custom_resource_definitions) as plane:
        yield plane


# -- on a control plane


@pytest.fixture
async def real_client(control_plane: ControlPlane) -> AsyncIterator[Client]:
    """Return a client with the administrator's permissions."""
    async with HttpTransport(load_cluster_access(control_plane.kubeconfig)) as transport:
        yield Client(transport)


@pytest.fixture
async def real_namespace(real_client: Client) -> AsyncIterator[str]:
    """Deleted afterwards; nothing waits until it is gone."""
    name = f"test-{next(_numbers)}"
    metadata = {"name": name}
    await real_client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    yield name
    await real_client.delete(NAMESPACES, name)


@pytest.fixture
async def start_kubelet(real_client: Client) -> AsyncIterator[StartKubelet]:
    """start_kubelet(behaviour, nodes=3): a fake kubelet, whose name is the value of a label of its nodes.

    The nodes are ready for pods: the controller manager has taken off the taint that new nodes have. With
    `nodes=0` and a name, the kubelet takes over the nodes of another one.
    """
    async with contextlib.AsyncExitStack() as stack:

        async def begin(behaviour: Any = None, nodes: int = 2, name: str = "") -> FakeKubelet:
            name = name or f"kubelet-{next(_numbers)}"
            kubelet = FakeKubelet(
                real_client, load_behaviour(behaviour), name=name, beat_every_s=BEAT_EVERY_S
            )
            await stack.enter_async_context(kubelet.running())
            stack.push_async_callback(kubelet.remove_registered)
            await kubelet.register(node_shapes(nodes, name))
            if nodes:
                await until_usable(real_client, kubelet, nodes)
            return kubelet

        yield begin


@dataclass
class RealCluster:
    control_plane: ControlPlane
    client: Client
    namespace: str
    start_kubelet: StartKubelet
    folder: Path
    _stack: contextlib.AsyncExitStack = field(default_factory=contextlib.AsyncExitStack)

    def now(self) -> datetime:
        return datetime.now(UTC)

    async def connect_as(self, account: str) -> Client:
        """Return a client that acts as this service account, as it is installed."""
        kubeconfig = await asyncio.to_thread(
            kubeconfig_as, self.control_plane, account, self.namespace, self.folder
        )
        client = Client(HttpTransport(load_cluster_access(kubeconfig)))
        self._stack.push_async_callback(client.close)
        return client

    async def sandbox(self, nodes: int = 4) -> Sandbox:
        kubelet = await self.start_kubelet({"pods": [AT_ONCE]}, nodes=nodes)
        return Sandbox(self.client, self.namespace, kubelet, await until_usable(self.client, kubelet, nodes))

    @contextlib.asynccontextmanager
    async def controllers_stopped(self) -> AsyncIterator[None]:
        await asyncio.to_thread(self.control_plane.stop_part, Part.CONTROLLER_MANAGER)
        try:
            yield
        finally:
            await asyncio.to_thread(self.control_plane.start_part, Part.CONTROLLER_MANAGER)

    async def configure_extenders(self, *extenders: Extender) -> None:
        options = replace(self.control_plane.options, extenders=extenders)
        await asyncio.to_thread(self.control_plane.restart, Part.SCHEDULER, options)

    def usage_served(self, kubelet: FakeKubelet) -> AbstractAsyncContextManager[UsageApi]:
        return UsageApi(self.client, kubelet).running()

    def ephemeral_volume_controller(self) -> AbstractAsyncContextManager[None]:
        """The controller manager has it."""
        return contextlib.nullcontext()

    async def kubectl(self, *arguments: str) -> str:
        return await asyncio.to_thread(self.control_plane.kubectl, *arguments)

    async def close(self) -> None:
        await self._stack.aclose()


@pytest.fixture
async def real_cluster(
    control_plane: ControlPlane,
    real_client: Client,
    real_namespace: str,
    start_kubelet: StartKubelet,
    tmp_path: Path,
) -> AsyncIterator[RealCluster]:
    cluster = RealCluster(control_plane, real_client, real_namespace, start_kubelet, tmp_path)
    yield cluster
    await cluster.close()
