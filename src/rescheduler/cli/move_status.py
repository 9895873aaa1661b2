"""The state of a move as one word and a message, its changes as lines, and summaries of many moves."""

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TextIO

from rescheduler.api.podmigration import CANCELLED, ConditionType, Handover, Migration, MigrationPhase
from rescheduler.cli.terminal import Terminal, counted, echo, rounded_duration, wrapped
from rescheduler.migrations.controller.plan_execution import MoveProgress
from rescheduler.migrations.make_before_break import with_live_step
from rescheduler.migrations.state_machine import invalid_status
from rescheduler.migrations.transition_table import MigrationStep
from rescheduler.planner.reasons import meaning_and_remedy

__all__ = [
    "INTERRUPT_NOTICE",
    "STATE_COLOURS",
    "ProgressDisplay",
    "broken_between_words",
    "completed_fraction",
    "failure_lines",
    "failure_remedy",
    "is_worth_reporting",
    "line_printer",
    "migration_fraction",
    "move_age",
    "move_results",
    "move_state",
    "moves_summary",
]

STATE_COLOURS: Final = {"Completed": "green", "Failed": "red", "Cancelled": "yellow"}

_STEP_MESSAGES: Final = {
    MigrationStep.CHECKING: "checking again before the move",
    MigrationStep.EVICTING: "copy is ready, evicting the source pod",
    MigrationStep.REPLACING: "evicted, waiting for the replacement",
    MigrationStep.SETTLING: "copy is ready, waiting for the rest of its group",
    MigrationStep.ROLLING_BACK: "rolling back",
}
_STEPS_WITH_OWN_MESSAGE: Final = frozenset(
    {
        MigrationStep.CREATING,
        MigrationStep.PLACING,
        MigrationStep.STARTING,
        MigrationStep.SETTLING,
        MigrationStep.PROTECTING,
        MigrationStep.ADOPTING,
        MigrationStep.REPLACING,
        MigrationStep.RELEASING,
    }
)
"""The steps whose status message says what the migration waits for."""

_STEPS_BEFORE_HANDOVER: Final = (MigrationStep.QUEUED, MigrationStep.CHECKING, MigrationStep.MARKING)
_COPY_STEPS: Final = (
    MigrationStep.CREATING,
    MigrationStep.PLACING,
    MigrationStep.STARTING,
    MigrationStep.SETTLING,
    MigrationStep.EVICTING,
)
_STEPS: Final = {
    Handover.ADOPT: (*_STEPS_BEFORE_HANDOVER, *_COPY_STEPS, MigrationStep.ADOPTING, MigrationStep.RELEASING),
    Handover.COPY: (*_STEPS_BEFORE_HANDOVER, *_COPY_STEPS, MigrationStep.RELEASING),
    Handover.EVICT: (
        *_STEPS_BEFORE_HANDOVER,
        MigrationStep.PROTECTING,
        MigrationStep.EVICTING,
        MigrationStep.REPLACING,
        MigrationStep.RELEASING,
    ),
}


def move_state(progress: MoveProgress) -> tuple[str, str]:
    """Return the state in one word and as a message."""
    migration = progress.migration
    if progress.cancelled_because:
        return "Cancelled", progress.cancelled_because
    if migration is None:
        return "Planned", ""
    status = migration.status
    match status.phase:
        case MigrationPhase.PENDING:
            return "Pending", status.message
        case MigrationPhase.IN_PROGRESS:
            return "InProgress", _progress_message(migration)
        case MigrationPhase.COMPLETED:
            successor = status.target_pod.name if status.target_pod else ""
            return "Completed", f"{successor}{_other_node_note(migration)}"
        case _:
            return "Cancelled" if _is_cancelled(progress) else "Failed", status.message


def _is_cancelled(progress: MoveProgress) -> bool:
    """Return whether the move was cancelled before it started, or by deleting its PodMigration."""
    failure = progress.migration.status.failure if progress.migration is not None else ""
    return bool(progress.cancelled_because) or failure == CANCELLED


def is_worth_reporting(progress: MoveProgress) -> bool:
    """Return whether to report the state; the state of a move that only waits for its turn is not news."""
    state, words = move_state(progress)
    return state not in {"Planned", "Pending"} or bool(words)


def completed_fraction(progress: MoveProgress) -> float:
    """Return the fraction of the steps that are done; 0 while the move is rolled back."""
    return (
        0.0
        if progress.migration is None or progress.cancelled_because
        else migration_fraction(progress.migration)
    )


def migration_fraction(migration: Migration) -> float:
    if migration.status.phase is MigrationPhase.COMPLETED:
        return 1.0
    steps = _STEPS.get(migration.status.handover or Handover.AUTO, _STEPS[Handover.ADOPT])
    step = migration.status.step or MigrationStep.QUEUED
    return steps.index(step) / len(steps) if step in steps else 0.0


def _progress_message(migration: Migration) -> str:
    if why := invalid_status(migration):
        return why
    status = migration.status
    step = MigrationStep(status.step or MigrationStep.QUEUED)
    words = _STEP_MESSAGES.get(step, f"moving, handover {status.handover}")
    if step is MigrationStep.EVICTING and status.handover is Handover.EVICT:
        words = "evicting the pod, its replacement follows"
    if step is MigrationStep.ROLLING_BACK and status.message:
        return f"{words}: {status.message}"
    if step is MigrationStep.EVICTING and _is_refused(migration):
        return status.message or words
    return status.message if step in _STEPS_WITH_OWN_MESSAGE and status.message else words


def _is_refused(migration: Migration) -> bool:
    allows = migration.status.condition(ConditionType.BUDGET_ALLOWS)
    return allows is not None and allows.status == "False"


def _other_node_note(migration: Migration) -> str:
    steered = migration.status.condition(ConditionType.STEERED)
    return " on another node" if steered is not None and steered.status == "False" else ""


def move_age(progress: MoveProgress) -> str:
    """Return how long the move has been running, or took; empty if it has no migration."""
    migration = progress.migration
    if migration is None:
        return ""
    since = migration.status.started_at or migration.created
    return rounded_duration((migration.status.finished_at or datetime.now(UTC)) - since)


# -- many moves


def moves_summary(moves: Sequence[MoveProgress]) -> str:
    """Return how many moves were made, failed, are still running, or were not made."""
    completed = sum(progress.is_completed for progress in moves)
    left = [progress for progress in moves if not progress.is_over]
    begun = sum(progress.is_under_way for progress in left)
    failed = sum(
        progress.is_over and not progress.is_completed and not _is_cancelled(progress) for progress in moves
    )
    not_made = len(moves) - completed - failed - begun
    parts = [f"{completed} of {counted(len(moves), 'move')} made"]
    parts += [f"{number} {what}" for number, what in (
        (failed, "failed"), (begun, "still running"), (not_made, "not made")
    ) if number]  # fmt: skip
    return ", ".join(parts) + "."


def failure_lines(moves: Sequence[MoveProgress]) -> Iterator[str]:
    """Yield the cause and the remedy of each failed move."""
    for progress in moves:
        migration = progress.migration
        if migration is None or migration.status.phase is not MigrationPhase.FAILED:
            continue
        yield f"  {progress.move.pod}: {migration.status.message or migration.status.failure or 'failed'}"
        yield f"    {failure_remedy(progress)}"


def failure_remedy(progress: MoveProgress) -> str:
    """Return what to do about a move that was not made."""
    if progress.cancelled_because:  # its PodMigration is deleted, so there are no details to show
        return f"Reason: {progress.cancelled_because}. To move the pod, run the command again."
    failure = progress.migration.status.failure if progress.migration is not None else ""
    namespace, _, name = progress.key.partition("/")
    return meaning_and_remedy(failure)[1] or f"For details, run: rescheduler migrations -n {namespace} {name}"


def move_results(moves: Sequence[MoveProgress]) -> list[dict[str, Any]]:
    """Return the result of each move for JSON and YAML output."""
    return [_move_result(progress) for progress in moves]


def _move_result(progress: MoveProgress) -> dict[str, Any]:
    move, migration = progress.move, progress.migration
    state, words = move_state(progress)
    namespace = move.pod.partition("/")[0]
    successor = migration.status.target_pod if migration is not None else None
    return {
        "pod": move.pod,
        "uid": move.uid,
        "from": move.source,
        "to": (migration.target_node if migration is not None else "") or move.target,
        "strategy": move.strategy,
        "handover": str((migration.status.handover if migration is not None else None) or move.handover),
        "migration": progress.key or None,
        "result": state,
        "successor": f"{namespace}/{successor.name}" if successor is not None else None,
        "attempts": migration.status.attempts if migration is not None else 0,
        "message": (migration.status.message if migration is not None else "") or words,
    }


# -- changes as lines

INTERRUPT_NOTICE = (
    "No more moves are started; waiting for the running ones. Press Ctrl-C again to exit immediately."
)


class ProgressDisplay:
    """Prints one line per change of a move."""

    def __init__(
        self,
        terminal: Terminal,
        print_line: Callable[[str], object],
        settle_time: timedelta = timedelta(),
    ) -> None:
        self.is_interrupted = False
        self._terminal = terminal
        self._settle_time = settle_time
        self._print = print_line
        self._began_s = time.monotonic()
        self._reported: dict[int, str] = {}

    @contextlib.contextmanager
    def showing(self, moves: Sequence[MoveProgress]) -> Iterator[None]:  # noqa: ARG002 - lines need no overview
        """Show the moves while the body runs."""
        yield

    def on_progress(self, progress: MoveProgress) -> None:
        identity, progress = id(progress), self._live(progress)
        state, words = move_state(progress)
        line = f"{state}{f': {words}' if words else ''}"
        if self._reported.get(identity) == line or not is_worth_reporting(progress):
            return
        self._reported[identity] = line
        move, terminal = progress.move, self._terminal
        target = (progress.migration.target_node if progress.migration else "") or move.target or "?"
        shown = terminal.styled(state, {"fg": STATE_COLOURS[state]}) if state in STATE_COLOURS else state
        self._print(
            f"{self.elapsed:>6}  {move.pod}  {move.source} {terminal.arrow} {target}  "
            f"{shown}{f': {words}' if words else ''}"
        )

    def interrupted(self) -> None:
        self.is_interrupted = True
        self._print(INTERRUPT_NOTICE)

    def _live(self, progress: MoveProgress) -> MoveProgress:
        """Return the move with the current step of its copy."""
        if progress.migration is None:
            return progress
        live = with_live_step(progress.migration, progress.copy, self._settle_time, datetime.now(UTC))
        return replace(progress, migration=live)

    @property
    def elapsed(self) -> str:
        return rounded_duration(timedelta(seconds=time.monotonic() - self._began_s))


def line_printer(terminal: Terminal, *, to_stderr: bool) -> Callable[[str], object]:
    """Return a function that prints a line, wrapped between words."""

    def print_line(line: str) -> None:
        # Styles would count as columns.
        shown = line if terminal.colour else broken_between_words(line, terminal)
        try:
            echo(shown, err=to_stderr, color=terminal.colour)
        except BrokenPipeError:
            # Ctrl-C also ends the reader of a pipe, but the command must still wait for running moves.
            _discard_output(sys.stderr if to_stderr else sys.stdout)

    return print_line


def _discard_output(stream: TextIO) -> None:
    """Discard everything that is written to the stream from now on."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def broken_between_words(line: str, terminal: Terminal) -> str:
    """Return the line, wrapped between words if the terminal is narrower."""
    if not terminal.is_narrower_than(len(line)):
        return line
    text = line.lstrip()
    return "\n".join(wrapped(terminal, text[1:], first=text[:1], indent="  "))
