"""Pods that another client wants to evict: where they go, and what is said if they can't be moved."""

from datetime import timedelta

from rescheduler.api.podmigration import EVICTION, MigrationPhase
from rescheduler.cluster.codecs.record_resources import NODES
from rescheduler.config.move_limits import Window
from rescheduler.config.policy import SafeEvictions
from rescheduler.kube.api_resources import api_resource, merge_patch
from rescheduler.migrations.interruptions import DEADLINE_EXCEEDED
from tests.stories.migrations.moves import MakeMoves, Moves
from tests.stories.migrations.test_revalidated_moves import executing
from tests.stories.observer import observing
from tests.stories.sandbox import node_of
from tests.stories.waiting import until

EVENTS = api_resource("", "v1", "events", "Event")
LONG = timedelta(hours=20)


async def taint(moves: Moves, node: str, key: str, effect: str) -> None:
    taints = [{"key": key, "effect": effect, "value": "1"}]
    await moves.client.patch(NODES, node, merge_patch({"spec": {"taints": taints}}))


async def test_they_go_at_any_time_to_a_node_that_stays(make_moves: MakeMoves) -> None:
    """Also a pod that has just started or moved, outside windows. A node that an autoscaler may remove is the
    last choice; one that it removes, or that is cordoned, is none."""
    moves = await make_moves(nodes=5)
    sandbox = moves.sandbox
    await sandbox.deployment(1)
    (pod,) = await sandbox.pods()
    source = node_of(pod)
    cordoned, removed, candidate, good = (node for node in sandbox.nodes if node != source)
    await sandbox.cordon(source, cordoned)
    await taint(moves, removed, "karpenter.sh/disrupted", "NoSchedule")
    await taint(moves, candidate, "DeletionCandidateOfClusterAutoscaler", "PreferNoSchedule")
    went = []
    async with (
        observing(moves.client, sandbox.namespace) as seen,
        executing(moves, min_pod_age=LONG, pod_cooldown=LONG, windows=(Window(from_=0, to=1),)),
    ):
        for _ in range(2):
            (pod,) = await sandbox.until_ready(1)
            key = await moves.create_migration(pod, "", held=False, strategy=EVICTION, handover="Adopt")
            done = await moves.until_finished(key)
            assert done.status.phase is MigrationPhase.COMPLETED, done.status
            went.append(done.target_node)
            await sandbox.cordon(done.target_node)
        await moves.until_nothing_left()
    assert went == [good, candidate]
    assert min(seen.ready) == 1


async def test_events_say_why_a_pod_was_not_moved(make_moves: MakeMoves) -> None:
    """On pod, workload and node, where users who drain the node look."""
    moves = await make_moves(nodes=2)
    sandbox = moves.sandbox
    await sandbox.deployment(1)
    (pod,) = await sandbox.pods()
    sandbox.start_slowly()
    deadline = SafeEvictions(deadline=timedelta(seconds=5))
    async with executing(moves, safe_evictions=deadline):
        key = await moves.create_migration(pod, "", held=False, strategy=EVICTION, handover="Adopt")
        done = await moves.until_finished(key)
        assert done.status.failure == DEADLINE_EXCEEDED

        def are_there(events: dict[str, dict[str, object]]) -> bool:
            failed = [each for each in events.values() if each["reason"] == "MigrationFailed"]
            found = [each for each in failed if pod["metadata"]["name"] in str(each["message"])]
            kinds = {each["involvedObject"]["kind"] for each in found}  # type: ignore[index]
            return kinds >= {"Pod", "Deployment", "Node"} and all(
                "not moved before the deadline of safe evictions" in str(each["message"]) for each in found
            )

        await until(moves.client, EVENTS, "", are_there, timeout_s=30)
