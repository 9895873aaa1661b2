"""What the API server refuses for good ends the attempt with its reason; nothing is repeated in a loop."""

from rescheduler.api.podmigration import MigrationPhase
from rescheduler.cluster.codecs.record_resources import PODS
from tests.stories.migrations.moving import Moves, SetMoves

MOST_ANNOTATION_BYTES = 256 * 1024


async def test_annotations_leave_no_room_for_marks(set_moves: SetMoves) -> None:
    """The pod stays where it is."""
    moves: Moves = await set_moves(nodes=2)
    note = {"note": "x" * (MOST_ANNOTATION_BYTES - 60)}
    source = await moves.stage.until_pod_ready(await moves.stage.pod("web", metadata={"annotations": note}))
    migration = await moves.move(source, await moves.stage.free_node())
    assert migration.status.phase is MigrationPhase.FAILED, migration.status
    assert migration.status.failure == "MarkRefused"
    assert migration.status.failure_is_final
    assert migration.status.attempts == 1
    assert "annotations" in migration.status.message
    after = await moves.client.get(PODS.as_json, moves.stage.key("web"))
    assert after["metadata"]["labels"] == source["metadata"]["labels"]
    assert after["metadata"]["annotations"] == source["metadata"]["annotations"]
