"""Stories on a real control plane, several at a time: each in a ward of its own, and one program sees to all.

Those that differ in details only are left to the simulator.
"""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from kubesim.behaviour import load_behaviour
from rescheduler.config.policy import FailedPodsPolicy
from rescheduler.kube.access.cluster_config import load_cluster_access
from rescheduler.kube.api_resources import NAMESPACES
from rescheduler.kube.client import Client
from rescheduler.kube.http_transport import HttpTransport
from tests.e2e.facts.stage import AT_ONCE, Stage, until_usable
from tests.e2e.migrations.moving import wall_clock
from tests.e2e.permissions import DAEMON, kubeconfig_as
from tests.e2e.recovery.program import Pace, recovering
from tests.e2e.recovery.ward import Ward
from tests.testbed import ControlPlane
from tests.testbed.fake_kubelet import FakeKubelet, node_shapes

__all__ = ["PACE", "Connect", "Playing", "Story", "connecting", "playing", "stories_in", "story_of"]

SHORT = timedelta(seconds=2)
PACE = Pace(
    FailedPodsPolicy(
        recovery_window=3 * SHORT, restart_threshold=1, stuck_after=SHORT, node_lost_after=SHORT
    ),
    check_every=timedelta(seconds=1),
    timeout_s=90.0,
)
BEAT_EVERY_S = 3.0
PATIENCE_S = 150.0
AT_ONCE_AT_MOST = 6

Connect = Callable[..., Client]
"""connect(): as administrator; connect(DAEMON): as the service account of that program."""


# -- what is told


@dataclass(frozen=True)
class Story:
    name: str
    play: Callable[..., Any]
    arguments: dict[str, Any]


def stories_in(*modules: ModuleType) -> Iterator[Story]:
    """All of them, but those that need a program of their own."""
    for module in modules:
        for name, play in vars(module).items():
            is_its_own = name.startswith("test_") and play.__module__ == module.__name__
            if is_its_own and not hasattr(play, "is_alone"):
                yield from story_of(play)


def story_of(play: Callable[..., Any]) -> Iterator[Story]:
    """One, or as many as it has cases."""
    title = play.__name__.removeprefix("test_").replace("_", " ")
    marks = [mark for mark in getattr(play, "pytestmark", ()) if mark.name == "parametrize"]
    if not marks:
        yield Story(title, play, {})
    for mark in marks:
        names = [mark.args[0]] if isinstance(mark.args[0], str) else list(mark.args[0])
        for case in mark.args[1]:
            yield Story(f"{title} {case.id}", play, dict(zip(names, case.values, strict=True)))


# -- who plays it


@contextlib.asynccontextmanager
async def connecting(control_plane: ControlPlane, home: str, folder: Path) -> AsyncIterator[Connect]:
    """Our programs' objects are in the namespace `home`."""
    clients: list[Client] = []

    def made(account: str = "") -> Client:
        kubeconfig = control_plane.kubeconfig
        if account:
            kubeconfig = kubeconfig_as(control_plane, account, home, folder)
        clients.append(Client(HttpTransport(load_cluster_access(kubeconfig))))
        return clients[-1]

    yield made
    for client in clients:
        await client.close()


@dataclass(frozen=True)
class Playing:
    """What was begun; each test waits for the end of one."""

    tasks: dict[str, asyncio.Task[None]]

    async def ends(self, story: Story) -> None:
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.shield(self.tasks[story.name])


@contextlib.asynccontextmanager
async def playing(
    request: pytest.FixtureRequest, connect: Connect, home: str, *, by_extender: bool = False
) -> AsyncIterator[Playing]:
    """All stories that the tests of this file are asked for, from the beginning.

    `by_extender`: replacements are steered by the extender, and by no webhook.
    """
    here = [item for item in request.session.items if item.path == request.path]
    asked = [item.callspec.params["story"] for item in here if isinstance(item, pytest.Function)]
    policy = PACE.policy(
        failed_pods=replace(PACE.terms, force_on_lost_nodes=True),
        max_concurrent_migrations=100,
        max_reschedule_pods=100,
        scheduler_extender=by_extender,
    )
    client, numbers = connect(), itertools.count(1)
    async with contextlib.AsyncExitStack() as stack:

        async def ward(nodes: int = 4) -> Ward:
            name = f"ward-{next(numbers)}"
            metadata = {"name": name}
            await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
            behaviour = load_behaviour({"pods": [AT_ONCE]})
            kubelet = FakeKubelet(client, behaviour, name=name, beat_every_s=BEAT_EVERY_S)
            await stack.enter_async_context(kubelet.running())
            await kubelet.register(node_shapes(nodes, name))
            stage = Stage(client, name, kubelet, await until_usable(client, kubelet, nodes))
            shared = Ward(stage, wall_clock, PACE, connect, policy, is_shared=True)
            return replace(shared, leaves_marks=not by_extender)

        await stack.enter_async_context(recovering(connect(DAEMON), policy, home, wall_clock))
        places = asyncio.Semaphore(AT_ONCE_AT_MOST)

        async def play(story: Story) -> None:
            async with places:
                await story.play(ward, **story.arguments)

        tasks = {story.name: asyncio.create_task(play(story)) for story in asked}
        yield Playing(tasks)
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)
