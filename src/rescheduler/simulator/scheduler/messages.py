"""How a scheduler says that there is no place: counted reasons, sorted as text, preemption's after them."""

from collections import Counter
from collections.abc import Iterable, Mapping

from rescheduler.simulator.scheduler.refusals import Refusal

__all__ = ["NOT_HELPFUL", "NO_NODES", "NO_VICTIMS", "no_place", "no_preemption"]

NO_NODES = "no nodes available to schedule pods"
NO_VICTIMS = "No preemption victims found for incoming pod"
NOT_HELPFUL = "Preemption is not helpful for scheduling"


def no_place(nodes: int, refused: Refusal | None, refusals: Mapping[str, Refusal]) -> str:
    """`refused` is said of the pod wherever it might go, `refusals` of single nodes."""
    if refused is not None:
        return f"0/{nodes} nodes are available: {', '.join(refused.reasons)}."
    return _available(nodes, (reason for refusal in refusals.values() for reason in refusal.reasons))


def no_preemption(nodes: int, tried: Mapping[str, Iterable[str]]) -> str:
    """`tried` are nodes where taking pods away was tried, and why it did not help."""
    reasons = [reason for found in tried.values() for reason in found]
    return _available(nodes, [*reasons, *[NOT_HELPFUL] * (nodes - len(tried))])


def _available(nodes: int, reasons: Iterable[str]) -> str:
    counted = sorted(f"{count} {reason}" for reason, count in Counter(reasons).items())
    return f"0/{nodes} nodes are available: {', '.join(counted)}."
