"""The controller and the webhook together: a pod is moved to its target by eviction alone."""

from rescheduler.kube.resources import Object
from rescheduler.model.migrations import ConditionType, Phase
from rescheduler.model.plan import Handover
from tests.e2e.facts.stage import node_of
from tests.e2e.migrations.moving import Moves
from tests.e2e.migrations.workloads import claim_templates, provided_volumes, stateful_set
from tests.e2e.webhook.steered import SetSteered


async def test_a_stateful_set_pod_with_a_read_write_once_claim_is_moved_to_the_target_that_was_chosen(
    set_steered: SetSteered,
) -> None:
    steered = await set_steered(nodes=4)
    await provided_volumes(steered.stage, 2)
    await stateful_set(steered.stage, 2, **claim_templates(steered.stage))
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
    (moved,) = [pod for pod in ready if pod["metadata"]["name"] == source["metadata"]["name"]]
    assert node_of(moved) == target
    assert _claims(moved) == _claims(source), "with its own data"


def _claims(pod: Object) -> list[str]:
    volumes = pod["spec"]["volumes"]
    return [each["persistentVolumeClaim"]["claimName"] for each in volumes if "persistentVolumeClaim" in each]
