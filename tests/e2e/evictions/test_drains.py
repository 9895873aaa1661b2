"""An unmodified `kubectl drain`, on the real control plane: pods move first, and none is ever missing."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from rescheduler.api.podmigration import MigrationPhase, decode_migration
from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS
from rescheduler.kube.api_resources import Object, api_resource
from rescheduler.kube.client import Client
from tests.e2e.evictions.conftest import Installed
from tests.stories.observer import observing
from tests.stories.sandbox import AT_ONCE, Sandbox, node_of, until_usable
from tests.stories.waiting import until


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
    assert await _reports_interception(sandbox.client) >= {"Pod", "Deployment", "Node"}


@pytest.mark.full
@pytest.mark.parametrize(
    ("replicas", "budget", "has_room"),
    [
        pytest.param(1, {"minAvailable": 1}, True, id="a single replica under minAvailable 1"),
        pytest.param(3, {"maxUnavailable": 0}, True, id="three replicas under maxUnavailable 0"),
        pytest.param(1, {"minAvailable": 1}, False, id="no room"),
        pytest.param(1, None, True, id="a single replica without a budget"),
    ],
)
async def test_drain_without_rescheduler(
    replicas: int, budget: dict[str, int] | None, has_room: bool, installed: Installed, sandbox: Sandbox
) -> None:
    """What the same drain does by itself: it never gets past the budget, or takes the replica down."""
    await sandbox.deployment(replicas)
    if budget is not None:
        await sandbox.budget(**budget)
    node = node_of((await sandbox.pods())[0])
    if not has_room:
        await sandbox.cordon(*sandbox.nodes)
    async with observing(sandbox.client, sandbox.namespace) as seen:
        done = await installed.drain(node, timeout_s=20)
        if budget is None:
            await sandbox.until_ready(replicas)
    print(f"{done.code}: ready-seconds lost: {seen.lost_s(replicas)}")
    assert (done.code == 0) is (budget is None), done.out
    assert (seen.lost_s(replicas) > 0) is (budget is None)


async def _reports_interception(client: Client) -> set[str]:
    """The kinds of objects that have the Event."""
    events = api_resource("", "v1", "events", "Event")
    found = (await client.list(events)).items
    return {each["involvedObject"]["kind"] for each in found if each["reason"] == "EvictionIntercepted"}


@pytest.mark.full
async def test_with_the_daemon_killed_in_the_middle(installed: Installed, sandbox: Sandbox) -> None:
    """Another takes over, and finishes what was begun. The budget keeps the pod in the meantime."""
    await sandbox.deployment(1)
    await sandbox.budget(minAvailable=1)
    await installed.start()
    node = node_of((await sandbox.pods())[0])
    sandbox.start_slowly()
    async with observing(sandbox.client, sandbox.namespace) as seen:
        draining = asyncio.create_task(installed.drain(node))
        assert installed.daemon is not None
        await installed.daemon.until_said("EvictionIntercepted")
        installed.daemon.kill()
        sandbox.behave({"startup": "1s", "termination": "0s"})
        await installed.start_daemon()
        done = await draining
    assert done.code == 0, done.out
    assert min(seen.ready) >= 1, seen.ready
    assert all(node_of(pod) != node for pod in await sandbox.until_ready(1))


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
    sources = {app: (await sandbox.pods(app))[0]["metadata"]["uid"] for app in apps}
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
    refused = {node: each.out for node, each in zip(drained, done, strict=True) if each.code}
    assert webhook_dies or not refused, refused
    assert all("would violate the pod's disruption budget" in out for out in refused.values()), refused
    phases = await until(client, POD_MIGRATIONS, namespace, _phases_in_the_end)
    assert len(phases) >= (3 if webhook_dies else len(apps)), "as many evictions were intercepted"
    for app, source in sources.items():
        (pod,) = await sandbox.until_ready(1, app=app)
        if node_of(pod) in drained:
            assert node_of(pod) in refused, app
            assert pod["metadata"]["uid"] == source, app
            assert phases.get(source) is not MigrationPhase.COMPLETED, app


def _phases_in_the_end(items: Mapping[str, Object]) -> dict[str, MigrationPhase]:
    """Return how each pod's migration ended, by the uid of the pod; empty until all have ended."""
    migrations = [decode_migration(each) for each in items.values()]
    if not all(each.is_finished for each in migrations):
        return {}
    return {each.spec.pod.uid: each.status.phase for each in migrations}
