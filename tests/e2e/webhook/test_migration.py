"""The controller and the webhook together: a pod is moved to its target by eviction alone."""

from rescheduler.model.migrations import ConditionType, Phase
from rescheduler.model.plan import Handover
from tests.e2e.facts.stage import node_of
from tests.e2e.migrations.moving import Moves
from tests.e2e.migrations.workloads import stateful_set
from tests.e2e.webhook.steered import SetSteered


async def test_a_stateful_set_pod_is_moved_to_the_target_that_was_chosen(set_steered: SetSteered) -> None:
    steered = await set_steered(nodes=4)
    await stateful_set(steered.stage, 2)
    await steered.stage.budget(minAvailable=1)
    source = (await steered.stage.pods())[-1]
    target = await steered.stage.free_node()
    async with steered.serving(), steered.probing():
        migration = await Moves(steered.stage).move(source, target)
        ready = await steered.stage.until_ready(2)
    assert migration.status.phase is Phase.COMPLETED, migration.status
    assert migration.status.handover is Handover.EVICT
    steering = migration.status.condition(ConditionType.STEERED)
    assert steering is not None
    assert steering.status == "True"
    assert target in map(node_of, ready)
