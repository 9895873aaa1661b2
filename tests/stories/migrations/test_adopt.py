"""Pods of ReplicaSets move to their target, and no moment has fewer ready pods than replicas."""

import asyncio
import contextlib

import pytest

from rescheduler.api.podmigration import ConditionType, Handover, Migration, MigrationPhase
from rescheduler.kube import errors
from rescheduler.kube.api_resources import Object
from rescheduler.migrations import labels_and_names
from tests.stories.migrations.moves import MakeMoves, Moves
from tests.stories.migrations.workloads import CLAIMS, ephemeral_volume, provided_volumes
from tests.stories.observer import observing, revisions
from tests.stories.sandbox import node_of
from tests.stories.waiting import until_gone

IN_A_MOMENT = {"startup": "2s", "termination": "0s"}
BUDGETS = [
    pytest.param(1, {"minAvailable": 1}, id="one replica under minAvailable 1"),
    pytest.param(3, {"maxUnavailable": 0}, id="three replicas under maxUnavailable 0"),
    pytest.param(3, {"minAvailable": "100%"}, id="three replicas under minAvailable 100 %"),
]


async def move_unnoticed(moves: Moves, replicas: int, source: Object, target: str) -> Migration:
    """Moved by the controller, and seen by an observer the whole time."""
    sandbox = moves.sandbox
    before = await revisions(moves.client, sandbox.namespace)
    others = {pod["metadata"]["name"] for pod in await sandbox.pods()} - {source["metadata"]["name"]}
    async with observing(moves.client, sandbox.namespace) as seen:
        migration = await moves.move(source, target)
        await sandbox.until_ready(replicas)
    assert migration.status.phase is MigrationPhase.COMPLETED, migration.status
    assert min(seen.ready) == min(seen.serving) == replicas, "never below the count"
    assert await revisions(moves.client, sandbox.namespace) == before, "no rollout, no scaling"
    after = {pod["metadata"]["name"]: pod for pod in await sandbox.pods()}
    assert migration.status.target_pod is not None
    moved = after.pop(migration.status.target_pod.name)
    assert set(after) == others, "only the source has gone"
    assert node_of(moved) == target
    assert [owner["kind"] for owner in moved["metadata"]["ownerReferences"]] == ["ReplicaSet"]
    assert moved["metadata"]["labels"][labels_and_names.STATUS_LABEL] == "completed"
    assert moved["metadata"]["labels"][labels_and_names.MIGRATED_FROM_LABEL] == node_of(source)
    assert (
        moved["metadata"]["annotations"][labels_and_names.ORIGINAL_POD_ANNOTATION]
        == source["metadata"]["uid"]
    )
    await moves.until_nothing_left()
    return migration


@pytest.mark.parametrize(("replicas", "budget"), BUDGETS)
async def test_moves_under_any_budget(make_moves: MakeMoves, replicas: int, budget: Object) -> None:
    """A pod of a Deployment moves although every ordinary eviction is refused."""
    moves = await make_moves()
    await moves.sandbox.deployment(replicas)
    await moves.sandbox.budget(**budget)
    source = (await moves.sandbox.pods())[0]
    with pytest.raises(errors.BudgetRefused):
        await moves.client.evict(moves.sandbox.key(source["metadata"]["name"]))
    migration = await move_unnoticed(moves, replicas, source, await moves.sandbox.free_node())
    assert migration.status.handover is Handover.ADOPT
    reported = {each.type: each.status for each in migration.status.conditions}
    assert reported == {
        ConditionType.BUDGET_ALLOWS: "True",
        ConditionType.COPY_READY: "True",
        ConditionType.HANDED_OVER: "True",
    }


async def test_while_others_evict_siblings(make_moves: MakeMoves) -> None:
    """At no moment fewer pods are ready.

    The copy raises what the budget allows by one; the first eviction takes it, and the other waits.

    New pods take some time, as everywhere. Were a replacement ready before its ReplicaSet has the copy, the
    ReplicaSet would remove one of too many ready ones without asking the budget, as at every scale-down.
    """
    moves = await make_moves()
    sandbox = moves.sandbox
    sandbox.behave(IN_A_MOMENT)
    await sandbox.deployment(3)
    await sandbox.budget(maxUnavailable=0)
    source, *siblings = await sandbox.pods()
    evicted: list[str] = []

    async def evict_siblings() -> None:
        for sibling in siblings:
            name = sibling["metadata"]["name"]
            while name not in evicted:
                with contextlib.suppress(errors.BudgetRefused):
                    await moves.client.evict(sandbox.key(name))
                    evicted.append(name)
                await asyncio.sleep(0.05)

    async with observing(moves.client, sandbox.namespace) as seen:
        bystander = asyncio.create_task(evict_siblings())
        migration = await moves.move(source, await sandbox.free_node())
        bystander.cancel()
        await asyncio.wait([bystander])
        await sandbox.until_ready(3)
    assert migration.status.phase is MigrationPhase.COMPLETED, migration.status
    assert evicted, "another client was quicker once"
    assert min(seen.ready) >= 3
    assert min(seen.serving) >= 3
    await moves.until_nothing_left()


async def test_volumes_that_a_pod_has_for_itself_are_created_again_for_the_copy(
    make_moves: MakeMoves, ephemeral_claims: None
) -> None:
    moves = await make_moves(nodes=2)
    sandbox = moves.sandbox
    await provided_volumes(sandbox, 2)
    volumes = [ephemeral_volume(sandbox, "scratch"), {"name": "cache", "emptyDir": {"sizeLimit": "1Gi"}}]
    await sandbox.deployment(1, pod={"volumes": volumes})
    (source,) = await sandbox.pods()
    migration = await move_unnoticed(moves, 1, source, await sandbox.free_node())
    assert migration.status.target_pod is not None
    claim = await moves.client.get(CLAIMS, sandbox.key(f"{migration.status.target_pod.name}-scratch"))
    assert [owner["uid"] for owner in claim["metadata"]["ownerReferences"]] == [
        migration.status.target_pod.uid
    ]
    await until_gone(moves.client, CLAIMS, sandbox.key(f"{source['metadata']['name']}-scratch"))


async def test_each_pod_of_a_plain_replica_set_moves_in_turn(make_moves: MakeMoves) -> None:
    moves = await make_moves()
    await moves.sandbox.replica_set(2)
    for source in await moves.sandbox.pods():
        await move_unnoticed(moves, 2, source, await moves.sandbox.free_node())
