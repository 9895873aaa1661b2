"""An explanation as a person likes to read it."""

from collections.abc import Iterable, Iterator, Sequence

from rescheduler.cli.bars import load_cell
from rescheduler.cli.explain_recovery import recovery_lines, suspicion_lines
from rescheduler.cli.terminal import Cell, Terminal, table, wrapped
from rescheduler.cli.wording import counted, several
from rescheduler.model.plan import Rejection
from rescheduler.planner.explaining import NodeExplanation, PodExplanation, Tenant
from rescheduler.planner.places import Forbidden, Places
from rescheduler.planner.reasons import REMEDIES, Reason

__all__ = ["lines_of"]

_REMEDIES = {str(reason): remedy for reason, (_, remedy) in REMEDIES.items()}
_MOST_ON_SCREEN = 8
_BAR = 10


def lines_of(
    told: PodExplanation | NodeExplanation, assumptions: Sequence[str], terminal: Terminal
) -> Iterator[str]:
    yield from _pod(told, terminal) if isinstance(told, PodExplanation) else _node(told, terminal)
    if assumptions:
        yield ""
        yield terminal.bold("Taken for granted")
        for assumption in assumptions:
            yield from wrapped(terminal, assumption, first="  - ", indent="    ")


# --- a pod


def _pod(told: PodExplanation, terminal: Terminal) -> Iterator[str]:
    yield terminal.bold(told.pod) + (f" on {told.node}" if told.node else " on no node")
    yield ""
    yield from _verdict(told, terminal)
    if told.recovery is not None:
        yield from recovery_lines(told.recovery, terminal)
        yield from _reasons(told.recovery.kept_by, terminal)
    if told.handover is not None:
        yield ""
        yield f"{terminal.bold('How')}  {told.handover}"
        for text in filter(None, (told.why, told.assumed and f"taken for granted: {told.assumed}")):
            yield from wrapped(terminal, text, indent="  ")
    if told.group:
        yield ""
        members = several(told.members, most=_limit(terminal, len(told.members)))
        yield f"{terminal.bold('Together with its group')}  {told.group}"
        yield from wrapped(terminal, members, indent="  ")
    if told.places is not None:
        yield from _places(told.places, terminal)


def _verdict(told: PodExplanation, terminal: Terminal) -> Iterator[str]:
    yield f"{terminal.bold('May it move?')}  {_yes_or_no(not told.kept_by, terminal)}"
    yield from _reasons(told.kept_by, terminal)
    if told.kept_by != told.kept_in_maintenance_by:
        yield f"{terminal.bold('In maintenance?')}  {_yes_or_no(not told.kept_in_maintenance_by, terminal)}"
        yield from _reasons(told.kept_in_maintenance_by, terminal)
    yield from _when(told, terminal)


def _when(told: PodExplanation | NodeExplanation, terminal: Terminal) -> Iterator[str]:
    if not told.in_window:
        yield f"{terminal.bold('Now?')}  {_yes_or_no(False, terminal)}"
        meaning, remedy = REMEDIES[Reason.OUTSIDE_WINDOW]
        yield from wrapped(terminal, f"{Reason.OUTSIDE_WINDOW}: {meaning}", first="  - ", indent="    ")
        yield from (terminal.dim(line) for line in wrapped(terminal, remedy, indent="    "))


def _yes_or_no(is_so: bool, terminal: Terminal) -> str:
    return terminal.styled("yes", {"fg": "green"}) if is_so else terminal.styled("no", {"fg": "red"})


def _reasons(found: Iterable[Rejection], terminal: Terminal) -> Iterator[str]:
    for each in found:
        by = f" ({each.by})" if each.by and each.by not in each.detail else ""
        yield from wrapped(terminal, f"{each.reason}: {each.detail}{by}", first="  - ", indent="    ")
        if remedy := _REMEDIES.get(each.reason):
            yield from (terminal.dim(line) for line in wrapped(terminal, remedy, indent="    "))


def _places(places: Places, terminal: Terminal) -> Iterator[str]:
    yield ""
    count = len(places.available)
    yield f"{terminal.bold('Where could it go?')}  {count} of {counted(places.nodes, 'node')}"
    if count:
        limit = _limit(terminal, count, 2 * _MOST_ON_SCREEN)
        yield from wrapped(terminal, several(places.available, most=limit), indent="  ")
    if places.forbidden:
        yield ""
        yield terminal.bold("What forbids the others")
    for each in places.forbidden:
        yield from _forbidden(each, terminal)


def _forbidden(each: Forbidden, terminal: Terminal) -> Iterator[str]:
    yield (
        f"  {counted(len(each.nodes), 'node')}: {terminal.styled(each.rule, {'fg': 'yellow'})}, {each.reason}"
    )
    by_detail: dict[str, list[str]] = {}
    for node, detail in each.nodes:
        by_detail.setdefault(detail, []).append(node)
    limit = _limit(terminal, len(by_detail))
    for detail, nodes in list(by_detail.items())[:limit]:
        named = several(nodes, most=_limit(terminal, len(nodes)))
        yield from wrapped(terminal, f"{named}: {detail}" if detail else named, indent="      ")
    if rest := list(by_detail.values())[limit:]:
        more = counted(sum(map(len, rest)), "more node")
        yield terminal.dim(f"      and {more} (all of them with -o json, or in a pipe)")


def _limit(terminal: Terminal, count: int, most: int = _MOST_ON_SCREEN) -> int:
    """A screen shows the first few; a file or a pipe gets all."""
    return count if terminal.width is None else most


# --- a node


def _node(told: NodeExplanation, terminal: Terminal) -> Iterator[str]:
    states = [
        "Ready" if told.ready else "not Ready",
        *(["cordoned"] if not told.schedulable else []),
        *(["in maintenance"] if told.in_maintenance else []),
    ]
    yield terminal.bold(told.node) + f" is {', '.join(states)}"
    rows = [[Cell(name), load_cell(terminal, load, _BAR)] for name, load in told.loads.items()]
    yield from table(terminal, ("", ""), rows, indent="  ")
    if told.suspicion is not None:
        yield from suspicion_lines(told.suspicion, terminal)
    movable = [tenant for tenant in told.tenants if not tenant.kept_by]
    yield ""
    yield (
        f"{terminal.bold('What could leave?')}  {len(movable)} of {counted(len(told.tenants), 'pod')}"
        f"{', where it has to be emptied' if told.in_maintenance or not told.schedulable else ''}"
    )
    yield from _when(told, terminal)
    yield from _leaving(movable, terminal)
    yield from _staying([tenant for tenant in told.tenants if tenant.kept_by], terminal)
    yield ""
    yield from _coming(told, terminal)


def _leaving(movable: Sequence[Tenant], terminal: Terminal) -> Iterator[str]:
    limit = _limit(terminal, len(movable), 2 * _MOST_ON_SCREEN)
    rows = [
        [
            Cell(tenant.pod),
            Cell(tenant.handover or ""),
            Cell(f"{counted(tenant.targets, 'node')} could take it", {} if tenant.targets else {"fg": "red"}),
        ]
        for tenant in movable[:limit]
    ]
    if rows:
        yield from table(terminal, ("", "", ""), rows, shrinking=(0,), indent="  ")
    if len(movable) > limit:
        yield terminal.dim(f"  and {len(movable) - limit} more")


def _staying(kept: Sequence[Tenant], terminal: Terminal) -> Iterator[str]:
    if not kept:
        return
    yield ""
    yield terminal.bold("What stays")
    by_reason: dict[str, list[Tenant]] = {}
    for tenant in kept:
        by_reason.setdefault(tenant.kept_by[0].reason, []).append(tenant)
    for reason, tenants in sorted(by_reason.items()):
        yield f"  {counted(len(tenants), 'pod')}: {terminal.styled(reason, {'fg': 'yellow'})}"
        limit = _limit(terminal, len(tenants), 3)
        for tenant in tenants[:limit]:
            yield from wrapped(terminal, f"{tenant.pod}: {tenant.kept_by[0].detail}", indent="      ")
        if len(tenants) > limit:
            yield terminal.dim(f"      and {len(tenants) - limit} more")
        if remedy := _REMEDIES.get(reason):
            yield from (terminal.dim(line) for line in wrapped(terminal, remedy, indent="      "))


def _coming(told: NodeExplanation, terminal: Terminal) -> Iterator[str]:
    title = terminal.bold("What could come?")
    if told.takes_none:
        yield f"{title}  nothing: it {told.takes_none}"
        return
    count = ("" if told.all_asked else "at least ") + counted(told.could_come, "pod")
    yield f"{title}  {count} of other nodes may move and would fit"
    if told.could_come:
        yield from wrapped(terminal, several(told.could_come_examples, told.could_come, most=10), indent="  ")
