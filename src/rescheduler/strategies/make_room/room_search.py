"""Find the cheapest moves after which one node has room for a pod.

The pods that leave the node are its leavers. They are chosen so that their resources cover what the pod lacks
there, and so that no rule forbids the node after they have left. Each leaver needs a target; one that has
none may itself get room on another node, in the same way.

The search deepens: it looks for one move on all nodes, then for two, and so on, so the first set that it
finds has the fewest moves. The cheapest of these has the fewest evictions, then the lowest priorities, then
the smallest pods. Nodes that need the fewest leavers, judged by their largest pods, are tried first. The
number of steps is limited, because there are many combinations; the limit matters only in large clusters that
are almost full.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import NamedTuple

import numpy as np

from rescheduler.cluster.pod_record import NODE_BOUND_KINDS, is_rescheduler_pod
from rescheduler.cluster.snapshot import NO_ROW, Indices, Ints
from rescheduler.rules.pod_class_index import PodClassIndex
from rescheduler.strategies.make_room.room_demand import (
    ArrivingPod,
    CoveringSets,
    PodDemand,
    RoomDemand,
    lacking_on,
)
from rescheduler.strategies.strategy import View
from rescheduler.strategies.target_search import PodUnit, average_node, free_after, share_of_node

__all__ = ["FoundRoom", "RoomCost", "RoomSearch", "SearchLimits"]


@dataclass(frozen=True, slots=True)
class SearchLimits:
    moves: int
    """The most moves in one set."""
    targets: int = 12
    """The most targets that are tried for a leaver, the tightest first."""
    sets_per_node: int = 60
    """The most sets of leavers that are tried per node and number of moves."""
    nodes: int = 400
    """The most nodes that are tried; those with the fewest leavers come first."""
    steps: int = 1500
    """The most searches for targets of a pod, in total."""
    nodes_after_first: int = 12
    """How many more nodes are compared after a set was found."""
    only_make_before_break: bool = False
    """Whether only pods that are copied first may move."""


class RoomCost(NamedTuple):
    moves: int
    evictions: int
    priority: int
    """The priority of the most important pod that moves."""
    share: float
    """The requests of all pods that move, in average nodes."""


@dataclass(frozen=True, slots=True)
class FoundRoom:
    node: int
    moves: tuple[tuple[int, int], ...]
    """Pod and target, in an order that can be executed. Empty if there is room already."""
    cost: RoomCost


class _OutOfSteps(Exception):  # noqa: N818 - not an error
    """The limit of steps is reached."""


_Leavers = tuple[PodUnit, ...]


class RoomSearch:
    """The search of one check; results about nodes are kept for all demands."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._index = PodClassIndex(view.snapshot)
        self._most_given: dict[tuple[int, int], Ints] = {}

    def demand_of(self, pod: int) -> PodDemand:
        """Return what a pending pod needs; no pod moves for one of lower priority."""
        return PodDemand(self._view, pod, int(self._view.snapshot.pods.priority[pod]), self._index)

    def find(
        self, demand: RoomDemand, limits: SearchLimits, fixed: Set[int] = frozenset()
    ) -> FoundRoom | None:
        """Return the cheapest room, or None; `fixed` are pods that stay. The placement is unchanged
        afterwards."""
        nodes = np.flatnonzero(demand.nodes())
        fitting = np.flatnonzero(demand.fits())
        if fitting.size:
            return FoundRoom(self._tightest(fitting), (), RoomCost(0, 0, 0, 0.0))
        attempt = _Attempt(self._view, limits, fixed, self._index)
        fewest = self._fewest_leavers(demand)
        share = (lacking_on(self._view, demand)[nodes] / average_node(self._view.snapshot.nodes)).sum(axis=1)
        order = nodes[np.lexsort((nodes, share, fewest[nodes]))][: limits.nodes]
        with suppress(_OutOfSteps):
            for most in range(1, limits.moves + 1):
                if attempt.best(demand, order[fewest[order] <= most].tolist(), most) is not None:
                    break
        return attempt.found

    def _tightest(self, nodes: Indices) -> int:
        free = self._view.placement.free[:, nodes].T / average_node(self._view.snapshot.nodes)
        return int(nodes[free.sum(axis=1).argmin()])

    def _fewest_leavers(self, demand: RoomDemand) -> Ints:
        """Return [node]: how many pods have to leave at least, judged by the largest of them."""
        lacking = lacking_on(self._view, demand)
        # If only a rule about other pods forbids the node, at least one of them has to leave.
        fewest = np.ones(len(lacking), np.int64)
        for column in np.flatnonzero(lacking.any(axis=0)).tolist():
            given = self._given(column, demand.max_priority)
            needed = (given < lacking[:, column, None]).sum(axis=1) + 1
            fewest = np.maximum(fewest, np.where(lacking[:, column] > 0, needed, 0))
        return fewest

    def _given(self, column: int, max_priority: int) -> Ints:
        """Return [node, count]: the most that this number of leavers frees on the node."""
        key = column, max_priority
        if key not in self._most_given:
            self._most_given[key] = _largest_sums(self._view, column, max_priority)
        return self._with_changes(self._most_given[key], column, max_priority)

    def _with_changes(self, sums: Ints, column: int, max_priority: int) -> Ints:
        """Return these sums, with the pods that this plan has moved counted where they are now."""
        view = self._view
        pods = view.snapshot.pods
        changed = np.flatnonzero((view.placement.requested != view.snapshot.nodes.requested).any(axis=1))
        found = sums.copy() if changed.size else sums
        for node in changed.tolist():
            rows = [pod for pod in view.placement.pods_on(node) if pods.node[pod] != NO_ROW]
            rows = [pod for pod in rows if pods.priority[pod] <= max_priority]
            given = -np.sort(-pods.requests[rows, column])[:_MOST_LEAVERS]
            found[node] = given.sum()
            found[node, : len(given)] = given.cumsum()
        return found


_MOST_LEAVERS = 32


def _largest_sums(view: View, column: int, max_priority: int) -> Ints:
    snapshot = view.snapshot
    pods = snapshot.pods
    of_nodes = [row for row, each in enumerate(snapshot.workloads) if each.kind in NODE_BOUND_KINDS]
    may_leave = (pods.node != NO_ROW) & (pods.priority <= max_priority) & ~np.isin(pods.workload, of_nodes)
    rows = np.flatnonzero(may_leave & (pods.requests[:, column] > 0))
    rows = rows[np.lexsort((-pods.requests[rows, column], pods.node[rows]))]
    nodes = pods.node[rows]
    starts = np.searchsorted(nodes, np.arange(len(snapshot.nodes)))
    place = np.arange(len(rows)) - starts[nodes]
    kept = place < _MOST_LEAVERS
    sums = np.zeros((len(snapshot.nodes), _MOST_LEAVERS), np.int64)
    sums[nodes[kept], place[kept]] = pods.requests[rows[kept], column]
    return sums.cumsum(axis=1)


@dataclass(frozen=True, slots=True)
class _Relocation:
    reserved: frozenset[int]
    """The nodes that get room, so no pod is sent there."""
    max_priority: int
    is_enough: Callable[[], bool]
    """Returns whether there is room after all leavers have moved."""


class _Attempt:
    """The search for one demand."""

    def __init__(self, view: View, limits: SearchLimits, fixed: Set[int], index: PodClassIndex) -> None:
        self._view = view
        self._index = index
        self._limits = limits
        self._fixed = frozenset(fixed)
        self._steps = 0
        self.found: FoundRoom | None = None
        """The best so far."""

    def best(self, demand: RoomDemand, nodes: Sequence[int], most: int) -> FoundRoom | None:
        """Return the cheapest room on these nodes with at most this number of moves."""
        left = self._limits.nodes_after_first
        for node in nodes:
            moves = self._clear(demand, node, most, frozenset({node}))
            if moves is not None:
                room = FoundRoom(node, tuple(moves), self._cost(moves))
                if self.found is None or room.cost < self.found.cost:
                    self.found = room
            if self.found is not None:
                left -= 1
                if left < 0:
                    break
        return self.found

    def _cost(self, moves: Iterable[tuple[int, int]]) -> RoomCost:
        view, pods = self._view, [pod for pod, _ in moves]
        return RoomCost(
            len(pods),
            sum(not view.handover(pod).source_stays for pod in pods),
            max(int(view.snapshot.pods.priority[pod]) for pod in pods),
            sum(share_of_node(view, pod) for pod in pods),
        )

    def _clear(
        self, demand: RoomDemand, node: int, most: int, reserved: frozenset[int]
    ) -> list[tuple[int, int]] | None:
        """Return at most `most` moves, in order, after which the demand fits on the node, or None."""
        for leavers in islice(self._sets_of_leavers(demand, node, most), self._limits.sets_per_node):
            pods = [pod for unit in leavers for pod in unit]
            relocation = _Relocation(reserved, demand.max_priority, partial(demand.fits_on, node))
            with self._moving(pods):
                moves = self._relocate(pods, most - len(pods), relocation)
            if moves is not None:
                return moves
        return None

    @contextmanager
    def _moving(self, pods: Iterable[int]) -> Iterator[None]:
        """Keep these pods from leaving a second time while the body runs."""
        before, self._fixed = self._fixed, self._fixed.union(pods)
        try:
            yield
        finally:
            self._fixed = before

    def _relocate(
        self, pods: Sequence[int], spare: int, relocation: "_Relocation"
    ) -> list[tuple[int, int]] | None:
        """Return moves of all these pods, and at most `spare` moves of others, after which there is room."""
        if not pods:
            return [] if relocation.is_enough() else None
        pod, rest = pods[0], pods[1:]
        targets = self._targets(pod, relocation.reserved)
        for target in targets:
            moves = self._relocate_after([(pod, target)], rest, spare, relocation)
            if moves is not None:
                return moves
        if not targets and spare > 0:
            for helped, target in self._with_help(pod, spare, relocation):
                first = [*helped, (pod, target)]
                moves = self._relocate_after(first, rest, spare - len(helped), relocation)
                if moves is not None:
                    return moves
        return None

    def _relocate_after(
        self, first: list[tuple[int, int]], rest: Sequence[int], spare: int, relocation: "_Relocation"
    ) -> list[tuple[int, int]] | None:
        with self._view.placement.trial(), self._moving(pod for pod, _ in first):
            for pod, target in first:
                self._view.placement.move(pod, target)
            moves = self._relocate(rest, spare, relocation)
        return None if moves is None else [*first, *moves]

    def _targets(self, pod: int, reserved: frozenset[int]) -> list[int]:
        """Return the targets of the pod, the tightest first, so that large gaps stay for large pods."""
        self._steps += 1
        if self._steps > self._limits.steps:
            raise _OutOfSteps
        allowed = self._view.targets(pod)
        allowed[list(reserved)] = False
        nodes = np.flatnonzero(allowed)
        if not nodes.size:
            return []
        free = free_after(self._view, pod, nodes)
        found: list[int] = nodes[np.argsort(free, kind="stable")[: self._limits.targets]].tolist()
        return found

    def _with_help(
        self, pod: int, spare: int, relocation: "_Relocation"
    ) -> Iterator[tuple[list[tuple[int, int]], int]]:
        """Yield moves of other pods that free a target for this pod, with that target."""
        demand = PodDemand(self._view, pod, relocation.max_priority, self._index)
        wanted = demand.nodes() & ~demand.fits()
        wanted[[*relocation.reserved, int(self._view.placement.position[pod])]] = False
        nodes = np.flatnonzero(wanted)
        share = (lacking_on(self._view, demand)[nodes] / average_node(self._view.snapshot.nodes)).sum(axis=1)
        for node in nodes[np.argsort(share, kind="stable")[: self._limits.targets]].tolist():
            moves = self._clear(ArrivingPod(demand), node, spare, relocation.reserved | {node})
            if moves is not None:
                yield moves, node

    # -- leavers

    def _sets_of_leavers(self, demand: RoomDemand, node: int, most: int) -> Iterator[_Leavers]:
        """Yield sets of leavers whose requests cover what is lacking, the smallest and cheapest first."""
        kept_off = demand.is_kept_off(node)
        units = self._units(demand, node, with_related=kept_off)
        must_leave: frozenset[PodUnit] = frozenset()
        if kept_off:
            found = self._must_leave(demand, node, units)
            if found is None:
                return
            must_leave = found
        placement, pods = self._view.placement, self._view.snapshot.pods
        lacking = np.where(demand.asks > 0, np.maximum(demand.asks - placement.free[:, node], 0), 0)
        columns = np.flatnonzero(lacking)
        given = np.zeros((len(units), len(columns)), np.int64)
        for place, unit in enumerate(units):
            here = [pod for pod in unit if placement.position[pod] == node]
            given[place] = pods.requests[here][:, columns].sum(axis=0)
        cover = CoveringSets(
            units, given, lacking[columns], must_leave, [self._alike(unit) for unit in units]
        )
        for size in range(max(1, sum(map(len, must_leave))), most + 1):
            yield from cover.sets(size)

    def _units(self, demand: RoomDemand, node: int, *, with_related: bool) -> list[PodUnit]:
        view, pods = self._view, self._view.snapshot.pods
        around = [*view.placement.pods_on(node), *(demand.related(node) if with_related else ())]
        found: dict[PodUnit, None] = {}
        for pod in around:
            unit = view.moves_with(pod)
            if not unit or unit in found or len(unit) > self._limits.moves:
                continue  # a group of which all members are pending is no unit
            if all(self._may_leave(each, demand.max_priority) for each in unit):
                found[unit] = None

        def cost(unit: PodUnit) -> tuple[int, bool, int, float, PodUnit]:
            evicts = any(not view.handover(pod).source_stays for pod in unit)
            priority = max(int(pods.priority[pod]) for pod in unit)
            return len(unit), evicts, priority, sum(share_of_node(view, pod) for pod in unit), unit

        return sorted(found, key=cost)

    def _may_leave(self, pod: int, max_priority: int) -> bool:
        view, pods = self._view, self._view.snapshot.pods
        if pods.priority[pod] > max_priority or is_rescheduler_pod(pods.records[pod]):
            return False
        # A pending pod may have got room here by an earlier proposal of this plan.
        if pod in self._fixed or pods.node[pod] == NO_ROW or not view.may_move(pod):
            return False
        return not self._limits.only_make_before_break or view.handover(pod).source_stays

    def _must_leave(
        self, demand: RoomDemand, node: int, units: Sequence[PodUnit]
    ) -> frozenset[PodUnit] | None:
        """Return the units that each alone forbid the node; None if other pods forbid it, too."""
        placement = self._view.placement
        home = {pod: int(placement.position[pod]) for unit in units for pod in unit}
        with placement.trial():
            for pod, place in home.items():
                placement.remove(pod, place)
            if demand.is_kept_off(node):
                # Spread depends on pods on other nodes, so this may be too strict: decide after the moves.
                return frozenset() if self._counts_elsewhere(demand) else None
            found = set()
            for unit in units:
                for pod in unit:
                    placement.place(pod, home[pod])
                if demand.is_kept_off(node):
                    found.add(unit)
                for pod in unit:
                    placement.remove(pod, home[pod])
        return frozenset(found)

    def _counts_elsewhere(self, demand: RoomDemand) -> bool:
        if not isinstance(demand, PodDemand):
            return False
        snapshot = self._view.snapshot
        pod_class = snapshot.classes[snapshot.pods.pod_class[demand.pod]]
        return bool(pod_class.constraints.spread or pod_class.affinity.pod_affinity.required)

    def _alike(self, unit: PodUnit) -> object:
        """Return a key that is equal for units that the search need not distinguish."""
        if len(unit) > 1:
            return unit
        pods, pod = self._view.snapshot.pods, unit[0]
        place = int(self._view.placement.position[pod])
        return int(pods.pod_class[pod]), int(pods.workload[pod]), place, self._view.handover(pod)
