"""A PodMigration is removed by force, with its finalizer: no pod is lost, and no lock remains."""

import logging
from collections.abc import Callable

import pytest

from rescheduler.api.well_known_names import SCHEDULING_GATE
from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS
from rescheduler.kube.api_resources import POD_DISRUPTION_BUDGETS, Object, merge_patch
from rescheduler.migrations import labels_and_names
from tests.stories.migrations.moves import MakeMoves, Moves
from tests.stories.observer import observing
from tests.stories.sandbox import node_of
from tests.stories.waiting import until_gone

__all__ = [
    "test_a_bare_copy_goes_and_its_source_is_as_it_was",
    "test_marks_of_a_migration_that_does_not_exist",
    "test_workload_after_a_forced_removal",
]


async def removed(moves: Moves, key: str) -> None:
    await moves.client.patch(POD_MIGRATIONS, key, merge_patch({"metadata": {"finalizers": None}}))
    await moves.client.delete(POD_MIGRATIONS, key)


def at(*steps: str) -> Callable[..., bool]:
    return lambda migration: migration.status.step in steps


STEPS = [
    pytest.param("60s", {}, ("Placing", "Starting"), id="before the copy is ready"),
    pytest.param("0s", {"minAvailable": 5}, ("Evicting",), id="while a budget holds the source"),
]


@pytest.mark.parametrize(("startup", "budget", "steps"), STEPS)
async def test_a_bare_copy_goes_and_its_source_is_as_it_was(
    make_moves: MakeMoves, startup: str, budget: Object, steps: tuple[str, ...]
) -> None:
    moves = await make_moves()
    sandbox = moves.sandbox
    source = await sandbox.until_pod_ready(await sandbox.pod("web"))
    if budget:
        await sandbox.budget(**budget)
    sandbox.behave({"startup": startup})
    key = await moves.create_migration(source, await sandbox.free_node())
    async with moves.executing():
        migration = await moves.until(key, at(*steps))
        await removed(moves, key)
        if budget:
            await moves.client.delete(POD_DISRUPTION_BUDGETS, sandbox.key("budget"))
        assert migration.status.target_pod is not None
        await until_gone(moves.client, PODS.as_json, sandbox.key(migration.status.target_pod.name))
        await moves.until_nothing_left()
    (left,) = await sandbox.pods()
    assert left["metadata"]["uid"] == source["metadata"]["uid"]


@pytest.mark.parametrize(("startup", "budget", "steps"), STEPS)
async def test_workload_after_a_forced_removal(
    make_moves: MakeMoves, startup: str, budget: Object, steps: tuple[str, ...]
) -> None:
    """It has all its pods and no more, and its pod is not locked.

    The garbage collector removes the reference to it, and the ReplicaSet one pod too many.
    """
    moves = await make_moves()
    sandbox = moves.sandbox
    await sandbox.deployment(2)
    if budget:
        await sandbox.budget(**budget)
    source = (await sandbox.pods())[0]
    sandbox.behave({"startup": startup})
    key = await moves.create_migration(source, await sandbox.free_node())
    async with observing(moves.client, sandbox.namespace) as seen, moves.executing():
        await moves.until(key, at(*steps))
        await removed(moves, key)
        await moves.until_nothing_left()
        await sandbox.until_ready(2)
    assert min(seen.ready) == 2


LEFT = {
    "a copy that never ran": {"schedulingGates": [{"name": SCHEDULING_GATE}]},
    "a copy that runs": {},
}


@pytest.mark.parametrize("spec", LEFT.values(), ids=LEFT)
async def test_marks_of_a_migration_that_does_not_exist(
    make_moves: MakeMoves, caplog: pytest.LogCaptureFixture, spec: Object
) -> None:
    """The pod is reported and left alone.

    No controller has seen that PodMigration: labels alone, which any user can write, never lead to a change.
    """
    moves = await make_moves()
    sandbox = moves.sandbox
    source = await sandbox.until_pod_ready(await sandbox.pod("source"))
    labels = {
        labels_and_names.MIGRATION_ID_LABEL: "long-gone",
        labels_and_names.STATUS_LABEL: "in-progress",
        labels_and_names.MIGRATED_FROM_LABEL: "elsewhere",
    }
    annotations = {labels_and_names.ORIGINAL_POD_ANNOTATION: source["metadata"]["uid"]}
    metadata = {"labels": {"app": "web"} | labels, "annotations": annotations}
    left = await sandbox.pod("left", metadata=metadata, **spec)
    with caplog.at_level(logging.WARNING, "rescheduler.migrations"):
        async with moves.executing():
            # One that is moved to its end shows that the controller has come past the other.
            other = await sandbox.until_pod_ready(await sandbox.pod("other"))
            elsewhere = next(node for node in sandbox.nodes if node != node_of(other))
            await moves.until_finished(await moves.create_migration(other, elsewhere))
    reported = [
        each for each in caplog.records if f"pod {sandbox.key('left')} has the labels" in each.getMessage()
    ]
    assert len(reported) == 1
    assert "delete the pod" in reported[0].getMessage()
    after = await moves.client.get(PODS.as_json, sandbox.key("left"))
    assert after["metadata"]["uid"] == left["metadata"]["uid"]
    assert "deletionTimestamp" not in after["metadata"]
    assert after["metadata"]["labels"].items() >= metadata["labels"].items()
