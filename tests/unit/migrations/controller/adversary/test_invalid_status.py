"""The status of a running migration is edited by hand, or was written by a newer version: nothing is
guessed, nothing is lost, and the migration can be deleted."""

import asyncio

import pytest

from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS
from rescheduler.kube.api_resources import POD_DISRUPTION_BUDGETS, merge_patch
from rescheduler.migrations import labels_and_names
from tests.stories.waiting import until_gone, until_object

EDITS = [
    pytest.param({"step": "Teleporting"}, id="an unknown step"),
    pytest.param({"step": "Replacing"}, id="a step of another handover"),
    pytest.param({"handover": None}, id="no handover"),
]


async def edited(moves, key, status):
    await moves.client.patch(POD_MIGRATIONS.status, key, merge_patch({"status": status}))


async def pods_of(moves):
    found = (await moves.client.list(PODS.as_json, namespace=moves.sandbox.namespace)).items
    return {each["metadata"]["uid"]: each for each in found}


@pytest.mark.parametrize("status", EDITS)
async def test_it_is_left_alone_and_said_once(set_evicting, caplog, status):
    moves, key, *_ = await set_evicting()
    await edited(moves, key, status)
    before = await moves.client.get(POD_MIGRATIONS, key), await pods_of(moves)
    async with moves.executing() as controller:
        for _ in range(10):
            await asyncio.sleep(60)
            controller.reconcile_all()
    reported = [each.getMessage() for each in caplog.records if each.name.startswith("rescheduler")]
    assert len(reported) == 1
    assert "invalid status" in reported[0]
    assert (await moves.client.get(POD_MIGRATIONS, key), await pods_of(moves)) == before


@pytest.mark.parametrize("status", EDITS)
async def test_deleted_it_goes_and_the_pod_is_as_it_was(set_evicting, status):
    moves, key, pod, copy = await set_evicting()
    await edited(moves, key, status)
    await moves.client.delete(POD_DISRUPTION_BUDGETS, moves.sandbox.key("budget"))
    async with moves.executing():
        await moves.client.delete(POD_MIGRATIONS, key)
        await until_gone(moves.client, POD_MIGRATIONS, key)
        await until_gone(moves.client, PODS.as_json, moves.sandbox.key(copy["metadata"]["name"]))
    (left,) = (await pods_of(moves)).values()
    assert left["metadata"]["uid"] == pod["metadata"]["uid"]
    assert labels_and_names.MIGRATION_ID_LABEL not in left["metadata"]["labels"]


@pytest.mark.parametrize("status", EDITS)
@pytest.mark.parametrize("ends", ["deleted", "by itself"])
async def test_deleted_it_goes_and_the_copy_stays_where_it_is_all_there_is(set_evicting, status, ends):
    moves, key, pod, copy = await set_evicting()
    await edited(moves, key, status)
    name = moves.sandbox.key(pod["metadata"]["name"])
    if ends == "deleted":
        await moves.client.delete(PODS, name)
        await until_gone(moves.client, PODS.as_json, name)
    else:
        await moves.client.patch(PODS.status, name, merge_patch({"status": {"phase": "Failed"}}))
    async with moves.executing():
        await moves.client.delete(POD_MIGRATIONS, key)
        await until_gone(moves.client, POD_MIGRATIONS, key)
        kept = moves.sandbox.key(copy["metadata"]["name"])
        released = await until_object(moves.client, PODS.as_json, kept, is_completed)
        await asyncio.sleep(60)
    assert copy["metadata"]["uid"] in await pods_of(moves)
    assert released["metadata"]["uid"] == copy["metadata"]["uid"]


def is_completed(pod):
    return pod["metadata"]["labels"][labels_and_names.STATUS_LABEL] == "completed"


@pytest.mark.parametrize("status", [{"step": "Teleporting"}, {"owner": None, "step": "Adopting"}])
async def test_deleted_it_leaves_a_workload_with_all_its_pods(make_moves, status):
    moves = await make_moves(3)
    await moves.sandbox.deployment(2)
    source, _ = await moves.sandbox.pods()
    moves.sandbox.behave({"startup": "60s"})
    key = await moves.create_migration(source, await moves.sandbox.free_node())
    async with moves.executing():
        await moves.until(key, lambda migration: migration.status.step == "Starting")
    await edited(moves, key, status)
    async with moves.executing():
        await moves.client.delete(POD_MIGRATIONS, key)
        await until_gone(moves.client, POD_MIGRATIONS, key)
        await moves.until_served(2)
        await moves.until_nothing_left()
