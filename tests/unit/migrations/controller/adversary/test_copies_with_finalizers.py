"""A copy with another client's finalizer doesn't block its migration."""

from datetime import timedelta

from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS
from rescheduler.kube.api_resources import merge_patch
from rescheduler.migrations.labels_and_names import MIGRATION_ID_LABEL
from tests.stories.sandbox import node_of

HOLD = {"metadata": {"finalizers": ["example.com/never-removed"]}}


async def test_a_cancelled_move_gives_its_source_back_although_the_copy_never_goes(make_moves, client):
    moves = await make_moves(3, migration_timeout=timedelta(minutes=2))
    await moves.sandbox.deployment(1)
    (source,) = await moves.sandbox.pods()
    moves.sandbox.start_slowly()
    key = await moves.create_migration(source, await moves.sandbox.free_node())
    async with moves.executing():
        copy = await moves.copy_of(key, node_of)
        await client.patch(PODS.as_json, moves.sandbox.key(copy["metadata"]["name"]), merge_patch(HOLD))
        await client.delete(POD_MIGRATIONS, key)
        await moves.until_over(key, timeout_s=300)
    (left,) = await moves.sandbox.pods()
    assert left["metadata"]["uid"] == source["metadata"]["uid"]
    assert MIGRATION_ID_LABEL not in left["metadata"]["labels"]


async def test_the_next_move_of_that_pod_is_made_beside_it(make_moves, client):
    moves = await make_moves(3, migration_timeout=timedelta(minutes=2))
    await moves.sandbox.deployment(1)
    (source,) = await moves.sandbox.pods()
    moves.sandbox.start_slowly()
    key = await moves.create_migration(source, target := await moves.sandbox.free_node())
    async with moves.executing():
        copy = await moves.copy_of(key, node_of)
        await client.patch(PODS.as_json, moves.sandbox.key(copy["metadata"]["name"]), merge_patch(HOLD))
        await client.delete(POD_MIGRATIONS, key)
        await moves.until_over(key, timeout_s=300)
        moves.sandbox.behave()
        again = await moves.until_finished(await moves.create_migration(source, target))
    assert again.status.phase == "Completed", again.status
    (moved,) = await moves.sandbox.pods()
    assert node_of(moved) == target
