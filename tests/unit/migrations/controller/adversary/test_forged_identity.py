"""Forged objects: with the name of a copy, as its budget, or as an object that a migration owns."""

import pytest

from rescheduler.api.podmigration import MigrationPhase, decode_migration
from rescheduler.api.well_known_names import API_VERSION, POD_MIGRATION_KIND
from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS
from rescheduler.kube.api_resources import POD_DISRUPTION_BUDGETS, merge_patch
from rescheduler.migrations import labels_and_names
from rescheduler.migrations.labels_and_names import copy_name
from tests.stories.migrations.workloads import stateful_set
from tests.stories.objects import pod, pod_spec
from tests.stories.sandbox import node_of


def as_attempted(item, owner=None):
    """Return the migration as it will be when its copy is created, without the clock."""
    status = {"attempts": 1} | ({} if owner is None else {"owner": owner})
    return decode_migration(item | {"status": status})


async def name_of_copy(moves, key, source):
    owners = source["metadata"].get("ownerReferences") or [None]
    owner = owners[0] and {part: owners[0][part] for part in ("apiVersion", "kind", "name", "uid")}
    return copy_name(as_attempted(await moves.client.get(POD_MIGRATIONS, key), owner))


@pytest.mark.parametrize("handover", ["Adopt", "Copy"])
async def test_a_pod_that_has_taken_the_name_of_the_copy_is_left_alone(make_moves, handover):
    moves = await make_moves()
    sandbox = moves.sandbox
    if handover == "Adopt":
        await sandbox.deployment(2)
    else:
        await sandbox.until_pod_ready(await sandbox.pod("web"))
    source = (await sandbox.pods())[0]
    key = await moves.create_migration(source, await sandbox.free_node())
    name = await name_of_copy(moves, key, source)
    labels = {
        "app": "occupant",
        labels_and_names.MIGRATION_ID_LABEL: "move-1",
        labels_and_names.STATUS_LABEL: "in-progress",
    }
    occupant = pod(sandbox.namespace, name, pod_spec(sandbox.kubelet.name), labels=labels)
    there = await sandbox.until_pod_ready(await moves.client.create(PODS.as_json, occupant))
    async with moves.executing():
        ended = await moves.until_finished(key)
    assert (ended.status.phase, ended.status.failure) == (MigrationPhase.FAILED, "CopyNameTaken")
    assert name in ended.status.message
    after = await moves.client.get(PODS.as_json, sandbox.key(name))
    assert after["metadata"]["uid"] == there["metadata"]["uid"]
    assert after["metadata"]["labels"].items() >= labels.items()
    left = {each["metadata"]["uid"]: each for each in await sandbox.pods()}
    assert labels_and_names.MIGRATION_ID_LABEL not in left[source["metadata"]["uid"]]["metadata"]["labels"]


@pytest.mark.parametrize("is_owned", [False, True], ids=["labelled", "and owned by it"])
async def test_a_budget_of_others_is_not_removed_as_a_temporary_one(make_moves, is_owned):
    moves = await make_moves()
    sandbox = moves.sandbox
    await sandbox.until_pod_ready(await sandbox.pod("web"))
    (source,) = await sandbox.pods()
    key = await moves.create_migration(source, await sandbox.free_node())
    item = await moves.client.get(POD_MIGRATIONS, key)
    await sandbox.budget("theirs", app="nobody", minAvailable=1)
    reference = {
        "apiVersion": API_VERSION,
        "kind": POD_MIGRATION_KIND,
        "name": "move-1",
        "uid": item["metadata"]["uid"],
    }
    metadata = {
        "labels": {labels_and_names.MIGRATION_ID_LABEL: "move-1"},
        "ownerReferences": [reference] if is_owned else [],
    }
    theirs = sandbox.key("theirs")
    await moves.client.patch(POD_DISRUPTION_BUDGETS, theirs, merge_patch({"metadata": metadata}))
    async with moves.executing():
        assert (await moves.until_finished(key)).status.phase is MigrationPhase.COMPLETED
    assert (await moves.client.get(POD_DISRUPTION_BUDGETS, theirs))["metadata"]["name"] == "theirs"


@pytest.mark.parametrize("handover", ["Adopt", "Copy", "Evict"])
async def test_a_pod_that_names_the_migration_as_its_owner_is_none_of_its(make_moves, handover):
    moves = await make_moves()
    sandbox = moves.sandbox
    if handover == "Adopt":
        await sandbox.deployment(2)
    elif handover == "Evict":
        await stateful_set(sandbox, 2, app="web")
    else:
        await sandbox.until_pod_ready(await sandbox.pod("web"))
    source = (await sandbox.pods())[0]
    key = await moves.create_migration(source, await sandbox.free_node())
    await sandbox.cordon(node_of(source))
    item = await moves.client.get(POD_MIGRATIONS, key)
    reference = {
        "apiVersion": API_VERSION,
        "kind": POD_MIGRATION_KIND,
        "name": "move-1",
        "uid": item["metadata"]["uid"],
    }
    forged = pod(
        sandbox.namespace,
        "forged",
        pod_spec(sandbox.kubelet.name),
        labels={
            "app": "forged",
            labels_and_names.MIGRATION_ID_LABEL: "move-1",
            labels_and_names.STATUS_LABEL: "in-progress",
        },
        annotations={labels_and_names.ORIGINAL_POD_ANNOTATION: source["metadata"]["uid"]},
        ownerReferences=[reference | {"controller": True}],
    )
    there = await sandbox.until_pod_ready(await moves.client.create(PODS.as_json, forged))
    async with moves.executing():
        ended = await moves.until_finished(key)
    assert ended.status.phase is MigrationPhase.COMPLETED
    assert ended.status.target_pod.name != "forged"
    after = await moves.client.get(PODS.as_json, sandbox.key("forged"))
    assert after["metadata"]["uid"] == there["metadata"]["uid"]
    assert after["metadata"]["ownerReferences"] == there["metadata"]["ownerReferences"]
    assert after["metadata"]["labels"].items() >= forged["metadata"]["labels"].items()


@pytest.mark.parametrize(
    "lock",
    [
        pytest.param("made-up", id="that does not exist"),
        pytest.param("other", id="of another pod"),
        pytest.param("waiting", id="that has not begun"),
    ],
)
async def test_a_lock_of_a_migration_locks_nothing(make_moves, lock):
    moves = await make_moves(max_concurrent_migrations=1)
    sandbox = moves.sandbox
    bystander = await sandbox.until_pod_ready(await sandbox.pod("bystander"))
    source = await sandbox.until_pod_ready(await sandbox.pod("web"))
    for name, moved in (("other", bystander), ("waiting", source)):
        spec = {
            "pod": {"name": moved["metadata"]["name"], "uid": moved["metadata"]["uid"]},
            "sourceNode": "x",
        }
        made = {"metadata": {"namespace": sandbox.namespace, "name": name}, "spec": spec}
        if name == lock:
            await moves.client.create(
                POD_MIGRATIONS, {"apiVersion": API_VERSION, "kind": POD_MIGRATION_KIND} | made
            )
            if name == "other":
                begun = {"status": {"phase": "InProgress", "step": "Nowhere", "attempts": 1}}
                await moves.client.patch(POD_MIGRATIONS.status, sandbox.key(name), merge_patch(begun))
    labels = {labels_and_names.MIGRATION_ID_LABEL: lock, labels_and_names.STATUS_LABEL: "in-progress"}
    await moves.client.patch(PODS, sandbox.key("web"), merge_patch({"metadata": {"labels": labels}}))
    key = await moves.create_migration(source, await sandbox.free_node())
    async with moves.executing(max_concurrent_migrations=3):
        ended = await moves.until_finished(key)
    assert ended.status.phase is MigrationPhase.COMPLETED
