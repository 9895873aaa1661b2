"""Labels are removed from the pods of a migration, or forged on other pods, before each of its calls.

The migration goes on or is rolled back, also if its process ends at that call and another takes over; nothing
is left behind, and no pod of others is changed, evicted, deleted or adopted.
"""

import asyncio
from datetime import timedelta

import pytest

from kubesim.virtual_time import run_virtual
from rescheduler.api.well_known_names import STEERED_BY_ANNOTATION
from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube import errors
from rescheduler.kube.api_resources import NAMESPACES, merge_patch
from rescheduler.migrations import labels_and_names
from tests.stories.objects import pod, pod_spec, ready_since
from tests.unit.migrations.controller.crashing_controller import NETWORK_S, Cluster, Faulty, at_every_call

FORGED_LABELS = {
    labels_and_names.MIGRATION_ID_LABEL: "move-1",
    labels_and_names.STATUS_LABEL: "in-progress",
    labels_and_names.MIGRATED_FROM_LABEL: "elsewhere",
}
UNMARKED = {
    "labels": dict.fromkeys(labels_and_names.LABELS),
    "annotations": dict.fromkeys(labels_and_names.ANNOTATIONS),
}


class Tampered(Faulty):
    """The transport to the API server, on which labels are changed before the n-th call; then, if `ends`,
    the process ends at that call."""

    ends = False

    async def handle(self, method, target, headers, body):
        await asyncio.sleep(self.rng.uniform(*NETWORK_S))
        if self._counts(method, target):
            self.calls.append(f"{method} {target.partition('?')[0]}")
            if len(self.calls) == self.at:
                await self.tamper()
                if self.ends:
                    self.crashed.set()
                    return await asyncio.get_running_loop().create_future()
        return await self.server.handle(method, target, headers, body)


async def others_of(moves, source):
    found = (await moves.client.list(PODS.as_json, namespace="moves", labels="app=web")).items
    return [each for each in found if each["metadata"]["uid"] != source["metadata"]["uid"]]


async def change(moves, item, metadata):
    try:
        key = f"{item['metadata']['namespace']}/{item['metadata']['name']}"
        await moves.client.patch(PODS, key, merge_patch({"metadata": metadata}))
    except errors.NotFound:
        return


async def the_label_of_the_copy_is_removed(moves, source):
    for each in await others_of(moves, source):
        await change(moves, each, {"labels": {labels_and_names.MIGRATION_ID_LABEL: None}})


async def all_marks_of_both_pods_are_removed(moves, source):
    for each in [source, *await others_of(moves, source)]:
        await change(moves, each, UNMARKED)


async def the_label_of_the_source_is_removed(moves, source):
    await change(moves, source, {"labels": {labels_and_names.MIGRATION_ID_LABEL: None}})


async def the_source_is_locked_by_a_migration_that_does_not_exist(moves, source):
    await change(
        moves,
        source,
        {
            "labels": {
                labels_and_names.MIGRATION_ID_LABEL: "made-up",
                labels_and_names.STATUS_LABEL: "in-progress",
            }
        },
    )


def forged(source):
    annotations = {
        labels_and_names.ORIGINAL_POD_ANNOTATION: source["metadata"]["uid"],
        STEERED_BY_ANNOTATION: "move-1",
    }
    return {"labels": FORGED_LABELS, "annotations": annotations}


async def other_pods_are_marked_as_its_copy(moves, source):
    for namespace in ("moves", "elsewhere"):
        for each in (await moves.client.list(PODS.as_json, namespace=namespace)).items:
            is_other = labels_and_names.MIGRATION_ID_LABEL not in each["metadata"].get("labels", {})
            if each["metadata"]["uid"] != source["metadata"]["uid"] and is_other:
                await change(moves, each, forged(source))


REMOVALS = (
    the_label_of_the_copy_is_removed,
    the_label_of_the_source_is_removed,
    the_source_is_locked_by_a_migration_that_does_not_exist,
)
SHOWN = {"ids": lambda each: each.__name__.replace("_", " ")}
WORKLOADS = {"Adopt": 3, "Copy": 1}


async def set_up(handover):
    cluster = Cluster(migration_timeout=timedelta(seconds=60), max_retries=0)
    moves = await cluster.moves(nodes=4)
    sandbox = moves.sandbox
    await moves.client.create(NAMESPACES, {"metadata": {"name": "elsewhere"}})
    for namespace in ("moves", "elsewhere"):
        bystander = pod(namespace, "bystander", pod_spec(sandbox.kubelet.name), labels={"app": "bystander"})
        await sandbox.until_pod_ready(await moves.client.create(PODS.as_json, bystander))
    if handover == "Adopt":
        await sandbox.deployment(3)
    else:
        await sandbox.until_pod_ready(await sandbox.pod("web"))
    source = (await sandbox.pods())[0]
    return cluster, moves, source


async def tampered_at(tampering, handover, at, ends):
    """How many calls there were: fewer than `at` if nothing was tampered with."""
    cluster, moves, source = await set_up(handover)
    try:
        bystanders = await bystanders_of(moves)
        siblings = {each["metadata"]["uid"] for each in await others_of(moves, source)}
        key = await moves.create_migration(source, await moves.sandbox.free_node())
        way = Tampered(cluster.server, at, None)
        way.ends, way.tamper = ends, lambda: tampering(moves, source)
        async with moves.executing(cluster.connect(way.handle)):
            over = asyncio.create_task(moves.until_over(key, timeout_s=600))
            crashed = asyncio.create_task(way.crashed.wait())
            await asyncio.wait({over, crashed}, return_when=asyncio.FIRST_COMPLETED)
            crashed.cancel()
        if len(way.calls) < at:
            await over
            return len(way.calls)
        async with moves.executing():
            await over
            await until_settled(moves, WORKLOADS[handover])
        here = f"{tampering.__name__} before {way.calls[at - 1]}"
        left = await moves.sandbox.pods()
        assert siblings <= {each["metadata"]["uid"] for each in left}, here
        assert await bystanders_of(moves) == bystanders, here
        return len(way.calls)
    finally:
        await cluster.close()


async def until_settled(moves, count):
    """Wait for so many ready pods without our labels and owners."""

    def settled(pods):
        web = [each for each in pods.values() if each["metadata"]["labels"].get("app") == "web"]
        held = [each for each in web if each["spec"].get("schedulingGates") or is_owned(each)]
        return len(web) == count and not held and all(map(ready_since, web))

    await moves.until_pods(settled)


def is_owned(each):
    return any(owner["kind"] == "PodMigration" for owner in each["metadata"].get("ownerReferences", ()))


async def bystanders_of(moves):
    found = (await moves.client.list(PODS.as_json, labels="app=bystander")).items
    return {(each["metadata"]["namespace"], each["metadata"]["uid"], is_owned(each)) for each in found}


def at_each_call(tampering, handover, first, apart, *, ends):
    at = first
    while run_virtual(tampered_at(tampering, handover, at, ends)) >= at:
        at += apart
    assert at > 5


@at_every_call(12)
@pytest.mark.parametrize("handover", WORKLOADS)
@pytest.mark.parametrize("tampering", REMOVALS, **SHOWN)
def test_at_whatever_moment(tampering, handover, first, apart):
    at_each_call(tampering, handover, first, apart, ends=False)


@at_every_call(12)
@pytest.mark.parametrize("handover", WORKLOADS)
@pytest.mark.parametrize("tampering", REMOVALS, **SHOWN)
def test_and_the_process_ends_at_whatever_moment(tampering, handover, first, apart):
    at_each_call(tampering, handover, first, apart, ends=True)


@at_every_call(12)
@pytest.mark.parametrize("handover", WORKLOADS)
@pytest.mark.parametrize("ends", [False, True], ids=["it goes on", "its process ends"])
def test_no_pod_of_others_is_taken_for_its_copy_at_whatever_moment(handover, ends, first, apart):
    at_each_call(other_pods_are_marked_as_its_copy, handover, first, apart, ends=ends)


@at_every_call(12)
@pytest.mark.parametrize("handover", WORKLOADS)
def test_the_same_process_knows_its_copy_also_without_any_mark(handover, first, apart):
    at_each_call(all_marks_of_both_pods_are_removed, handover, first, apart, ends=False)


@pytest.mark.parametrize("restarted", [False, True], ids=["by one process", "by two"])
async def test_a_cancelled_eviction_whose_lock_was_removed(make_moves, restarted):
    """Other clients remove labels that they don't know. The annotations of the move must not stay."""
    moves = await make_moves(nodes=3, max_retries=0)
    sandbox = moves.sandbox
    await sandbox.deployment(1)
    budget = await sandbox.budget(minAvailable=3)
    (source,) = await sandbox.until_ready(1)
    key = await moves.create_migration(source, await sandbox.free_node())
    async with moves.executing():
        await moves.until(key, lambda migration: migration.status.step == "Evicting")
        if not restarted:
            await change(moves, source, {"labels": UNMARKED["labels"]})
            await moves.until(key, lambda migration: migration.status.step == "RollingBack")
    if restarted:
        await change(moves, source, {"labels": UNMARKED["labels"]})
    await moves.allow_all(budget)
    async with moves.executing():
        ended = await moves.until_finished(key)
        await moves.until_nothing_left()
    assert ended.status.failure == "EvictionCancelled"
    (after,) = await sandbox.until_ready(1)
    assert after["metadata"]["uid"] == source["metadata"]["uid"]
    assert after["metadata"]["labels"] == source["metadata"]["labels"]
    assert after["metadata"].get("annotations", {}) == source["metadata"].get("annotations", {})
