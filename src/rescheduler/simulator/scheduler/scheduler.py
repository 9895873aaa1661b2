"""The scheduler at work: one pod at a time, the most important first.

A pod that finds no place waits until something changes that could help it, and then a little longer each
time. A pod that was promised a node is tried there first.
"""

import asyncio
from collections.abc import Mapping, Sequence

from rescheduler.simulator.cluster import Cluster
from rescheduler.simulator.kinds import Kind
from rescheduler.simulator.scheduler.extenders import BY_EXTENDER, Extender, ExtenderError, Opinion, consult
from rescheduler.simulator.scheduler.fitting import Fitting, fitting
from rescheduler.simulator.scheduler.following import Following
from rescheduler.simulator.scheduler.messages import NO_NODES, no_place, no_preemption
from rescheduler.simulator.scheduler.pods import PodView
from rescheduler.simulator.scheduler.preemption import not_eligible, preempt
from rescheduler.simulator.scheduler.refusals import Refusal
from rescheduler.simulator.scheduler.scores import best
from rescheduler.simulator.scheduler.waiting import ANYTHING
from rescheduler.simulator.scheduler.writes import Writes
from rescheduler.simulator.store import Change

__all__ = ["DEFAULT_NAME", "Scheduler"]

DEFAULT_NAME = "default-scheduler"
_REACTION_S = 0.005
_CYCLE_S = 0.001
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 10.0
# The real one says so too, of every pod that is refused wherever it might go.
_AFTER_A_REFUSAL = " not found"


class Scheduler:
    def __init__(
        self, cluster: Cluster, *, name: str = DEFAULT_NAME, extenders: Sequence[Extender] = ()
    ) -> None:
        """Places the pods that ask for it by `name`. Extenders need a running event loop."""
        self.extenders = tuple(extenders)
        """Who is asked; others may be named at any time."""
        self._clock = cluster.clock
        self._seen = Following(cluster, name)
        self._writes = Writes(cluster, name)
        self._busy = False
        self._due = False
        self._asking: asyncio.Task[None] | None = None
        self._happened_meanwhile = False
        cluster.store.observers.append(self._changed)
        self._wake()

    def _changed(self, kind: Kind, change: Change) -> None:
        happened = self._seen.notice(kind, change)
        if happened is not None:
            self._happened_meanwhile = True
            for pod in self._seen.waiting.woken_by(happened):
                self._retry_later(pod)
        self._wake()

    def _retry_later(self, pod: PodView) -> None:
        """After a pause that doubles with every try in vain. Being woken again meanwhile changes nothing."""
        if pod.uid in self._seen.retrying:
            return
        self._seen.retrying.add(pod.uid)
        tries = self._seen.waiting.attempts.get(pod.uid, 1)
        pause_s = min(_FIRST_PAUSE_S * 2 ** (tries - 1), _LONGEST_PAUSE_S)

        def retry() -> None:
            self._seen.retrying.discard(pod.uid)
            self._seen.waiting.release(pod.key)
            self._wake()

        self._clock.call_later(pause_s, retry)

    def _wake(self, delay_s: float = _REACTION_S) -> None:
        if not self._due and not self._busy and self._seen.waiting.has_next():
            self._due = True
            self._clock.call_later(delay_s, self._cycle)

    def _cycle(self) -> None:
        self._due = False
        pod = self._seen.waiting.next()
        if pod is None:
            return
        self._busy = True
        found = self._find(pod)
        if found.nodes and any(extender.is_interested_in(pod) for extender in self.extenders):
            self._asking = asyncio.get_running_loop().create_task(self._ask(pod, found))
        else:
            self._settle(pod, found, {})
            self._rest()

    def _rest(self) -> None:
        self._busy = False
        self._wake(_CYCLE_S)

    async def _ask(self, pod: PodView, found: Fitting) -> None:
        self._happened_meanwhile = False
        try:
            opinion = await consult(self.extenders, pod, found.nodes)
            if not opinion.nodes and pod.nominated_node:  # the promised node alone was asked about
                found = self._find_anywhere(pod)
                opinion = await consult(self.extenders, pod, found.nodes)
            missed = self._happened_meanwhile
            self._settle(pod, self._still_fitting(pod, _narrowed(found, opinion)), opinion.scores)
            if missed and self._seen.waiting.get(pod.key) is not None:
                self._retry_later(pod)
        except ExtenderError as error:
            self._seen.waiting.park(pod, {ANYTHING})
            self._writes.say_why_not(pod, str(error), reason="SchedulerError")
            self._retry_later(pod)
        finally:
            self._rest()

    def _find(self, pod: PodView) -> Fitting:
        if pod.nominated_node in self._seen.view.nodes:
            promised = fitting(pod, self._seen.view, self._seen.promises, [pod.nominated_node])
            if promised.nodes:
                return promised
        return self._find_anywhere(pod)

    def _find_anywhere(self, pod: PodView) -> Fitting:
        return fitting(pod, self._seen.view, self._seen.promises, self._seen.view.nodes)

    def _still_fitting(self, pod: PodView, found: Fitting) -> Fitting:
        """Much may have happened while extenders were asked."""
        names = [node.name for node in found.nodes if node.name in self._seen.view.nodes]
        now = fitting(pod, self._seen.view, self._seen.promises, names)
        return Fitting(now.nodes, now.refused, {**found.refusals, **now.refusals})

    def _settle(self, pod: PodView, found: Fitting, scores: Mapping[str, float]) -> None:
        """A node for the pod, or a reason why there is none."""
        current = self._seen.waiting.get(pod.key)
        if current is None or current.uid != pod.uid:
            return
        if found.nodes:
            node = best(pod, found.nodes, scores)
            if not self._writes.bind(pod, node, self._seen.view.storage):
                self._seen.waiting.park(pod, {ANYTHING})
        else:
            self._refuse(pod, found)

    def _refuse(self, pod: PodView, found: Fitting) -> None:
        total = len(self._seen.view.nodes)
        refused_by = {refusal.filter for refusal in found.refusals.values()}
        refused_by |= {found.refused.filter} if found.refused else set()
        if BY_EXTENDER in refused_by:  # nobody knows what would change its mind
            refused_by.add(ANYTHING)
        # Parked before anything is written: what is written may be just what wakes it.
        self._seen.waiting.park(pod, refused_by or {ANYTHING})
        if not total:
            self._writes.say_why_not(pod, NO_NODES, reason="Unschedulable")
            return
        message = no_place(total, found.refused, found.refusals)
        if found.refused is not None:
            self._writes.say_why_not(pod, message + _AFTER_A_REFUSAL, reason="Unschedulable")
            return
        further, nominate = self._make_room(pod, found.refusals, total)
        self._writes.say_why_not(
            pod, f"{message} preemption: {further}", reason="Unschedulable", nominate=nominate
        )

    def _make_room(self, pod: PodView, refusals: Mapping[str, Refusal], total: int) -> tuple[str, str | None]:
        """What came of preemption, and the node to promise: None if promises stay as they are."""
        view, promises = self._seen.view, self._seen.promises
        if why := not_eligible(pod, view, refusals.get(pod.nominated_node)):
            return why, None
        outcome = preempt(pod, view, refusals, promises, self._seen.budgets)
        if outcome.chosen is None:
            return no_preemption(total, outcome.tried), ""
        node, victims, _ = outcome.chosen
        for victim in victims:
            self._writes.preempt(victim, pod, node)
        for other in list(promises.get(node, {}).values()):
            if other.priority < pod.priority:
                self._writes.take_back_promise(other)
        found = f"found a potential placement for pod on node {node}, preempting {len(victims)} victims"
        return found, node


def _narrowed(found: Fitting, opinion: Opinion) -> Fitting:
    return Fitting(opinion.nodes, found.refused, {**found.refusals, **opinion.refusals})
