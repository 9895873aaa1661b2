"""What is asked of each pod by itself: does it belong to its node, and in which state is it?"""

from collections.abc import Iterator
from datetime import datetime, timedelta

from rescheduler.model.duration import short_duration
from rescheduler.model.workloads import controller_of
from rescheduler.planner.protections.case import Because, Case

__all__ = [
    "already_moving",
    "cooling_down",
    "daemon_set_pod",
    "do_not_disrupt",
    "finished",
    "mirror",
    "node_unknown",
    "not_safe_to_evict",
    "terminating",
    "too_young",
    "unscheduled",
]

_PREFIX = "scheduler.alpha.kubernetes.io/"
_MOVED_AT = f"{_PREFIX}migration-time"
_MIRROR = "kubernetes.io/config.mirror"
_SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
_HAVE_OWNERS = frozenset({"ReplicaSet", "Job"})
_DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"


def mirror(case: Case) -> Because | None:
    if _MIRROR in case.pod.marks or case.is_owned_by("Node"):
        return Because("it is a static pod of its kubelet")
    return None


def daemon_set_pod(case: Case) -> Because | None:
    return Because("its DaemonSet wants it there", case.owner_name) if case.is_owned_by("DaemonSet") else None


def finished(case: Case) -> Because | None:
    if case.around.recovering and case.owner is None and case.pod.phase == "Failed":
        return None  # nobody else brings it back
    return Because(f"its phase is {case.pod.phase}") if case.pod.is_finished else None


def terminating(case: Case) -> Because | None:
    if case.pod.is_terminating:
        return Because("its deletion has begun")
    owner = case.owner
    while owner is not None:
        record = controller_of(case.snapshot.controllers, case.pod.namespace, owner)
        if record is not None and record.deleted_s is not None:
            return Because(f"the deletion of its {record.kind} has begun", f"{record.kind}/{record.name}")
        # Of the kinds that we read, none stands above a Deployment or a CronJob.
        owner = record.owner if record is not None and record.kind in _HAVE_OWNERS else None
    return None


def unscheduled(case: Case) -> Because | None:
    return None if case.pod.node else Because("no node was found for it yet")


def node_unknown(case: Case) -> Because | None:
    node = case.pod.node
    if node and node not in case.snapshot.nodes.row:
        return Because(f"its node {node} is not in the cluster", node)
    return None


def already_moving(case: Case) -> Because | None:
    return Because("a migration of it is under way") if case.pod.uid in case.snapshot.moving else None


def cooling_down(case: Case) -> Because | None:
    if case.around.recovering:
        return None  # how often it may be moved is for its tries to say
    rest = case.policy.pod_cooldown.total_seconds()
    for moment_s, words in _last_moves(case):
        ago = case.snapshot.taken_at_s - moment_s
        if moment_s and ago < rest:
            return Because(f"{words} {_span(ago)} ago, of {_span(rest)}")
    return None


def _last_moves(case: Case) -> Iterator[tuple[float, str]]:
    """When, in seconds since 1970, 0 for never; and what it was."""
    if case.urgent:
        # It has to go, however lately it came. But what did not work a minute ago will hardly work now.
        yield case.snapshot.moves_in_vain.get(case.pod.uid, 0.0), "a migration of it failed"
        return
    yield _seconds(case.pod.marks.get(_MOVED_AT)), "it was moved"
    # Also one that failed, and left no mark.
    yield case.snapshot.recent_moves.get(case.pod.uid, 0.0), "a migration of it ended"


def too_young(case: Case) -> Because | None:
    if case.around.recovering:
        return None
    age, least = case.snapshot.taken_at_s - case.pod.created_s, case.policy.min_pod_age.total_seconds()
    return Because(f"it is {_span(age)} old, of {_span(least)}") if age < least else None


def not_safe_to_evict(case: Case) -> Because | None:
    return Because("it says so itself") if case.pod.marks.get(_SAFE_TO_EVICT) == "false" else None


def do_not_disrupt(case: Case) -> Because | None:
    return Because("it says so itself") if case.pod.marks.get(_DO_NOT_DISRUPT) == "true" else None


def _seconds(moment: str | None) -> float:
    """0 for none, and for what is no time: a mark that nobody can read protects nothing."""
    try:
        found = datetime.fromisoformat(moment) if moment else None
    except ValueError:
        return 0.0
    return found.timestamp() if found is not None and found.tzinfo is not None else 0.0


def _span(seconds: float) -> str:
    """Clocks differ: what is said to be still to come was just now."""
    return short_duration(timedelta(seconds=round(max(seconds, 0.0))))
