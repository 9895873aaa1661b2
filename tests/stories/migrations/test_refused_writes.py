"""What the API server refuses for good ends the attempt with its reason; nothing is repeated in a loop."""

from rescheduler.api.podmigration import MigrationPhase
from rescheduler.cluster.codecs.record_resources import PODS
from tests.stories.migrations.moves import MakeMoves, Moves

MOST_ANNOTATION_BYTES = 256 * 1024


async def test_annotations_leave_no_room_for_marks(make_moves: MakeMoves) -> None:
    """The pod stays where it is."""
    moves: Moves = await make_moves(nodes=2)
    note = {"note": "x" * (MOST_ANNOTATION_BYTES - 60)}
    source = await moves.sandbox.until_pod_ready(
        await moves.sandbox.pod("web", metadata={"annotations": note})
    )
    migration = await moves.move(source, await moves.sandbox.free_node())
    assert migration.status.phase is MigrationPhase.FAILED, migration.status
    assert migration.status.failure == "MarkRefused"
    assert migration.status.failure_is_final
    assert migration.status.attempts == 1
    assert "annotations" in migration.status.message
    after = await moves.client.get(PODS.as_json, moves.sandbox.key("web"))
    assert after["metadata"]["labels"] == source["metadata"]["labels"]
    assert after["metadata"]["annotations"] == source["metadata"]["annotations"]
