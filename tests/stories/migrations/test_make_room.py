"""A pod that fits on no node gets room: others move away, the room is kept for it, and it is scheduled."""

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from kubevalues import parse_selector
from rescheduler.api.podmigration import MigrationPhase, decode_migration
from rescheduler.cluster.codecs.record_resources import NODES, PODS
from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS
from rescheduler.config.policy_blocks import MakeRoomPolicy
from rescheduler.kube.api_resources import Object, merge_patch, strategic_patch
from rescheduler.migrations.controller.plan_execution import PlanExecution
from rescheduler.planner.plan import Plan
from tests.stories.migrations.moves import MakeMoves, Moves
from tests.stories.migrations.test_revalidated_moves import executing
from tests.stories.observer import observing
from tests.stories.sandbox import Sandbox, node_of
from tests.stories.waiting import until_object

GPU = "example.com/gpu"
AT_ONCE = MakeRoomPolicy(min_pending_time=timedelta())
SETTINGS = {"enabled_strategies": ("MakeRoom",), "make_room": AT_ONCE, "settle_time": timedelta(seconds=1)}


async def give_gpus(sandbox: Sandbox, counts: Mapping[str, int]) -> None:
    for node, count in counts.items():
        amounts = {"capacity": {GPU: str(count)}, "allocatable": {GPU: str(count)}}
        await sandbox.client.patch(NODES.as_json.status, node, strategic_patch({"status": amounts}))


def gpus(count: int, **more: Any) -> Object:
    amounts = {GPU: str(count)}
    resources = {"requests": {"cpu": "100m", **amounts}, "limits": amounts}
    return {"containers": [{"name": "main", "image": "ml/train:1", "resources": resources}], **more}


async def fragmented(moves: Moves) -> None:
    """On each of three nodes 2 of 8 GPUs are free: 6 in all, and nowhere more than 2."""
    await give_gpus(moves.sandbox, dict.fromkeys(moves.sandbox.nodes, 8))
    one_each = {
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "four"}},
            }
        ]
    }
    await moves.sandbox.deployment(3, app="four", pod=gpus(4, **one_each))
    for number, node in enumerate(moves.sandbox.nodes):
        await moves.sandbox.deployment(1, app=f"two-{number}", pod=gpus(2) | prefers(node))


def prefers(node: str) -> Object:
    """Not more than that, so that the pod can move later."""
    wanted = {"key": "metadata.name", "operator": "In", "values": [node]}
    term = {"weight": 100, "preference": {"matchFields": [wanted]}}
    return {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}}


async def until_unschedulable(sandbox: Sandbox, name: str) -> Object:
    def waits(pod: Object) -> bool:
        conditions = pod["status"].get("conditions") or ()
        return any(each.get("reason") == "Unschedulable" for each in conditions)

    return await until_object(sandbox.client, PODS.as_json, sandbox.key(name), waits)


async def until_nominated(sandbox: Sandbox, node: str) -> None:
    """Until that node is kept for the pod; any more if it is empty."""

    def is_nominated(pod: Object) -> bool:
        return str(pod["status"].get("nominatedNodeName", "")) == node

    await until_object(sandbox.client, PODS.as_json, sandbox.key("train"), is_nominated)


async def planned(rescheduler: Any) -> Plan:
    async with rescheduler.checking() as checker:
        return (await checker.check()).plan


async def test_three_fragmented_nodes_take_a_pending_pod(make_moves: MakeMoves) -> None:
    """The pod needs 4 GPUs: one pod with 2 moves, make-before-break, and the scheduler places the pod.

    All with the permissions of the daemon."""
    moves = await make_moves(nodes=3)
    sandbox = moves.sandbox
    await fragmented(moves)
    await sandbox.pod("train", **gpus(4))
    await until_unschedulable(sandbox, "train")
    async with (
        observing(moves.client, sandbox.namespace, app="four") as seen,
        executing(moves, client=moves.ours, **SETTINGS) as rescheduler,
    ):
        plan = await planned(rescheduler)
        (move,) = plan.moves
        (room,) = move.rooms
        assert room.pod == sandbox.key("train")
        await PlanExecution(rescheduler.client, rescheduler.watched, plan).run()
        train = await until_object(moves.client, PODS.as_json, sandbox.key("train"), node_of)
        assert (await planned(rescheduler)).moves == ()
    assert node_of(train) == room.node == move.source
    assert min(seen.ready) == 3
    (item,) = (await moves.client.list(POD_MIGRATIONS, namespace=sandbox.namespace)).items
    migration = decode_migration(item)
    assert migration.status.phase is MigrationPhase.COMPLETED
    assert [each.pod_key for each in migration.spec.rooms] == [sandbox.key("train")]


async def test_the_freed_room_is_not_given_away(make_moves: MakeMoves) -> None:
    """Two pods leave one after the other. Another pod prefers the room of the first, and does not get it."""
    moves = await make_moves(nodes=2)
    sandbox = moves.sandbox
    room, aside = sandbox.nodes
    await give_gpus(sandbox, {room: 4, aside: 5})
    await sandbox.cordon(aside)
    await sandbox.deployment(2, app="one", pod=gpus(1))
    await sandbox.cordon(aside, on=False)
    await sandbox.deployment(1, app="fixed", pod=gpus(2) | prefers(aside))
    await sandbox.pod("train", **gpus(4))
    await until_unschedulable(sandbox, "train")
    stays = {"excluded_pod_selector": parse_selector("app=fixed")}
    async with executing(moves, **SETTINGS, **stays) as rescheduler:
        plan = await planned(rescheduler)
        assert [(move.source, move.target) for move in plan.moves] == [(room, aside)] * 2
        running = asyncio.create_task(PlanExecution(moves.client, rescheduler.watched, plan).run())
        await until_nominated(sandbox, room)
        await sandbox.pod("greedy", **gpus(1), **prefers(room))
        greedy = await until_object(moves.client, PODS.as_json, sandbox.key("greedy"), node_of)
        await running
        train = await until_object(moves.client, PODS.as_json, sandbox.key("train"), node_of)
    assert (node_of(greedy), node_of(train)) == (aside, room)


async def test_a_room_that_can_not_be_made_is_given_back(make_moves: MakeMoves) -> None:
    """The copy never gets ready: the move fails, and the pending pod is not nominated any more, so that an
    autoscaler cares for it."""
    moves = await make_moves(nodes=3, migration_timeout=timedelta(seconds=5), max_retries=0)
    sandbox = moves.sandbox
    await fragmented(moves)
    await sandbox.pod("train", **gpus(4))
    await until_unschedulable(sandbox, "train")
    sandbox.start_slowly()
    async with executing(moves, **SETTINGS) as rescheduler:
        plan = await planned(rescheduler)
        running = asyncio.create_task(PlanExecution(moves.client, rescheduler.watched, plan).run())
        await until_nominated(sandbox, plan.moves[0].rooms[0].node)
        await running
        await until_nominated(sandbox, "")


async def test_the_next_leader_keeps_the_room(make_moves: MakeMoves) -> None:
    """The first process ends in the middle of the move, and the nomination is cleared: the migration says
    what to keep."""
    moves = await make_moves(nodes=3)
    sandbox = moves.sandbox
    await fragmented(moves)
    await sandbox.pod("train", **gpus(4))
    await until_unschedulable(sandbox, "train")
    sandbox.start_slowly()
    async with executing(moves, **SETTINGS) as first:
        plan = await planned(first)
        running = asyncio.create_task(PlanExecution(moves.client, first.watched, plan).run())
        await until_nominated(sandbox, plan.moves[0].rooms[0].node)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    patch = merge_patch({"status": {"nominatedNodeName": None}})
    await moves.client.patch(PODS.as_json.status, sandbox.key("train"), patch)
    async with executing(moves, **SETTINGS):
        await until_nominated(sandbox, plan.moves[0].rooms[0].node)
        (item,) = (await moves.client.list(POD_MIGRATIONS, namespace=sandbox.namespace)).items
        key = sandbox.key(item["metadata"]["name"])
        await moves.client.delete(POD_MIGRATIONS, key)
        await moves.until_over(key)
