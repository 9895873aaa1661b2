"""Find an order in which planned moves can be executed one after the other.

Each move must fit when its turn comes: beside its own source if its handover copies first, and after the
sources of earlier moves have left. If moves wait for each other in a circle (two full nodes that exchange
pods), one pod makes an intermediate stop (a hop) on a third node.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from rescheduler.api.podmigration import MAX_GROUP_SIZE, Handover
from rescheduler.cluster.snapshot import NO_ROW, Flags, Snapshot
from rescheduler.config.policy import Policy
from rescheduler.rules.placement import Placement
from rescheduler.strategies.strategy import Room

__all__ = [
    "MoveUnit",
    "PlannedMove",
    "PodGroups",
    "can_start",
    "count_moves",
    "finish",
    "group_too_large",
    "is_at_source",
    "make_in_order",
    "move_at_once",
    "pods_that_may_move_again",
    "sequence",
    "start",
    "with_fewer_hops",
    "with_hops_marked",
    "withdraw",
]


@dataclass(frozen=True, slots=True)
class PlannedMove:
    """A move of one pod from one node to another."""

    pod: int
    source: int
    target: int
    handover: Handover
    strategy: str
    reason: str
    gain: float
    group: str = ""
    hop: bool = False
    rooms: tuple[Room, ...] = ()
    """The rooms that this move makes, together with the other moves of its proposal."""
    left_for: str = ""
    """The reason to leave, if `reason` also has the reason for another target."""

    @property
    def source_stays(self) -> bool:
        return self.handover.source_stays

    def split_at(self, stop: int) -> "tuple[PlannedMove, PlannedMove]":
        """Split the move at a hop; the gain belongs to the second move."""
        return (
            replace(self, target=stop).as_hop(),
            replace(self, source=stop),
        )

    def merged_with(self, second_move: "PlannedMove", instead: str) -> "PlannedMove":
        """Merge this move with the next: keep the reason to leave, and take the target of the next move.
        `instead` says which target is replaced."""
        left_for = self.left_for or self.reason
        reason = f"{left_for}; {instead}: {second_move.reason}"
        return replace(self, target=second_move.target, reason=reason, left_for=left_for)

    def as_hop(self) -> "PlannedMove":
        """Return the move as a first hop."""
        return replace(self, gain=0.0, hop=True)


@dataclass(frozen=True, slots=True)
class MoveUnit:
    """Moves that run together: one, or those of all members of a group."""

    moves: tuple[PlannedMove, ...]

    @property
    def group(self) -> str:
        """Return the name of the pod group; empty for a pod that moves alone."""
        return self.moves[0].group


def count_moves(units: Iterable[MoveUnit]) -> int:
    return sum(len(unit.moves) for unit in units)


def group_too_large(size: int, policy: Policy) -> str:
    """Return the message if a group with so many pods can't move together; empty if it can."""
    most = min(policy.max_concurrent_migrations, policy.max_reschedule_pods, MAX_GROUP_SIZE)
    return f"its group has {size} pods that move together; the limit is {most}" if size > most else ""


class PodGroups:
    def __init__(self, snapshot: Snapshot, label: str) -> None:
        self._snapshot = snapshot
        self._label = label

    def of(self, pod: int) -> str:
        """Return the pod's group as `namespace/group`; empty if it has none."""
        pod_class = self._snapshot.classes[self._snapshot.pods.pod_class[pod]]
        name = pod_class.labels.get(self._label)
        return f"{pod_class.namespace}/{name}" if name else ""

    def members(self, group: str) -> tuple[int, ...]:
        """Return the rows of the group's pods that are on a node and not terminating, in order."""
        return self._members.get(group, ())

    def goes_alone(self, pod: int) -> bool:
        """Return whether the pod moves alone: it has no group, or is the only member of its group."""
        return len(self.members(self.of(pod))) <= 1

    @cached_property
    def _members(self) -> dict[str, tuple[int, ...]]:
        labelled = [
            row for row, pod_class in enumerate(self._snapshot.classes) if pod_class.labels.get(self._label)
        ]
        if not labelled:
            return {}
        pods = self._snapshot.pods
        found: dict[str, list[int]] = {}
        for pod in np.flatnonzero(np.isin(pods.pod_class, labelled) & (pods.node != NO_ROW)).tolist():
            if not pods.records[pod].is_terminating:
                found.setdefault(self.of(pod), []).append(pod)
        return {group: tuple(rows) for group, rows in found.items()}


_STOPS_TRIED = 3
"""How many nodes to try as a hop, the least loaded first: further ones rarely help."""


def sequence(placement: Placement, units: Sequence[MoveUnit], stops: Flags) -> list[MoveUnit] | None:
    """Return the units in an order that works, or None. `stops` are the nodes that a pod may stop on.

    The placement is unchanged afterwards.
    """
    if len(units) == 1:  # the usual case: there is no order to find
        return [*units] if can_start(placement, units[0]) else None
    with placement.trial():
        done, waiting = make_in_order(placement, units)
        if not waiting:
            return done
        for hop, second_move in _hop_candidates(placement, waiting, stops):
            with placement.trial():
                move_at_once(placement, hop)
                rest = [
                    second_move if unit.moves[0].pod == second_move.moves[0].pod else unit for unit in waiting
                ]
                further, stuck = make_in_order(placement, rest)
                if not stuck:
                    return [*done, hop, *further]
    return None


def make_in_order(placement: Placement, units: Sequence[MoveUnit]) -> tuple[list[MoveUnit], list[MoveUnit]]:
    """Make all moves that can be made; return them in order, and the units that can't be moved."""
    done: list[MoveUnit] = []
    waiting = list(units)
    progress = True
    while waiting and progress:
        progress = False
        for unit in tuple(waiting):
            if is_at_source(placement, unit) and can_start(placement, unit):
                move_at_once(placement, unit)
                waiting.remove(unit)
                done.append(unit)
                progress = True
    return done, waiting


def is_at_source(placement: Placement, unit: MoveUnit) -> bool:
    """Return whether all pods of the unit are at their sources; a second hop waits for the first."""
    return all(placement.position[move.pod] == move.source for move in unit.moves)


def can_start(placement: Placement, unit: MoveUnit) -> bool:
    """Return whether all copies of the unit fit now, together and beside their sources."""
    if len(unit.moves) == 1:
        move = unit.moves[0]
        return placement.fits_on(move.pod, move.target, source_stays=move.source_stays)
    with placement.trial():
        for move in unit.moves:
            if not placement.fits_on(move.pod, move.target, source_stays=move.source_stays):
                return False
            placement.place(move.pod, move.target)
    return True


def start(placement: Placement, unit: MoveUnit) -> None:
    """Place the copies of a unit beside their sources."""
    for move in unit.moves:
        placement.place(move.pod, move.target)


def withdraw(placement: Placement, unit: MoveUnit) -> None:
    """Undo `start`."""
    for move in unit.moves:
        placement.remove(move.pod, move.target)


def finish(placement: Placement, unit: MoveUnit) -> None:
    """Remove the sources of a unit that was started."""
    for move in unit.moves:
        if move.source != NO_ROW:  # a pod in phase Failed takes no room
            placement.remove(move.pod, move.source)


def move_at_once(placement: Placement, unit: MoveUnit) -> None:
    """Move all pods of the unit to their targets."""
    for move in unit.moves:
        placement.move(move.pod, move.target)


def _hop_candidates(
    placement: Placement, waiting: Sequence[MoveUnit], stops: Flags
) -> Iterator[tuple[MoveUnit, MoveUnit]]:
    """Yield each unit whose move could make room for another, split at each node that could be its hop."""
    wanted = {move.target for unit in waiting for move in unit.moves}
    for unit in waiting:
        move = unit.moves[0]
        if unit.group or move.source not in wanted:
            continue
        for stop in _least_loaded_first(placement, move, stops)[:_STOPS_TRIED]:
            there, second_move = move.split_at(stop)
            yield MoveUnit((there,)), MoveUnit((second_move,))


def _least_loaded_first(placement: Placement, move: PlannedMove, stops: Flags) -> list[int]:
    nodes = np.flatnonzero(stops & placement.fits(move.pod, source_stays=move.source_stays))
    ordered: list[int] = nodes[np.argsort(placement.load_with(move.pod, nodes), kind="stable")].tolist()
    return ordered


MovesByPod = dict[int, list[PlannedMove]]
"""The moves of each pod."""


def pods_that_may_move_again(units: Iterable[MoveUnit], groups: PodGroups) -> set[int]:
    """Return the pods that may get another target: those that move alone."""
    return {
        pod
        for pod, moves in _moves_by_pod(units).items()
        if moves[0].source != NO_ROW and groups.goes_alone(pod)
    }


def with_fewer_hops(
    placement: Placement, units: Sequence[MoveUnit], more: Sequence[MoveUnit]
) -> list[MoveUnit] | None:
    """Return all units in an order that works, with as few hops as possible for pods that `more` moves again;
    None if a pod that must not hop would have to.

    The given order works, too. The placement must be in the state before the first unit, and is unchanged
    afterwards.
    """
    everything, further = [*units, *more], _moves_by_pod(more)
    moves_by_pod = {
        pod: moves for pod, moves in _moves_by_pod(everything).items() if len(moves) > 1 and pod in further
    }
    if (found := _try_in_order(placement, everything, moves_by_pod, without_hops=moves_by_pod)) is not None:
        return found
    without_hops = {pod for pod, moves in moves_by_pod.items() if not _may_hop(moves)}
    found = (
        _try_in_order(placement, everything, moves_by_pod, without_hops=without_hops)
        if without_hops
        else everything
    )
    if found is not None:
        for pod in sorted(moves_by_pod.keys() - without_hops):
            better = _try_in_order(placement, everything, moves_by_pod, without_hops=without_hops | {pod})
            if better is not None:
                without_hops, found = without_hops | {pod}, better
    return found


def _may_hop(moves: list[PlannedMove]) -> bool:
    """Return whether the pod may hop: once, not back to its source, and without two interruptions."""
    return (
        len(moves) == 2
        and moves[-1].target != moves[0].source
        and all(move.handover.source_stays for move in moves)
    )


def with_hops_marked(units: Iterable[MoveUnit]) -> Iterator[MoveUnit]:
    """Yield the units with first hops marked; the gain belongs to the second hop."""
    last = {move.pod: move for unit in units for move in unit.moves}
    for unit in units:
        move = unit.moves[0]
        yield MoveUnit((move.as_hop(),)) if last[move.pod] is not move else unit


def _moves_by_pod(units: Iterable[MoveUnit]) -> MovesByPod:
    found: MovesByPod = {}
    for move in (move for unit in units for move in unit.moves):
        found.setdefault(move.pod, []).append(move)
    return found


def _try_in_order(
    placement: Placement,
    units: Sequence[MoveUnit],
    moves_by_pod: MovesByPod,
    *,
    without_hops: Collection[int],
) -> list[MoveUnit] | None:
    with placement.trial():
        done, waiting = make_in_order(
            placement, list(_without_hops(placement, units, moves_by_pod, without_hops))
        )
    return None if waiting else done


def _without_hops(
    placement: Placement, units: Sequence[MoveUnit], moves_by_pod: MovesByPod, without_hops: Collection[int]
) -> Iterator[MoveUnit]:
    """Yield the units, with one direct move for each pod in `without_hops`, or no move if it would return to
    its source."""
    for unit in units:
        move = unit.moves[0]
        if move.pod not in without_hops:
            yield unit
        elif move is moves_by_pod[move.pod][0] and move.source != moves_by_pod[move.pod][-1].target:
            yield MoveUnit((_merged_move(placement, moves_by_pod[move.pod]),))


def _merged_move(placement: Placement, moves: Sequence[PlannedMove]) -> PlannedMove:
    chosen_first = replace(next(move for move in moves if not move.hop), source=moves[0].source)
    if chosen_first.target == moves[-1].target:
        return chosen_first
    nodes = placement.snapshot.nodes.records
    instead = f"{nodes[moves[-1].target].name} instead of {nodes[chosen_first.target].name}"
    return chosen_first.merged_with(moves[-1], instead)
