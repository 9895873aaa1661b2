"""The explanation of a pod or a node, as text and as JSON."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from kubevalues.duration import short_duration
from rescheduler.cli.status_view import autoscaler_title
from rescheduler.cli.terminal import (
    Cell,
    Terminal,
    abbreviated_list,
    counted,
    fitting_table,
    load_cell,
    table,
    wrapped,
)
from rescheduler.cluster.node_autoscalers import NO_REMOVAL
from rescheduler.cluster.node_record import NodeEvacuation
from rescheduler.planner.available_nodes import NodeAvailability, UnavailableNodes
from rescheduler.planner.explanation import ExplainedPod, NodeExplanation, PodExplanation
from rescheduler.planner.plan import Rejection
from rescheduler.planner.reasons import Reason, meaning_and_remedy
from rescheduler.recovery.failed_pods_strategy import RecoveryExplanation, SuspectNodeExplanation

__all__ = ["explanation_document", "explanation_lines", "pod_explanation_blocks"]

_MAX_ITEMS_ON_SCREEN = 8
_BAR = 10


def _recovery_lines(explained: RecoveryExplanation, terminal: Terminal) -> Iterator[str]:
    """Yield whether a pod fails, the attempts so far and the next step, but not its rejections."""
    yield ""
    if explained.failure:
        yield f"{terminal.bold('Is it failing?')}  {terminal.styled('yes', {'fg': 'red'})}"
        yield from wrapped(
            terminal, f"{explained.failure}, since {_time_text(explained.since_s)}", indent="  "
        )
    else:
        yield f"{terminal.bold('Is it failing?')}  {terminal.styled('no', {'fg': 'green'})}"
    if explained.retries is not None:
        allowed = f"{counted(explained.retries, 'rescheduling')} allowed by {explained.by}"
        yield from wrapped(terminal, f"{allowed}, {explained.used} used", indent="  ")
    for each in explained.tries:
        at = _time_text(each.at_s) if each.at_s else "at an unknown time"
        yield f"    {at} on {each.node or 'an unknown node'}"
    if explained.next:
        yield from wrapped(terminal, f"next: {explained.next}", indent="  ")


def _recovery_document(explained: RecoveryExplanation | None) -> dict[str, Any] | None:
    """Return the same as `_recovery_lines`, for JSON."""
    if explained is None:
        return None
    return {
        "failing": bool(explained.failure),
        "trouble": explained.failure,
        "since": _timestamp(explained.since_s),
        "retries": explained.retries,
        "allowedBy": explained.by,
        "used": explained.used,
        "tries": [
            {"time": _timestamp(each.at_s), "node": each.node, "podUid": each.pod} for each in explained.tries
        ],
        "next": explained.next,
    }


def _suspicion_lines(explained: SuspectNodeExplanation, terminal: Terminal) -> Iterator[str]:
    """Yield why a node is suspect."""
    yield ""
    yield f"{terminal.bold('Suspect?')}  {terminal.styled('yes', {'fg': 'red'})}"
    count, window = counted(len(explained.workloads), "workload"), short_duration(explained.window)
    failed = f"{count} failed here within {window}"
    most = len(explained.workloads) if terminal.width is None else _MAX_ITEMS_ON_SCREEN
    yield from wrapped(terminal, f"{failed}: {abbreviated_list(explained.workloads, most=most)}", indent="  ")
    remedy = "Pods are sent here only as a last resort until the workloads recover. Check why they fail."
    yield from (terminal.dim(line) for line in wrapped(terminal, remedy, indent="  "))


def _time_text(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _timestamp(at_s: float) -> str | None:
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if at_s else None


def explanation_lines(
    explained: PodExplanation | NodeExplanation, assumptions: Sequence[str], terminal: Terminal
) -> Iterator[str]:
    """Yield the lines that `rescheduler explain` prints."""
    if isinstance(explained, PodExplanation):
        yield from _pod_title(explained, terminal)
        yield from _pod_lines(explained, terminal)
    else:
        yield from _node_lines(explained, terminal)
    yield from _assumption_lines(assumptions, terminal)


def pod_explanation_blocks(
    explanations: Sequence[PodExplanation], assumptions: Sequence[str], terminal: Terminal
) -> Iterator[list[str]]:
    """Yield the lines of each explanation; pods whose explanations differ only in their node share one."""

    def answer(explained: PodExplanation) -> Iterator[str]:
        yield from _pod_lines(explained, terminal)
        yield from _assumption_lines((*assumptions, *explained.assumptions), terminal)

    groups: dict[tuple[str, ...], list[PodExplanation]] = {}
    for each in explanations:
        places = None if each.places is None else each.places.anywhere(each.node)
        groups.setdefault(tuple(answer(replace(each, places=places))), []).append(each)
    for lines, pods in groups.items():
        is_on_one_node = len({each.node for each in pods}) == 1
        titles = [line for each in pods for line in _pod_title(each, terminal)]
        yield [*titles, *(answer(pods[0]) if is_on_one_node else lines)]


def _assumption_lines(assumptions: Sequence[str], terminal: Terminal) -> Iterator[str]:
    if assumptions:
        yield ""
        yield terminal.bold("Assumptions")
    for assumption in assumptions:
        yield from wrapped(terminal, assumption, first="  - ", indent="    ")


def _pod_title(explained: PodExplanation, terminal: Terminal) -> Sequence[str]:
    name, where = terminal.bold(explained.pod), f"on {explained.node or 'no node'}"
    is_narrow = terminal.is_narrower_than(len(explained.pod) + 1 + len(where))
    return (name, where) if is_narrow else (f"{name} {where}",)


def _pod_lines(explained: PodExplanation, terminal: Terminal) -> Iterator[str]:
    yield ""
    yield from _eligibility_lines(explained, terminal)
    if explained.recovery is not None:
        yield from _recovery_lines(explained.recovery, terminal)
        yield from _rejection_lines(explained.kept_from_recovery_by, terminal)
    if explained.handover is not None:
        yield ""
        yield f"{terminal.bold('Handover')}  {explained.handover}"
        for text in filter(None, (explained.why, explained.assumed and f"assumption: {explained.assumed}")):
            yield from wrapped(terminal, text, indent="  ")
    if explained.group:
        yield ""
        members = abbreviated_list(explained.members, most=_limit(terminal, len(explained.members)))
        yield f"{terminal.bold('Moves with its group')}  {explained.group}"
        yield from wrapped(terminal, members, indent="  ")
    if explained.places is not None:
        yield from _target_lines(explained.places, terminal)


def _eligibility_lines(explained: PodExplanation, terminal: Terminal) -> Iterator[str]:
    yield f"{terminal.bold('Can it move?')}  {_yes_or_no(not explained.kept_by, terminal)}"
    yield from _rejection_lines(explained.kept_by, terminal)
    if explained.kept_by != explained.kept_in_maintenance_by:
        may_leave = not explained.kept_in_maintenance_by
        yield f"{terminal.bold('In maintenance?')}  {_yes_or_no(may_leave, terminal)}"
        yield from _rejection_lines(explained.kept_in_maintenance_by, terminal)
    yield from _window_lines(explained, terminal)


def _window_lines(explained: PodExplanation | NodeExplanation, terminal: Terminal) -> Iterator[str]:
    if not explained.in_window:
        yield f"{terminal.bold('Now?')}  {_yes_or_no(False, terminal)}"
        meaning, remedy = meaning_and_remedy(Reason.OUTSIDE_WINDOW)
        yield from wrapped(terminal, f"{Reason.OUTSIDE_WINDOW}: {meaning}", first="  - ", indent="    ")
        yield from (terminal.dim(line) for line in wrapped(terminal, remedy, indent="    "))


def _yes_or_no(is_so: bool, terminal: Terminal) -> str:
    return terminal.styled("yes", {"fg": "green"}) if is_so else terminal.styled("no", {"fg": "red"})


def _rejection_lines(rejections: Iterable[Rejection], terminal: Terminal) -> Iterator[str]:
    for each in rejections:
        by = f" ({each.by})" if each.by and each.by not in each.detail else ""
        yield from wrapped(terminal, f"{each.reason}: {each.detail}{by}", first="  - ", indent="    ")
        if remedy := meaning_and_remedy(each.reason)[1]:
            yield from (terminal.dim(line) for line in wrapped(terminal, remedy, indent="    "))


def _target_lines(places: NodeAvailability, terminal: Terminal) -> Iterator[str]:
    yield ""
    count = len(places.available)
    yield f"{terminal.bold('Where can it go?')}  {count} of {counted(places.nodes, 'node')}"
    if count:
        limit = _limit(terminal, count, 2 * _MAX_ITEMS_ON_SCREEN)
        yield from wrapped(terminal, abbreviated_list(places.available, most=limit), indent="  ")
    if places.forbidden:
        yield ""
        yield terminal.bold("Why not the other nodes")
    for each in places.forbidden:
        yield from _refused_node_lines(each, terminal)


def _refused_node_lines(each: UnavailableNodes, terminal: Terminal) -> Iterator[str]:
    first, *others = wrapped(
        terminal, f"{counted(len(each.nodes), 'node')}: {each.rule}, {each.reason}", indent="    ", first="  "
    )
    yield from (first.replace(each.rule, terminal.styled(each.rule, {"fg": "yellow"}), 1), *others)
    by_detail: dict[str, list[str]] = {}
    for node, detail in each.nodes:
        by_detail.setdefault(detail, []).append(node)
    limit = _limit(terminal, len(by_detail))
    for detail, nodes in list(by_detail.items())[:limit]:
        named = abbreviated_list(nodes, most=_limit(terminal, len(nodes)))
        yield from wrapped(terminal, f"{named}: {detail}" if detail else named, indent="      ")
    if rest := list(by_detail.values())[limit:]:
        more = counted(sum(map(len, rest)), "more node")
        yield terminal.dim(f"      and {more} (use -o json or a pipe to see all)")


def _limit(terminal: Terminal, count: int, most: int = _MAX_ITEMS_ON_SCREEN) -> int:
    """Return how many items to show: the first few on a screen, all in a file or a pipe."""
    return count if terminal.width is None else most


def _node_lines(explained: NodeExplanation, terminal: Terminal) -> Iterator[str]:
    states = [
        "Ready" if explained.ready else "not Ready",
        *(["cordoned"] if not explained.schedulable else []),
        *(["in maintenance"] if explained.in_maintenance else []),
        *([_evacuation_words(explained.evacuation)] if explained.evacuation is not None else []),
    ]
    title, *more = wrapped(terminal, f"{explained.node} is {', '.join(states)}", indent="")
    yield from (title.replace(explained.node, terminal.bold(explained.node), 1), *more)
    rows = [[Cell(name), load_cell(terminal, load, _BAR)] for name, load in explained.loads.items()]
    yield from table(terminal, ("", ""), rows, indent="  ")
    if explained.suspicion is not None:
        yield from _suspicion_lines(explained.suspicion, terminal)
    if explained.removal.by is not None:
        yield f"  If it is empty, {autoscaler_title(explained.removal.by)} removes it."
    elif explained.removal is not NO_REMOVAL:
        yield from wrapped(terminal, f"No autoscaler removes it: {explained.removal.why}.", indent="  ")
    movable = [pod for pod in explained.pods if not pod.kept_by]
    yield ""
    yield (
        f"{terminal.bold('What can leave?')}  {len(movable)} of {counted(len(explained.pods), 'pod')}"
        f"{' during maintenance' if explained.in_maintenance or not explained.schedulable else ''}"
    )
    yield from _window_lines(explained, terminal)
    yield from _movable_pod_lines(movable, terminal)
    yield from _kept_pod_lines([pod for pod in explained.pods if pod.kept_by], terminal)
    yield ""
    yield from _incoming_pod_lines(explained, terminal)


def _evacuation_words(evacuation: NodeEvacuation) -> str:
    if evacuation.deadline_s is None:
        return f"evacuated ({evacuation.reason})"
    deadline = datetime.fromtimestamp(evacuation.deadline_s, UTC)
    return f"evacuated ({evacuation.reason}) until {deadline:%H:%M:%S} UTC"


def _movable_pod_lines(movable: Sequence[ExplainedPod], terminal: Terminal) -> Iterator[str]:
    limit = _limit(terminal, len(movable), 2 * _MAX_ITEMS_ON_SCREEN)
    rows = [
        [
            Cell(pod.pod),
            Cell(pod.handover or ""),
            Cell(f"{counted(pod.targets, 'node')} can take it", {} if pod.targets else {"fg": "red"}),
        ]
        for pod in movable[:limit]
    ]
    if rows:
        yield from fitting_table(terminal, ("", "", ""), rows, dropped_first=(1, 2), min_last=19, indent="  ")
    if len(movable) > limit:
        yield terminal.dim(f"  and {len(movable) - limit} more")


def _kept_pod_lines(kept: Sequence[ExplainedPod], terminal: Terminal) -> Iterator[str]:
    if not kept:
        return
    yield ""
    yield terminal.bold("What stays")
    by_reason: dict[str, list[ExplainedPod]] = {}
    for pod in kept:
        by_reason.setdefault(pod.kept_by[0].reason, []).append(pod)
    for reason, pods in sorted(by_reason.items()):
        yield f"  {counted(len(pods), 'pod')}: {terminal.styled(reason, {'fg': 'yellow'})}"
        limit = _limit(terminal, len(pods), 3)
        for pod in pods[:limit]:
            yield from wrapped(terminal, f"{pod.pod}: {pod.kept_by[0].detail}", indent="      ")
        if len(pods) > limit:
            yield terminal.dim(f"      and {len(pods) - limit} more")
        if remedy := meaning_and_remedy(reason)[1]:
            yield from (terminal.dim(line) for line in wrapped(terminal, remedy, indent="      "))


def _incoming_pod_lines(explained: NodeExplanation, terminal: Terminal) -> Iterator[str]:
    title = terminal.bold("What can enter?")
    if explained.takes_none:
        yield f"{title}  nothing: the node {explained.takes_none}"
        return
    count = ("" if explained.all_asked else "at least ") + counted(explained.could_come, "pod")
    yield f"{title}  {count} from other nodes can move and fit"
    if explained.could_come:
        yield from wrapped(
            terminal,
            abbreviated_list(explained.could_come_examples, explained.could_come, most=10),
            indent="  ",
        )


JsonObject = dict[str, Any]


def explanation_document(
    explained: PodExplanation | NodeExplanation, assumptions: Iterable[str]
) -> JsonObject:
    """Return the same as `explanation_lines`, for JSON."""
    form = _pod_document(explained) if isinstance(explained, PodExplanation) else _node_document(explained)
    return {**form, "assumptions": list(assumptions)}


def _pod_document(explained: PodExplanation) -> JsonObject:
    return {
        "pod": explained.pod,
        "node": explained.node or None,
        "mayMove": explained.may_move,
        "inWindow": explained.in_window,
        "handover": explained.handover and explained.handover.value,
        "why": explained.why,
        "assumed": explained.assumed,
        "keptBy": _rejection_documents(explained.kept_by),
        "keptInMaintenanceBy": _rejection_documents(explained.kept_in_maintenance_by),
        "group": explained.group,
        "members": list(explained.members),
        "places": None if explained.places is None else _targets_document(explained.places),
        "recovery": _recovery_with_rejections(explained),
    }


def _recovery_with_rejections(explained: PodExplanation) -> JsonObject | None:
    form = _recovery_document(explained.recovery)
    kept_by = _rejection_documents(explained.kept_from_recovery_by)
    return None if form is None else {**form, "keptBy": kept_by}


def _targets_document(places: NodeAvailability) -> JsonObject:
    return {
        "nodes": places.nodes,
        "available": list(places.available),
        "forbidden": [
            {
                "rule": str(each.rule),
                "reason": each.reason,
                "nodes": [{"node": node, "detail": detail} for node, detail in each.nodes],
            }
            for each in places.forbidden
        ],
    }


def _node_document(explained: NodeExplanation) -> JsonObject:
    suspicion = explained.suspicion
    return {
        "node": explained.node,
        "ready": explained.ready,
        "schedulable": explained.schedulable,
        "inMaintenance": explained.in_maintenance,
        "evacuatedBecause": None if explained.evacuation is None else explained.evacuation.reason,
        "removedBy": explained.removal.by and explained.removal.by.value,
        "notRemovedBecause": explained.removal.why,
        "inWindow": explained.in_window,
        "suspect": suspicion
        and {"workloads": list(suspicion.workloads), "within": short_duration(suspicion.window)},
        "loads": dict(explained.loads),
        "pods": [_node_pod_document(each) for each in explained.pods],
        "takesNone": explained.takes_none,
        "couldCome": explained.could_come,
        "allAsked": explained.all_asked,
        "couldComeExamples": list(explained.could_come_examples),
    }


def _node_pod_document(pod: ExplainedPod) -> JsonObject:
    return {
        "pod": pod.pod,
        "handover": pod.handover and pod.handover.value,
        "keptBy": _rejection_documents(pod.kept_by),
        "targets": pod.targets,
    }


def _rejection_documents(rejections: Iterable[Rejection]) -> list[JsonObject]:
    return [
        {
            "reason": str(each.reason),
            "by": each.by,
            "detail": each.detail,
            "remedy": meaning_and_remedy(each.reason)[1],
        }
        for each in rejections
    ]
