"""Schedule pods one at a time, by priority: filter, score and bind.

A pod that does not fit waits with back-off until a change could help it. A nominated node is tried first.
"""

import asyncio
from collections.abc import Mapping, Sequence

from kubesim.apiserver.kind_registry import ResourceKind
from kubesim.apiserver.object_store import StoreChange
from kubesim.apiserver.simulated_cluster import SimulatedCluster
from kubesim.scheduler.fit_errors import NO_NODES, FilterRejection, no_place, no_preemption
from kubesim.scheduler.node_filtering import FeasibleNodes, fitting
from kubesim.scheduler.node_filters import matches_term
from kubesim.scheduler.node_info import NodeInfo, PodInfo
from kubesim.scheduler.pod_preemption import not_eligible, preempt
from kubesim.scheduler.scheduler_extenders import (
    BY_EXTENDER,
    Extender,
    ExtenderError,
    ExtenderOpinion,
    consult,
)
from kubesim.scheduler.scheduler_writes import SchedulerWrites
from kubesim.scheduler.scheduling_queue import ANYTHING, SchedulerState

__all__ = ["DEFAULT_NAME", "Scheduler", "best"]

_HIGHEST = 100.0
_MISSING_CPU_MILLIS = 100  # assumed for pods without requests
_MISSING_MEMORY_BYTES = 200 * 1024 * 1024
_PREFERENCE_WEIGHT = 2.0


def best(pod: PodInfo, nodes: Sequence[NodeInfo], more: Mapping[str, float]) -> NodeInfo:
    """Return the best node; `more` are the scores of extenders, and names decide between equal nodes."""
    siblings = _siblings(pod, nodes)
    preferences = _preferences(pod, nodes)

    def score(node: NodeInfo) -> float:
        preferred = siblings.get(node.name, 0.0) + _PREFERENCE_WEIGHT * preferences.get(node.name, 0.0)
        return _least_allocated(pod, node) + preferred + more.get(node.name, 0.0)

    return min(nodes, key=lambda node: (-score(node), node.name))


def _least_allocated(pod: PodInfo, node: NodeInfo) -> float:
    left = [
        max(0.0, 1 - (node.requested.get(name, 0) + (pod.wanted.get(name) or missing)) / has)
        for name, missing in (("cpu", _MISSING_CPU_MILLIS), ("memory", _MISSING_MEMORY_BYTES))
        if (has := node.allocatable.get(name, 0)) > 0
    ]
    return _HIGHEST * sum(left) / len(left) if left else 0.0


def _siblings(pod: PodInfo, nodes: Sequence[NodeInfo]) -> dict[str, float]:
    """Score nodes by the pods of the same workload: the fewer, the better."""
    if not pod.owner_uid:
        return {}
    counts = {node.name: node.owners.get(pod.owner_uid, 0) for node in nodes}
    most = max(counts.values())
    return {name: _HIGHEST * (1 - count / most) if most else _HIGHEST for name, count in counts.items()}


def _preferences(pod: PodInfo, nodes: Sequence[NodeInfo]) -> dict[str, float]:
    affinity = (pod.spec.get("affinity") or {}).get("nodeAffinity") or {}
    preferred = affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
    if not preferred:
        return {}
    sums = {
        node.name: sum(
            term["weight"] for term in preferred if matches_term(term.get("preference") or {}, node)
        )
        for node in nodes
    }
    most = max(sums.values())
    return {name: _HIGHEST * total / most if most else 0.0 for name, total in sums.items()}


DEFAULT_NAME = "default-scheduler"
_REACTION_S = 0.005
_CYCLE_S = 0.001
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 10.0
# The real scheduler appends this, too, if a filter rejects a pod for all nodes.
_AFTER_A_REFUSAL = " not found"


class Scheduler:
    def __init__(
        self, cluster: SimulatedCluster, *, name: str = DEFAULT_NAME, extenders: Sequence[Extender] = ()
    ) -> None:
        """Schedule the pods with this scheduler `name`. Extenders need a running event loop."""
        self.extenders = tuple(extenders)
        """The extenders to call; the list may change at any time."""
        self._clock = cluster.clock
        self._seen = SchedulerState(cluster, name)
        self._writes = SchedulerWrites(cluster, name)
        self._busy = False
        self._due = False
        self._extender_task: asyncio.Task[None] | None = None
        self._happened_meanwhile = False
        cluster.store.observers.append(self._changed)
        self._schedule_next()

    def _changed(self, kind: ResourceKind, change: StoreChange) -> None:
        happened = self._seen.observe(kind, change)
        if happened is not None:
            self._happened_meanwhile = True
            for pod in self._seen.waiting.requeued_by(happened):
                self._retry_later(pod)
        self._schedule_next()

    def _retry_later(self, pod: PodInfo) -> None:
        """Retry a pod after a pause that doubles with every failed attempt."""
        if pod.uid in self._seen.retrying:
            return
        self._seen.retrying.add(pod.uid)
        tries = self._seen.waiting.attempts.get(pod.uid, 1)
        pause_s = min(_FIRST_PAUSE_S * 2 ** (tries - 1), _LONGEST_PAUSE_S)

        def retry() -> None:
            self._seen.retrying.discard(pod.uid)
            self._seen.waiting.release(pod.key)
            self._schedule_next()

        self._clock.call_later(pause_s, retry)

    def _schedule_next(self, delay_s: float = _REACTION_S) -> None:
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
            self._extender_task = asyncio.get_running_loop().create_task(self._call_extenders(pod, found))
        else:
            self._settle(pod, found, {})
            self._end_cycle()

    def _end_cycle(self) -> None:
        self._busy = False
        self._schedule_next(_CYCLE_S)

    async def _call_extenders(self, pod: PodInfo, found: FeasibleNodes) -> None:
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
            self._writes.set_unschedulable(pod, str(error), reason="SchedulerError")
            self._retry_later(pod)
        finally:
            self._end_cycle()

    def _find(self, pod: PodInfo) -> FeasibleNodes:
        if pod.nominated_node in self._seen.view.nodes:
            promised = fitting(pod, self._seen.view, self._seen.nominations, [pod.nominated_node])
            if promised.nodes:
                return promised
        return self._find_anywhere(pod)

    def _find_anywhere(self, pod: PodInfo) -> FeasibleNodes:
        return fitting(pod, self._seen.view, self._seen.nominations, self._seen.view.nodes)

    def _still_fitting(self, pod: PodInfo, found: FeasibleNodes) -> FeasibleNodes:
        """Filter the nodes again, because the cluster may have changed while extenders were called."""
        names = [node.name for node in found.nodes if node.name in self._seen.view.nodes]
        now = fitting(pod, self._seen.view, self._seen.nominations, names)
        return FeasibleNodes(now.nodes, now.refused, {**found.refusals, **now.refusals})

    def _settle(self, pod: PodInfo, found: FeasibleNodes, scores: Mapping[str, float]) -> None:
        """Bind the pod to a node, or record why it fits on none."""
        current = self._seen.waiting.get(pod.key)
        if current is None or current.uid != pod.uid:
            return
        if found.nodes:
            node = best(pod, found.nodes, scores)
            if not self._writes.bind(pod, node, self._seen.view.storage):
                self._seen.waiting.park(pod, {ANYTHING})
        else:
            self._refuse(pod, found)

    def _refuse(self, pod: PodInfo, found: FeasibleNodes) -> None:
        total = len(self._seen.view.nodes)
        refused_by = {refusal.filter for refusal in found.refusals.values()}
        refused_by |= {found.refused.filter} if found.refused else set()
        if BY_EXTENDER in refused_by:  # any change may change the result of an extender
            refused_by.add(ANYTHING)
        # Park the pod before writing, because the write itself may requeue it.
        self._seen.waiting.park(pod, refused_by or {ANYTHING})
        if not total:
            self._writes.set_unschedulable(pod, NO_NODES, reason="Unschedulable")
            return
        message = no_place(total, found.refused, found.refusals)
        if found.refused is not None:
            self._writes.set_unschedulable(pod, message + _AFTER_A_REFUSAL, reason="Unschedulable")
            return
        further, nominate = self._make_room(pod, found.refusals, total)
        self._writes.set_unschedulable(
            pod, f"{message} preemption: {further}", reason="Unschedulable", nominate=nominate
        )

    def _make_room(
        self, pod: PodInfo, refusals: Mapping[str, FilterRejection], total: int
    ) -> tuple[str, str | None]:
        """Return the message of preemption and the nominated node, or None if nominations stay unchanged."""
        view, nominations = self._seen.view, self._seen.nominations
        if why := not_eligible(pod, view, refusals.get(pod.nominated_node)):
            return why, None
        outcome = preempt(pod, view, refusals, nominations, self._seen.budgets)
        if outcome.chosen is None:
            return no_preemption(total, outcome.tried), ""
        node, victims, _ = outcome.chosen
        for victim in victims:
            self._writes.preempt(victim, pod, node)
        for other in list(nominations.get(node, {}).values()):
            if other.priority < pod.priority:
                self._writes.clear_nomination(other)
        found = f"found a potential placement for pod on node {node}, preempting {len(victims)} victims"
        return found, node


def _narrowed(found: FeasibleNodes, opinion: ExtenderOpinion) -> FeasibleNodes:
    return FeasibleNodes(opinion.nodes, found.refused, {**found.refusals, **opinion.refusals})
