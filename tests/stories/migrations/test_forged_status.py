"""A status that a user wrote: another pod recorded as the copy.

A user who may write the status of PodMigrations must not have pods removed that way, past their budgets."""

import pytest

from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS
from rescheduler.kube.api_resources import Object, merge_patch
from tests.stories.migrations.moves import MakeMoves
from tests.stories.sandbox import Sandbox, node_of

STATUSES = {
    "rolled back": {"step": "RollingBack", "failure": "TimedOut", "failureIsFinal": True},
    "after the eviction was requested": {"step": "Evicting"},
    "failed": {"phase": "Failed", "step": "Failed", "finishedAt": "2099-01-01T00:00:00Z"},
}
COMMON = {
    "phase": "InProgress",
    "attempts": 9,  # no more retries
    "handover": "Copy",
    "startedAt": "2026-01-01T00:00:00Z",
    # Long ago: a rollback that takes too long no longer waits for budgets.
    "stepSince": "2026-01-01T00:00:00Z",
}


def elsewhere(sandbox: Sandbox, pod: Object) -> str:
    return next(node for node in sandbox.nodes if node != node_of(pod))


@pytest.mark.parametrize("forged", STATUSES.values(), ids=STATUSES)
async def test_no_pod_but_a_copy_is_removed(make_moves: MakeMoves, forged: Object) -> None:
    moves = await make_moves()
    sandbox = moves.sandbox
    source = await sandbox.until_pod_ready(await sandbox.pod("web"))
    victim = await sandbox.until_pod_ready(await sandbox.pod("victim"))
    await sandbox.budget(minAvailable="100%")
    key = await moves.create_migration(source, elsewhere(sandbox, source))
    target = {"name": "victim", "uid": victim["metadata"]["uid"]}
    status = merge_patch({"status": COMMON | {"targetPod": target} | forged})
    await moves.client.patch(POD_MIGRATIONS.status, key, status)
    async with moves.executing():
        finished = await moves.until_finished(key)
        await moves.until(key, lambda each: not each.finalizers)
    assert finished.status.phase == "Failed"
    for pod in (source, victim):
        left = await moves.client.get(PODS.as_json, sandbox.key(pod["metadata"]["name"]))
        assert left["metadata"]["uid"] == pod["metadata"]["uid"]
        assert "deletionTimestamp" not in left["metadata"]


@pytest.mark.parametrize("step", ["Teleporting", "Queued"])
async def test_no_turn_is_held_for_ever(make_moves: MakeMoves, step: str) -> None:
    """What says that it is in progress, and can't go on, must not keep others from starting."""
    moves = await make_moves()
    sandbox = moves.sandbox
    source = await sandbox.until_pod_ready(await sandbox.pod("web"))
    others = [await sandbox.until_pod_ready(await sandbox.pod(f"other-{number}")) for number in range(2)]
    for other in others:
        key = await moves.create_migration(other, elsewhere(sandbox, other))
        forged = {"phase": "InProgress", "step": step}
        await moves.client.patch(POD_MIGRATIONS.status, key, merge_patch({"status": forged}))
    key = await moves.create_migration(source, elsewhere(sandbox, source))
    async with moves.executing(max_concurrent_migrations=2):
        assert (await moves.until_finished(key)).status.phase == "Completed"
