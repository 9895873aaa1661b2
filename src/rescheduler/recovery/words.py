"""What is known of a failing pod, and what happens next, in words."""

from collections.abc import Sequence

from rescheduler.recovery.decision import (
    Exhausted,
    ForceRemove,
    Leave,
    Move,
    NotAllowed,
    Note,
    RestartInPlace,
)
from rescheduler.recovery.examining import Case

__all__ = ["next_in_words", "nodes_in_words"]

_MOST_NODES = 5


def next_in_words(case: Case) -> str:
    """To go on after "next:"."""
    match case.decision:
        case Move(number, avoid):
            goes_on = " is under way" if case.is_on_record and case.line.end is None else ""
            return f"try {number} of {case.retries}{goes_on}, on another node than {nodes_in_words(avoid)}"
        case RestartInPlace(number):
            return f"made anew on the same node, try {number} of {case.retries}"
        case Note(number):
            return f"its controller replaces it by itself, which is try {number} of {case.retries}"
        case ForceRemove(number):
            return f"removed by force, because its node is lost; try {number} of {case.retries}"
        case Exhausted(count):
            used = f"{count} of {case.retries}; failed on {nodes_in_words(_failed_on(case))}"
            return f"its tries are used up ({used}): nothing more is done until its template changes"
        case Leave(why):
            return f"nothing: {why}"
        case NotAllowed(why):
            return f"nothing: {why}"


def _failed_on(case: Case) -> tuple[str, ...]:
    """Every node on which it failed, in that order."""
    nodes = [each.node for each in case.line.failures] + [case.pod.node]
    return tuple(dict.fromkeys(node for node in nodes if node))


def nodes_in_words(nodes: Sequence[str]) -> str:
    more = len(nodes) - _MOST_NODES
    return ", ".join([*nodes[:_MOST_NODES], *([f"{more} more"] if more > 0 else [])])
