"""A roll-back keeps a copy that is ready while its source is not: it may be the last ready pod."""

from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from rescheduler.api.podmigration import ConditionType, MigrationPhase
from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS
from rescheduler.kube import errors
from rescheduler.kube.api_resources import DEPLOYMENTS, REPLICA_SETS, Object, merge_patch, strategic_patch
from rescheduler.migrations import labels_and_names
from tests.stories.migrations.moves import MakeMoves, Moves
from tests.stories.objects import ready_since
from tests.stories.observer import observing
from tests.stories.sandbox import node_of
from tests.stories.waiting import until_object

pytestmark = pytest.mark.full

Change = Callable[[Moves, Object], Awaitable[None]]
Undo = Callable[[Moves, str], Awaitable[None]]

HOLD = "example.com/hold"
SETTLES = timedelta(minutes=5)


def _key(moves: Moves, pod: Object) -> str:
    return str(moves.sandbox.key(pod["metadata"]["name"]))


# -- what becomes of the source


async def not_ready(moves: Moves, pod: Object) -> None:
    """Nor is any new pod: it starts slowly."""
    at_source = {"match": {"node": node_of(pod)}, "readiness": "never", "startup": "0s"}
    moves.sandbox.behave(at_source, {"startup": "60s", "termination": "0s"})
    await moves.until_pods(lambda pods: not ready_since(pods[pod["metadata"]["name"]]))


async def ready_again(moves: Moves, pod: Object) -> None:
    moves.sandbox.behave()
    await moves.sandbox.until_pod_ready(pod)


async def on_lost_node(moves: Moves, pod: Object) -> None:
    """Write what the node lifecycle controller writes: first to the node, then to its pods."""
    await moves.lose_node(node_of(pod))
    ready = {"type": "Ready", "status": "False", "reason": "NodeNotReady"}
    patch = strategic_patch({"status": {"conditions": [ready]}})
    await moves.client.patch(PODS.as_json.status, _key(moves, pod), patch)


async def terminating(moves: Moves, pod: Object) -> None:
    """A finalizer of others holds it."""
    await moves.client.patch(PODS, _key(moves, pod), merge_patch({"metadata": {"finalizers": [HOLD]}}))
    await moves.client.delete(PODS, _key(moves, pod))


async def gone(moves: Moves, pod: Object) -> None:
    await moves.client.delete(PODS, _key(moves, pod), grace_s=0)


LOSSES = [
    pytest.param(not_ready, id="not ready"),
    pytest.param(on_lost_node, id="on a lost node"),
    pytest.param(terminating, id="terminating"),
    pytest.param(gone, id="gone"),
]


# -- why the move is rolled back


async def cancelled(moves: Moves, key: str) -> None:
    await moves.client.delete(POD_MIGRATIONS, key)


async def rolled_out(moves: Moves, _: str) -> None:
    """The copy has the template of the old ReplicaSet, as its source has, and no new pod becomes ready."""
    template = {"metadata": {"annotations": {"example.com/release": "2"}}}
    patch = merge_patch({"spec": {"template": template}})
    await moves.client.patch(DEPLOYMENTS, moves.sandbox.key("web"), patch)


async def _until_removed(moves: Moves, source: Object) -> None:
    """Its ReplicaSet removes the pod that is not ready, and whatever holds that is gone, too."""
    name = source["metadata"]["name"]
    await moves.until_pods(lambda pods: name not in pods or pods[name]["metadata"].get("deletionTimestamp"))
    try:
        await moves.client.patch(PODS, _key(moves, source), merge_patch({"metadata": {"finalizers": None}}))
        await moves.client.delete(PODS, _key(moves, source), grace_s=0)
    except errors.NotFound:
        pass


async def set_deployment(make_moves: MakeMoves, **policy: timedelta) -> tuple[Moves, Object, str, str]:
    moves: Moves = await make_moves(nodes=3, settle_time=SETTLES, **policy)
    await moves.sandbox.deployment(1)
    (source,) = await moves.sandbox.pods()
    target = await moves.sandbox.free_node()
    return moves, source, target, await moves.create_migration(source, target)


@pytest.mark.parametrize("undo", [cancelled, rolled_out])
@pytest.mark.parametrize("lose", LOSSES)
async def test_rolled_back_while_the_source_is(make_moves: MakeMoves, lose: Change, undo: Undo) -> None:
    """The Deployment keeps its only ready pod: the copy."""
    moves, source, target, key = await set_deployment(make_moves)
    # The controller sees both at once when it starts: neither comes first.
    async with moves.executing():
        copy = await moves.copy_of(key, ready_since)
        await moves.until(key, lambda migration: migration.status.target_pod is not None)
    moves.sandbox.start_slowly()
    await undo(moves, key)
    await lose(moves, source)
    async with observing(moves.client, moves.sandbox.namespace) as seen, moves.executing():
        migration = await moves.until_over(key)
        await _until_removed(moves, source)
        await moves.until_nothing_left()
    assert copy["metadata"]["name"] not in seen.deleted
    assert min(seen.ready) >= 1
    ready = [pod for pod in await moves.sandbox.pods() if ready_since(pod)]
    assert [node_of(pod) for pod in ready] == [target]
    (owner,) = ready[0]["metadata"]["ownerReferences"]
    assert owner["kind"] == "ReplicaSet"
    if migration is not None:
        assert migration.status.phase is MigrationPhase.COMPLETED, migration.status
        assert "takes its place" in migration.status.message
        handed_over = migration.status.condition(ConditionType.HANDED_OVER)
        assert handed_over is not None
        assert handed_over.reason == "SourceLost"


async def test_timed_out(make_moves: MakeMoves) -> None:
    """The Deployment keeps its only ready pod: the copy."""
    moves, source, target, key = await set_deployment(make_moves, migration_timeout=timedelta(seconds=8))
    async with observing(moves.client, moves.sandbox.namespace) as seen, moves.executing():
        await moves.copy_of(key, ready_since)
        moves.sandbox.start_slowly()
        await on_lost_node(moves, source)
        migration = await moves.until_finished(key)
        await _until_removed(moves, source)
        await moves.until_nothing_left()
    assert migration.status.phase is MigrationPhase.COMPLETED, migration.status
    assert "rollback (TimedOut)" in migration.status.message
    assert min(seen.ready) >= 1
    assert [node_of(pod) for pod in await moves.sandbox.pods() if ready_since(pod)] == [target]


async def test_of_a_workload_that_is_scaled_to_zero_no_copy_is_kept(make_moves: MakeMoves) -> None:
    moves, source, _, key = await set_deployment(make_moves)
    async with moves.executing():
        await moves.copy_of(key, ready_since)
        await not_ready(moves, source)
        await moves.client.patch(
            DEPLOYMENTS, moves.sandbox.key("web"), merge_patch({"spec": {"replicas": 0}})
        )
        await moves.until_over(key)
        await moves.until_served(0)
        await moves.until_nothing_left()


async def test_a_source_that_is_ready_again_stays_and_its_copy_goes(make_moves: MakeMoves) -> None:
    moves, source, _, key = await set_deployment(make_moves)
    async with observing(moves.client, moves.sandbox.namespace) as seen, moves.executing():
        await moves.copy_of(key, ready_since)
        await not_ready(moves, source)
        await ready_again(moves, source)
        await cancelled(moves, key)
        await moves.until_over(key)
        (left,) = await moves.sandbox.until_ready(1)
        await moves.until_nothing_left()
    assert left["metadata"]["uid"] == source["metadata"]["uid"]
    assert min(seen.ready) >= 1


# -- pods without a controller: nothing else removes one pod too many


async def set_bare_pod(make_moves: MakeMoves, **policy: timedelta) -> tuple[Moves, Object, str]:
    moves: Moves = await make_moves(nodes=2, **{"settle_time": SETTLES, **policy})
    source = await moves.sandbox.until_pod_ready(await moves.sandbox.pod("web"))
    return moves, source, await moves.create_migration(source, await moves.sandbox.free_node())


async def _until_kept(moves: Moves, key: str) -> None:
    """Rolling back, for some time already."""
    await moves.until(key, lambda migration: migration.status.step == "RollingBack")


async def test_the_copy_of_a_bare_pod_is_kept_until_the_pod_is_ready_again(make_moves: MakeMoves) -> None:
    moves, source, key = await set_bare_pod(make_moves)
    async with observing(moves.client, moves.sandbox.namespace) as seen, moves.executing():
        await moves.copy_of(key, ready_since)
        await not_ready(moves, source)
        await cancelled(moves, key)
        await _until_kept(moves, key)
        await ready_again(moves, source)
        await moves.until_over(key)
        (left,) = await moves.sandbox.until_ready(1)
        await moves.until_nothing_left()
    assert left["metadata"]["uid"] == source["metadata"]["uid"]
    assert min(seen.ready) >= 1


async def test_bare_pod_that_does_not_become_ready_again(make_moves: MakeMoves) -> None:
    """Its copy takes its place."""
    moves, source, key = await set_bare_pod(make_moves, migration_timeout=timedelta(seconds=8))
    async with observing(moves.client, moves.sandbox.namespace) as seen, moves.executing():
        copy = await moves.copy_of(key, ready_since)
        await on_lost_node(moves, source)
        migration = await moves.until_finished(key)
        await _until_removed(moves, source)
        (left,) = await moves.sandbox.until_ready(1)
        await moves.until_nothing_left()
    assert left["metadata"]["uid"] == copy["metadata"]["uid"]
    assert migration.status.phase is MigrationPhase.COMPLETED, migration.status
    assert min(seen.ready) >= 1


async def test_bare_pod_evicted_from_a_lost_node(make_moves: MakeMoves) -> None:
    """Its copy stays."""
    moves, source, key = await set_bare_pod(make_moves)
    async with observing(moves.client, moves.sandbox.namespace) as seen, moves.executing():
        copy = await moves.copy_of(key, ready_since)
        await on_lost_node(moves, source)
        await cancelled(moves, key)
        await _until_kept(moves, key)
        await moves.client.evict(_key(moves, source), grace_s=0)
        await moves.until_over(key)
        (left,) = await moves.sandbox.until_ready(1)
        await moves.until_nothing_left()
    assert left["metadata"]["uid"] == copy["metadata"]["uid"]
    assert min(seen.ready) >= 1


async def test_bare_pod_not_ready_and_migration_removed_by_force(make_moves: MakeMoves) -> None:
    """Its ready copy stays."""
    moves, source, key = await set_bare_pod(make_moves)
    async with moves.executing():
        copy = await moves.copy_of(key, ready_since)
        await not_ready(moves, source)
        await moves.client.delete(POD_MIGRATIONS, key)
        await _until_kept(moves, key)
        await moves.client.patch(POD_MIGRATIONS, key, merge_patch({"metadata": {"finalizers": None}}))
        kept = await until_object(
            moves.client,
            PODS.as_json,
            _key(moves, copy),
            lambda pod: (
                pod["metadata"]["labels"][labels_and_names.STATUS_LABEL]
                == labels_and_names.MigrationLabelStatus.COMPLETED
            ),
        )
    assert "deletionTimestamp" not in kept["metadata"]


async def test_pods_that_were_orphaned_are_handled_like_bare_pods(make_moves: MakeMoves) -> None:
    moves: Moves = await make_moves(nodes=2, settle_time=SETTLES, migration_timeout=timedelta(seconds=8))
    await moves.sandbox.replica_set(1)
    (source,) = await moves.sandbox.pods()
    key = await moves.create_migration(source, await moves.sandbox.free_node())
    async with observing(moves.client, moves.sandbox.namespace) as seen, moves.executing():
        copy = await moves.copy_of(key, ready_since)
        await on_lost_node(moves, source)
        await moves.client.delete(REPLICA_SETS, moves.sandbox.key("web"), propagation="Orphan")
        await moves.until_over(key)
        await _until_removed(moves, source)
        (left,) = await moves.sandbox.until_ready(1)
        await moves.until_nothing_left()
    assert left["metadata"]["uid"] == copy["metadata"]["uid"]
    assert min(seen.ready) >= 1
