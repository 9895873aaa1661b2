"""The owner of the copy decides whether it is kept: what the garbage collector does at each step."""

from collections.abc import AsyncIterator

import pytest

from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube.api_resources import NAMESPACES, REPLICA_SETS, Object, strategic_patch
from rescheduler.kube.client import Client, Propagation
from tests.stories import objects
from tests.stories.facts import adopt
from tests.stories.facts.podmigrations import PODMIGRATIONS, podmigration
from tests.stories.observer import observing
from tests.stories.sandbox import MakeSandbox, Sandbox
from tests.stories.waiting import until_gone, until_object

pytestmark = pytest.mark.full

NO_OWNER = {"metadata": {"name": "nobody", "uid": "none"}}


async def copy_beside_the_source(sandbox: Sandbox, *, finalizer: bool) -> tuple[adopt.Handover, Object]:
    await sandbox.deployment(1)
    await sandbox.budget(minAvailable=1)
    (source,) = await sandbox.pods()
    target = await sandbox.free_node()
    handover = await adopt.begin(sandbox.client, adopt.key(source), target, finalizer=finalizer)
    copy = await adopt.bring_up(sandbox.client, handover)
    sandbox.start_slowly()
    return handover, copy


async def collector_has_caught_up(sandbox: Sandbox) -> None:
    """It has done a later piece of work, so what it left alone, it left for good."""
    owner = await sandbox.client.create(PODMIGRATIONS, podmigration(sandbox.namespace, "owner", NO_OWNER, ""))
    owned = podmigration(sandbox.namespace, "owned", NO_OWNER, "")
    owned["metadata"]["ownerReferences"] = [adopt.owner_reference(owner)]
    await sandbox.client.create(PODMIGRATIONS, owned)
    await sandbox.client.delete(PODMIGRATIONS, adopt.key(owner))
    await until_gone(sandbox.client, PODMIGRATIONS, adopt.key(owned))


# -- a PodMigration that is deleted in between


async def test_before_the_eviction_it_takes_only_its_copy_along(make_sandbox: MakeSandbox) -> None:
    sandbox = await make_sandbox(nodes=2)
    handover, copy = await copy_beside_the_source(sandbox, finalizer=False)
    async with observing(sandbox.client, sandbox.namespace) as seen:
        await sandbox.client.delete(PODMIGRATIONS, adopt.key(handover.migration))
        await until_gone(sandbox.client, PODS.as_json, adopt.key(copy))
    assert seen.deleted == [copy["metadata"]["name"]]
    assert min(seen.ready) == 1


async def test_migration_deleted_between_eviction_and_adoption(make_sandbox: MakeSandbox) -> None:
    """Without a finalizer, the garbage collector removes the only ready pod with it."""
    sandbox = await make_sandbox(nodes=2)
    handover, copy = await copy_beside_the_source(sandbox, finalizer=False)
    async with observing(sandbox.client, sandbox.namespace) as seen:
        await adopt.evict_source(sandbox.client, handover)
        await sandbox.client.delete(PODMIGRATIONS, adopt.key(handover.migration))
        await until_gone(sandbox.client, PODS.as_json, adopt.key(copy))
    assert min(seen.ready) == 0


async def test_migration_with_a_finalizer(make_sandbox: MakeSandbox) -> None:
    """The copy stays and is adopted as if nothing had happened."""
    sandbox = await make_sandbox(nodes=2)
    handover, copy = await copy_beside_the_source(sandbox, finalizer=True)
    async with observing(sandbox.client, sandbox.namespace) as seen:
        await adopt.evict_source(sandbox.client, handover)
        await sandbox.client.delete(PODMIGRATIONS, adopt.key(handover.migration))
        await collector_has_caught_up(sandbox)
        await adopt.offer(sandbox.client, handover, copy)
        await adopt.until_adopted(sandbox.client, handover, copy)
        await adopt.disown(sandbox.client, handover, copy)
        await adopt.release(sandbox.client, handover)
        await until_gone(sandbox.client, PODMIGRATIONS, adopt.key(handover.migration))
        await collector_has_caught_up(sandbox)
        (left,) = await sandbox.until_ready(1)
    assert min(seen.ready) == 1
    assert left["metadata"]["uid"] == copy["metadata"]["uid"]


async def test_a_finalizer_does_not_help_against_deletion_in_the_foreground(
    make_sandbox: MakeSandbox,
) -> None:
    """The collector deletes what an owner with the finalizer `foregroundDeletion` owns, and removes that
    finalizer as soon as nothing blocks the deletion. A reference that does not block races with that: if the
    finalizer goes first, the copy stays. One that blocks, as here, always loses the copy.
    """
    sandbox = await make_sandbox(nodes=2)
    handover, copy = await copy_beside_the_source(sandbox, finalizer=True)
    blocking = {"uid": handover.migration["metadata"]["uid"], "blockOwnerDeletion": True}
    await sandbox.client.patch(
        PODS, adopt.key(copy), strategic_patch({"metadata": {"ownerReferences": [blocking]}})
    )
    async with observing(sandbox.client, sandbox.namespace) as seen:
        await adopt.evict_source(sandbox.client, handover)
        await sandbox.client.delete(PODMIGRATIONS, adopt.key(handover.migration), propagation="Foreground")
        await until_gone(sandbox.client, PODS.as_json, adopt.key(copy))
    await adopt.release(sandbox.client, handover)
    assert min(seen.ready) == 0


@pytest.mark.parametrize("how", ["Background", "Foreground"])
async def test_replica_set_as_a_second_owner(make_sandbox: MakeSandbox, how: Propagation) -> None:
    """The copy stays and the ReplicaSet adopts it by itself."""
    sandbox = await make_sandbox(nodes=2)
    handover, copy = await copy_beside_the_source(sandbox, finalizer=False)
    second = adopt.owner_reference(handover.replica_set, controller=False)
    change = strategic_patch({"metadata": {"ownerReferences": [second]}})
    await sandbox.client.patch(PODS, adopt.key(copy), change)
    async with observing(sandbox.client, sandbox.namespace) as seen:
        await adopt.evict_source(sandbox.client, handover)
        await sandbox.client.delete(PODMIGRATIONS, adopt.key(handover.migration), propagation=how)
        await adopt.until_adopted(sandbox.client, handover, copy)
        (left,) = await sandbox.until_ready(1)
    assert min(seen.ready) == 1
    assert left["metadata"]["uid"] == copy["metadata"]["uid"]
    assert len(left["metadata"]["ownerReferences"]) == 1


async def test_migration_deleted_with_orphans(make_sandbox: MakeSandbox) -> None:
    """Deleted before the eviction, it leaves the copy to the ReplicaSet, which removes one pod."""
    sandbox = await make_sandbox(nodes=2)
    handover, copy = await copy_beside_the_source(sandbox, finalizer=True)
    async with observing(sandbox.client, sandbox.namespace) as seen:
        await sandbox.client.delete(PODMIGRATIONS, adopt.key(handover.migration), propagation="Orphan")
        (left,) = await sandbox.until_ready(1)
    await adopt.release(sandbox.client, handover)
    assert min(seen.ready) == 1
    assert adopt.controller_of(left)
    assert left["metadata"]["uid"] in {copy["metadata"]["uid"], handover.source["metadata"]["uid"]}


# -- our reference on a pod that was adopted


async def orphaned_after_adoption(sandbox: Sandbox, *, disowned: bool) -> tuple[adopt.Handover, Object]:
    """A moved pod whose ReplicaSet has been deleted with `--cascade=orphan`."""
    await sandbox.replica_set(1)
    (source,) = await sandbox.pods()
    target = await sandbox.free_node()
    handover = await adopt.begin(sandbox.client, adopt.key(source), target, finalizer=False)
    copy = await adopt.bring_up(sandbox.client, handover)
    sandbox.start_slowly()
    await adopt.evict_source(sandbox.client, handover)
    await adopt.offer(sandbox.client, handover, copy)
    await adopt.until_adopted(sandbox.client, handover, copy)
    if disowned:
        await adopt.disown(sandbox.client, handover, copy)
    await sandbox.client.delete(REPLICA_SETS, sandbox.key("web"), propagation="Orphan")
    await until_object(
        sandbox.client, PODS.as_json, adopt.key(copy), lambda pod: adopt.controller_of(pod) is None
    )
    return handover, copy


async def test_our_reference_on_an_orphaned_pod(make_sandbox: MakeSandbox) -> None:
    """The garbage collector removes the running pod."""
    sandbox = await make_sandbox(nodes=2)
    handover, copy = await orphaned_after_adoption(sandbox, disowned=False)
    await sandbox.client.delete(PODMIGRATIONS, adopt.key(handover.migration))
    await until_gone(sandbox.client, PODS.as_json, adopt.key(copy))


async def test_without_our_reference_the_orphaned_pod_outlives_the_migration(
    make_sandbox: MakeSandbox,
) -> None:
    sandbox = await make_sandbox(nodes=2)
    handover, copy = await orphaned_after_adoption(sandbox, disowned=True)
    await sandbox.client.delete(PODMIGRATIONS, adopt.key(handover.migration))
    await collector_has_caught_up(sandbox)
    assert adopt.ready_since(await sandbox.client.get(PODS.as_json, adopt.key(copy)))


# -- owners elsewhere


@pytest.fixture
async def other_namespace(client: Client, namespace: str) -> AsyncIterator[str]:
    name = f"{namespace}-other"
    await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield name
    await client.delete(NAMESPACES, name)


async def test_a_pod_whose_owner_is_in_another_namespace_is_collected(
    make_sandbox: MakeSandbox, other_namespace: str
) -> None:
    sandbox = await make_sandbox(nodes=1)
    owner = await sandbox.client.create(PODMIGRATIONS, podmigration(other_namespace, "owner", NO_OWNER, ""))
    reference = adopt.owner_reference(owner, controller=True)
    copy = objects.pod(
        sandbox.namespace, "copy", objects.pod_spec(sandbox.kubelet.name), ownerReferences=[reference]
    )
    await sandbox.client.create(PODS, copy)
    await until_gone(sandbox.client, PODS.as_json, sandbox.key("copy"))
