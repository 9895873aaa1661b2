"""The controller with webhook or extender: a pod moves to its target by eviction, or comes back."""

from datetime import timedelta

import pytest

from rescheduler.api.podmigration import ConditionType, Handover, MigrationPhase
from rescheduler.config.policy import Policy
from rescheduler.kube.api_resources import Object
from tests.stories.migrations.moves import Moves
from tests.stories.migrations.workloads import claim_templates, provided_volumes, stateful_set
from tests.stories.observer import observing
from tests.stories.sandbox import node_of
from tests.stories.steering.steered import MakeSteered, Steered

pytestmark = pytest.mark.real_time


def moves(steered: Steered) -> Moves:
    # Of an extender nothing in the cluster tells.
    return Moves(
        steered.sandbox,
        policy=Policy(
            settle_time=timedelta(milliseconds=100),
            scheduler_extender=not steered.leaves_marks,
            # Nor does this controller look for a webhook: that is the daemon's business.
            allow_unsteered=True,
        ),
    )


async def test_stateful_set_pod_with_a_claim(make_steered: MakeSteered) -> None:
    """A pod with a ReadWriteOnce claim moves to the target that was chosen."""
    steered = await make_steered(nodes=4)
    await provided_volumes(steered.sandbox, 2)
    await stateful_set(steered.sandbox, 2, **claim_templates(steered.sandbox))
    await steered.sandbox.budget(minAvailable=1)
    source = (await steered.sandbox.pods())[-1]
    target = await steered.sandbox.free_node()
    async with steered.serving(), steered.probing():
        migration = await moves(steered).move(source, target)
        ready = await steered.sandbox.until_ready(2)
    assert migration.status.phase is MigrationPhase.COMPLETED, migration.status
    assert migration.status.handover is Handover.EVICT
    steering = migration.status.condition(ConditionType.STEERED)
    assert steering is not None
    assert steering.status == "True"
    (moved,) = [pod for pod in ready if pod["metadata"]["name"] == source["metadata"]["name"]]
    assert node_of(moved) == target
    assert _claims(moved) == _claims(source), "with its own data"


async def test_room_only_on_the_source(make_steered: MakeSteered) -> None:
    """The pod comes back there, and the migration says so.

    The intent goes, then the pod that found no place, if there still is one; the next is free.
    """
    steered = await make_steered(nodes=2)
    sandbox = steered.sandbox
    await stateful_set(sandbox, 1)
    (source,) = await sandbox.pods()
    target = await sandbox.free_node()
    await sandbox.cordon(target)
    moving = moves(steered)
    async with steered.serving(), steered.probing(), observing(sandbox.client, sandbox.namespace) as seen:
        migration = await moving.move(source, target, steer_timeout=timedelta(seconds=2))
        (back,) = await sandbox.until_ready(1)
    assert migration.status.phase is MigrationPhase.FAILED, migration.status
    assert migration.status.failure == "BackOnSource"
    reported = migration.status.condition(ConditionType.STEERED)
    assert reported is not None
    assert reported.status == "False"
    assert node_of(back) == node_of(source)
    steered.must_avoid(back)
    if steered.leaves_marks:
        assert len(seen.created) >= 2, "one that was steered, and one that was not"
    await moving.until_nothing_left()


def _claims(pod: Object) -> list[str]:
    volumes = pod["spec"]["volumes"]
    return [each["persistentVolumeClaim"]["claimName"] for each in volumes if "persistentVolumeClaim" in each]
