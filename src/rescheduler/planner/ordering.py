"""From chosen moves to waves: what is under way together, and what has to wait.

Nobody knows how fast the moves of a wave go, so each of them fits before the others have begun, while all
copies stand beside their sources, and when others are finished. A wave begins when those before it are.

The order of choice always works, one unit at a time. To have more under way at once, later units may
overtake earlier ones that can't start yet; if that ends in a corner, the order of choice is kept after all.
"""

from collections.abc import Callable, Sequence

from rescheduler.planner.legs import Unit
from rescheduler.planner.limits import Demand, Limits, Wave
from rescheduler.planner.onlookers import Onlookers
from rescheduler.planner.sequencing import can_start, finish, is_here, start, withdraw
from rescheduler.rules.board import Board

__all__ = ["Ordering", "ordered"]

_MOST_MISFITS = 16
"""Units that may turn out not to fit before a wave that has some is closed: asking the rules takes time."""


def ordered(board: Board, units: Sequence[Unit], limits: Limits) -> "Ordering":
    """`board` is as the snapshot has it; it is played on."""
    ordering = Ordering(board, units, limits, overtaking=True)
    if ordering.left:
        ordering = Ordering(Board(board.snapshot), units, limits, overtaking=False)
    return ordering


class Ordering:
    def __init__(self, board: Board, units: Sequence[Unit], limits: Limits, *, overtaking: bool) -> None:
        self.waves: list[list[Unit]] = []
        self.board = board
        """How things stand when all is done."""
        self._limits = limits
        self._overtaking = overtaking
        self._onlookers = Onlookers(board.snapshot)
        self._waiting = [limits.demand(unit) for unit in units]
        while self._waiting:
            wave = self._next_wave()
            if not wave.units:
                break
            self.waves.append(wave.units)
            for unit in wave.units:
                finish(board, unit)

    @property
    def left(self) -> list[Unit]:
        """What no order was found for: nothing, if the units were chosen one by one."""
        return [demand.unit for demand in self._waiting]

    def _next_wave(self) -> Wave:
        """Starts what can be started; the rest goes on waiting."""
        wave = Wave(self._limits)
        waiting: list[Demand] = []
        misfits = 0
        for at, demand in enumerate(self._waiting):
            if wave.is_full or misfits > _MOST_MISFITS or (waiting and not self._overtaking):
                waiting += self._waiting[at:]
                break
            if not wave.has_room_for(demand) or not is_here(self.board, demand.unit):
                waiting.append(demand)
            elif self._fits(demand.unit, wave):
                wave.add(demand)
                start(self.board, demand.unit)
            else:
                waiting.append(demand)
                misfits += bool(wave.units)
        self._waiting = waiting
        return wave

    def _fits(self, unit: Unit, wave: Wave) -> bool:
        """However far the rest of the wave is, and so that the rest still does."""
        if not can_start(self.board, unit):
            return False
        minded = self._onlookers.minded_by(unit, wave.units)
        minding = self._onlookers.minding(unit, wave.units)
        return all(self._fits_whether_others(do, unit, minded) for do in (withdraw, finish)) and all(
            self._fits_with(unit, other) for other in minding
        )

    def _fits_whether_others(self, do: Callable[[Board, Unit], None], unit: Unit, others: list[Unit]) -> bool:
        """`do` is what became of the others that were started: nothing, or all."""
        if not others:
            return True
        with self.board.trial():
            for other in others:
                do(self.board, other)
            return can_start(self.board, unit)

    def _fits_with(self, newcomer: Unit, unit: Unit) -> bool:
        """Whether a unit that was started could also start after the newcomer did, or has finished."""
        with self.board.trial():
            withdraw(self.board, unit)
            start(self.board, newcomer)
            if not can_start(self.board, unit):
                return False
            finish(self.board, newcomer)
            return can_start(self.board, unit)
