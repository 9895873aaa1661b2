"""What becomes of moves, told while it happens: a line for every change, and a last one that sums it up."""

import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Final

from rescheduler.cli.terminal import Terminal
from rescheduler.cli.wording import counted
from rescheduler.controller.plan_run import Errand
from rescheduler.migrations.steps import Step
from rescheduler.model.duration import short_duration
from rescheduler.model.migrations import ConditionType, Migration, Phase

__all__ = ["Progress", "results", "state_of", "summary"]

_COLOURS: Final = {"Completed": "green", "Failed": "red", "Given up": "yellow"}
_UNDER_WAY: Final = {
    Step.CHECKING: "is checked once more",
    Step.EVICTING: "its successor is ready, and it is evicted",
    Step.REPLACING: "evicted; its successor starts",
    Step.SETTLING: "its successor is ready, and waits for the others of its group",
    Step.ROLLING_BACK: "is rolled back",
}


class Progress:
    def __init__(self, terminal: Terminal, print_line: Callable[[str], object]) -> None:
        self.is_interrupted = False
        self._terminal = terminal
        self._print = print_line
        self._began_s = time.monotonic()
        self._told: dict[int, str] = {}

    def tell(self, errand: Errand) -> None:
        state, words = state_of(errand)
        line = f"{state}{f': {words}' if words else ''}"
        if self._told.get(id(errand)) == line:
            return
        self._told[id(errand)] = line
        move, terminal = errand.move, self._terminal
        target = (errand.migration.target_node if errand.migration else "") or move.target or "?"
        elapsed = short_duration(timedelta(seconds=round(time.monotonic() - self._began_s)))
        shown = terminal.styled(state, {"fg": _COLOURS[state]}) if state in _COLOURS else state
        self._print(
            f"{elapsed:>6}  {move.pod}  {move.source} {terminal.arrow} {target}  "
            f"{shown}{f': {words}' if words else ''}"
        )

    def interrupted(self) -> None:
        self.is_interrupted = True
        self._print("Nothing more is begun; what is under way comes to its end. Ctrl-C again leaves at once.")


def state_of(errand: Errand) -> tuple[str, str]:
    """In one word, and in words."""
    migration = errand.migration
    if errand.given_up:
        return "Given up", errand.given_up
    if migration is None:
        return "Planned", ""
    status = migration.status
    match status.phase:
        case Phase.PENDING:
            return "Pending", status.message
        case Phase.IN_PROGRESS:
            return "InProgress", _course(migration)
        case Phase.COMPLETED:
            successor = status.target_pod.name if status.target_pod else ""
            return "Completed", f"{successor}{_elsewhere(migration)}"
        case _:
            return "Failed", status.message


def _course(migration: Migration) -> str:
    status = migration.status
    words = _UNDER_WAY.get(Step(status.step or Step.QUEUED), f"is being moved, by {status.handover}")
    is_telling = status.step == Step.ROLLING_BACK and status.message
    return f"{words}: {status.message}" if is_telling else words


def _elsewhere(migration: Migration) -> str:
    steered = migration.status.condition(ConditionType.STEERED)
    return " came to another node" if steered is not None and steered.status == "False" else ""


def summary(errands: Sequence[Errand]) -> str:
    completed = sum(errand.is_completed for errand in errands)
    left = [errand for errand in errands if not errand.is_over]
    begun = sum(errand.is_under_way for errand in left)
    failed = sum(errand.is_over and not errand.is_completed and not errand.given_up for errand in errands)
    given_up = len(errands) - completed - failed - begun
    parts = [f"{completed} of {counted(len(errands), 'move')} made"]
    parts += [f"{number} {what}" for number, what in (
        (failed, "failed"), (begun, "still under way"), (given_up, "not made")
    ) if number]  # fmt: skip
    return ", ".join(parts) + "."


def results(errands: Sequence[Errand]) -> list[dict[str, Any]]:
    """For programs."""
    return [_result(errand) for errand in errands]


def _result(errand: Errand) -> dict[str, Any]:
    move, migration = errand.move, errand.migration
    state, words = state_of(errand)
    namespace = move.pod.partition("/")[0]
    successor = migration.status.target_pod if migration is not None else None
    return {
        "pod": move.pod,
        "uid": move.uid,
        "from": move.source,
        "to": (migration.target_node if migration is not None else "") or move.target,
        "strategy": move.strategy,
        "handover": str((migration.status.handover if migration is not None else None) or move.handover),
        "migration": errand.key or None,
        "result": "GivenUp" if errand.given_up else state,
        "successor": f"{namespace}/{successor.name}" if successor is not None else None,
        "attempts": migration.status.attempts if migration is not None else 0,
        "message": (migration.status.message if migration is not None else "") or words,
    }
