"""The source pod is never evicted if the copy's node is lost, although the copy still says it is ready."""

from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from rescheduler.api.podmigration import Handover, Migration, MigrationPhase
from rescheduler.cluster.codecs.record_resources import NODES
from rescheduler.kube.api_resources import Object, merge_patch
from tests.stories.migrations.moves import MakeMoves, Moves
from tests.stories.migrations.workloads import stateful_set
from tests.stories.objects import ready_since
from tests.stories.observer import observing
from tests.stories.sandbox import node_of

Lose = Callable[[Moves, str], Awaitable[None]]


async def deleted(moves: Moves, node: str) -> None:
    await moves.client.delete(NODES, node)


async def not_ready(moves: Moves, node: str) -> None:
    await moves.lose_node(node)


async def being_deleted(moves: Moves, node: str) -> None:
    """Delete the node as an autoscaler does: its finalizer holds it while its pods are drained."""
    held = merge_patch({"metadata": {"finalizers": ["example.com/drain"]}})
    await moves.client.patch(NODES, node, held)
    await moves.client.delete(NODES, node)


async def tainted(moves: Moves, node: str) -> None:
    taints = [{"key": "example.com/broken", "effect": "NoExecute"}]
    await moves.client.patch(NODES, node, merge_patch({"spec": {"taints": taints}}))


LOSSES = [
    pytest.param(deleted, id="deleted"),
    pytest.param(not_ready, id="not ready"),
    pytest.param(being_deleted, id="being deleted"),
    pytest.param(tainted, id="tainted so that the copy is evicted"),
]


async def as_before(moves: Moves, source: Object, migration: Migration) -> None:
    """The source serves as it did, and the migration says that it did not move."""
    assert migration.status.phase is MigrationPhase.FAILED, migration.status
    assert migration.status.failure in {"TargetLost", "CopyGone"}, migration.status
    assert migration.status.handed_over_at is None
    (after,) = [pod for pod in await moves.sandbox.pods() if node_of(pod) == node_of(source)]
    assert after["metadata"]["uid"] == source["metadata"]["uid"]
    assert ready_since(after)
    assert after["metadata"].get("labels") == source["metadata"].get("labels")


async def released(moves: Moves, node: str) -> None:
    nodes = {each.name: each for each in (await moves.client.list(NODES)).items}
    if node in nodes and nodes[node].deleted_s is not None:
        await moves.client.patch(NODES, node, merge_patch({"metadata": {"finalizers": None}}))


@pytest.mark.parametrize("lose", LOSSES)
@pytest.mark.parametrize("handover", [Handover.ADOPT, pytest.param(Handover.COPY, marks=pytest.mark.full)])
async def test_while_the_copy_settles_its_node_is(
    make_moves: MakeMoves, handover: Handover, lose: Lose
) -> None:
    moves: Moves = await make_moves(nodes=2, settle_time=timedelta(seconds=12), max_retries=0)
    sandbox = moves.sandbox
    if handover is Handover.ADOPT:
        await sandbox.deployment(1, minReadySeconds=12)
        (source,) = await sandbox.pods()
    else:
        source = await sandbox.until_pod_ready(await sandbox.pod("web"))
    target = await sandbox.free_node()
    key = await moves.create_migration(source, target)
    async with observing(moves.client, sandbox.namespace) as seen, moves.executing():
        await moves.copy_of(key, ready_since)
        await lose(moves, target)
        migration = await moves.until_finished(key)
    await released(moves, target)
    await as_before(moves, source, migration)
    assert source["metadata"]["name"] not in seen.deleted


@pytest.mark.parametrize("lose", LOSSES)
async def test_while_the_eviction_waits_for_a_budget_the_target_is(make_moves: MakeMoves, lose: Lose) -> None:
    moves: Moves = await make_moves(nodes=2, max_retries=0)
    sandbox = moves.sandbox
    await sandbox.deployment(1)
    guard = await sandbox.budget(minAvailable=5)
    (source,) = await sandbox.pods()
    target = await sandbox.free_node()
    key = await moves.create_migration(source, target)
    async with moves.executing():
        await moves.until(key, lambda migration: migration.status.step == "Evicting")
        await lose(moves, target)
        await moves.allow_all(guard)
        migration = await moves.until_finished(key)
    await released(moves, target)
    await as_before(moves, source, migration)


@pytest.mark.parametrize("lose", LOSSES)
async def test_while_an_eviction_waits_for_its_budget_the_target_is(
    make_moves: MakeMoves, lose: Lose
) -> None:
    """Nothing has been created there yet; but its replacement is to go there, and not back to the source."""
    moves: Moves = await make_moves(nodes=3, max_retries=0)
    sandbox = moves.sandbox
    await stateful_set(sandbox, 2)
    guard = await sandbox.budget(minAvailable=5)
    source = (await sandbox.pods())[-1]
    target = await sandbox.free_node()
    key = await moves.create_migration(source, target)
    async with observing(moves.client, sandbox.namespace) as seen, moves.executing():
        await moves.until(key, lambda migration: migration.status.step == "Evicting")
        await lose(moves, target)
        await moves.allow_all(guard)
        migration = await moves.until_finished(key)
    await released(moves, target)
    await as_before(moves, source, migration)
    assert seen.deleted == []
