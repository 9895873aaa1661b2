"""Pods of a workload that asks for a shutdown delay get one from the webhook, and keep it when they move."""

from datetime import timedelta
from typing import Any

import pytest

from rescheduler.api.podmigration import Handover, MigrationPhase
from rescheduler.api.well_known_names import SHUTDOWN_DELAY_ANNOTATION
from rescheduler.config.policy import Policy
from rescheduler.kube.api_resources import DEPLOYMENTS, merge_patch
from tests.stories.migrations.moves import Moves
from tests.stories.sandbox import node_of
from tests.stories.steering.steered import MakeSteered

pytestmark = pytest.mark.real_time


@pytest.fixture
def steering() -> str:
    """Only the webhook changes pods."""
    return "webhook"


def sleep_of(pod: dict[str, Any]) -> Any:
    return pod["spec"]["containers"][0].get("lifecycle")


async def test_a_moved_pod_keeps_its_delay(make_steered: MakeSteered) -> None:
    """The pod that was there before the annotation has none; the one after it has, and so has its copy."""
    steered = await make_steered(nodes=3)
    sandbox = steered.sandbox
    await sandbox.deployment(1)
    (before,) = await sandbox.pods()
    async with steered.serving():
        asked = merge_patch({"metadata": {"annotations": {SHUTDOWN_DELAY_ANNOTATION: "1s"}}})
        await steered.client.patch(DEPLOYMENTS, sandbox.key("web"), asked)
        async with steered.probing():  # webhook or extender know what was written before
            source = await steered.evict(before, 1)
            moves = Moves(sandbox, policy=Policy(settle_time=timedelta(milliseconds=100)))
            migration = await moves.move(source, await sandbox.free_node())
    assert migration.status.phase is MigrationPhase.COMPLETED, migration.status
    assert migration.status.handover is Handover.ADOPT
    (copy,) = await sandbox.until_ready(1)
    assert node_of(copy) != node_of(source)
    delay = {"preStop": {"sleep": {"seconds": 1}}}
    assert [sleep_of(each) for each in (before, source, copy)] == [None, delay, delay]
