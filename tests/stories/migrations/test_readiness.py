"""When a copy counts as ready: by its own probes, for long enough, whatever its siblings do."""

from datetime import UTC, datetime, timedelta

import pytest

from rescheduler.api.podmigration import ConditionType, MigrationPhase
from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube.api_resources import strategic_patch
from rescheduler.migrations import make_before_break
from tests.stories.migrations.moves import MakeMoves
from tests.stories.objects import ready_since
from tests.stories.observer import observing
from tests.stories.sandbox import node_of

GATE = "example.com/load-balancer"


async def test_a_readiness_gate_is_waited_for(make_moves: MakeMoves) -> None:
    """Until its readiness gate is set, the copy does not count, and the source stays."""
    moves = await make_moves(nodes=2)
    sandbox = moves.sandbox
    source = await sandbox.pod("web", readinessGates=[{"conditionType": GATE}])
    opened = strategic_patch({"status": {"conditions": [{"type": GATE, "status": "True"}]}})
    await moves.client.patch(PODS.as_json.status, sandbox.key("web"), opened)
    source = await sandbox.until_pod_ready(source)
    target = next(node for node in sandbox.nodes if node != node_of(source))
    async with observing(moves.client, sandbox.namespace) as seen:
        key = await moves.create_migration(source, target)
        async with moves.executing():
            copy = await moves.copy_of(key, lambda pod: _condition(pod, "ContainersReady") == "True")
            assert not ready_since(copy)
            assert not (await moves.until(key, bool)).status.handed_over_at
            await moves.client.patch(PODS.as_json.status, sandbox.key(copy["metadata"]["name"]), opened)
            migration = await moves.until_finished(key)
        await moves.until_nothing_left()
        await sandbox.until_ready(1)
    assert migration.status.phase is MigrationPhase.COMPLETED, migration.status
    assert min(seen.ready) == 1


async def test_load_balancers_are_given_the_settle_time_to_notice(make_moves: MakeMoves) -> None:
    moves = await make_moves(nodes=2)
    await moves.sandbox.deployment(1)
    (source,) = await moves.sandbox.pods()
    migration = await moves.move(source, await moves.sandbox.free_node(), settle_time=timedelta(seconds=4))
    (moved,) = await moves.sandbox.until_ready(1)
    assert migration.status.handed_over_at is not None
    since = datetime.fromisoformat(str(ready_since(moved))).astimezone(UTC)
    assert (migration.status.handed_over_at - since).total_seconds() >= 4


async def test_a_copy_that_falters_while_it_settles_begins_again(make_moves: MakeMoves) -> None:
    moves = await make_moves(nodes=2)
    sandbox = moves.sandbox
    await sandbox.deployment(1)
    await sandbox.budget(minAvailable=1)
    (source,) = await sandbox.pods()
    target = await sandbox.free_node()
    async with observing(moves.client, sandbox.namespace) as seen:
        key = await moves.create_migration(source, target)
        async with moves.executing(settle_time=timedelta(seconds=4)):
            await moves.copy_of(key, ready_since)
            sandbox.behave({"match": {"node": target}, "readiness": "never", "startup": "0s"})
            await moves.copy_of(key, lambda pod: not ready_since(pod))
            sandbox.behave()
            again = await moves.copy_of(key, ready_since)
            migration = await moves.until_finished(key)
        await sandbox.until_ready(1)
    assert migration.status.phase is MigrationPhase.COMPLETED, migration.status
    assert migration.status.attempts == 1
    assert migration.status.handed_over_at is not None
    since = datetime.fromisoformat(str(ready_since(again))).astimezone(UTC)
    assert (migration.status.handed_over_at - since).total_seconds() >= 4
    assert min(seen.ready) >= 1


async def test_sibling_that_is_not_ready(make_moves: MakeMoves) -> None:
    """It stays, and the migration waits for the budget.

    The budget counts the copy in the sibling's place, so the source may go only when that is back.
    """
    moves = await make_moves()
    sandbox = moves.sandbox
    await sandbox.deployment(3)
    await sandbox.budget(maxUnavailable=0)
    source, _, sibling = await sandbox.pods()
    target = await sandbox.free_node()
    sandbox.behave({"match": {"node": node_of(sibling)}, "readiness": "never", "startup": "0s"})
    await moves.until_pods(lambda pods: not ready_since(pods[sibling["metadata"]["name"]]))
    async with observing(moves.client, sandbox.namespace) as seen:
        key = await moves.create_migration(source, target)
        async with moves.executing():
            await moves.until(key, lambda migration: migration.status.step == "Evicting")
            await moves.copy_of(key, ready_since)
            sandbox.behave()
            migration = await moves.until_finished(key)
            await moves.until_nothing_left()
        pods = await sandbox.until_ready(3)
    assert migration.status.phase is MigrationPhase.COMPLETED, migration.status
    assert sibling["metadata"]["uid"] in {pod["metadata"]["uid"] for pod in pods}
    assert sibling["metadata"]["name"] not in seen.deleted


async def test_a_copy_that_falters_while_the_eviction_waits_settles_again(make_moves: MakeMoves) -> None:
    """The sibling keeps the budget from allowing the eviction until the copy is ready once more."""
    moves = await make_moves()
    sandbox = moves.sandbox
    await sandbox.deployment(3)
    await sandbox.budget(maxUnavailable=0)
    source, _, sibling = await sandbox.pods()
    target = await sandbox.free_node()
    away = [{"match": {"node": node_of(sibling)}, "readiness": "never", "startup": "0s"}]
    sandbox.behave(*away)
    await moves.until_pods(lambda pods: not ready_since(pods[sibling["metadata"]["name"]]))
    async with observing(moves.client, sandbox.namespace) as seen:
        key = await moves.create_migration(source, target)
        async with moves.executing(settle_time=timedelta(seconds=4)):
            await moves.until(key, lambda migration: migration.status.step == "Evicting")
            sandbox.behave(*away, {"match": {"node": target}, "readiness": "never", "startup": "0s"})
            await moves.copy_of(key, lambda pod: not ready_since(pod))
            sandbox.behave()
            again = await moves.copy_of(key, ready_since)
            migration = await moves.until_finished(key)
            await moves.until_nothing_left()
        await sandbox.until_ready(3)
    assert migration.status.phase is MigrationPhase.COMPLETED, migration.status
    assert migration.status.handed_over_at is not None
    since = datetime.fromisoformat(str(ready_since(again))).astimezone(UTC)
    assert (migration.status.handed_over_at - since).total_seconds() >= 4
    assert min(seen.ready) >= 2, "the sibling alone was missing"


async def test_a_copy_that_finds_no_place_at_all(
    make_moves: MakeMoves, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(make_before_break, "_MAX_UNSCHEDULABLE", timedelta(seconds=2))
    moves = await make_moves(nodes=2)
    sandbox = moves.sandbox
    await sandbox.deployment(1)
    await sandbox.budget(minAvailable=1)
    (source,) = await sandbox.pods()
    await sandbox.cordon(*sandbox.nodes)
    async with observing(moves.client, sandbox.namespace) as seen:
        migration = await moves.move(source, await sandbox.free_node(), max_retries=0)
        await moves.until_nothing_left()
    assert migration.status.failure == "TargetDidNotFit"
    assert "unschedulable" in migration.status.message
    reported = migration.status.condition(ConditionType.ROLLED_BACK)
    assert reported is not None
    assert reported.status == "True"
    assert min(seen.ready) == 1


def _condition(pod: dict, kind: str) -> str:
    conditions = pod.get("status", {}).get("conditions", ())
    return next((each["status"] for each in conditions if each["type"] == kind), "")
