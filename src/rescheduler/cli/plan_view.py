"""A plan as text, and simulated checks with their plans."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from kubevalues.duration import short_duration
from rescheduler.cli.terminal import (
    Cell,
    Terminal,
    counted,
    load_change_lines,
    table,
    table_widths,
    wrapped,
)
from rescheduler.config.metric_settings import is_metric_name
from rescheduler.planner.plan import Move, NodeLoadChange, Plan, Rejection
from rescheduler.planner.plan_json import summary_of
from rescheduler.planner.reasons import meaning_and_remedy

if TYPE_CHECKING:
    from rescheduler.cli.simulated_checks import SimulatedCheck

__all__ = ["NodeLoads", "plan_lines", "shown_resources", "simulated_check_lines", "simulation_summary_lines"]

NodeLoads = Mapping[str, Mapping[str, float]]
"""Loads by node and resource, in percent of allocatable."""

_WIDE = 120
_MIN_REASON = 30
_FEW_NODES = 12
_MOST_NODES = 20
_SHOWN = ("cpu", "memory")
_EXAMPLES = 3


def plan_lines(plan: Plan, terminal: Terminal) -> Iterator[str]:
    """Yield the lines that `rescheduler plan` prints."""
    yield from _heading(plan, terminal)
    yield from _moves(plan.moves, terminal)
    yield from _changes(plan, terminal)
    yield from _nodes(plan, terminal)
    yield from _not_moved_lines(plan, terminal)
    if plan.assumptions:
        yield ""
        yield terminal.bold("Assumptions")
        for assumption in plan.assumptions:
            yield from wrapped(terminal, assumption, first="  - ", indent="    ")


def _heading(plan: Plan, terminal: Terminal) -> Iterator[str]:
    taken_at = datetime.fromtimestamp(plan.taken_at_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    if not plan.moves:
        what = "Nothing to move" if not plan.changes else "No pods to move"
    else:
        pods = counted(len({move.uid for move in plan.moves}), "pod")
        waves = counted(len({move.wave for move in plan.moves}), "wave")
        what = f"{counted(len(plan.moves), 'move')} of {pods}, in {waves}"
    if terminal.is_narrower_than(len(what) + len(taken_at) + 10):
        yield terminal.bold(f"{what}.")
        yield terminal.dim(f"As of {taken_at}.")
    else:
        yield terminal.bold(f"{what}.") + terminal.dim(f"  As of {taken_at}.")
    for name, load in summary_of(plan).load.items():
        if _is_shown(name):
            before, after = load.before, load.after
            yield from wrapped(
                terminal,
                f"{name}: nodes between {before.lowest:.0f}% and {before.highest:.0f}% {terminal.arrow} "
                f"{after.lowest:.0f}% and {after.highest:.0f}%"
                f" (deviation {before.deviation:.1f} {terminal.arrow} {after.deviation:.1f})",
                indent="",
            )


def _is_shown(name: str) -> bool:
    """Return whether the load of this resource is shown: it is cpu, memory or a custom metric."""
    return name in _SHOWN or is_metric_name(name)


# --- moves


def _moves(moves: Sequence[Move], terminal: Terminal) -> Iterator[str]:
    if not moves:
        return
    yield ""
    rows = [
        [
            Cell(str(move.wave + 1), {"dim": True}),
            Cell(move.pod),
            *_from_to_cells(move, terminal),
            Cell(move.strategy),
            Cell(move.handover),
            Cell(_reason(move)),
        ]
        for move in moves
    ]
    heads = ("WAVE", "POD", "FROM", f"{terminal.arrow} TO", "STRATEGY", "HANDOVER", "REASON")
    *names, reasons = table_widths(heads, rows)
    longest_word = max(len(word) for move in moves for word in (*_reason(move).split(), ""))
    room = min(reasons, max(_MIN_REASON, longest_word))
    if terminal.is_narrower_than(max(_WIDE, sum(names) + 2 * len(names) + room)):
        yield from _moves_with_details(moves, terminal)
    else:
        yield from table(terminal, heads, rows)


def _moves_with_details(moves: Sequence[Move], terminal: Terminal) -> Iterator[str]:
    """Yield several lines per move, for narrow terminals. Names stay whole, so that users can copy them."""
    rows = [
        [Cell(str(move.wave + 1), {"dim": True}), Cell(move.pod), *_from_to_cells(move, terminal)]
        for move in moves
    ]
    heads = ("WAVE", "POD", "FROM", f"{terminal.arrow} TO")
    widths = table_widths(heads, rows)
    is_narrow = terminal.is_narrower_than(sum(widths) + 2 * (len(widths) - 1))
    columns = 2 if is_narrow else 4
    head, *lines = table(terminal, heads[:columns], [row[:columns] for row in rows])
    yield head
    for move, line in zip(moves, lines, strict=True):
        yield line
        if is_narrow:
            source, target = _from_to_cells(move, terminal)
            yield from wrapped(terminal, f"{source.text} {target.text}", indent="      ")
        detail = f"{move.strategy}, {move.handover}: {_reason(move)}"
        for part in wrapped(terminal, detail, indent="      "):
            yield terminal.dim(part)


def _from_to_cells(move: Move, terminal: Terminal) -> tuple[Cell, Cell]:
    return Cell(move.source), Cell(f"{terminal.arrow} {move.target or 'to be chosen'}")


def _reason(move: Move) -> str:
    notes = [move.reason]
    if move.hop:
        notes.append("intermediate stop")
    if move.group:
        notes.append(f"moves with group {move.group}")
    return "; ".join(note for note in notes if note)


def _changes(plan: Plan, terminal: Terminal) -> Iterator[str]:
    if plan.changes:
        yield ""
        yield terminal.bold("Nodes to change")
    for change in plan.changes:
        text = f"{change.change} {change.node} ({change.strategy}): {change.reason}"
        yield from wrapped(terminal, text, first="  - ", indent="    ")


# --- nodes


def _nodes(plan: Plan, terminal: Terminal) -> Iterator[str]:
    chosen = _shown_nodes(plan, terminal)
    if not chosen:
        return
    resources = dict.fromkeys(name for node in chosen for name in node.before if _is_shown(name))
    changes = [
        (
            node.name,
            # An unknown load is not shown as 0.
            {
                name: (node.before.get(name, 0.0), node.after.get(name, 0.0))
                for name in resources
                if name in node.before or name in _SHOWN
            },
        )
        for node in chosen
    ]
    yield ""
    yield from load_change_lines(terminal, list(resources), changes)
    if left := len(plan.nodes) - len(chosen):
        changed = sum(map(_changes_load, plan.nodes)) - sum(map(_changes_load, chosen))
        rest = f", {changed} of them with a changed load" if changed else ", none with a changed load"
        yield terminal.dim(f"and {counted(left, 'other node')}{rest}")


def _shown_nodes(plan: Plan, terminal: Terminal) -> list[NodeLoadChange]:
    """Return all nodes if there are few, else those whose load changes; on a terminal, only some of these."""
    if len(plan.nodes) <= _FEW_NODES:
        return list(plan.nodes)
    changed = [node for node in plan.nodes if _changes_load(node)]
    if terminal.width is not None and len(changed) > _MOST_NODES:
        changed = sorted(changed, key=lambda node: (-_change(node), node.name))[:_MOST_NODES]
    return sorted(changed, key=lambda node: (-max(node.before.values(), default=0.0), node.name))


def _change(node: NodeLoadChange) -> float:
    return max((abs(node.after.get(name, load) - load) for name, load in node.before.items()), default=0.0)


def _changes_load(node: NodeLoadChange) -> bool:
    return _change(node) > 0.0


# --- pods that are not moved


def _not_moved_lines(plan: Plan, terminal: Terminal) -> Iterator[str]:
    if not plan.refused:
        return
    by_reason: dict[str, list[Rejection]] = {}
    for each in plan.refused:
        by_reason.setdefault(each.reason, []).append(each)
    counts = {reason: plan.refused_counts.get(reason, len(found)) for reason, found in by_reason.items()}
    yield ""
    yield terminal.bold("Not moved")
    for reason in sorted(by_reason, key=lambda reason: (-counts[reason], reason)):
        yield from _one_reason(reason, by_reason[reason], counts[reason], terminal)


def _one_reason(reason: str, rejections: list[Rejection], count: int, terminal: Terminal) -> Iterator[str]:
    yield f"  {count:>4}  {terminal.styled(reason, {'fg': 'yellow'})}"
    indent = " " * 8
    meaning, remedy = meaning_and_remedy(reason)
    if meaning:
        yield from wrapped(terminal, meaning, indent=indent)
    shown = rejections if terminal.width is None else rejections[:_EXAMPLES]
    for each in shown:
        words = ": ".join(filter(None, (each.subject, each.detail)))
        yield from wrapped(terminal, words, indent=indent)
    if terminal.width is not None and count > len(shown):
        yield f"{indent}and {count - len(shown)} more"
    if remedy:
        yield from (terminal.dim(line) for line in wrapped(terminal, remedy, indent=indent))


# --- simulated checks


def simulated_check_lines(check: "SimulatedCheck", terminal: Terminal) -> Iterator[str]:
    """Yield the plan of one check and the changes of its moves."""
    # Not at the top: it imports the controller of migrations, and `rescheduler plan` starts none.
    from rescheduler.cli.move_status import STATE_COLOURS, move_state  # noqa: PLC0415

    moves = counted(len(check.plan.moves), "move") if check.plan.moves else "nothing to move"
    title, spreads = f"Check {check.number} at {check.at:%H:%M:%S}: {moves}", _spreads(check.before)
    if terminal.is_narrower_than(len(f"{title}  {spreads}")):
        yield from map(terminal.bold, wrapped(terminal, title, indent=""))
        yield from map(terminal.dim, wrapped(terminal, spreads, indent="  "))
    else:
        yield terminal.bold(title) + terminal.dim(f"  {spreads}")
    for change in check.plan.changes:
        words = f"{change.change} {change.node} ({change.strategy}): {change.reason}"
        yield from wrapped(terminal, words, first="  ", indent="    ")
    shown_states: dict[str, tuple[str, str]] = {}
    for update in check.updates:
        state, words = move_state(update.progress)
        # A move changes more often than its message.
        repeated = shown_states.get(update.progress.move.pod) == (state, words)
        if repeated or (state in {"Planned", "Pending"} and not words):
            continue
        shown_states[update.progress.move.pod] = (state, words)
        after = short_duration(timedelta(seconds=round((update.at - check.at).total_seconds())))
        move, migration = update.progress.move, update.progress.migration
        target = (migration.target_node if migration else "") or move.target or "?"
        shown = terminal.styled(state, {"fg": STATE_COLOURS[state]}) if state in STATE_COLOURS else state
        message = f": {words}" if words else ""
        course = f"  {'+' + after:>6}  {move.pod}  {move.source} {terminal.arrow} {target}"
        if terminal.is_narrower_than(len(f"{course}  {state}{message}")):
            yield from wrapped(terminal, course.lstrip(), first=" " * (8 - len(after) - 1), indent=" " * 10)
            first, *more = wrapped(terminal, f"{state}{message}", indent=" " * 10)
            yield from (first.replace(state, shown, 1), *more)
        else:
            yield f"{course}  {shown}{message}"


def simulation_summary_lines(checks: Sequence["SimulatedCheck"], terminal: Terminal) -> Iterator[str]:
    """Yield the result of all checks."""
    from rescheduler.cli.move_status import moves_summary  # noqa: PLC0415

    first, last = checks[0], checks[-1]
    moves = [progress for check in checks for progress in check.moves]
    took = short_duration(timedelta(seconds=round((last.until - first.at).total_seconds())))
    yield ""
    summary = f"After {counted(len(checks), 'check')}, {took}: {moves_summary(moves)}"
    yield from map(terminal.bold, wrapped(terminal, summary, indent=""))
    spreads = f"{_spreads(first.before)} {terminal.arrow} {_spreads(last.after)}"
    yield from wrapped(terminal, spreads, indent="")
    yield from _node_changes(first.before, last.after, terminal)
    yield from _refused_lines(last.plan, terminal)


def _node_changes(before: NodeLoads, after: NodeLoads, terminal: Terminal) -> Iterator[str]:
    changed = [name for name in after if after[name] != before.get(name)]
    resources = shown_resources(before)
    shown = [
        (
            name,
            {each: (before.get(name, {}).get(each, 0.0), after[name].get(each, 0.0)) for each in resources},
        )
        for name in changed[:_MOST_NODES]
    ]
    if shown:
        yield ""
        yield from load_change_lines(terminal, resources, shown)
    if len(changed) > _MOST_NODES:
        yield terminal.dim(f"and {counted(len(changed) - _MOST_NODES, 'other node')}")


def _refused_lines(plan: Plan, terminal: Terminal) -> Iterator[str]:
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
    for name in shown_resources(loads):
        found = [each[name] for each in loads.values() if name in each]
        if found:
            parts.append(f"{name} {min(found):.0f}% to {max(found):.0f}%")
    return ", ".join(parts)


def shown_resources(loads: NodeLoads) -> list[str]:
    """Return the resources whose loads are shown: cpu, memory and custom metrics."""
    return list(
        dict.fromkeys([*_SHOWN, *(name for each in loads.values() for name in each if _is_shown(name))])
    )
