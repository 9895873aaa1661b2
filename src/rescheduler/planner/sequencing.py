"""An order in which units can be made one after the other, if there is one.

Each must fit when its turn comes: with its own sources in place where its handover copies first, and with
those before it gone from theirs. Where units wait for each other in a circle (two full nodes that exchange
pods), one pod stops on a third node and goes on when its place is free.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from rescheduler.planner.legs import Leg, Unit
from rescheduler.rules.board import Board
from rescheduler.snapshot.snapshot import CPU, MEMORY, NOWHERE

__all__ = ["can_start", "finish", "finish_now", "is_here", "make", "sequence", "start", "withdraw"]

Flags = npt.NDArray[np.bool_]

_STOPS_TRIED = 3
"""Nodes that are tried for a stop, emptiest first: where one is refused, the next rarely fares better."""


def sequence(board: Board, units: Sequence[Unit], stops: Flags) -> list[Unit] | None:
    """The units in an order that works, or None. `stops` are the nodes that a pod may stop on.

    The board is left as it was.
    """
    if len(units) == 1:  # nearly always: nothing to arrange, so nothing to try
        return [*units] if can_start(board, units[0]) else None
    with board.trial():
        done, waiting = make(board, units)
        if not waiting:
            return done
        for hop, onward in _ways_round(board, waiting, stops):
            with board.trial():
                finish_now(board, hop)
                rest = [onward if unit.legs[0].pod == onward.legs[0].pod else unit for unit in waiting]
                further, stuck = make(board, rest)
                if not stuck:
                    return [*done, hop, *further]
    return None


def make(board: Board, units: Sequence[Unit]) -> tuple[list[Unit], list[Unit]]:
    """Makes all that can be made, round after round: those made, in order, and those that wait."""
    done: list[Unit] = []
    waiting = list(units)
    progress = True
    while waiting and progress:
        progress = False
        for unit in tuple(waiting):
            if is_here(board, unit) and can_start(board, unit):
                finish_now(board, unit)
                waiting.remove(unit)
                done.append(unit)
                progress = True
    return done, waiting


def is_here(board: Board, unit: Unit) -> bool:
    """A pod that stops on its way goes on when it has arrived there."""
    return all(board.position[leg.pod] == leg.source for leg in unit.legs)


def can_start(board: Board, unit: Unit) -> bool:
    """Whether every copy fits now, beside each other and beside all sources."""
    if len(unit.legs) == 1:
        leg = unit.legs[0]
        return board.fits_on(leg.pod, leg.target, source_stays=leg.source_stays)
    with board.trial():
        for leg in unit.legs:
            if not board.fits_on(leg.pod, leg.target, source_stays=leg.source_stays):
                return False
            board.place(leg.pod, leg.target)
    return True


def start(board: Board, unit: Unit) -> None:
    """The copies are there, and the sources still are."""
    for leg in unit.legs:
        board.place(leg.pod, leg.target)


def withdraw(board: Board, unit: Unit) -> None:
    """As if it had not been started."""
    for leg in unit.legs:
        board.lift(leg.pod, leg.target)


def finish(board: Board, unit: Unit) -> None:
    """The sources of a unit that was started are gone."""
    for leg in unit.legs:
        if leg.source != NOWHERE:  # one that has failed is in nobody's way
            board.lift(leg.pod, leg.source)


def finish_now(board: Board, unit: Unit) -> None:
    """From where they are to where they go, at once."""
    for leg in unit.legs:
        board.move(leg.pod, leg.target)


def _ways_round(board: Board, waiting: Sequence[Unit], stops: Flags) -> Iterator[tuple[Unit, Unit]]:
    """Each pod whose leaving could let another in, by way of each node that could take it for a while."""
    wanted = {leg.target for unit in waiting for leg in unit.legs}
    for unit in waiting:
        leg = unit.legs[0]
        if unit.group or leg.source not in wanted:
            continue
        for stop in _emptiest_first(board, leg, stops)[:_STOPS_TRIED]:
            there, onward = leg.by_way_of(stop)
            yield Unit((there,)), Unit((onward,))


def _emptiest_first(board: Board, leg: Leg, stops: Flags) -> list[int]:
    nodes = np.flatnonzero(stops & board.fits(leg.pod, source_stays=leg.source_stays))
    have = np.maximum(board.snapshot.nodes.allocatable[nodes][:, [CPU, MEMORY]], 1)
    fullness = (board.requested[nodes][:, [CPU, MEMORY]] / have).max(axis=1)
    ordered: list[int] = nodes[np.argsort(fullness, kind="stable")].tolist()
    return ordered
