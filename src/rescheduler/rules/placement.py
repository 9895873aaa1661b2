"""Where every pod is while a plan is being made: a snapshot whose pods can be moved.

A placement starts as the snapshot. `place` adds a copy of a pod to a node and `remove` removes one; every
rule that depends on other pods sees the change immediately. `trial` undoes the changes that are made
inside it. Rules that no move can change (taints, labels, volume topology) are evaluated once per pod
class.

    fits ──▶ RuleSet: ClassRules per pod class ─┬─ StaticRules: a mask of nodes
                                                └─ live rules ──▶ DomainCounts, AttachedVolumes, free room
    place, remove ──▶ PodPositions, and everything that the live rules read
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import numpy as np

from rescheduler.cluster.snapshot import CPU, MEMORY, NO_ROW, Flags, Ints, Rows, Snapshot
from rescheduler.rules.pod_positions import ITSELF, PodPositions
from rescheduler.rules.rule_check import NodeRefusal, SchedulerRule
from rescheduler.rules.rule_set import ClassRules, RuleSet

__all__ = ["Placement"]

_Change = tuple[int, int, int, int]
"""Pod, node, number of its copy, and 1 or -1: put there or taken away."""
_UNCHANGED = nullcontext()


class Placement:
    """Only the placement itself writes to its columns."""

    snapshot: Snapshot
    requested: Ints
    """[node, resource], at present."""
    load: Ints
    """[node, resource], likewise."""
    position: Rows
    """[pod]: the node that it is on now, `NO_ROW` if none. The last one it was placed on."""

    def __init__(self, snapshot: Snapshot, *, unreserved: int = NO_ROW) -> None:
        """`unreserved` is a pending pod that no room is left for, though it is nominated."""
        self.snapshot = snapshot
        self.requested = snapshot.nodes.requested.copy()
        self.load = snapshot.nodes.load.copy()
        # By resource and then node, so that one resource of all nodes is a stretch of memory.
        self._free = np.ascontiguousarray((snapshot.nodes.allocatable - snapshot.nodes.requested).T)
        self._free_on = self._free.T
        self._leave_room_for_nominated(unreserved)
        self._positions = PodPositions(snapshot)
        self.position = self._positions.latest
        self._rule_set = RuleSet(snapshot, self._positions, self._free)
        self._tried: list[_Change] | None = None

    def _leave_room_for_nominated(self, unreserved: int) -> None:
        """A pod that the scheduler has nominated to a node is as good as there: it makes room for it."""
        pods, nodes = self.snapshot.pods, self.snapshot.nodes
        for pod in np.flatnonzero(pods.node == NO_ROW):
            record = pods.records[pod]
            if pod == unreserved or record.is_finished or record.is_terminating:
                continue
            if record.nominated_node in nodes.row:
                asks = self.snapshot.classes[pods.pod_class[pod]].asks
                self._free_on[nodes.row[record.nominated_node]] -= asks

    def pods_on(self, node: int) -> list[int]:
        """Rows of the pods that are there now, in order of their keys."""
        return self._positions.pods_on(node)

    def fits(self, pod: int, *, source_stays: bool) -> Flags:
        """[node]: where a copy of that pod could be put now, by every rule.

        With `source_stays` the pod itself stands in the way like any other; without, it is ignored.
        Where it is now counts as unfit either way.
        """
        class_rules = self._rule_set.class_rules(pod)
        with self._asked_about(pod, class_rules, source_stays):
            found = class_rules.fits()
        found[self._positions.nodes_with(pod)] = False
        return found

    def fits_another(self, pod: int) -> Flags:
        """[node]: where one more pod like it could be put now, beside it and its copies, also where it is."""
        return self._rule_set.class_rules(pod).fits()

    def static_fits(self, pod: int) -> Flags:
        """[node]: where no rule forbids it whose answer other pods don't change. Not to be written to."""
        return self._rule_set.class_rules(pod).static_fits

    def fits_on(self, pod: int, node: int, *, source_stays: bool) -> bool:
        """The same for one node, cheaper."""
        if node in self._positions.nodes_with(pod):
            return False
        class_rules = self._rule_set.class_rules(pod)
        with self._asked_about(pod, class_rules, source_stays):
            return class_rules.fits_on(node)

    def keeps_spread(self, pod: int) -> Flags:
        """[node]: where its going there leaves behind no spread constraint of its own worse than it is."""
        found = np.ones(len(self.snapshot.nodes), np.bool_)
        source = int(self.position[pod])
        if source != NO_ROW:
            for spread_check in self._rule_set.spread_checks(pod):
                even = spread_check.fits_after_leaving(source)
                if even is not None:
                    found &= even
        return found

    def refusals(self, pod: int, node: int, *, source_stays: bool) -> list[NodeRefusal]:
        """All rules that forbid it, in the scheduler's order; empty if it fits."""
        class_rules = self._rule_set.class_rules(pod)
        with self._asked_about(pod, class_rules, source_stays):
            found = class_rules.refusals(node)
        if node in self._positions.nodes_with(pod):
            found.append(NodeRefusal(SchedulerRule.ALREADY_HERE, ("the pod is already on that node",)))
        return found

    def place(self, pod: int, node: int) -> None:
        """One more copy of that pod, on that node."""
        self._change((pod, node, self._positions.next_number(pod), 1))

    def remove(self, pod: int, node: int) -> None:
        """One copy less; the pod itself where it is at home. Raises `PodNotOnNodeError`."""
        self._change((pod, node, self._positions.find(pod, node), -1))

    def move(self, pod: int, node: int) -> None:
        """From where it is to that node, at once."""
        if (source := int(self.position[pod])) != NO_ROW:
            self.remove(pod, source)
        self.place(pod, node)

    @contextmanager
    def trial(self) -> Iterator[None]:
        """On leaving, everything is as it was on entering. May be nested."""
        outer, self._tried = self._tried, []
        try:
            yield
        finally:
            tried, self._tried = self._tried, None
            for pod, node, number, by in reversed(tried):
                self._change((pod, node, number, -by))
            self._tried = outer

    def _asked_about(
        self, pod: int, class_rules: ClassRules, source_stays: bool
    ) -> AbstractContextManager[None]:
        """Ignore the pod itself if the question requires it.

        On its own node it is never asked about, so this matters only to rules that look beyond one node.
        """
        return _UNCHANGED if source_stays or not class_rules.conflicts_with_itself else self._excluding(pod)

    @contextmanager
    def _excluding(self, pod: int) -> Iterator[None]:
        self._count_hypothetically(pod, -1)
        try:
            yield
        finally:
            self._count_hypothetically(pod, 1)

    def _count_hypothetically(self, pod: int, by: int) -> None:
        pod_class, home = int(self.snapshot.pods.pod_class[pod]), self._positions.home[pod]
        for place, node in enumerate(self._positions.nodes_with(pod)):
            is_ending = place == 0 and home != NO_ROW and self._is_ending(pod)
            self._rule_set.count_hypothetically(pod_class, node, by, is_ending=is_ending)

    def _is_ending(self, pod: int) -> bool:
        return self.snapshot.pods.records[pod].is_terminating

    def _change(self, change: _Change) -> None:
        pod, node, number, by = change
        amounts, load = self._requests_and_load(pod, number)
        # Views, written to in place: this is done tens of thousands of times in a plan.
        requested, free, loaded = self.requested[node], self._free_on[node], self.load[node]
        if by > 0:
            self._positions.put(pod, node, number)
            requested += amounts
            free -= amounts
            loaded += load
        else:
            self._positions.take(pod, node, number)
            requested -= amounts
            free += amounts
            loaded -= load
        pod_class, is_ending = (
            int(self.snapshot.pods.pod_class[pod]),
            number == ITSELF and self._is_ending(pod),
        )
        self._rule_set.count(pod_class, node, by, is_ending=is_ending)
        if self._tried is not None:
            self._tried.append(change)

    def _requests_and_load(self, pod: int, number: int) -> tuple[Ints, Ints]:
        """What it counts for, and its load.

        The pod itself may be in the middle of a resize; a copy asks for what its spec says.
        """
        pods = self.snapshot.pods
        if number == ITSELF:
            return pods.requests[pod], pods.load[pod]
        asks = self.snapshot.classes[pods.pod_class[pod]].asks
        if not pods.measured[pod]:
            return asks, asks
        load = asks.copy()
        load[[CPU, MEMORY]] = pods.load[pod, [CPU, MEMORY]]
        return asks, load
