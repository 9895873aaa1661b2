"""Pods without a controller are created again on their target; only then is the source pod evicted."""

from rescheduler.api.podmigration import Handover, MigrationPhase
from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.migrations import labels_and_names
from tests.stories.migrations.moves import MakeMoves, Moves
from tests.stories.observer import observing
from tests.stories.sandbox import node_of


async def moved_once(moves: Moves, name: str) -> str:
    """The name of the copy."""
    source = await moves.client.get(PODS.as_json, moves.sandbox.key(name))
    target = next(node for node in moves.sandbox.nodes if node != node_of(source))
    async with observing(moves.client, moves.sandbox.namespace) as seen:
        migration = await moves.move(source, target)
        await moves.until_nothing_left()
        (copy,) = await moves.sandbox.until_ready(1)
    assert migration.status.phase is MigrationPhase.COMPLETED, migration.status
    assert migration.status.handover is Handover.COPY
    assert min(seen.ready) == 1
    assert node_of(copy) == target
    assert "ownerReferences" not in copy["metadata"]
    assert copy["metadata"]["annotations"][labels_and_names.ORIGINAL_POD_NAME_ANNOTATION] == "web"
    assert copy["spec"]["containers"][0]["image"] == source["spec"]["containers"][0]["image"]
    return str(copy["metadata"]["name"])


async def test_a_bare_pod_moves_and_keeps_its_name_in_every_copy(make_moves: MakeMoves) -> None:
    moves = await make_moves(nodes=2)
    await moves.sandbox.until_pod_ready(
        await moves.sandbox.pod("web", metadata={"annotations": {"note": "mine"}})
    )
    await moves.sandbox.budget(minAvailable=1)
    first = await moved_once(moves, "web")
    assert first.startswith("rescheduled-web-")
    second = await moved_once(moves, first)
    assert second.startswith("rescheduled-web-")
    assert second != first
    copy = await moves.client.get(PODS.as_json, moves.sandbox.key(second))
    assert copy["metadata"]["annotations"]["note"] == "mine"


async def test_bare_pod_deleted_meanwhile(make_moves: MakeMoves) -> None:
    """Its copy is removed: the pod is not wanted any more."""
    moves = await make_moves(nodes=2)
    source = await moves.sandbox.until_pod_ready(await moves.sandbox.pod("web"))
    moves.sandbox.start_slowly()
    target = next(node for node in moves.sandbox.nodes if node != node_of(source))
    key = await moves.create_migration(source, target)
    async with moves.executing():
        await moves.copy_of(key, node_of)
        await moves.client.delete(PODS.as_json, moves.sandbox.key("web"))
        migration = await moves.until_finished(key)
    assert migration.status.phase is MigrationPhase.FAILED
    assert migration.status.failure == "SourceGone"
    assert await moves.sandbox.pods() == []
