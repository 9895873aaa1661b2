"""One real control plane for all of a test run; each test has its own namespace and its own fake nodes."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest

from kubesim.behaviour import load_behaviour
from rescheduler.kube.access.cluster_config import load_cluster_access
from rescheduler.kube.api_resources import NAMESPACES
from rescheduler.kube.client import Client
from rescheduler.kube.http_transport import HttpTransport
from tests.testbed import ControlPlane, leftovers
from tests.testbed.fake_kubelet import FakeKubelet, node_shapes
from tests.testbed.options import QUICK

BEAT_EVERY_S = 3.0
_numbers = itertools.count(1)

Begin = Callable[..., Awaitable[FakeKubelet]]
Eventually = Callable[..., Awaitable[Any]]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What all others have had our programs ask for is looked at in the end."""
    items.sort(key=lambda item: item.path.name == "test_permissions.py")


@pytest.fixture(scope="session", autouse=True)
def nothing_is_left_running() -> Iterator[None]:
    """Set up before every other fixture, so that it looks after all of them have gone."""
    yield
    assert leftovers() == [], "a test run leaves nothing running"


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with ControlPlane(tmp_path_factory.mktemp("control-plane"), QUICK) as started:
        yield started


@pytest.fixture
async def client(control_plane: ControlPlane) -> AsyncIterator[Client]:
    made = Client(HttpTransport(load_cluster_access(control_plane.kubeconfig)))
    yield made
    await made.close()


@pytest.fixture
async def namespace(client: Client) -> AsyncIterator[str]:
    """Gone afterwards, but nobody waits for it."""
    name = f"test-{next(_numbers)}"
    await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield name
    await client.delete(NAMESPACES, name)


@pytest.fixture
async def play(client: Client, eventually: Eventually) -> AsyncIterator[Begin]:
    """play(behaviour, nodes=3): a fake kubelet with nodes of its own, whose label's value is its name.

    The nodes are ready for pods: the controller manager has taken off the taint that new nodes have.
    """
    async with contextlib.AsyncExitStack() as stack:

        async def begin(behaviour: Any = None, nodes: int = 2, name: str = "") -> FakeKubelet:
            name = name or f"kubelet-{next(_numbers)}"
            kubelet = FakeKubelet(client, load_behaviour(behaviour), name=name, beat_every_s=BEAT_EVERY_S)
            await stack.enter_async_context(kubelet.running())
            stack.push_async_callback(kubelet.remove_registered)
            await kubelet.register(node_shapes(nodes, name))
            await eventually(schedulable(kubelet, nodes))
            return kubelet

        yield begin


@pytest.fixture
def eventually() -> Eventually:
    """await eventually(look, timeout_s=…): asks until the answer is true, and returns it."""

    async def wait(look: Callable[[], Awaitable[Any]], timeout_s: float = 60.0) -> Any:
        seen: Any = None
        try:
            async with asyncio.timeout(timeout_s):
                while not (seen := await look()):  # noqa: ASYNC110 - only asking tells
                    await asyncio.sleep(0.1)
        except TimeoutError:
            pytest.fail(f"not so within {timeout_s:g} s; last seen: {seen!r}")
        return seen

    return wait


def schedulable(kubelet: FakeKubelet, count: int) -> Callable[[], Awaitable[bool]]:
    async def look() -> bool:
        free = [played for played in kubelet.played.values() if not played.node["spec"].get("taints")]
        return len(free) >= count

    return look
