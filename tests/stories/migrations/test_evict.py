"""Pods whose controller must create the replacement: evicted within their budget, and replaced."""

from datetime import timedelta

import pytest

from rescheduler.api.podmigration import ConditionType, Handover, MigrationPhase
from rescheduler.api.well_known_names import STEERED_BY_ANNOTATION
from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube.api_resources import POD_DISRUPTION_BUDGETS, STATEFUL_SETS, api_resource, merge_patch
from rescheduler.steering.intents import intent_of_migration
from tests.stories.migrations.moves import MakeMoves
from tests.stories.migrations.workloads import claim_templates, provided_volumes, stateful_set
from tests.stories.observer import observing
from tests.stories.sandbox import node_of
from tests.stories.waiting import until_object

CONFIG_MAPS = api_resource("", "v1", "configmaps", "ConfigMap")


async def test_stateful_set_pod_with_a_claim(make_moves: MakeMoves) -> None:
    """A pod with a ReadWriteOnce claim is replaced on another node."""
    moves = await make_moves(nodes=2)
    sandbox = moves.sandbox
    await provided_volumes(sandbox, 2)
    await stateful_set(sandbox, 2, **claim_templates(sandbox))
    await sandbox.budget(minAvailable=1)
    source = next(pod for pod in await sandbox.pods() if pod["metadata"]["name"] == "web-1")
    await sandbox.cordon(node_of(source))
    target = next(node for node in sandbox.nodes if node != node_of(source))
    async with observing(moves.client, sandbox.namespace) as seen:
        migration = await moves.move(source, target)
        await sandbox.until_ready(2)
        await moves.until_nothing_left()
    assert migration.status.phase is MigrationPhase.COMPLETED, migration.status
    assert migration.status.handover is Handover.EVICT
    assert min(seen.ready) == 1, "one at a time"
    replaced = await moves.client.get(PODS.as_json, sandbox.key("web-1"))
    assert node_of(replaced) == target
    assert replaced["metadata"]["uid"] != source["metadata"]["uid"]
    steered = migration.status.condition(ConditionType.STEERED)
    assert steered is not None
    assert steered.status == "True"


async def test_a_workload_without_a_budget_has_one_while_its_pod_is_replaced(make_moves: MakeMoves) -> None:
    moves = await make_moves(nodes=4)
    await stateful_set(moves.sandbox, 3)
    source = (await moves.sandbox.pods())[-1]
    target = await moves.sandbox.free_node()
    await moves.sandbox.cordon(*(node for node in moves.sandbox.nodes if node != target))
    moves.sandbox.behave({"startup": "2s", "termination": "0s"})
    key = await moves.create_migration(source, target)
    async with moves.executing():
        budget = await until_object(
            moves.client, POD_DISRUPTION_BUDGETS, moves.sandbox.key("web-rescheduler-pdb"), bool
        )
        migration = await moves.until_finished(key)
    assert budget["spec"]["maxUnavailable"] == 1
    assert budget["metadata"]["ownerReferences"][0]["name"] == migration.name
    assert migration.status.phase is MigrationPhase.COMPLETED
    await moves.until_nothing_left()
    await moves.sandbox.until_ready(3)


@pytest.mark.full
async def test_a_budget_at_zero_is_waited_for_and_then_it_is_given_up(make_moves: MakeMoves) -> None:
    moves = await make_moves(nodes=4, migration_timeout=timedelta(seconds=4), max_retries=1)
    await stateful_set(moves.sandbox, 2)
    await moves.sandbox.budget(maxUnavailable=0)
    source = (await moves.sandbox.pods())[-1]
    async with observing(moves.client, moves.sandbox.namespace) as seen:
        migration = await moves.move(source, await moves.sandbox.free_node())
        await moves.until_nothing_left()
    assert migration.status.phase is MigrationPhase.FAILED
    assert migration.status.failure == "TimedOut"
    assert migration.status.attempts == 2
    reported = {each.type: each.status for each in migration.status.conditions}
    assert reported[ConditionType.ROLLED_BACK] == "True"
    assert min(seen.ready) == 2
    assert seen.deleted == seen.created == []


async def test_a_budget_that_allows_it_after_a_while_is_taken_at_once(
    make_moves: MakeMoves, at_once: timedelta
) -> None:
    moves = await make_moves(nodes=4)
    await stateful_set(moves.sandbox, 2)
    guard = await moves.sandbox.budget(maxUnavailable=0)
    source = (await moves.sandbox.pods())[-1]
    key = await moves.create_migration(source, await moves.sandbox.free_node())
    async with moves.executing():
        await moves.until(key, lambda migration: migration.status.step == "Evicting")
        changed_at = moves.now()
        await moves.client.patch(POD_DISRUPTION_BUDGETS, guard, merge_patch({"spec": {"maxUnavailable": 1}}))
        migration = await moves.until_finished(key)
    assert migration.status.handed_over_at is not None
    assert migration.status.handed_over_at - changed_at < at_once
    await moves.sandbox.until_ready(2)


async def test_a_pod_of_a_deployment_that_wants_no_pod_more_is_replaced(make_moves: MakeMoves) -> None:
    moves = await make_moves(nodes=3)
    sandbox = moves.sandbox
    await sandbox.deployment(2, strategy={"type": "Recreate"})
    await sandbox.budget(minAvailable=1)
    source = (await sandbox.pods())[0]
    target = await sandbox.free_node()
    await sandbox.cordon(*(node for node in sandbox.nodes if node != target))
    key = await moves.create_migration(source, target, handover="Evict")
    async with observing(moves.client, sandbox.namespace) as seen, moves.executing():
        migration = await moves.until_finished(key)
        pods = await sandbox.until_ready(2)
        await moves.until_nothing_left()
    assert migration.status.phase is MigrationPhase.COMPLETED, migration.status
    assert migration.status.target_pod is not None
    (moved,) = [pod for pod in pods if pod["metadata"]["uid"] == migration.status.target_pod.uid]
    assert node_of(moved) == target
    assert max(seen.ready) == 2, "never one more"


async def test_pod_of_an_unknown_kind_of_controller(make_moves: MakeMoves) -> None:
    """It is evicted, and the controller replaces it."""
    moves = await make_moves(nodes=3)
    sandbox, client = moves.sandbox, moves.client
    widget = await client.create(
        CONFIG_MAPS, {"metadata": {"namespace": sandbox.namespace, "name": "widget"}}
    )
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "widget", "uid": widget["metadata"]["uid"]}
    metadata = {"labels": {"app": "web"}, "ownerReferences": [owner | {"controller": True}]}
    for name in ("one", "two"):
        await sandbox.until_pod_ready(await sandbox.pod(name, metadata=metadata))
    source = next(pod for pod in await sandbox.pods() if pod["metadata"]["name"] == "one")
    target = await sandbox.free_node()
    await sandbox.cordon(*(node for node in sandbox.nodes if node != target))
    key = await moves.create_migration(source, target)
    async with moves.executing():
        await moves.until_pods(lambda pods: "one" not in pods)
        made = await sandbox.pod("three", metadata=metadata)
        migration = await moves.until_finished(key)
    assert migration.status.phase is MigrationPhase.COMPLETED, migration.status
    assert migration.status.handover is Handover.EVICT
    assert migration.status.target_pod is not None
    assert migration.status.target_pod.uid == made["metadata"]["uid"]
    await moves.until_nothing_left()


async def test_steered_replacement_that_does_not_fit(make_moves: MakeMoves) -> None:
    """It is created again without steering.

    As if a webhook had steered it: what matters is the mark that tells so, and that there is no place.
    """
    moves = await make_moves(nodes=3, steer_timeout=timedelta(seconds=2))
    sandbox = moves.sandbox
    await stateful_set(sandbox, 1, annotations={STEERED_BY_ANNOTATION: "move-1"})
    (source,) = await sandbox.pods()
    target = await sandbox.free_node()
    elsewhere = next(node for node in sandbox.nodes if node not in {target, node_of(source)})
    await sandbox.cordon(*sandbox.nodes)
    async with observing(moves.client, sandbox.namespace) as seen, moves.executing():
        key = await moves.create_migration(source, target)
        steered = await moves.until(key, intent_of_migration)
        assert steered.status.condition(ConditionType.STEERED) is None
        withdrawn = await moves.until(
            key, lambda migration: migration.status.condition(ConditionType.STEERED)
        )
        assert intent_of_migration(withdrawn) is None
        first = next(name for name in seen.created)
        await moves.until_pods(lambda _: seen.created.count(first) > 1)
        await sandbox.cordon(elsewhere, on=False)
        migration = await moves.until_finished(key)
        (moved,) = await sandbox.until_ready(1)
    assert migration.status.phase is MigrationPhase.COMPLETED, migration.status
    reported = migration.status.condition(ConditionType.STEERED)
    assert reported is not None
    assert reported.status == "False"
    assert node_of(moved) == elsewhere
    await moves.until_nothing_left()


async def test_a_workload_that_was_deleted_and_created_again_is_not_waited_for(make_moves: MakeMoves) -> None:
    """Its namesake's pods are other pods."""
    moves = await make_moves(nodes=2)
    sandbox = moves.sandbox
    await stateful_set(sandbox, 1)
    (source,) = await sandbox.pods()
    sandbox.behave({"startup": "10m", "termination": "0s"})
    key = await moves.create_migration(source, await sandbox.free_node())
    async with moves.executing():
        await moves.until(key, lambda migration: migration.status.step == "Replacing")
        await moves.client.delete(STATEFUL_SETS, sandbox.key("web"), propagation="Background")
        await moves.until_served(0)
        sandbox.behave()
        await stateful_set(sandbox, 1)
        migration = await moves.until_finished(key)
    assert migration.status.failure == "NotReplaced"
    await moves.until_nothing_left()
    await sandbox.until_ready(1)


async def test_a_replacement_that_comes_back_to_the_source_is_a_failure(make_moves: MakeMoves) -> None:
    moves = await make_moves(nodes=2)
    sandbox = moves.sandbox
    await stateful_set(sandbox, 1)
    (source,) = await sandbox.pods()
    await sandbox.cordon(await sandbox.free_node())
    migration = await moves.move(source, await sandbox.free_node())
    await sandbox.until_ready(1)
    await moves.until_nothing_left()
    assert migration.status.phase is MigrationPhase.FAILED
    assert migration.status.failure == "BackOnSource"


async def test_scaled_below_the_moving_pod(make_moves: MakeMoves, at_once: timedelta) -> None:
    """A StatefulSet that no longer wants the pod ends the migration at once."""
    moves = await make_moves(nodes=4)
    await stateful_set(moves.sandbox, 3)
    source = (await moves.sandbox.pods())[-1]
    assert source["metadata"]["name"] == "web-2"
    moves.sandbox.behave({"startup": "1h", "termination": "0s"})
    key = await moves.create_migration(source, await moves.sandbox.free_node())
    async with moves.executing():
        await moves.until(key, lambda migration: migration.status.step == "Replacing")
        scaled_at = moves.now()
        scaled = merge_patch({"spec": {"replicas": 2}})
        await moves.client.patch(STATEFUL_SETS, moves.sandbox.key("web"), scaled)
        migration = await moves.until_finished(key)
    assert (migration.status.phase, migration.status.failure) == (MigrationPhase.FAILED, "ScaledDown")
    assert migration.status.finished_at - scaled_at < at_once
    await moves.until_nothing_left()
