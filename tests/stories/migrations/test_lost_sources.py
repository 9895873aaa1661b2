"""The source pod is lost while its copy exists: the copy takes its place, unless the source was deleted."""

from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from rescheduler.api.podmigration import ConditionType, Handover, MigrationPhase
from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube.api_resources import Object, strategic_patch
from rescheduler.migrations import labels_and_names
from tests.stories.migrations.moves import MakeMoves, Moves
from tests.stories.objects import ready_since
from tests.stories.observer import observing
from tests.stories.sandbox import node_of

End = Callable[[Moves, Object], Awaitable[None]]


def _key(moves: Moves, pod: Object) -> str:
    return str(moves.sandbox.key(pod["metadata"]["name"]))


async def evicted(moves: Moves, pod: Object) -> None:
    await moves.client.evict(_key(moves, pod))


async def evicted_at_once(moves: Moves, pod: Object) -> None:
    """Evict it without a grace period, so that no client sees it terminating."""
    await moves.client.evict(_key(moves, pod), grace_s=0)


async def preempted(moves: Moves, pod: Object) -> None:
    """Preempt it as the scheduler does: first the condition, then a delete."""
    # One that is older than two minutes is taken back by the disruption controller.
    since = moves.now().strftime("%Y-%m-%dT%H:%M:%SZ")
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    condition["lastTransitionTime"] = since
    patch = strategic_patch({"status": {"conditions": [condition]}})
    await moves.client.patch(PODS.as_json.status, _key(moves, pod), patch)
    await moves.client.delete(PODS, _key(moves, pod))


async def failed(moves: Moves, pod: Object) -> None:
    """Fail it as the kubelet evicts a pod from a node that lacks memory."""
    conditions = [
        {"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"},
        {"type": "Ready", "status": "False", "reason": "PodFailed"},
    ]
    status = {"phase": "Failed", "reason": "Evicted", "conditions": conditions}
    await moves.client.patch(PODS.as_json.status, _key(moves, pod), strategic_patch({"status": status}))


LOSSES = [
    pytest.param(evicted, id="evicted by another client"),
    pytest.param(evicted_at_once, id="evicted by another client without a grace period"),
    pytest.param(preempted, id="preempted"),
    pytest.param(failed, id="evicted by the kubelet"),
]


async def set_bare_pod(make_moves: MakeMoves, **policy: timedelta) -> tuple[Moves, Object, str]:
    moves: Moves = await make_moves(nodes=2, **policy)
    source = await moves.sandbox.until_pod_ready(await moves.sandbox.pod("web"))
    key = await moves.create_migration(source, await moves.sandbox.free_node())
    return moves, source, key


async def the_copy_serves(moves: Moves, key: str) -> None:
    copy = await moves.copy_of(key, ready_since)
    assert (
        copy["metadata"]["labels"][labels_and_names.STATUS_LABEL]
        == labels_and_names.MigrationLabelStatus.COMPLETED
    )
    assert not await moves.leftovers()


@pytest.mark.parametrize("end", LOSSES)
async def test_while_its_copy_settles_a_bare_pod_is(make_moves: MakeMoves, end: End) -> None:
    moves, source, key = await set_bare_pod(make_moves, settle_time=timedelta(minutes=5))
    async with observing(moves.client, moves.sandbox.namespace) as seen, moves.executing():
        copy = await moves.copy_of(key, ready_since)
        await end(moves, source)
        migration = await moves.until_finished(key)
    assert migration.status.phase is MigrationPhase.COMPLETED, migration.status
    assert migration.status.handover is Handover.COPY
    assert "takes its place" in migration.status.message
    handed_over = migration.status.condition(ConditionType.HANDED_OVER)
    assert handed_over is not None
    assert handed_over.reason == "SourceLost"
    assert copy["metadata"]["name"] not in seen.deleted
    await the_copy_serves(moves, key)


@pytest.mark.parametrize("end", LOSSES)
@pytest.mark.full
async def test_while_its_copy_starts_a_bare_pod_is(make_moves: MakeMoves, end: End) -> None:
    """The copy is waited for, and stays."""
    moves, source, key = await set_bare_pod(make_moves)
    moves.sandbox.behave({"startup": "10s", "termination": "0s"})
    async with moves.executing():
        await moves.copy_of(key, node_of)
        await end(moves, source)
        migration = await moves.until_finished(key)
    assert migration.status.phase is MigrationPhase.COMPLETED, migration.status
    await the_copy_serves(moves, key)


async def test_bare_pod_lost_with_a_copy_that_is_never_ready(make_moves: MakeMoves) -> None:
    """The copy stays."""
    moves, source, key = await set_bare_pod(make_moves, migration_timeout=timedelta(seconds=8))
    moves.sandbox.start_slowly()
    async with moves.executing():
        await moves.copy_of(key, node_of)
        await evicted(moves, source)
        migration = await moves.until_finished(key)
    assert migration.status.phase is MigrationPhase.FAILED, migration.status
    assert "stays, but is not ready" in migration.status.message
    (left,) = await moves.sandbox.pods()
    assert left["metadata"]["uid"] != source["metadata"]["uid"]
    assert not await moves.leftovers()


async def test_bare_pod_deleted_while_its_copy_settles(make_moves: MakeMoves) -> None:
    """The copy is deleted, too: the pod is not wanted any more."""
    moves, source, key = await set_bare_pod(make_moves, settle_time=timedelta(minutes=5))
    async with moves.executing():
        await moves.copy_of(key, ready_since)
        await moves.client.delete(PODS, _key(moves, source))
        migration = await moves.until_finished(key)
        await moves.until_served(0)
    assert migration.status.phase is MigrationPhase.FAILED, migration.status
    assert migration.status.failure == "SourceGone"
    assert "deleted" in migration.status.message


@pytest.mark.parametrize("end", LOSSES)
async def test_while_its_copy_settles_the_only_pod_of_a_deployment_is(
    make_moves: MakeMoves, end: End
) -> None:
    moves: Moves = await make_moves(nodes=2, settle_time=timedelta(minutes=5))
    sandbox = moves.sandbox
    await sandbox.deployment(1)
    (source,) = await sandbox.pods()
    target = await sandbox.free_node()
    key = await moves.create_migration(source, target)
    async with observing(moves.client, sandbox.namespace) as seen, moves.executing():
        await moves.copy_of(key, ready_since)
        sandbox.start_slowly()
        await end(moves, source)
        migration = await moves.until_finished(key)
        await moves.until_nothing_left()
    assert migration.status.phase is MigrationPhase.COMPLETED, migration.status
    assert min(seen.ready) >= 1
    ready = [pod for pod in await sandbox.pods() if ready_since(pod)]
    assert [node_of(pod) for pod in ready] == [target]


async def test_deletion_after_a_cancelled_disruption(make_moves: MakeMoves) -> None:
    """The deletion is not taken for an eviction."""
    moves, source, key = await set_bare_pod(make_moves, settle_time=timedelta(minutes=5))
    condition = {"type": "DisruptionTarget", "status": "False", "reason": "PreemptionByScheduler"}
    patch = strategic_patch({"status": {"conditions": [condition]}})
    await moves.client.patch(PODS.as_json.status, _key(moves, source), patch)
    async with moves.executing():
        await moves.copy_of(key, ready_since)
        await moves.client.delete(PODS, _key(moves, source))
        migration = await moves.until_finished(key)
        await moves.until_served(0)
    assert migration.status.failure == "SourceGone"
