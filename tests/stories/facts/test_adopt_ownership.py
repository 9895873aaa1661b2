"""Who owns the copy decides whether it lives: what the garbage collector does at each step."""

from collections.abc import AsyncIterator

import pytest

from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube.api_resources import NAMESPACES, REPLICA_SETS, Object, strategic_patch
from rescheduler.kube.client import Client, Propagation
from tests.stories import objects
from tests.stories.facts import adopt
from tests.stories.facts.podmigrations import PODMIGRATIONS, podmigration
from tests.stories.observer import observing
from tests.stories.stage import SetStage, Stage
from tests.stories.waiting import until_gone, until_object

pytestmark = pytest.mark.full

NOBODY = {"metadata": {"name": "nobody", "uid": "none"}}


async def copy_beside_the_source(stage: Stage, *, finalizer: bool) -> tuple[adopt.Handover, Object]:
    await stage.deployment(1)
    await stage.budget(minAvailable=1)
    (source,) = await stage.pods()
    target = await stage.free_node()
    handover = await adopt.begin(stage.client, adopt.key(source), target, finalizer=finalizer)
    copy = await adopt.bring_up(stage.client, handover)
    stage.start_slowly()
    return handover, copy


async def collector_has_caught_up(stage: Stage) -> None:
    """It has done a later piece of work, so what it left alone, it left for good."""
    owner = await stage.client.create(PODMIGRATIONS, podmigration(stage.namespace, "owner", NOBODY, ""))
    owned = podmigration(stage.namespace, "owned", NOBODY, "")
    owned["metadata"]["ownerReferences"] = [adopt.owner_reference(owner)]
    await stage.client.create(PODMIGRATIONS, owned)
    await stage.client.delete(PODMIGRATIONS, adopt.key(owner))
    await until_gone(stage.client, PODMIGRATIONS, adopt.key(owned))


# -- a PodMigration that is deleted in between


async def test_before_the_eviction_it_takes_only_its_copy_along(set_stage: SetStage) -> None:
    stage = await set_stage(nodes=2)
    handover, copy = await copy_beside_the_source(stage, finalizer=False)
    async with observing(stage.client, stage.namespace) as seen:
        await stage.client.delete(PODMIGRATIONS, adopt.key(handover.migration))
        await until_gone(stage.client, PODS.as_json, adopt.key(copy))
    assert seen.deleted == [copy["metadata"]["name"]]
    assert min(seen.ready) == 1


async def test_migration_deleted_between_eviction_and_adoption(set_stage: SetStage) -> None:
    """Without a finalizer, the garbage collector removes the only ready pod with it."""
    stage = await set_stage(nodes=2)
    handover, copy = await copy_beside_the_source(stage, finalizer=False)
    async with observing(stage.client, stage.namespace) as seen:
        await adopt.evict_source(stage.client, handover)
        await stage.client.delete(PODMIGRATIONS, adopt.key(handover.migration))
        await until_gone(stage.client, PODS.as_json, adopt.key(copy))
    assert min(seen.ready) == 0


async def test_migration_with_a_finalizer(set_stage: SetStage) -> None:
    """The copy stays and is adopted as if nothing had happened."""
    stage = await set_stage(nodes=2)
    handover, copy = await copy_beside_the_source(stage, finalizer=True)
    async with observing(stage.client, stage.namespace) as seen:
        await adopt.evict_source(stage.client, handover)
        await stage.client.delete(PODMIGRATIONS, adopt.key(handover.migration))
        await collector_has_caught_up(stage)
        await adopt.offer(stage.client, handover, copy)
        await adopt.until_adopted(stage.client, handover, copy)
        await adopt.disown(stage.client, handover, copy)
        await adopt.release(stage.client, handover)
        await until_gone(stage.client, PODMIGRATIONS, adopt.key(handover.migration))
        await collector_has_caught_up(stage)
        (left,) = await stage.until_ready(1)
    assert min(seen.ready) == 1
    assert left["metadata"]["uid"] == copy["metadata"]["uid"]


async def test_a_finalizer_does_not_help_against_deletion_in_the_foreground(set_stage: SetStage) -> None:
    """The collector deletes what an owner with the finalizer `foregroundDeletion` owns, and removes that
    finalizer as soon as nothing blocks the deletion. A reference that does not block races with that: if the
    finalizer goes first, the copy stays. One that blocks, as here, always loses the copy.
    """
    stage = await set_stage(nodes=2)
    handover, copy = await copy_beside_the_source(stage, finalizer=True)
    blocking = {"uid": handover.migration["metadata"]["uid"], "blockOwnerDeletion": True}
    await stage.client.patch(
        PODS, adopt.key(copy), strategic_patch({"metadata": {"ownerReferences": [blocking]}})
    )
    async with observing(stage.client, stage.namespace) as seen:
        await adopt.evict_source(stage.client, handover)
        await stage.client.delete(PODMIGRATIONS, adopt.key(handover.migration), propagation="Foreground")
        await until_gone(stage.client, PODS.as_json, adopt.key(copy))
    await adopt.release(stage.client, handover)
    assert min(seen.ready) == 0


@pytest.mark.parametrize("how", ["Background", "Foreground"])
async def test_replica_set_as_a_second_owner(set_stage: SetStage, how: Propagation) -> None:
    """The copy stays and the ReplicaSet adopts it by itself."""
    stage = await set_stage(nodes=2)
    handover, copy = await copy_beside_the_source(stage, finalizer=False)
    second = adopt.owner_reference(handover.replica_set, controller=False)
    change = strategic_patch({"metadata": {"ownerReferences": [second]}})
    await stage.client.patch(PODS, adopt.key(copy), change)
    async with observing(stage.client, stage.namespace) as seen:
        await adopt.evict_source(stage.client, handover)
        await stage.client.delete(PODMIGRATIONS, adopt.key(handover.migration), propagation=how)
        await adopt.until_adopted(stage.client, handover, copy)
        (left,) = await stage.until_ready(1)
    assert min(seen.ready) == 1
    assert left["metadata"]["uid"] == copy["metadata"]["uid"]
    assert len(left["metadata"]["ownerReferences"]) == 1


async def test_migration_deleted_with_orphans(set_stage: SetStage) -> None:
    """Deleted before the eviction, it leaves the copy to the ReplicaSet, which removes one pod."""
    stage = await set_stage(nodes=2)
    handover, copy = await copy_beside_the_source(stage, finalizer=True)
    async with observing(stage.client, stage.namespace) as seen:
        await stage.client.delete(PODMIGRATIONS, adopt.key(handover.migration), propagation="Orphan")
        (left,) = await stage.until_ready(1)
    await adopt.release(stage.client, handover)
    assert min(seen.ready) == 1
    assert adopt.controller_of(left)
    assert left["metadata"]["uid"] in {copy["metadata"]["uid"], handover.source["metadata"]["uid"]}


# -- our reference on a pod that was adopted


async def orphaned_after_adoption(stage: Stage, *, disowned: bool) -> tuple[adopt.Handover, Object]:
    """A moved pod whose ReplicaSet has been deleted with `--cascade=orphan`."""
    await stage.replica_set(1)
    (source,) = await stage.pods()
    target = await stage.free_node()
    handover = await adopt.begin(stage.client, adopt.key(source), target, finalizer=False)
    copy = await adopt.bring_up(stage.client, handover)
    stage.start_slowly()
    await adopt.evict_source(stage.client, handover)
    await adopt.offer(stage.client, handover, copy)
    await adopt.until_adopted(stage.client, handover, copy)
    if disowned:
        await adopt.disown(stage.client, handover, copy)
    await stage.client.delete(REPLICA_SETS, stage.key("web"), propagation="Orphan")
    await until_object(
        stage.client, PODS.as_json, adopt.key(copy), lambda pod: adopt.controller_of(pod) is None
    )
    return handover, copy


async def test_our_reference_on_an_orphaned_pod(set_stage: SetStage) -> None:
    """The garbage collector removes the running pod."""
    stage = await set_stage(nodes=2)
    handover, copy = await orphaned_after_adoption(stage, disowned=False)
    await stage.client.delete(PODMIGRATIONS, adopt.key(handover.migration))
    await until_gone(stage.client, PODS.as_json, adopt.key(copy))


async def test_without_our_reference_the_orphaned_pod_outlives_the_migration(set_stage: SetStage) -> None:
    stage = await set_stage(nodes=2)
    handover, copy = await orphaned_after_adoption(stage, disowned=True)
    await stage.client.delete(PODMIGRATIONS, adopt.key(handover.migration))
    await collector_has_caught_up(stage)
    assert adopt.ready_since(await stage.client.get(PODS.as_json, adopt.key(copy)))


# -- owners elsewhere


@pytest.fixture
async def other_namespace(client: Client, namespace: str) -> AsyncIterator[str]:
    name = f"{namespace}-other"
    await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield name
    await client.delete(NAMESPACES, name)


async def test_a_pod_whose_owner_is_in_another_namespace_is_collected(
    set_stage: SetStage, other_namespace: str
) -> None:
    stage = await set_stage(nodes=1)
    owner = await stage.client.create(PODMIGRATIONS, podmigration(other_namespace, "owner", NOBODY, ""))
    reference = adopt.owner_reference(owner, controller=True)
    copy = objects.pod(
        stage.namespace, "copy", objects.pod_spec(stage.kubelet.name), ownerReferences=[reference]
    )
    await stage.client.create(PODS, copy)
    await until_gone(stage.client, PODS.as_json, stage.key("copy"))
