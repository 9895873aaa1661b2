"""Recovery on either kind of cluster. On the control plane, all stories run at once beside one daemon."""

import asyncio
import contextlib
import functools
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from rescheduler.kube.api_resources import Object
from rescheduler.steering.steering_server import SteeringServer, SteeringServerOptions
from rescheduler.steering.webhook.webhook_configurations import UrlAddress
from tests.e2e.permissions import WEBHOOK
from tests.stories.cluster_kinds import CONTROL_PLANE, SIMULATOR, kind_of
from tests.stories.real_cluster import started
from tests.stories.recovery.concurrent_stories import (
    ConcurrentStories,
    Connect,
    Story,
    connecting,
    one_daemon,
)
from tests.stories.recovery.recovery_sandbox import MakeRecovery
from tests.stories.recovery.simulated_recovery import make_simulated_recovery, steered  # noqa: F401
from tests.testbed import ControlPlane
from tests.webhook_installed import install_webhook

HOME = "default"
"""The namespace of our own objects."""
STORY = pytest.StashKey[Story]()


def pytest_itemcollected(item: pytest.Item) -> None:
    """Let items on the control plane wait for their story, which runs among all others."""
    assert isinstance(item, pytest.Function)
    if kind_of(item) != CONTROL_PLANE:
        return
    story, cases = item.function, item.callspec.params
    wanted = inspect.signature(story).parameters
    item.stash[STORY] = functools.partial(story, **{name: cases[name] for name in cases if name in wanted})

    async def ended(make_recovery: ConcurrentStories, **_arguments: Any) -> None:
        await make_recovery.ended(item.nodeid)

    item.obj = ended


@pytest.fixture
def make_recovery(request: pytest.FixtureRequest, cluster_kind: str) -> MakeRecovery:
    """await make_recovery(nodes=4): a sandbox whose pods are ready at once, unless the story breaks them."""
    fixture = {SIMULATOR: "make_simulated_recovery", CONTROL_PLANE: "concurrent_stories"}[cluster_kind]
    return request.getfixturevalue(fixture)


@pytest.fixture(scope="package")
def control_plane(
    nothing_is_left_running: None,
    tmp_path_factory: pytest.TempPathFactory,
    custom_resource_definitions: list[Object],
) -> Iterator[ControlPlane]:
    """A control plane of its own: the daemon acts on the whole cluster."""
    with started(tmp_path_factory.mktemp("recovery"), custom_resource_definitions) as plane:
        yield plane


@pytest.fixture(scope="package")
def concurrent_stories(
    request: pytest.FixtureRequest,
    control_plane: ControlPlane,
    tmp_path_factory: pytest.TempPathFactory,
    unused_tcp_port_factory: Callable[[], int],
) -> Iterator[ConcurrentStories]:
    """Every story of this session, beside a daemon and a webhook that the API server calls."""
    folder, port = tmp_path_factory.mktemp("accounts"), unused_tcp_port_factory()

    @contextlib.asynccontextmanager
    async def program() -> AsyncIterator[MakeRecovery]:
        async with (
            connecting(control_plane, HOME, folder) as connect,
            _webhook(connect, port),
            one_daemon(connect, HOME) as make_recovery,
        ):
            yield make_recovery

    stories = {item.nodeid: item.stash[STORY] for item in request.session.items if STORY in item.stash}
    begun = ConcurrentStories(stories)
    with begun.running(program):
        yield begun


@contextlib.asynccontextmanager
async def _webhook(connect: Connect, port: int) -> AsyncIterator[None]:
    address = UrlAddress(f"https://127.0.0.1:{port}")
    await install_webhook(connect(), HOME, address)
    options = SteeringServerOptions(HOME, address, host="127.0.0.1", port=port, extender_port=0, drain_s=0.0)
    webhook, ended = SteeringServer(connect(WEBHOOK), options), asyncio.Event()
    # A webhook that can't start ends the test, which would wait for it forever.
    async with asyncio.TaskGroup() as group:
        group.create_task(webhook.run_until(ended))
        await webhook.registered()
        await webhook.ready()
        yield
        ended.set()
