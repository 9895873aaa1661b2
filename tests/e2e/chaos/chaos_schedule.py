"""The schedule of disruptions, which follows from the seed, and the repair at the end."""

import asyncio
import contextlib
import signal
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from rescheduler.cluster.codecs.record_resources import NODES
from rescheduler.kube import errors
from rescheduler.kube.api_resources import Object, merge_patch
from tests.e2e.chaos.audit_trail import RESCHEDULER
from tests.e2e.chaos.chaos_actions import ChaosActions
from tests.e2e.chaos.object_versions import MAINTENANCE, NodeState

__all__ = ["ChaosSchedule"]

Action = Callable[[], Awaitable[None]]
MOVE_EVERY_S = 0.7
ACT_EVERY_S = 1.5
BASE_S = 180.0
"""For a round of this length the counts below are meant."""


@dataclass
class ChaosSchedule:
    actions: ChaosActions
    done: Counter[str] = field(default_factory=Counter)
    """What was done, by the name of the action."""
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def run(self, lasts_s: float) -> None:
        """Returns when all that was broken on purpose is whole again."""
        loop = asyncio.get_running_loop()
        end = loop.time() + lasts_s
        planned = self._planned(lasts_s)
        begun = loop.time()
        next_move = begun
        next_act = begun
        while loop.time() < end:
            now = loop.time()
            if planned and now - begun >= planned[0][0]:
                self._begin(planned.pop(0)[1])
            if now >= next_move:
                next_move = now + MOVE_EVERY_S
                self._begin(self.actions.move_a_pod)
            if now >= next_act:
                next_act = now + self.actions.rng.uniform(0.5, 1.5) * ACT_EVERY_S
                self._begin(self.actions.rng.choice(self._small_actions()))
            await asyncio.sleep(0.1)
        await asyncio.gather(*self._tasks)
        await self._remove_fault()

    # -- the plan

    def _planned(self, lasts_s: float) -> list[tuple[float, Action]]:
        do = self.actions
        counts: list[tuple[Action, int]] = [
            (do.kill_a_daemon, 7),
            (do.freeze_a_daemon, 3),
            (do.kill_the_webhook, 2),
            (do.kill_the_api_server, 2),
            (do.kill_etcd, 1),
            (do.delete_a_node, 3),
            (do.silence_a_node, 3),
        ]
        planned = []
        for action, count in counts:
            for number in range(max(1, round(count * lasts_s / BASE_S))):
                part = lasts_s / max(1, round(count * lasts_s / BASE_S))
                planned.append((part * number + self.actions.rng.uniform(0.05, 0.95) * part, action))
        return sorted(planned, key=lambda each: each[0])

    def _small_actions(self) -> list[Action]:
        do = self.actions
        return [
            do.evict_a_pod,
            do.evict_a_pod,
            do.delete_a_pod,
            do.delete_a_copy,
            do.evict_a_source,
            do.unmark_a_copy,
            do.unmark_a_source,
            do.forge_marks_on_a_pod,
            do.roll_out,
            do.scale,
            do.scale_to_zero_and_back,
            do.delete_a_workload_and_make_it_again,
            do.make_missing_bare_pods,
            do.cancel_a_migration,
            do.cordon_and_uncordon,
            do.begin_or_end_maintenance,
            do.begin_or_end_maintenance,
        ]

    def _begin(self, action: Action) -> None:
        task = asyncio.create_task(self._attempt(action))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _attempt(self, action: Action) -> None:
        name = action.__name__
        try:
            await action()
            self.done[name] += 1
        except (errors.KubeError, RuntimeError, IndexError, TimeoutError) as failed:
            # No such object now, a budget that refuses, an API server that is down: as for any client.
            self.actions.note(f"{name} failed: {str(failed)[:120]}")

    async def _remove_fault(self) -> None:
        do = self.actions
        for name in do.shapes:
            do.kubelet.revive(name)
        await do.until_done(lambda: do.kubelet.register(do.shapes.values()))
        await do.until_done(do.restore_replicas)
        for node in (await do.client.list(NODES.as_json)).items:
            state = NodeState.of(node)
            if state.is_forged:
                continue
            change: Object = {"metadata": {"labels": {MAINTENANCE: None}}}
            if RESCHEDULER not in state.cordon_managers:
                change["spec"] = {"unschedulable": None}
            with contextlib.suppress(errors.NotFound):
                await do.client.patch(NODES, node["metadata"]["name"], merge_patch(change))
        for program in (*do.daemons, do.webhook):
            program.send(signal.SIGCONT)
            await program.start()
        do.note("everything is whole again")
