"""A replacement that finds no place as it is steered: the intent goes, then the pod, and the next is free."""

from datetime import timedelta

from rescheduler.model.migrations import ConditionType, Phase
from rescheduler.model.steering import STEERED_BY
from tests.e2e.facts.observer import observing
from tests.e2e.facts.stage import node_of
from tests.e2e.migrations.moving import Moves
from tests.e2e.migrations.workloads import stateful_set
from tests.e2e.webhook.steered import SetSteered


async def test_where_only_the_source_has_room_the_pod_comes_back_there(set_steered: SetSteered) -> None:
    steered = await set_steered(nodes=2)
    stage = steered.stage
    await stateful_set(stage, 1)
    (source,) = await stage.pods()
    target = await stage.free_node()
    await stage.cordon(target)
    moves = Moves(stage)
    async with steered.serving(), steered.probing(), observing(stage.client, stage.namespace) as seen:
        migration = await moves.move(source, target, steer_timeout=timedelta(seconds=2))
        (back,) = await stage.until_ready(1)
    assert migration.status.phase is Phase.FAILED
    assert migration.status.failure == "BackOnSource"
    told = migration.status.condition(ConditionType.STEERED)
    assert told is not None
    assert told.status == "False"
    assert len(seen.created) >= 2, "one that was steered, and one that was not"
    assert node_of(back) == node_of(source)
    assert STEERED_BY not in back["metadata"].get("annotations", {})
    await moves.until_nothing_left()
