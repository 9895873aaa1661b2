"""Pods get too old: each is replaced by a pod on another node, make-before-break."""

from datetime import timedelta

from rescheduler.config.policy_blocks import PodLifeTimePolicy
from rescheduler.migrations.controller.plan_execution import PlanExecution
from tests.stories.migrations.moves import MakeMoves
from tests.stories.migrations.test_placement_drift import planned
from tests.stories.migrations.test_revalidated_moves import executing
from tests.stories.observer import observing
from tests.stories.sandbox import node_of

AGE = timedelta(hours=1)


async def test_a_pod_beyond_its_life_time_is_replaced_while_it_serves(make_moves: MakeMoves) -> None:
    """The clock of the check is two hours ahead, so that the pods are old: one for each check."""
    moves = await make_moves(nodes=2)
    sandbox, now = moves.sandbox, moves.now
    await sandbox.deployment(2)
    before = await sandbox.pods()
    setting = PodLifeTimePolicy(max_pod_life_time=AGE, namespaces=(sandbox.namespace,))
    policy = {
        "enabled_strategies": ("PodLifeTime",), "pod_life_time": setting, "pod_cooldown": timedelta(),
    }  # fmt: skip
    async with executing(moves, client=moves.ours, **policy) as rescheduler:
        assert (await planned(rescheduler)).moves == (), "all pods are young"
    moves.now = lambda: now() + 2 * AGE
    async with (
        observing(moves.client, sandbox.namespace) as seen,
        executing(moves, client=moves.ours, **policy) as rescheduler,
    ):
        plan = await planned(rescheduler)
        await PlanExecution(rescheduler.client, rescheduler.watched, plan).run()
        after = await sandbox.until_ready(2)
    names = {pod["metadata"]["name"]: node_of(pod) for pod in before}
    assert {move.pod.partition("/")[2]: move.source for move in plan.moves} == names
    assert {move.reason for move in plan.moves} == {"it is 2h old; maxPodLifeTime is 1h"}
    assert {pod["metadata"]["uid"] for pod in after}.isdisjoint(pod["metadata"]["uid"] for pod in before)
    assert min(seen.ready) == 2
