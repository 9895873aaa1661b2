"""Other clients change a workload while a pod is moved: it ends as they want, and no leftover remains."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from rescheduler.api.podmigration import MigrationPhase
from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube.api_resources import DEPLOYMENTS, REPLICA_SETS
from tests.stories.facts.test_autoscaling import AUTOSCALERS, autoscaler
from tests.stories.migrations.interferences import INTERFERENCES, Interference
from tests.stories.migrations.moves import MakeMoves
from tests.stories.observer import observing
from tests.stories.sandbox import node_of
from tests.stories.waiting import until_gone, until_object


@pytest.mark.parametrize("interference", INTERFERENCES, ids=lambda each: each.name)
async def test_a_move_during_which_the_workload_is(make_moves: MakeMoves, interference: Interference) -> None:
    moves = await make_moves()
    sandbox = moves.sandbox
    await sandbox.deployment(3)
    await sandbox.budget(maxUnavailable=0)
    source = (await sandbox.pods())[0]
    sandbox.behave({"startup": "2s", "termination": "0s"})
    async with observing(moves.client, sandbox.namespace) as seen:
        key = await moves.create_migration(source, await sandbox.free_node())
        async with moves.executing(max_retries=0):
            await moves.copy_of(key, node_of)
            await interference.act(moves, key, source)
            await moves.until_over(key)
            await moves.until_nothing_left()
            await moves.until_served(interference.wanted)
    assert interference.takes_pods or min(seen.ready) >= 3, "never below the count"


async def test_workload_deleted_without_its_pods(make_moves: MakeMoves) -> None:
    """They keep running."""
    moves = await make_moves()
    sandbox = moves.sandbox
    await sandbox.replica_set(2)
    source = (await sandbox.pods())[0]
    sandbox.behave({"startup": "2s", "termination": "0s"})
    async with observing(moves.client, sandbox.namespace) as seen:
        key = await moves.create_migration(source, await sandbox.free_node())
        async with moves.executing():
            await moves.copy_of(key, node_of)
            await moves.client.delete(REPLICA_SETS, sandbox.key("web"), propagation="Orphan")
            await until_gone(moves.client, REPLICA_SETS, sandbox.key("web"))
            migration = await moves.until_finished(key)
            await moves.until_nothing_left()
        await sandbox.until_ready(2)
    assert migration.status.phase is MigrationPhase.FAILED
    assert migration.status.failure == "WorkloadGone"
    assert min(seen.ready) == 2


async def test_a_pod_that_is_gone_before_its_turn(make_moves: MakeMoves) -> None:
    moves = await make_moves(nodes=2)
    await moves.sandbox.deployment(1)
    (source,) = await moves.sandbox.pods()
    target = await moves.sandbox.free_node()
    await moves.client.delete(PODS, moves.sandbox.key(source["metadata"]["name"]))
    await until_gone(moves.client, PODS.as_json, moves.sandbox.key(source["metadata"]["name"]))
    migration = await moves.move(source, target)
    assert migration.status.phase is MigrationPhase.FAILED
    assert migration.status.failure == "SourceGone"


async def test_source_node_lost_while_the_copy_starts(make_moves: MakeMoves) -> None:
    """The pod has a successor soon."""
    moves = await make_moves(nodes=2)
    sandbox = moves.sandbox
    await sandbox.deployment(1)
    await sandbox.budget(minAvailable=1)
    (source,) = await sandbox.pods()
    target = await sandbox.free_node()
    sandbox.behave({"startup": "10m", "termination": "0s"})
    key = await moves.create_migration(source, target)
    async with moves.executing():
        await moves.copy_of(key, node_of)
        await moves.lose_node(node_of(source))
        migration = await moves.until_finished(key)
    assert migration.status.phase is MigrationPhase.COMPLETED, migration.status
    assert migration.status.target_pod is not None
    moved = await moves.client.get(PODS.as_json, sandbox.key(migration.status.target_pod.name))
    assert node_of(moved) == target
    assert [owner["kind"] for owner in moved["metadata"]["ownerReferences"]] == ["ReplicaSet"]


async def test_an_autoscaler_that_adds_a_pod_meanwhile(
    make_moves: MakeMoves, serve_usage: Callable[[Any], AbstractAsyncContextManager[Any]]
) -> None:
    """It counts the copy as well, so it may add one too many, which is its own business afterwards."""
    moves = await make_moves(nodes=6)
    sandbox = moves.sandbox
    busy = {"usage": {"cpu": "100%"}, "startup": "0s", "termination": "0s"}
    sandbox.behave(busy)
    await sandbox.deployment(2)
    await sandbox.budget(maxUnavailable=0)
    source = (await sandbox.pods())[0]
    target = await sandbox.free_node()
    sandbox.behave({"match": {"node": target}, **busy, "startup": "10m"}, busy)
    async with observing(moves.client, sandbox.namespace) as seen, serve_usage(sandbox.kubelet):
        key = await moves.create_migration(source, target)
        async with moves.executing():
            await moves.copy_of(key, node_of)
            await moves.client.create(AUTOSCALERS, autoscaler(sandbox.namespace))
            await until_object(
                moves.client, DEPLOYMENTS, sandbox.key("web"), lambda found: found["spec"]["replicas"] > 2
            )
            await moves.client.delete(AUTOSCALERS, sandbox.key("web"))
            sandbox.behave(busy)
            migration = await moves.until_finished(key)
            await moves.until_nothing_left()
        deployment = await moves.client.get(DEPLOYMENTS, sandbox.key("web"))
        pods = await sandbox.until_ready(deployment["spec"]["replicas"])
    assert migration.status.phase is MigrationPhase.COMPLETED, migration.status
    assert target in {node_of(pod) for pod in pods}
    assert min(seen.ready) >= 2


async def test_a_target_that_is_lost_while_the_copy_starts(make_moves: MakeMoves) -> None:
    moves = await make_moves(nodes=3)
    sandbox = moves.sandbox
    await sandbox.deployment(1)
    (source,) = await sandbox.pods()
    target = await sandbox.free_node()
    sandbox.behave({"startup": "10m", "termination": "0s"})
    async with observing(moves.client, sandbox.namespace) as seen:
        key = await moves.create_migration(source, target)
        async with moves.executing(max_retries=0):
            await moves.copy_of(key, node_of)
            await moves.lose_node(target)
            migration = await moves.until_finished(key)
    assert migration.status.phase is MigrationPhase.FAILED
    assert migration.status.failure == "TargetLost"
    assert min(seen.ready) == 1
