"""Where every pod is while a plan is being made: a snapshot whose pods can be moved about.

A board begins as the snapshot has it. `place` puts one more copy of a pod onto a node, `lift` takes one
away; every rule that looks at other pods sees the result at once. `trial` takes back what was tried in it.
What no pod can change (taints, labels, volume topology) is judged once per pod class.

    fits ──▶ Rulebook: a Judgement per class ─┬─ Ground: rules about nodes alone, a mask
                                              └─ live rules ──▶ Tallies, AttachedVolumes, free resources
    place, lift ──▶ Positions, and all of the latter
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import numpy as np

from rescheduler.rules.positions import ITSELF, Positions
from rescheduler.rules.refusal import Refusal, Rule
from rescheduler.rules.rulebook import Judgement, Rulebook
from rescheduler.snapshot.snapshot import CPU, MEMORY, NOWHERE, Flags, Ints, Rows, Snapshot

__all__ = ["Board"]

_Change = tuple[int, int, int, int]
"""Pod, node, number of its copy, and 1 or -1: put there or taken away."""
_AS_IT_IS = nullcontext()


class Board:
    """Nobody but the board writes to its columns."""

    snapshot: Snapshot
    requested: Ints
    """[node, resource], as things stand on the board."""
    load: Ints
    """[node, resource], likewise."""
    position: Rows
    """[pod]: the node that it is on now, `NOWHERE` if none. The last one it was placed on."""

    def __init__(self, snapshot: Snapshot, *, unreserved: int = NOWHERE) -> None:
        """`unreserved` is a pending pod that no room is left for, though it is nominated."""
        self.snapshot = snapshot
        self.requested = snapshot.nodes.requested.copy()
        self.load = snapshot.nodes.load.copy()
        # By resource and then node, so that one resource of all nodes is a stretch of memory.
        self._free = np.ascontiguousarray((snapshot.nodes.allocatable - snapshot.nodes.requested).T)
        self._free_on = self._free.T
        self._leave_room_for_nominated(unreserved)
        self._positions = Positions(snapshot)
        self.position = self._positions.latest
        self._rulebook = Rulebook(snapshot, self._positions, self._free)
        self._tried: list[_Change] | None = None

    def _leave_room_for_nominated(self, unreserved: int) -> None:
        """A pod that the scheduler has nominated to a node is as good as there: it makes room for it."""
        pods, nodes = self.snapshot.pods, self.snapshot.nodes
        for pod in np.flatnonzero(pods.node == NOWHERE):
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

        With `source_stays` the pod itself stands in the way like any other; without, it is thought away.
        Where it is now counts as unfit either way.
        """
        judgement = self._rulebook.judgement(pod)
        with self._asking(pod, judgement, source_stays):
            found = judgement.fits()
        found[self._positions.standing(pod)] = False
        return found

    def fits_another(self, pod: int) -> Flags:
        """[node]: where one more pod like it could be put now, beside it and its copies, also where it is."""
        return self._rulebook.judgement(pod).fits()

    def static_fits(self, pod: int) -> Flags:
        """[node]: where no rule forbids it whose answer other pods don't change. Not to be written to."""
        return self._rulebook.judgement(pod).ground

    def fits_on(self, pod: int, node: int, *, source_stays: bool) -> bool:
        """The same for one node, cheaper."""
        if node in self._positions.standing(pod):
            return False
        judgement = self._rulebook.judgement(pod)
        with self._asking(pod, judgement, source_stays):
            return judgement.fits_on(node)

    def keeps_even(self, pod: int) -> Flags:
        """[node]: where its going there leaves behind no spread constraint of its own worse than it is."""
        found = np.ones(len(self.snapshot.nodes), np.bool_)
        source = int(self.position[pod])
        if source != NOWHERE:
            for spreading in self._rulebook.spreadings(pod):
                even = spreading.even_without(source)
                if even is not None:
                    found &= even
        return found

    def refusals(self, pod: int, node: int, *, source_stays: bool) -> list[Refusal]:
        """All rules that forbid it, in the scheduler's order; empty if it fits."""
        judgement = self._rulebook.judgement(pod)
        with self._asking(pod, judgement, source_stays):
            found = judgement.refusals(node)
        if node in self._positions.standing(pod):
            found.append(Refusal(Rule.ALREADY_HERE, ("the pod is on that node",)))
        return found

    def place(self, pod: int, node: int) -> None:
        """One more copy of that pod, on that node."""
        self._change((pod, node, self._positions.next_number(pod), 1))

    def lift(self, pod: int, node: int) -> None:
        """One copy less; the pod itself where it is at home. Raises `NotThereError`."""
        self._change((pod, node, self._positions.find(pod, node), -1))

    def move(self, pod: int, node: int) -> None:
        """From where it is to that node, at once."""
        if (source := int(self.position[pod])) != NOWHERE:
            self.lift(pod, source)
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

    def _asking(self, pod: int, judgement: Judgement, source_stays: bool) -> AbstractContextManager[None]:
        """With the pod thought away if it must be.

        On its own node it is never asked about, so this matters only to rules that look beyond one node.
        """
        return _AS_IT_IS if source_stays or not judgement.sees_itself else self._thought_away(pod)

    @contextmanager
    def _thought_away(self, pod: int) -> Iterator[None]:
        self._think(pod, -1)
        try:
            yield
        finally:
            self._think(pod, 1)

    def _think(self, pod: int, by: int) -> None:
        pod_class, home = int(self.snapshot.pods.pod_class[pod]), self._positions.home[pod]
        for place, node in enumerate(self._positions.standing(pod)):
            is_ending = place == 0 and home != NOWHERE and self._is_ending(pod)
            self._rulebook.think(pod_class, node, by, is_ending=is_ending)

    def _is_ending(self, pod: int) -> bool:
        return self.snapshot.pods.records[pod].is_terminating

    def _change(self, change: _Change) -> None:
        pod, node, number, by = change
        amounts, load = self._weight(pod, number)
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
        self._rulebook.count(pod_class, node, by, is_ending=is_ending)
        if self._tried is not None:
            self._tried.append(change)

    def _weight(self, pod: int, number: int) -> tuple[Ints, Ints]:
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
