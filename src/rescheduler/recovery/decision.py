"""What is to be done about a failing pod."""

from dataclasses import dataclass
from typing import Final

from rescheduler.config.policy import FailedPods
from rescheduler.model.nodes import NodeRecord
from rescheduler.model.pods import PodRecord
from rescheduler.recovery.allowance import RETRIES, Allowance, Malformed
from rescheduler.recovery.ledger import Line
from rescheduler.recovery.lines import has_identity
from rescheduler.recovery.trouble import Trouble, TroubleKind

__all__ = [
    "OUT_OF_SERVICE",
    "Decision",
    "Exhausted",
    "ForceRemove",
    "Leave",
    "Move",
    "NotAllowed",
    "Note",
    "RestartInPlace",
    "decide",
    "is_confirmed_gone",
]

OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"
"""The taint by which an operator confirms that nothing runs on a node any more."""


@dataclass(frozen=True, slots=True)
class Move:
    """To another node, by a migration that the strategy FailedPods proposes."""

    number: int
    """Which of the allowed reschedulings it is, from 1 on."""
    avoid: tuple[str, ...]
    """Nodes already tried, sorted; the present one is among them."""


@dataclass(frozen=True, slots=True)
class RestartInPlace:
    """Of a DaemonSet: removed, so that its controller makes it anew on the same node."""

    number: int


@dataclass(frozen=True, slots=True)
class Note:
    """Its controller replaces it by itself; the try is put on record, so that the next one is steered."""

    number: int


@dataclass(frozen=True, slots=True)
class ForceRemove:
    """On a lost node, whose kubelet can't say that it has stopped."""

    number: int


@dataclass(frozen=True, slots=True)
class Exhausted:
    """It has had all its tries. To be put on record, once, as the line's end."""

    count: int


@dataclass(frozen=True, slots=True)
class Leave:
    """Nothing is done for now."""

    why: str


@dataclass(frozen=True, slots=True)
class NotAllowed:
    """Its owner did not ask for it, or not in a way that makes sense."""

    why: str


Decision = Move | RestartInPlace | Note | ForceRemove | Exhausted | Leave | NotAllowed


def decide(
    pod: PodRecord,
    node: NodeRecord | None,
    trouble: Trouble,
    allowance: Allowance | Malformed | None,
    line: Line,
    terms: FailedPods,
) -> Decision:
    """`line` is what is on record of the replica that this pod is."""
    if not isinstance(allowance, Allowance):
        return NotAllowed(_not_asked(pod) if allowance is None else allowance.why)
    if allowance.retries == 0:
        return NotAllowed(f"{allowance.by} allows no rescheduling")
    has_more = line.count < allowance.retries
    if not has_more and (line.end is not None or not line.knows(pod.uid)):
        return Exhausted(line.count)
    # A pod whose try is on record is in the middle of it, and does not count again.
    goes_on = line.end is None and line.knows(pod.uid)
    number = max(line.count, 1) if goes_on else line.count + 1
    if trouble.kind is TroubleKind.NODE_LOST:
        return _on_lost_node(pod, node, number, line, terms)
    if pod.owner is not None and pod.is_finished:
        return Note(number)
    if pod.owner is not None and pod.owner.kind == "DaemonSet":
        return RestartInPlace(number)
    return _move(pod, number, line)


def _move(pod: PodRecord, number: int, line: Line) -> Move:
    return Move(number, tuple(sorted({*line.nodes, pod.node})))


def _on_lost_node(
    pod: PodRecord, node: NodeRecord | None, number: int, line: Line, terms: FailedPods
) -> Decision:
    if pod.owner is not None and pod.owner.kind == "DaemonSet":
        return Leave("a DaemonSet's pod shares the fate of its node")
    if pod.is_terminating and pod.owner is None:
        return Leave("it is being deleted, and nobody would replace it")
    if not pod.is_terminating and not has_identity(pod):
        return _move(pod, number, line)
    if not terms.force_on_lost_nodes:
        return Leave("its kubelet can't say that it has stopped, and forceOnLostNodes is not set")
    if has_identity(pod) and not is_confirmed_gone(node):
        why = "there may never be two of it, and it may still run there: delete the node"
        return Leave(f"{why}, or taint it {OUT_OF_SERVICE}, once it is switched off")
    return ForceRemove(number)


def is_confirmed_gone(node: NodeRecord | None) -> bool:
    """Whether somebody vouches for it that nothing runs there any more."""
    return node is None or any(taint.key == OUT_OF_SERVICE for taint in node.taints)


def _not_asked(pod: PodRecord) -> str:
    holder = "the pod" if pod.owner is None else "its workload"
    return f"{holder} has no annotation {RETRIES}, and failedPods.defaultRetries has no entry for it"
