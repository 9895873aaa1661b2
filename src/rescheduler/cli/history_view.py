"""The history of moves, and the difference between two plans, as text."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec

from rescheduler.api.daemon_status import SpreadChange
from rescheduler.api.migration_journal import JournalEntry
from rescheduler.api.podmigration import CANCELLED
from rescheduler.cli.terminal import Cell, Terminal, counted, detailed_table, wrapped
from rescheduler.planner.plan import Move, Plan, plan_id, spread_changes

__all__ = ["history_lines", "plan_diff_document", "plan_diff_lines"]

_HEADS: Final = ("FINISHED", "MIGRATION", "FROM", "TO", "RESULT", "LOST", "STRATEGY", "REASON")
_BRIEF: Final = (1, 0, 4, 5)
"""The columns on a narrow terminal; the others are below each row."""
_MIN_REASON: Final = 30


def history_lines(
    entries: Sequence[JournalEntry], terminal: Terminal, *, is_wide: bool = False
) -> Iterator[str]:
    """Yield the moves, newest first, grouped by plan; with `is_wide`, each move has one line."""
    if not entries:
        yield "No moves found."
        return
    every_row = [_row(entry) for entry in entries]
    for entries_of_plan in _by_plan(entries):
        yield from _plan_heading(entries_of_plan, terminal)
        yield from detailed_table(
            replace(terminal, width=None) if is_wide else terminal,
            _HEADS,
            [_row(entry) for entry in entries_of_plan],
            min_last=_MIN_REASON,
            brief=_BRIEF,
            details=[_details(entry, terminal) for entry in entries_of_plan],
            of=every_row,
        )
        yield ""
    done = sum(entry.is_completed for entry in entries)
    cancelled = sum(entry.failure == CANCELLED for entry in entries)
    lost = sum(entry.ready_seconds_lost for entry in entries)
    summary = f"{counted(len(entries), 'move')}: {done} completed, {len(entries) - done - cancelled} failed"
    summary += f", {cancelled} cancelled" * bool(cancelled)
    yield terminal.bold(f"{summary}; {lost:.1f} s without a ready pod.")


def _by_plan(entries: Sequence[JournalEntry]) -> list[list[JournalEntry]]:
    """Return the moves by plan and requester; each move without a plan is a group of its own."""
    groups: dict[tuple[str, str], list[JournalEntry]] = {}
    for entry in entries:
        groups.setdefault((entry.plan or f"alone {entry.uid}", entry.requested_by), []).append(entry)
    return list(groups.values())


def _plan_heading(entries: Sequence[JournalEntry], terminal: Terminal) -> Iterator[str]:
    newest = entries[0]
    by = f", requested by {newest.requested_by}" if newest.requested_by else ""
    if newest.plan and not by:
        by = ", made by the daemon"
    if not newest.plan:
        yield from map(terminal.bold, wrapped(terminal, f"Without a plan{by}", indent=""))
        return
    name, spreads = f"Plan {newest.plan}{by}", _spreads_text(newest.spreads, terminal)
    if terminal.is_narrower_than(len(name) + 2 + len(spreads)):
        yield from map(terminal.bold, wrapped(terminal, name, indent=""))
        yield from map(terminal.dim, wrapped(terminal, spreads, indent=""))
    else:
        yield terminal.bold(name) + terminal.dim(f"  {spreads}" if spreads else "")


def _spreads_text(spreads: Iterable[SpreadChange], terminal: Terminal) -> str:
    return "; ".join(
        f"{each.resource} spread {each.before:.0f} {terminal.arrow} {each.after:.0f} points"
        for each in spreads
    )


def _row(entry: JournalEntry) -> list[Cell]:
    colour = "green" if entry.is_completed else "yellow" if entry.failure == CANCELLED else "red"
    return [
        Cell(entry.finished_at.strftime("%m-%d %H:%M:%S")),
        Cell(entry.migration),
        Cell(entry.source),
        Cell(entry.target or "not chosen"),
        Cell(entry.failure or str(entry.outcome), {"fg": colour}),
        Cell(f"{entry.ready_seconds_lost:.1f}s"),
        Cell(entry.strategy),
        Cell(_reason(entry)),
    ]


def _details(entry: JournalEntry, terminal: Terminal) -> tuple[str, str]:
    why = ": ".join(filter(None, (entry.strategy, _reason(entry))))
    return f"{entry.source} {terminal.arrow} {entry.target or 'not chosen'}", why


def _reason(entry: JournalEntry) -> str:
    """Return the reason without the user, who is named in the heading."""
    by = f", requested by {entry.requested_by}" if entry.requested_by else ""
    return entry.reason.replace(by, "") if by else entry.reason


# -- the difference between two plans


def _changes(old: Plan, new: Plan) -> list[tuple[str, Move, Move | None]]:
    """Return `+`, `-` or `~` and the move, and for `~` also the old move."""
    before = {move.uid: move for move in old.moves if not move.hop}
    after = {move.uid: move for move in new.moves if not move.hop}
    found: list[tuple[str, Move, Move | None]] = []
    for uid, move in after.items():
        if uid not in before:
            found.append(("+", move, None))
        elif (before[uid].source, before[uid].target) != (move.source, move.target):
            found.append(("~", move, before[uid]))
    found += [("-", move, None) for uid, move in before.items() if uid not in after]
    return sorted(found, key=lambda each: each[1].pod)


def plan_diff_lines(old: Plan, new: Plan, terminal: Terminal) -> Iterator[str]:
    """Yield the differences between an older plan and a new one."""
    changes = _changes(old, new)
    same = len({move.uid for move in new.moves}) - sum(sign != "-" for sign, _, _ in changes)
    counts = {sign: sum(each[0] == sign for each in changes) for sign in "+~-"}
    summary = (
        f"Compared with plan {plan_id(old)}: {counts['+']} added, {counts['-']} removed, "
        f"{counts['~']} with another target, {same} unchanged."
    )
    yield from map(terminal.bold, wrapped(terminal, summary, indent=""))
    colours: Mapping[str, str] = {"+": "green", "-": "red", "~": "yellow"}
    for sign, move, was in changes:
        instead = f" (was {was.source} {terminal.arrow} {was.target})" if was is not None else ""
        nodes = f"{move.source} {terminal.arrow} {move.target or 'to be chosen'}{instead}"
        lines = [f"{sign} {move.pod}  {nodes}"]
        if terminal.is_narrower_than(len(lines[0])):
            lines = [f"{sign} {move.pod}", *wrapped(terminal, nodes, indent="  ")]
        yield from (terminal.styled(line, {"fg": colours[sign]}) for line in lines)
    for words, plan in (("then", old), ("now", new)):
        if spreads := spread_changes(plan.nodes):
            text = f"As planned {words}: {_spreads_text(spreads, terminal)}"
            yield from wrapped(terminal, text, indent="")
    yield from _refusal_changes(old, new, terminal)


def _refusal_changes(old: Plan, new: Plan, terminal: Terminal) -> Iterator[str]:
    for reason in sorted({*old.refused_counts, *new.refused_counts}):
        before, after = old.refused_counts.get(reason, 0), new.refused_counts.get(reason, 0)
        if before != after:
            yield f"Not moved, {reason}: {before} {terminal.arrow} {after}"


def plan_diff_document(old: Plan, new: Plan) -> dict[str, Any]:
    """Return the same as `plan_diff_lines`, for JSON."""
    names = {"+": "added", "-": "removed", "~": "changed"}
    return {
        "from": plan_id(old),
        "to": plan_id(new),
        "moves": [
            {
                "change": names[sign],
                "pod": move.pod,
                "uid": move.uid,
                "from": move.source,
                "to": move.target,
                **({"was": {"from": was.source, "to": was.target}} if was is not None else {}),
            }
            for sign, move, was in _changes(old, new)
        ],
        "spreads": {
            "before": msgspec.to_builtins(spread_changes(old.nodes)),
            "after": msgspec.to_builtins(spread_changes(new.nodes)),
        },
        "refused": {"before": dict(old.refused_counts), "after": dict(new.refused_counts)},
    }
