"""Pods that move on: two moves of one pod as one, if they can be.

When all is chosen, a pod may turn out to be better placed elsewhere than where it is to go, because others
have moved since, or because it can be reached only from there. It goes there straight if there is an order
of all moves in which it can, and by way of the place that was chosen first if there is none.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from rescheduler.planner.groups import Groups
from rescheduler.planner.legs import Leg, Unit
from rescheduler.planner.sequencing import make
from rescheduler.rules.board import Board
from rescheduler.snapshot.snapshot import NOWHERE

__all__ = ["may_move_on", "with_fewer_stops", "with_hops_marked"]

Journeys = dict[int, list[Leg]]
"""By pod."""


def may_move_on(units: Iterable[Unit], groups: Groups) -> set[int]:
    """Those that move by themselves."""
    return {
        pod for pod, legs in _journeys(units).items() if legs[0].source != NOWHERE and groups.goes_alone(pod)
    }


def with_fewer_stops(board: Board, units: Sequence[Unit], more: Sequence[Unit]) -> list[Unit] | None:
    """All of them in an order that works, where pods that `more` moves on stop as little as can be. None if
    one of them would have to stop that must not.

    They work in the order given. The board is as the first of them finds it, and is left so.
    """
    everything, further = [*units, *more], _journeys(more)
    journeys = {pod: legs for pod, legs in _journeys(everything).items() if len(legs) > 1 and pod in further}
    if (found := _played(board, everything, journeys, straight=journeys)) is not None:
        return found
    straight = {pod for pod, legs in journeys.items() if not _may_stop(legs)}
    found = _played(board, everything, journeys, straight=straight) if straight else everything
    if found is not None:
        for pod in sorted(journeys.keys() - straight):
            better = _played(board, everything, journeys, straight=straight | {pod})
            if better is not None:
                straight, found = straight | {pod}, better
    return found


def _may_stop(legs: list[Leg]) -> bool:
    """Once, on the way to somewhere else, and if nobody has to do without it twice."""
    return (
        len(legs) == 2
        and legs[-1].target != legs[0].source
        and all(leg.handover.source_stays for leg in legs)
    )


def with_hops_marked(units: Iterable[Unit]) -> Iterator[Unit]:
    """Where a pod goes on later, it only stops: what is gained is gained by the move that takes it on."""
    last = {leg.pod: leg for unit in units for leg in unit.legs}
    for unit in units:
        leg = unit.legs[0]
        yield Unit((leg.as_hop(),)) if last[leg.pod] is not leg else unit


def _journeys(units: Iterable[Unit]) -> Journeys:
    found: Journeys = {}
    for leg in (leg for unit in units for leg in unit.legs):
        found.setdefault(leg.pod, []).append(leg)
    return found


def _played(
    board: Board, units: Sequence[Unit], journeys: Journeys, *, straight: Collection[int]
) -> list[Unit] | None:
    with board.trial():
        done, waiting = make(board, list(_straightened(board, units, journeys, straight)))
    return None if waiting else done


def _straightened(
    board: Board, units: Sequence[Unit], journeys: Journeys, straight: Collection[int]
) -> Iterator[Unit]:
    """The first leg of a pod that goes straight takes it to its end; the others fall away, and so does it if
    that is where it began."""
    for unit in units:
        leg = unit.legs[0]
        if leg.pod not in straight:
            yield unit
        elif leg is journeys[leg.pod][0] and leg.source != journeys[leg.pod][-1].target:
            yield Unit((_in_one(board, journeys[leg.pod]),))


def _in_one(board: Board, legs: Sequence[Leg]) -> Leg:
    chosen_first = replace(next(leg for leg in legs if not leg.hop), source=legs[0].source)
    if chosen_first.target == legs[-1].target:
        return chosen_first
    nodes = board.snapshot.nodes.records
    instead = f"{nodes[legs[-1].target].name} rather than {nodes[chosen_first.target].name}"
    return chosen_first.straight_to(legs[-1], instead)
