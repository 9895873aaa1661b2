"""Pods with the marks of a migration that is no more: nothing is left locked, and no pod is lost."""

import asyncio

from rescheduler.kube.resources import PODS
from rescheduler.migrations import marks
from rescheduler.migrations.copies import GATE
from tests.e2e.facts.waiting import until_gone, until_object


def marked(original="nobody", node="elsewhere"):
    return {
        "labels": {
            "app": "web",
            marks.ID: "long-gone",
            marks.STATUS: "in-progress",
            marks.MIGRATED_FROM: node,
        },
        "annotations": {marks.ORIGINAL_POD: original, marks.TIME: "2026-01-01T00:00:00Z"},
    }


async def test_a_copy_that_never_ran_goes_also_if_its_source_has_gone(set_moves):
    moves = await set_moves(nodes=1)
    await moves.stage.pod("late", metadata=marked(), schedulingGates=[{"name": GATE}])
    async with moves.executing():
        await until_gone(moves.client, PODS.as_json, moves.stage.key("late"))


async def test_a_copy_that_runs_stays_if_its_source_has_gone(set_moves):
    moves = await set_moves(nodes=1)
    copy = await moves.stage.until_pod_ready(await moves.stage.pod("copy", metadata=marked()))
    async with moves.executing():
        released = await until_object(moves.client, PODS.as_json, moves.stage.key("copy"), is_completed)
    assert released["metadata"]["uid"] == copy["metadata"]["uid"]


async def test_a_copy_that_runs_goes_if_its_source_stands_whose_lock_was_taken_off_before(set_moves):
    moves = await set_moves(nodes=1)
    stage = moves.stage
    source = await stage.until_pod_ready(await stage.pod("source", metadata={"labels": {"app": "web"}}))
    metadata = marked(original=source["metadata"]["uid"])
    await stage.until_pod_ready(await stage.pod("copy", metadata=metadata))
    async with moves.executing():
        await until_gone(moves.client, PODS.as_json, stage.key("copy"))
    (after,) = await stage.until_ready(1)
    assert after["metadata"]["uid"] == source["metadata"]["uid"]


async def test_what_was_completed_is_left_alone(set_moves):
    moves = await set_moves(nodes=1)
    metadata = marked()
    metadata["labels"][marks.STATUS] = "completed"
    before = await moves.stage.until_pod_ready(await moves.stage.pod("moved", metadata=metadata))
    async with moves.executing():
        await asyncio.sleep(5)
    assert await moves.client.get(PODS.as_json, moves.stage.key("moved")) == before


def is_completed(pod):
    return pod["metadata"]["labels"][marks.STATUS] == "completed"
