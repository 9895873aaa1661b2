"""A controller that ends in the middle, once for each handover; everywhere else on the simulator."""

import asyncio
from collections.abc import Callable

import pytest

from rescheduler.controller.followed import POD_MIGRATIONS
from rescheduler.kube.client import Client
from rescheduler.kube.resources import DEPLOYMENTS, Object
from rescheduler.kube.transport import Request, Response, Transport
from rescheduler.model.migrations import Phase
from tests.e2e.facts.observer import observing
from tests.e2e.facts.stage import Stage
from tests.e2e.migrations.moving import SetMoves
from tests.e2e.migrations.workloads import stateful_set


class EndsAt:
    """A way to the server that does one more request, and of that one the answer never comes."""

    def __init__(self, transport: Transport, is_last: Callable[[Request], bool]) -> None:
        self._transport = transport
        self._is_last = is_last
        self.ended = asyncio.Event()

    async def send(self, request: Request) -> Response:
        response = await self._transport.send(request)
        if self.ended.is_set() or self._is_last(request):
            await response.read()
            self.ended.set()
            await asyncio.get_running_loop().create_future()
        return response

    async def close(self) -> None:
        """The transport is somebody else's."""


def is_eviction(request: Request) -> bool:
    return request.path.endswith("/eviction")


def is_new_pod(request: Request) -> bool:
    return request.method == "POST" and request.path.endswith("/pods")


async def deployed(stage: Stage) -> None:
    await stage.deployment(2)
    await stage.budget(maxUnavailable=0)


async def bare(stage: Stage) -> None:
    await stage.until_pod_ready(await stage.pod("web"))


async def stateful(stage: Stage) -> None:
    await stateful_set(stage, 3)


@pytest.mark.parametrize(
    ("set_up", "replicas", "last"),
    [
        pytest.param(deployed, 2, is_new_pod, id="Adopt, when the copy is created"),
        pytest.param(deployed, 2, is_eviction, id="Adopt, when the source is evicted"),
        pytest.param(bare, 1, is_eviction, id="Copy, when the source is evicted"),
        pytest.param(stateful, 3, is_eviction, id="Evict, when the source is evicted"),
    ],
)
async def test_another_controller_finishes_what_one_has_begun(
    set_moves: SetMoves, set_up: Callable, replicas: int, last: Callable[[Request], bool]
) -> None:
    moves = await set_moves()
    stage = moves.stage
    await set_up(stage)
    source = (await stage.pods())[0]
    stage.behave({"startup": "1s", "termination": "0s"})
    target = await stage.free_node()
    await stage.cordon(*(node for node in stage.nodes if node != target))
    async with observing(moves.client, stage.namespace) as seen:
        key = await moves.wish(source, target)
        first = EndsAt(moves.client.transport, last)
        async with moves.executing(Client(first)):
            await asyncio.wait_for(first.ended.wait(), 60)
        async with moves.executing():
            migration = await moves.until_finished(key)
            await moves.until_nothing_left()
            await stage.until_ready(replicas)
    assert migration.status.phase is Phase.COMPLETED, migration.status
    assert set_up is stateful or min(seen.ready) == replicas


@pytest.mark.parametrize(
    ("set_up", "replicas"),
    [pytest.param(deployed, 2, id="Adopt"), pytest.param(bare, 1, id="Copy")],
)
async def test_a_copy_outlives_a_migration_that_is_removed_by_force_after_the_eviction(
    set_moves: SetMoves, set_up: Callable, replicas: int
) -> None:
    moves = await set_moves()
    stage = moves.stage
    await set_up(stage)
    source = (await stage.pods())[0]
    stage.behave({"startup": "1s", "termination": "3s"})
    async with observing(moves.client, stage.namespace) as seen:
        key = await moves.wish(source, await stage.free_node())
        first = EndsAt(moves.client.transport, is_eviction)
        async with moves.executing(Client(first)):
            await asyncio.wait_for(first.ended.wait(), 60)
        item = await moves.client.get(POD_MIGRATIONS, key)
        del item["metadata"]["finalizers"]
        await moves.client.replace(POD_MIGRATIONS, item)
        await moves.client.delete(POD_MIGRATIONS, key, propagation="Foreground")
        async with moves.executing():
            await moves.until_nothing_left()
            await stage.until_ready(replicas)
    assert min(seen.ready) == replicas


async def test_a_workload_deleted_after_the_eviction_takes_the_copy_with_it(set_moves: SetMoves) -> None:
    moves = await set_moves()
    stage = moves.stage
    await deployed(stage)
    source = (await stage.pods())[0]
    key = await moves.wish(source, await stage.free_node())
    first = EndsAt(moves.client.transport, is_eviction)
    async with moves.executing(Client(first)):
        await asyncio.wait_for(first.ended.wait(), 60)
    await moves.client.delete(DEPLOYMENTS, stage.key("web"), propagation="Background")
    # Ours as well as its ReplicaSet's, the copy stays for now, and the ReplicaSet is no longer named on it.
    await moves.until_pods(lambda pods: len(pods) == 1 and owner_kinds(*pods.values()) == ["PodMigration"])
    async with moves.executing():
        migration = await moves.until_finished(key)
        await moves.until_served(0)
    assert migration.status.failure == "WorkloadGone"
    await moves.until_nothing_left()


def owner_kinds(pod: Object) -> list[str]:
    return [owner["kind"] for owner in pod["metadata"].get("ownerReferences", ())]
