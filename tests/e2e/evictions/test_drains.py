"""An unmodified `kubectl drain`, on the real control plane: pods move first, and none is ever missing."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from rescheduler.kube.client import Client
from tests.e2e.evictions.conftest import Installed
from tests.stories.observer import observing
from tests.stories.sandbox import AT_ONCE, Sandbox, node_of, until_usable


@pytest.mark.parametrize(
    ("replicas", "budget"),
    [
        pytest.param(1, {"minAvailable": 1}, id="a single replica under minAvailable 1"),
        pytest.param(3, {"maxUnavailable": 0}, id="three replicas under maxUnavailable 0"),
        pytest.param(1, None, id="a single replica without a budget", marks=pytest.mark.full),
    ],
)
async def test_drain(
    replicas: int, budget: dict[str, int] | None, installed: Installed, sandbox: Sandbox
) -> None:
    """ends, and as many pods as requested were ready all the time."""
    await sandbox.deployment(replicas)
    if budget is not None:
        await sandbox.budget(**budget)
    await installed.start()
    node = node_of((await sandbox.pods())[0])
    async with observing(sandbox.client, sandbox.namespace) as seen:
        done = await installed.drain(node)
    assert done.code == 0, done.out
    assert "is being moved to" in done.out, done.out
    assert min(seen.ready) >= replicas, seen.ready
    assert all(node_of(pod) != node for pod in await sandbox.until_ready(replicas))


@pytest.mark.full
@pytest.mark.parametrize("webhook_dies", [False, True], ids=["", "with the webhook killed in the middle"])
async def test_five_of_twenty_nodes_in_parallel(
    webhook_dies: bool,
    installed: Installed,
    client: Client,
    namespace: str,
    start_kubelet: Callable[..., Awaitable[Any]],
) -> None:
    """All are drained, and not one of the single replicas under budgets that allow nothing was missing.

    With the webhook killed in the middle it is as without rescheduler: the budgets refuse the rest, and what
    was begun is finished.
    """
    kubelet = await start_kubelet({"pods": [AT_ONCE]}, nodes=20)
    sandbox = Sandbox(client, namespace, kubelet, await until_usable(client, kubelet, 20))
    drained, others = sandbox.nodes[:5], sandbox.nodes[5:]
    await sandbox.cordon(*others)
    apps = [f"app-{number}" for number in range(10)]
    for app in apps:
        await sandbox.deployment(1, app=app)
        await sandbox.budget(app, app=app, minAvailable=1)
    await sandbox.cordon(*others, on=False)
    sandbox.behave({"startup": "1s", "termination": "0s"})
    await installed.start()
    async with contextlib.AsyncExitStack() as stack:
        seen = [await stack.enter_async_context(observing(client, namespace, app)) for app in apps]
        drains = [asyncio.create_task(installed.drain(node, timeout_s=90)) for node in drained]
        if webhook_dies:
            assert installed.webhook is not None
            await installed.webhook.until_said("EvictionIntercepted", 3)
            installed.webhook.kill()
        done = await asyncio.gather(*drains)
    assert all(min(each.ready) >= 1 for each in seen), "0 ready-seconds lost"
    if not webhook_dies:
        assert [each.code for each in done] == [0] * 5, [each.out for each in done]
        for app in apps:
            assert all(node_of(pod) not in drained for pod in await sandbox.until_ready(1, app=app))
