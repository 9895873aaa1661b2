"""A controller crashes in the middle of a migration, once per handover; the simulator covers every call."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import pytest

from rescheduler.api.podmigration import Migration, MigrationPhase
from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS
from rescheduler.kube.api_resources import DEPLOYMENTS, REPLICA_SETS, ApiResource, Object
from rescheduler.kube.client import Client
from rescheduler.kube.transport import ApiRequest, ApiResponse, Transport
from tests.stories.migrations.moves import MakeMoves, Moves
from tests.stories.migrations.workloads import stateful_set
from tests.stories.objects import LIMIT_RANGES, ready_since
from tests.stories.observer import Observer, observing
from tests.stories.sandbox import Sandbox, node_of
from tests.stories.waiting import until_gone


class EndsAt:
    """A transport that hangs after one last request, as if its process had crashed."""

    def __init__(self, transport: Transport, is_last: Callable[[ApiRequest], bool]) -> None:
        self._transport = transport
        self._is_last = is_last
        self.ended = asyncio.Event()

    async def send(self, request: ApiRequest) -> ApiResponse:
        response = await self._transport.send(request)
        if self.ended.is_set() or self._is_last(request):
            await response.read()
            self.ended.set()
            await asyncio.get_running_loop().create_future()
        return response

    async def close(self) -> None:
        """The transport belongs to the caller."""


def is_eviction(request: ApiRequest) -> bool:
    return request.path.endswith("/eviction")


def is_new_pod(request: ApiRequest) -> bool:
    return request.method == "POST" and request.path.endswith("/pods")


async def deployed(sandbox: Sandbox) -> None:
    await sandbox.deployment(2)
    await sandbox.budget(maxUnavailable=0)


async def replicated(sandbox: Sandbox) -> None:
    await sandbox.replica_set(2)


async def bare(sandbox: Sandbox) -> None:
    await sandbox.until_pod_ready(await sandbox.pod("web"))


async def stateful(sandbox: Sandbox) -> None:
    await stateful_set(sandbox, 3)


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
    make_moves: MakeMoves, set_up: Callable, replicas: int, last: Callable[[ApiRequest], bool]
) -> None:
    moves = await make_moves()
    await set_up(moves.sandbox)
    async with moving_until(moves, last) as (key, seen):
        migration = await finished_by_another(moves, key, replicas)
    assert migration.status.phase is MigrationPhase.COMPLETED, migration.status
    assert set_up is stateful or min(seen.ready) == replicas


@contextlib.asynccontextmanager
async def moving_until(
    moves: Moves, last: Callable[[ApiRequest], bool]
) -> AsyncIterator[tuple[str, Observer]]:
    """Move a pod to the only open node, by a controller that crashes after the request `last`."""
    sandbox = moves.sandbox
    source = (await sandbox.pods())[0]
    sandbox.behave({"startup": "1s", "termination": "0s"})
    target = await sandbox.free_node()
    await sandbox.cordon(*(node for node in sandbox.nodes if node != target))
    async with observing(moves.client, sandbox.namespace) as seen:
        key = await moves.create_migration(source, target)
        first = EndsAt(moves.client.transport, last)
        async with moves.executing(Client(first)):
            await asyncio.wait_for(first.ended.wait(), 60)
        yield key, seen


async def finished_by_another(moves: Moves, key: str, replicas: int) -> Migration:
    async with moves.executing():
        migration = await moves.until_finished(key)
        await moves.until_nothing_left()
        await moves.sandbox.until_ready(replicas)
    return migration


@pytest.mark.parametrize(
    ("set_up", "replicas"),
    [pytest.param(deployed, 2, id="Adopt"), pytest.param(bare, 1, id="Copy")],
)
async def test_migration_removed_by_force_after_the_eviction(
    make_moves: MakeMoves, set_up: Callable, replicas: int
) -> None:
    """The copy stays."""
    moves = await make_moves()
    sandbox = moves.sandbox
    await set_up(sandbox)
    source = (await sandbox.pods())[0]
    sandbox.behave({"startup": "1s", "termination": "3s"})
    async with observing(moves.client, sandbox.namespace) as seen:
        key = await moves.create_migration(source, await sandbox.free_node())
        first = EndsAt(moves.client.transport, is_eviction)
        async with moves.executing(Client(first)):
            await asyncio.wait_for(first.ended.wait(), 60)
        item = await moves.client.get(POD_MIGRATIONS, key)
        del item["metadata"]["finalizers"]
        await moves.client.replace(POD_MIGRATIONS, item)
        await moves.client.delete(POD_MIGRATIONS, key, propagation="Foreground")
        async with moves.executing():
            await sandbox.until_ready(replicas)
            # No process has seen its removal: the marks stay, and mean nothing.
            await moves.until_pods(lambda pods: not any(map(is_held, pods.values())))
    assert min(seen.ready) == replicas


def is_held(pod: Object) -> bool:
    """Whether anything of ours still has an effect on the pod."""
    owners = pod["metadata"].get("ownerReferences", ())
    return bool(pod["spec"].get("schedulingGates")) or any(each["kind"] == "PodMigration" for each in owners)


async def evicted_and_crashed(moves: Moves) -> str:
    """The key of a migration whose source is gone, and whose copy still waits to be offered."""
    source = (await moves.sandbox.pods())[0]
    key = await moves.create_migration(source, await moves.sandbox.free_node())
    first = EndsAt(moves.client.transport, is_eviction)
    async with moves.executing(Client(first)):
        await asyncio.wait_for(first.ended.wait(), 60)
    return key


@pytest.mark.parametrize(
    ("set_up", "workload"),
    [
        pytest.param(deployed, DEPLOYMENTS, id="a Deployment"),
        pytest.param(replicated, REPLICA_SETS, id="a ReplicaSet of its own"),
    ],
)
async def test_a_workload_deleted_after_the_eviction_takes_the_copy_with_it(
    make_moves: MakeMoves, set_up: Callable, workload: ApiResource[Object]
) -> None:
    moves = await make_moves()
    sandbox = moves.sandbox
    await set_up(sandbox)
    key = await evicted_and_crashed(moves)
    await moves.client.delete(workload, sandbox.key("web"), propagation="Background")
    # Ours as well as its ReplicaSet's, the copy stays for now, and the ReplicaSet is no longer named on it.
    await moves.until_pods(lambda pods: len(pods) == 1 and owner_kinds(*pods.values()) == ["PodMigration"])
    async with moves.executing():
        migration = await moves.until_finished(key)
        await moves.until_served(0)
    assert migration.status.failure == "WorkloadGone"
    await moves.until_nothing_left()


async def test_workload_orphans_its_pods_after_the_eviction(make_moves: MakeMoves) -> None:
    """The copy stays, too."""
    moves = await make_moves()
    sandbox = moves.sandbox
    await replicated(sandbox)
    key = await evicted_and_crashed(moves)
    copy = await moves.copy_of(key)
    await moves.client.delete(REPLICA_SETS, sandbox.key("web"), propagation="Orphan")
    await until_gone(moves.client, REPLICA_SETS, sandbox.key("web"))
    async with moves.executing():
        migration = await moves.until_finished(key)
        await moves.until_nothing_left()
    assert migration.status.phase is MigrationPhase.COMPLETED, migration.status
    after = await moves.client.get(PODS.as_json, sandbox.key(copy["metadata"]["name"]))
    assert after["metadata"]["uid"] == copy["metadata"]["uid"]
    assert "deletionTimestamp" not in after["metadata"]
    assert owner_kinds(after) == []


async def test_a_copy_that_admission_changed_is_noticed_by_the_next_leader(make_moves: MakeMoves) -> None:
    moves = await make_moves(nodes=2)
    sandbox = moves.sandbox
    await sandbox.deployment(1)
    (source,) = await sandbox.pods()
    metadata = {"namespace": sandbox.namespace, "name": "limits"}
    spec = {"limits": [{"type": "Container", "default": {"cpu": "1"}}]}
    await moves.client.create(LIMIT_RANGES, {"metadata": metadata, "spec": spec})
    key = await moves.create_migration(source, await sandbox.free_node())
    first = EndsAt(moves.client.transport, is_new_pod)
    async with moves.executing(Client(first)):
        await asyncio.wait_for(first.ended.wait(), 60)
    async with moves.executing():
        migration = await moves.until_finished(key)
        await moves.until_nothing_left()
    assert migration.status.failure == "AdmissionDiffers"
    (after,) = await sandbox.until_ready(1)
    assert after["metadata"]["uid"] == source["metadata"]["uid"]


async def test_a_copy_that_falters_after_the_eviction_is_not_removed(make_moves: MakeMoves) -> None:
    """There is only forward: that the eviction may be under way was put on record before it was asked for."""
    moves = await make_moves()
    sandbox = moves.sandbox
    await deployed(sandbox)
    key = await evicted_and_crashed(moves)
    on_target = {"node": node_of(await moves.copy_of(key))}
    sandbox.behave({"match": on_target, "readiness": "never", "startup": "0s", "termination": "0s"})
    await moves.copy_of(key, lambda pod: not ready_since(pod))
    async with moves.executing():
        migration = await moves.until_finished(key)
        await moves.until_nothing_left()
    assert migration.status.phase is MigrationPhase.COMPLETED, migration.status
    assert migration.status.failure == ""


def owner_kinds(pod: Object) -> list[str]:
    return [owner["kind"] for owner in pod["metadata"].get("ownerReferences", ())]
