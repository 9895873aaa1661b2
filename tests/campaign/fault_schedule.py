"""The schedule of one seed: which action happens when. It is plain data, so that it can be shortened."""

import asyncio
import random
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from rescheduler.cluster.codecs.record_resources import NODES
from rescheduler.kube import errors
from rescheduler.kube.api_resources import Object, merge_patch
from tests.campaign.campaign_actions import Stage
from tests.campaign.targeted_actions import TargetedActions
from tests.e2e.chaos.audit_trail import RESCHEDULER
from tests.e2e.chaos.object_versions import MAINTENANCE, NodeState

__all__ = ["ACTIONS", "ScheduledAction", "end_faults", "fault_schedule", "run_schedule"]

ACTIONS: dict[str, int] = {
    # Moves that are asked for.
    "move_a_pod": 40,
    "begin_or_end_maintenance": 8,
    "cancel_a_migration": 3,
    "pause_and_resume": 1,
    # The API server.
    "conflicts": 3,
    "too_many_requests": 2,
    "internal_errors": 2,
    "unavailable": 2,
    "slow_answers": 2,
    "lost_answers": 4,
    "drop_watches": 2,
    "compaction": 2,
    "kill_the_api_server": 2,
    # The network and clocks.
    "bad_network": 3,
    "stale_caches": 3,
    "repeated_events": 2,
    "partition": 3,
    "clock_jump": 2,
    # The programs.
    "kill_a_daemon": 3,
    "crash_at_a_write": 6,
    "kill_the_webhook": 2,
    "unreachable_webhook": 2,
    "slow_webhook": 1,
    # Nodes.
    "silence_a_node": 3,
    "delete_a_node": 2,
    "cordon_and_uncordon": 3,
    "drain_a_node": 4,
    "taint_a_node": 2,
    # Pods and workloads.
    "evict_a_pod": 4,
    "evict_a_source": 3,
    "delete_a_pod": 3,
    "delete_a_copy": 3,
    "unmark_a_copy": 2,
    "unmark_a_source": 2,
    "forge_marks_on_a_pod": 1,
    "opt_out_a_pod": 2,
    "slow_pods": 2,
    "failing_pods": 3,
    "allow_retries": 2,
    "roll_out": 4,
    "scale": 4,
    "scale_to_zero_and_back": 1,
    "scale_a_stateful_set": 2,
    "autoscale": 2,
    "delete_a_workload_and_make_it_again": 1,
    "change_a_budget": 3,
    # What a running migration depends on.
    "lose_a_target": 4,
    "change_a_moving_workload": 4,
    "add_a_budget": 2,
    "label_a_node": 1,
}
"""Names of actions, with their weights."""


class ScheduledAction(NamedTuple):
    at_s: float
    name: str
    pick: int
    """The seed of the action's own random numbers."""


STORM_MINUTES = 10.0
STORMS_EVERY_MINUTES = 240.0
CALM_PER_MINUTE = 0.1


def fault_schedule(seed: int, minutes: float) -> list[ScheduledAction]:
    """Ten minutes of storm begin every four hours: about one action in ten seconds. Between them, something
    happens in about every ten minutes. A third of the seeds uses few kinds of actions, but these often."""
    rng = random.Random(f"schedule {seed}")
    names, weights = list(ACTIONS), list(ACTIONS.values())
    if rng.random() < 0.33:
        names = ["move_a_pod", "begin_or_end_maintenance", *rng.sample(names[2:], 6)]
        weights = [3, 1, *[1] * 6]
    per_minute = rng.choice((3, 6, 9))
    moments = sorted(round(at_min * 60, 1) for at_min in _moments(rng, minutes, per_minute))
    return [ScheduledAction(at_s, rng.choices(names, weights)[0], rng.getrandbits(32)) for at_s in moments]


def _moments(rng: random.Random, minutes: float, per_minute: float) -> Iterator[float]:
    begin = 0.0
    while begin < minutes:
        storm_ends = min(begin + STORM_MINUTES, minutes)
        for _ in range(round((storm_ends - begin) * per_minute)):
            yield rng.uniform(begin, storm_ends)
        calm_ends = min(begin + STORMS_EVERY_MINUTES, minutes)
        for _ in range(round((calm_ends - storm_ends) * CALM_PER_MINUTE)):
            yield rng.uniform(storm_ends, calm_ends)
        begin += STORMS_EVERY_MINUTES


async def run_schedule(stage: Stage, schedule: list[ScheduledAction]) -> Counter[str]:
    """Run all actions at their times, and return how often each was done."""
    done: Counter[str] = Counter()
    loop = asyncio.get_running_loop()
    begun_s = loop.time()
    async with asyncio.TaskGroup() as tasks:
        for action in schedule:
            await asyncio.sleep(max(0.0, begun_s + action.at_s - loop.time()))
            tasks.create_task(_attempt(stage, action, done))
    return done


async def _attempt(stage: Stage, action: ScheduledAction, done: Counter[str]) -> None:
    actions = TargetedActions(stage, random.Random(action.pick))
    try:
        await getattr(actions, action.name)()
        done[action.name] += 1
    except (errors.KubeError, RuntimeError, IndexError, TimeoutError) as failed:
        # No such object now, a budget that refuses, an API server that is down: as for any client.
        actions.note(f"{action.name}: not done: {str(failed)[:100]}")


async def end_faults(stage: Stage) -> None:
    """Repair all that was broken on purpose, so that everything can come to rest."""
    actions = TargetedActions(stage, random.Random(0))
    stage.server.faults.clear()
    stage.outage.is_down = False
    stage.running.kubelets.behave(stage.cluster.rest)
    for connection in stage.connections:
        connection.calm()
    for name in stage.cluster.nodes:
        stage.running.kubelets.revive(name)
        await actions.until_done(lambda name=name: actions.register(name))  # type: ignore[misc]
    for daemon in stage.daemons:
        daemon.skew *= 0
        daemon.start()
    if stage.webhook is not None:
        stage.webhook.is_reachable, stage.webhook.is_slow = True, False
        await stage.webhook.start()
    await actions.until_done(actions.restore_replicas)
    for node in (await stage.client.list(NODES.as_json)).items:
        change: Object = {"metadata": {"labels": {MAINTENANCE: None}}}
        if RESCHEDULER not in NodeState.of(node).cordon_managers:
            change["spec"] = {"unschedulable": None}
        await stage.client.patch(NODES, node["metadata"]["name"], merge_patch(change))
    actions.note("all faults are over")
