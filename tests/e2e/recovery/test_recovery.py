"""The stories on a real control plane, several at a time: the webhook is called by its API server.

One program sees to all of them. Those that differ in details only are left to the simulator.
"""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import pytest
import pytest_asyncio

from rescheduler.kube.client import Client
from rescheduler.kube.resources import NAMESPACES
from rescheduler.simulator.behaviour import load_behaviour
from tests.e2e.facts.stage import AT_ONCE, Stage, until_usable
from tests.e2e.migrations.moving import wall_clock
from tests.e2e.permissions import DAEMON
from tests.e2e.recovery.conftest import HOME, PACE
from tests.e2e.recovery.stories import circumstances, deployments, workloads
from tests.e2e.recovery.ward import Ward, recovering
from tests.testbed.fake_kubelet import FakeKubelet, node_shapes

BEAT_EVERY_S = 3.0
PATIENCE_S = 150.0
pytestmark = pytest.mark.asyncio(loop_scope="module")


@dataclass(frozen=True)
class Story:
    name: str
    play: Callable[..., Any]
    arguments: dict[str, Any]


def _told_in(module: ModuleType) -> Iterator[Story]:
    for name, play in vars(module).items():
        if not name.startswith("test_") or play.__module__ != module.__name__ or hasattr(play, "is_alone"):
            continue
        title = name.removeprefix("test_").replace("_", " ")
        marks = [mark for mark in getattr(play, "pytestmark", ()) if mark.name == "parametrize"]
        if not marks:
            yield Story(title, play, {})
        for mark in marks:
            names = [mark.args[0]] if isinstance(mark.args[0], str) else list(mark.args[0])
            for case in mark.args[1]:
                yield Story(f"{title} {case.id}", play, dict(zip(names, case.values, strict=True)))


STORIES = [story for module in (deployments, workloads, circumstances) for story in _told_in(module)]
AT_ONCE_AT_MOST = 6


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def played(
    request: pytest.FixtureRequest, shared_connect: Callable[..., Client], shared_webhook: None
) -> AsyncIterator[dict[str, asyncio.Task[None]]]:
    """All that are asked for, from the beginning; each test waits for the end of one."""
    here = [item for item in request.session.items if item.path == request.path]
    asked = [item.callspec.params["story"] for item in here if isinstance(item, pytest.Function)]
    client, numbers = shared_connect(), itertools.count(1)
    terms = replace(PACE.terms, force_on_lost_nodes=True)
    policy = PACE.policy(failed_pods=terms, max_concurrent_migrations=100, max_reschedule_pods=100)

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
            return Ward(stage, wall_clock, PACE, shared_connect, policy, is_shared=True)

        await stack.enter_async_context(recovering(shared_connect(DAEMON), policy, HOME, wall_clock))
        places = asyncio.Semaphore(AT_ONCE_AT_MOST)

        async def play(story: Story) -> None:
            async with places:
                await story.play(ward, **story.arguments)

        tasks = {story.name: asyncio.create_task(play(story)) for story in asked}
        yield tasks
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)


@pytest.mark.parametrize("story", [pytest.param(story, id=story.name) for story in STORIES])
async def test_story(played: dict[str, asyncio.Task[None]], story: Story) -> None:
    async with asyncio.timeout(PATIENCE_S):
        await asyncio.shield(played[story.name])
