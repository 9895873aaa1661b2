"""Is a pod failing where it is? Said by its containers, its phase and its node, never by one bad moment.

It is not when it is merely slow to become ready, when it waits for a node, or when it has done its work.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from rescheduler.config.policy import FailedPods
from rescheduler.model.nodes import NodeRecord
from rescheduler.model.pods import PodRecord, Terminated
from rescheduler.recovery.containers import Sign, TroubleKind, container_signs, unready_since_s

__all__ = ["Trouble", "TroubleKind", "next_look_s", "trouble_and_next_look", "trouble_of"]


@dataclass(frozen=True, slots=True)
class Trouble:
    kind: TroubleKind
    since_s: float
    words: str
    """For people: "app: CrashLoopBackOff, 5 restarts, exit code 1"."""


def trouble_of(pod: PodRecord, node: NodeRecord | None, terms: FailedPods, now_s: float) -> Trouble | None:
    """`node` is the one that the pod is bound to, None if there is no such node. None if it is not failing,
    or not for long enough."""
    return trouble_and_next_look(pod, node, terms, now_s)[0]


def next_look_s(pod: PodRecord, node: NodeRecord | None, terms: FailedPods, now_s: float) -> float | None:
    """When what is going on now would count, if it lasted; None if time alone makes no difference."""
    return trouble_and_next_look(pod, node, terms, now_s)[1]


def trouble_and_next_look(
    pod: PodRecord, node: NodeRecord | None, terms: FailedPods, now_s: float
) -> tuple[Trouble | None, float | None]:
    """Both at once, which costs half."""
    signs = list(_signs(pod, node, terms, now_s))
    counting = (Trouble(each.kind, each.since_s, each.words) for each in signs if each.counts_from_s <= now_s)
    to_come = (each.counts_from_s for each in signs if each.counts_from_s > now_s)
    return next(counting, None), min(to_come, default=None)


def _signs(pod: PodRecord, node: NodeRecord | None, terms: FailedPods, now_s: float) -> Iterator[Sign]:
    if not pod.node or pod.phase == "Succeeded":
        return
    if pod.phase == "Failed":
        if not pod.is_terminating:
            yield from _failed(pod, terms, now_s)
    elif node is None or not node.is_ready:
        # What its containers say is old: only the node counts.
        yield from _lost(pod, node, terms)
    elif not pod.is_ready and not pod.is_terminating:
        yield from container_signs(pod, terms)


def _failed(pod: PodRecord, terms: FailedPods, now_s: float) -> Iterator[Sign]:
    since_s = _ended_s(pod)
    # Those that were replaced lie about for long. What is past counts no longer than a recovery takes: else
    # last week's would use up the tries of today.
    if pod.owner is None or now_s - since_s < terms.recovery_window.total_seconds():
        kind = TroubleKind.EVICTED if pod.reason == "Evicted" else TroubleKind.FAILED
        why = pod.reason if pod.reason not in {"", "Failed"} else _exit_of(pod)
        words = "evicted by its kubelet" if why == "Evicted" else f"failed: {why}".removesuffix(": ")
        yield Sign(since_s, kind, since_s, words)


def _lost(pod: PodRecord, node: NodeRecord | None, terms: FailedPods) -> Iterator[Sign]:
    if node is None:
        # One that no kubelet has taken yet may be on a node so new that it has not been heard of.
        since_s, state = max(unready_since_s(pod), pod.started_s) if pod.started_s else 0, "gone"
    else:
        ready = node.condition("Ready")
        since_s = ready.since_s if ready is not None else 0
        state = "not Ready" if ready is not None and ready.status == "False" else "unreachable"
    if since_s:
        # One that is going may still stop by itself as long as its grace period lasts.
        due_s = max(since_s + terms.node_lost_after.total_seconds(), pod.deleted_s or 0)
        yield Sign(due_s, TroubleKind.NODE_LOST, since_s, f"its node {pod.node} is {state}")


def _ended_s(pod: PodRecord) -> int:
    """When it failed; as late as can be told, for its replacement came after that."""
    statuses = (*pod.init_container_statuses, *pod.container_statuses)
    ends = (each.state.finished_s for each in statuses if isinstance(each.state, Terminated))
    return max((unready_since_s(pod), *ends)) or pod.started_s or pod.created_s


def _exit_of(pod: PodRecord) -> str:
    for each in (*pod.init_container_statuses, *pod.container_statuses):
        if isinstance(each.state, Terminated) and each.state.exit_code:
            return f"{each.name}: exit code {each.state.exit_code}"
    return ""
