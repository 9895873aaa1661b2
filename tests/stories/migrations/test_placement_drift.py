"""Labels and taints of a node change: pods that may not be there any more move, make-before-break."""

import contextlib
from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from typing import Any

from rescheduler.cluster.codecs.record_resources import NODES
from rescheduler.config.policy_blocks import PlacementDriftPolicy, Preference
from rescheduler.kube.api_resources import Object, merge_patch
from rescheduler.migrations.controller.plan_execution import PlanExecution
from rescheduler.planner.plan import Plan
from tests.stories.migrations.moves import MakeMoves, Moves
from tests.stories.migrations.test_revalidated_moves import executing
from tests.stories.observer import observing
from tests.stories.sandbox import Sandbox, node_of

LABEL = "example.com/drift"
SETTINGS = {"enabled_strategies": ("PlacementDrift",), "pod_cooldown": timedelta()}


@contextlib.asynccontextmanager
async def changed(sandbox: Sandbox, node: str, **change: Any) -> AsyncIterator[None]:
    """Other stories need the node as it was."""
    await sandbox.client.patch(NODES.as_json, node, merge_patch(change))
    try:
        yield
    finally:
        undone = {"metadata": {"labels": {LABEL: None}}, "spec": {"taints": None}}
        await sandbox.client.patch(NODES.as_json, node, merge_patch(undone))


def labelled(sandbox: Sandbox, node: str, value: str) -> contextlib.AbstractAsyncContextManager[None]:
    return changed(sandbox, node, metadata={"labels": {LABEL: f"{sandbox.namespace}-{value}"}})


async def planned(rescheduler: Any) -> Plan:
    async with rescheduler.checking() as checker:
        return (await checker.check()).plan


async def moved(moves: Moves, **policy: Any) -> Mapping[str, str]:
    """Make one plan, execute it, and check that the next one is empty; the reasons by source node."""
    async with executing(moves, client=moves.ours, **SETTINGS, **policy) as rescheduler:
        plan = await planned(rescheduler)
        await PlanExecution(rescheduler.client, rescheduler.watched, plan).run()
        assert (await planned(rescheduler)).moves == ()
    return {move.source: move.reason for move in plan.moves}


def selecting(sandbox: Sandbox, value: str) -> Object:
    return {"nodeSelector": {LABEL: f"{sandbox.namespace}-{value}"}}


async def test_pods_leave_a_node_that_lost_the_label_they_select(make_moves: MakeMoves) -> None:
    """Both replicas move, and both were ready all the time."""
    moves = await make_moves(nodes=2)
    sandbox = moves.sandbox
    here, there = sandbox.nodes
    async with labelled(sandbox, here, "ssd"):
        await sandbox.deployment(2, pod=selecting(sandbox, "ssd"))
        assert {node_of(pod) for pod in await sandbox.pods()} == {here}
        async with (
            labelled(sandbox, there, "ssd"),
            labelled(sandbox, here, "hdd"),
            observing(moves.client, sandbox.namespace) as seen,
        ):
            reasons = await moved(moves)
            pods = await sandbox.until_ready(2)
    assert {node_of(pod) for pod in pods} == {there}
    assert min(seen.ready) == 2
    assert "the pod selects example.com/drift" in reasons[here]


async def test_a_pod_leaves_a_node_that_got_a_taint(make_moves: MakeMoves) -> None:
    moves = await make_moves(nodes=2)
    sandbox = moves.sandbox
    await sandbox.deployment(1)
    (source,) = await sandbox.pods()
    taint = {"key": LABEL, "value": sandbox.namespace, "effect": "NoSchedule"}
    async with (
        changed(sandbox, node_of(source), spec={"taints": [taint]}),
        observing(moves.client, sandbox.namespace) as seen,
    ):
        reasons = await moved(moves)
        (pod,) = await sandbox.until_ready(1)
    assert node_of(pod) != node_of(source)
    assert min(seen.ready) == 1
    assert f"taint {LABEL}={sandbox.namespace}:NoSchedule" in reasons[node_of(source)]


async def test_a_pod_returns_to_the_pool_that_it_prefers(make_moves: MakeMoves) -> None:
    """The pool was away when the pod was scheduled. The gain is 1: less would be too little, more is none."""
    moves = await make_moves(nodes=2)
    sandbox = moves.sandbox
    wanted = {"key": LABEL, "operator": "In", "values": [f"{sandbox.namespace}-spot"]}
    term = {"weight": 50, "preference": {"matchExpressions": [wanted]}}
    preferred = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}
    await sandbox.deployment(1, pod={"affinity": preferred})
    (source,) = await sandbox.pods()
    spot = await sandbox.free_node()
    setting = PlacementDriftPolicy(preferences=(Preference.NODE_AFFINITY,), min_gain=1.0)
    async with labelled(sandbox, spot, "spot"), observing(moves.client, sandbox.namespace) as seen:
        assert await moved(moves) == {}
        reasons = await moved(moves, placement_drift=setting)
        (pod,) = await sandbox.until_ready(1)
    assert (node_of(source), node_of(pod)) == (next(iter(reasons)), spot)
    assert reasons[node_of(source)].endswith("NodeAffinity 0, target 100")
    assert min(seen.ready) == 1
