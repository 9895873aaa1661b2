"""Siblings of a pod that moves, whose labels and annotations say that they are its copy, stay."""

import pytest

from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS
from rescheduler.kube.api_resources import merge_patch
from rescheduler.migrations import labels_and_names
from tests.stories.migrations.moves import MakeMoves
from tests.stories.observer import observing


@pytest.mark.parametrize("ends", ["completed", "rolled back"])
async def test_siblings_that_are_marked_as_its_copy_stay(make_moves: MakeMoves, ends: str) -> None:
    moves = await make_moves()
    sandbox = moves.sandbox
    await sandbox.deployment(3)
    guard = await sandbox.budget(minAvailable=5)
    source, *siblings = await sandbox.pods()
    key = await moves.create_migration(source, await sandbox.free_node())
    async with observing(moves.client, sandbox.namespace) as seen, moves.executing(max_retries=0):
        await moves.until(key, lambda each: each.status.step == "Evicting")
        copy = await moves.copy_of(key)
        marks = {name: copy["metadata"]["labels"][name] for name in labels_and_names.LABELS}
        original = {labels_and_names.ORIGINAL_POD_ANNOTATION: source["metadata"]["uid"]}
        for each in siblings:
            forged = merge_patch({"metadata": {"labels": marks, "annotations": original}})
            await moves.client.patch(PODS, sandbox.key(each["metadata"]["name"]), forged)
        if ends == "rolled back":
            await moves.client.delete(POD_MIGRATIONS, key)
        await moves.allow_all(guard)
        await moves.until_over(key)
        await sandbox.until_ready(3)
    assert not {each["metadata"]["name"] for each in siblings} & set(seen.deleted)
    assert min(seen.ready) >= 3
