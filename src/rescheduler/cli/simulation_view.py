"""The result of a simulation, as text and as JSON."""

import statistics
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from typing import Any

from kubevalues.duration import short_duration
from rescheduler.cli.move_status import STATE_COLOURS, move_results, move_state, moves_summary
from rescheduler.cli.simulated_checks import NodeLoads, SimulatedCheck
from rescheduler.cli.terminal import Cell, Terminal, counted, load_change, table, wrapped
from rescheduler.planner.plan import Plan
from rescheduler.planner.reasons import meaning_and_remedy

__all__ = ["simulated_check_lines", "simulation_document", "simulation_summary_lines"]

_SHOWN = ("cpu", "memory")
_MOST_NODES = 20
_BAR = 8


def simulated_check_lines(check: SimulatedCheck, terminal: Terminal) -> Iterator[str]:
    """Yield the plan of one check and the changes of its moves."""
    moves = counted(len(check.plan.moves), "move") if check.plan.moves else "nothing to move"
    yield terminal.bold(f"Check {check.number} at {check.at:%H:%M:%S}: {moves}") + terminal.dim(
        f"  {_spreads(check.before)}"
    )
    for change in check.plan.changes:
        yield f"  {change.change} {change.node} ({change.strategy}): {change.reason}"
    for update in check.course:
        state, words = move_state(update.progress)
        if state in {"Planned", "Pending"} and not words:
            continue
        after = short_duration(timedelta(seconds=round((update.at - check.at).total_seconds())))
        move, migration = update.progress.move, update.progress.migration
        target = (migration.target_node if migration else "") or move.target or "?"
        shown = terminal.styled(state, {"fg": STATE_COLOURS[state]}) if state in STATE_COLOURS else state
        message = f": {words}" if words else ""
        yield f"  {'+' + after:>6}  {move.pod}  {move.source} {terminal.arrow} {target}  {shown}{message}"


def simulation_summary_lines(course: Sequence[SimulatedCheck], terminal: Terminal) -> Iterator[str]:
    """Yield the result of all checks."""
    first, last = course[0], course[-1]
    moves = [progress for check in course for progress in check.moves]
    took = short_duration(timedelta(seconds=round((last.until - first.at).total_seconds())))
    yield ""
    yield terminal.bold(f"After {counted(len(course), 'check')}, {took}: {moves_summary(moves)}")
    yield f"{_spreads(first.before)} {terminal.arrow} {_spreads(last.after)}"
    yield from _nodes(first.before, last.after, terminal)
    yield from _not_moved_lines(last.plan, terminal)


def _nodes(before: NodeLoads, after: NodeLoads, terminal: Terminal) -> Iterator[str]:
    changed = [name for name in after if after[name] != before.get(name)]
    rows = [
        [
            Cell(name),
            *(
                load_change(terminal, before.get(name, {}).get(each, 0.0), after[name].get(each, 0.0), _BAR)
                for each in _SHOWN
            ),
        ]
        for name in changed[:_MOST_NODES]
    ]
    if rows:
        yield ""
        yield from table(terminal, ("NODE", *(name.upper() for name in _SHOWN)), rows, shrinking=(0,))
    if len(changed) > _MOST_NODES:
        yield terminal.dim(f"and {counted(len(changed) - _MOST_NODES, 'other node')}")


def _not_moved_lines(plan: Plan, terminal: Terminal) -> Iterator[str]:
    """Yield why the last check did not move other pods."""
    if not plan.refused_counts:
        return
    yield ""
    yield terminal.bold("Not moved")
    for reason, count in sorted(plan.refused_counts.items(), key=lambda each: (-each[1], each[0])):
        text = f"{reason}: {meaning_and_remedy(reason)[0]}"
        yield from wrapped(terminal, text, first=f"  {count:>4}  ", indent=" " * 8)


def _spreads(loads: NodeLoads) -> str:
    parts = []
    for name in _SHOWN:
        found = [each[name] for each in loads.values() if name in each]
        if found:
            parts.append(f"{name} {min(found):.0f}% to {max(found):.0f}%")
    return ", ".join(parts)


# -- as JSON


def simulation_document(course: Sequence[SimulatedCheck], assumptions: Iterable[str]) -> dict[str, Any]:
    """Return the result of all checks for JSON."""
    return {"checks": [_check_document(check) for check in course], "assumptions": list(assumptions)}


def _check_document(check: SimulatedCheck) -> dict[str, Any]:
    return {
        "check": check.number,
        "at": check.at.isoformat(),
        "until": check.until.isoformat(),
        "moves": move_results(check.moves),
        "changes": [
            {"node": each.node, "change": str(each.change), "strategy": each.strategy, "reason": each.reason}
            for each in check.plan.changes
        ],
        "load": {name: _load_document(check, name) for name in _SHOWN},
        "nodes": [
            {"node": name, "before": dict(check.before.get(name, {})), "after": dict(loads)}
            for name, loads in check.after.items()
        ],
        "refused": dict(check.plan.refused_counts),
        "assumptions": list(check.plan.assumptions),
    }


def _load_document(check: SimulatedCheck, name: str) -> dict[str, Any]:
    return {"before": _spread(check.before, name), "after": _spread(check.after, name)}


def _spread(loads: NodeLoads, name: str) -> dict[str, float]:
    found = [each[name] for each in loads.values() if name in each] or [0.0]
    return {
        "lowest": min(found),
        "highest": max(found),
        "deviation": round(statistics.pstdev(found), 3),
    }
