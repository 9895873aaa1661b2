"""The room for a replacement is taken while the eviction waits for its budget: no pod is evicted."""

from dataclasses import replace

import pytest

from rescheduler.config.policy import Configuration
from rescheduler.daemon.components import Rescheduler
from rescheduler.kube.api_resources import POD_DISRUPTION_BUDGETS, merge_patch
from tests.stories.migrations.workloads import stateful_set
from tests.stories.objects import PRIORITY_CLASSES
from tests.unit.daemon.conftest import HOME, POLICY


@pytest.fixture
def executing(connect, server):
    def executor(**policy):
        configuration = Configuration(policy=replace(POLICY, **policy))
        return Rescheduler(
            connect(),
            configuration,
            lease_at=f"{HOME}/rescheduler",
            now=server.clock.now,
            me="me",
        )

    return executor


@pytest.mark.parametrize("priority", [0, 1000], ids=["would be pending", "would preempt others"])
async def test_a_pod_is_not_evicted_whose_replacement(make_moves, executing, client, priority):
    moves = await make_moves(3)
    sandbox = moves.sandbox
    first, second, third = sandbox.nodes
    made = {"apiVersion": PRIORITY_CLASSES.api_version, "metadata": {"name": "some"}, "value": priority}
    await client.create(PRIORITY_CLASSES, made)
    await sandbox.cordon(second, third)
    await stateful_set(sandbox, 1, pod={"cpu": "6", "priorityClassName": "some"})
    await sandbox.cordon(first)
    await sandbox.cordon(third, on=False)
    await bystanders(sandbox, "before-1", "before-2")
    await sandbox.cordon(second, on=False)
    (source,) = await sandbox.pods()
    guard = await sandbox.budget(minAvailable=0)
    rescheduler = executing(max_retries=0)
    async with rescheduler.watching(), rescheduler.executing():
        key = await moves.create_migration(source, second, strategy="Manual")
        await moves.until(key, lambda migration: migration.status.step == "Marking")
        await client.patch(POD_DISRUPTION_BUDGETS, guard, merge_patch({"spec": {"minAvailable": 5}}))
        await moves.until(key, lambda migration: migration.status.step == "Evicting")
        await bystanders(sandbox, "since-1", "since-2")
        await moves.allow_all(guard)
        ended = await moves.until_finished(key, timeout_s=3000)
    assert (ended.status.phase, ended.status.failure) == ("Failed", "NoRoomForReplacement")
    assert [pod["metadata"]["uid"] for pod in await sandbox.pods()] == [source["metadata"]["uid"]]
    assert len(await sandbox.pods("bystander")) == 4
    await moves.until_nothing_left()


async def bystanders(sandbox, *names):
    for name in names:
        made = await sandbox.pod(name, metadata={"labels": {"app": "bystander"}}, cpu="3")
        await sandbox.until_pod_ready(made)


@pytest.mark.parametrize("step", ["Evicting", "Replacing"])
async def test_room_reserved_for_a_replacement_is_not_given_to_others(make_moves, executing, client, step):
    moves = await make_moves(3)
    sandbox = moves.sandbox
    first, second, third = sandbox.nodes
    await sandbox.cordon(second, third)
    await stateful_set(sandbox, 1, app="one", pod={"cpu": "6"})
    await sandbox.cordon(first)
    await sandbox.cordon(second, on=False)
    await stateful_set(sandbox, 1, app="other", pod={"cpu": "6"})
    await sandbox.cordon(second)
    await sandbox.cordon(third, on=False)
    sandbox.behave({"startup": "0s", "termination": "60s"})
    (one,), (other,) = await sandbox.pods("one"), await sandbox.pods("other")
    guard = await sandbox.budget(app="one", minAvailable=0)
    rescheduler = executing(max_retries=0)
    async with rescheduler.watching(), rescheduler.executing():
        key = await moves.create_migration(one, third, strategy="Manual")
        if step == "Evicting":
            await moves.until(key, lambda migration: migration.status.step == "Marking")
            await client.patch(POD_DISRUPTION_BUDGETS, guard, merge_patch({"spec": {"minAvailable": 5}}))
        await moves.until(key, lambda migration: migration.status.step == step)
        second_key = await moves.create_migration(other, third, strategy="Manual")
        ended = await moves.until_finished(second_key, timeout_s=3000)
        assert ended.status.phase == "Failed", ended.status
        assert ended.status.attempts == 0, "nothing was touched"
        await moves.allow_all(guard)
        ended = await moves.until_finished(key, timeout_s=3000)
    assert ended.status.phase == "Completed", ended.status
    assert [pod["metadata"]["uid"] for pod in await sandbox.pods("other")] == [other["metadata"]["uid"]]
