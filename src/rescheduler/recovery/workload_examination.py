"""All pods under one ledger, looked at together: who fails, what is to be done, who has recovered.

What is known of a failing pod, and what happens next, in words.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from rescheduler.api.well_known_names import FAILED_ATTEMPTS_ANNOTATION, ORIGINAL_POD, ORIGINAL_POD_NAME
from rescheduler.cluster.node_record import NodeRecord
from rescheduler.cluster.pod_record import PodRecord
from rescheduler.cluster.workload_record import WorkloadRecord
from rescheduler.config.policy import FailedPodsPolicy
from rescheduler.recovery.attempt_ledger import AttemptLedger, FailedAttempt, ReplicaLineage, read_ledger
from rescheduler.recovery.failure_signs import PodFailure, failure_and_next_check
from rescheduler.recovery.recovery_decision import (
    ForceDelete,
    MalformedRetries,
    NoAction,
    NotRequested,
    RecordOnly,
    RecoveryDecision,
    Reschedule,
    RestartInPlace,
    RetriesExhausted,
    RetryAllowance,
    allowance_of,
    allowance_on,
    decide_recovery,
)
from rescheduler.recovery.replica_lineage import is_live, ledger_from_kse, lineages_of, revision_of

__all__ = [
    "FailingReplica",
    "LedgerHolder",
    "WorkloadExamination",
    "examine_workload",
    "holder_of",
    "next_action_message",
    "node_list_message",
]


@dataclass(frozen=True, slots=True)
class LedgerHolder:
    """The object that the ledger is written on: the topmost known workload, or a pod without a controller."""

    kind: str
    key: str
    uid: str
    marks: Mapping[str, str]
    formerly: str = ""
    """Uid of the pod that this one, which has no controller, was copied from: its ledger came along."""

    @property
    def name(self) -> str:
        return self.key.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class FailingReplica:
    """A failing pod."""

    pod: PodRecord
    trouble: PodFailure
    allowance: RetryAllowance | MalformedRetries | None
    name: str
    """Of its line."""
    line: ReplicaLineage
    """What is on record of it, from pods of the same template."""
    decision: RecoveryDecision

    @property
    def retries(self) -> int:
        return self.allowance.retries if isinstance(self.allowance, RetryAllowance) else 0

    @property
    def is_on_record(self) -> bool:
        return self.line.knows(self.pod.uid)

    @property
    def revision(self) -> str:
        """Of the template that its pod was made from."""
        return revision_of(self.pod)

    def failure(self, now_s: float) -> FailedAttempt:
        """What to put on record."""
        # What its controller replaced, it replaced when it failed, not when we came to know.
        at_s = self.trouble.since_s if isinstance(self.decision, RecordOnly) else now_s
        return FailedAttempt(int(at_s), self.pod.node, self.pod.uid)


@dataclass(frozen=True, slots=True)
class WorkloadExamination:
    holder: LedgerHolder
    ledger: AttemptLedger
    """As written, or as carried over from an older tool."""
    is_carried_over: bool
    """Whether it is still to be written in our own form, and the older tool's to be removed."""
    lines: Mapping[str, str]
    """The name of each pod's line, by uid."""
    cases: tuple[FailingReplica, ...]
    """By the pods' keys. Also of pods that nobody asked to recover."""
    malformed: tuple[MalformedRetries, ...]
    """Annotations that allow nothing because they make no sense, whether pods fail or not."""
    capped: tuple[RetryAllowance, ...]
    """Annotations that ask for more than is allowed, whether pods fail or not."""
    recovered: tuple[str, ...]
    """Lines whose record can go: their pods have run well for long enough, or are no more."""
    healthy_nodes: Mapping[str, frozenset[str]]
    """Nodes on which pods run well, by template; empty where nothing fails or has failed."""
    check_again_at_s: float | None
    """When time alone may make a difference."""

    def with_failure(self, case: FailingReplica, now_s: float) -> AttemptLedger:
        """The ledger with that failure on record: one more try if some is left, else the line's end."""
        revision = revision_of(case.pod)
        return self.ledger.with_failure(case.name, case.failure(now_s), case.retries, revision)


def holder_of(pod: PodRecord, chain: Sequence[WorkloadRecord]) -> LedgerHolder | None:
    """None for pods of controllers that we know nothing of."""
    if chain:
        top = chain[-1]
        return LedgerHolder(top.kind, top.key, top.uid, top.marks)
    if pod.owner is not None:
        return None
    return LedgerHolder("Pod", pod.key, pod.uid, pod.marks, formerly=pod.marks.get(ORIGINAL_POD, ""))


def examine_workload(
    holder: LedgerHolder,
    pods: Iterable[PodRecord],
    chain_of: Callable[[PodRecord], tuple[WorkloadRecord, ...]],
    node_of: Callable[[str], NodeRecord | None],
    terms: FailedPodsPolicy,
    now_s: float,
) -> WorkloadExamination:
    """`pods` are all that there are of the holder, whatever their state."""
    members = sorted(pods, key=lambda pod: pod.key)
    # Whether an annotation makes sense is the same for all pods of a controller.
    first_of_each = {pod.owner.uid if pod.owner else "": pod for pod in reversed(members)}.values()
    allowances = [allowance_of(pod, chain_of(pod), terms) for pod in first_of_each]
    ledger, is_carried_over = _read_ledger_of(holder, allowances, now_s)
    # What stands on the holder counts before all else, and is told even while it has no pods.
    said = tuple(dict.fromkeys((allowance_on(holder.kind, holder.key, holder.marks, terms), *allowances)))
    lines = lineages_of(ledger, members)
    cases: list[FailingReplica] = []
    looks: list[float] = []
    for pod in members:
        node = node_of(pod.node)
        trouble, look = failure_and_next_check(pod, node, terms, now_s)
        if look is not None:
            looks.append(look)
        if trouble is not None:
            name = lines[pod.uid]
            line = ledger.line(name, revision_of(pod))
            allowance = allowance_of(pod, chain_of(pod), terms)
            decision = decide_recovery(pod, node, trouble, allowance, line, terms)
            if not ledger.has_room_for(name) and not isinstance(decision, NotRequested):
                decision = NoAction(
                    f"so many replicas of {holder.key} fail that no more can be put on record"
                )
            cases.append(FailingReplica(pod, trouble, allowance, name, line, decision))
    by_line: dict[str, list[PodRecord]] = {name: [] for name in ledger.lines}
    for pod in members:
        by_line.setdefault(lines[pod.uid], []).append(pod)
    due = {name: _recovered_at_s(line, by_line[name], node_of, terms) for name, line in ledger.lines.items()}
    looks += [moment for moment in due.values() if moment is not None and moment > now_s]
    return WorkloadExamination(
        holder=holder,
        ledger=ledger,
        is_carried_over=is_carried_over,
        lines=lines,
        cases=tuple(cases),
        malformed=tuple(each for each in said if isinstance(each, MalformedRetries)),
        capped=tuple(each for each in said if isinstance(each, RetryAllowance) and each.asked_for),
        recovered=tuple(name for name, moment in due.items() if moment is not None and moment <= now_s),
        healthy_nodes=_healthy_nodes(members, node_of) if cases or ledger.lines else {},
        check_again_at_s=min(looks, default=None),
    )


def _read_ledger_of(
    holder: LedgerHolder, allowances: Iterable[RetryAllowance | MalformedRetries | None], now_s: float
) -> tuple[AttemptLedger, bool]:  # fmt: skip
    ours = holder.marks.get(FAILED_ATTEMPTS_ANNOTATION, "")
    most = max((each.retries for each in allowances if isinstance(each, RetryAllowance)), default=0)
    if not ours and most:
        name = holder.marks.get(ORIGINAL_POD_NAME, holder.name)
        older = ledger_from_kse(holder.kind, name, holder.marks, most)
        if older is not None:
            return older, True
    return read_ledger(ours, {holder.uid, holder.formerly} - {""}, now_s), False


def _recovered_at_s(
    line: ReplicaLineage,
    pods: Sequence[PodRecord],
    node_of: Callable[[str], NodeRecord | None],
    terms: FailedPodsPolicy,
) -> float | None:
    """From when on the record of a line is of no use any more; None if that is not in sight."""
    window_s = terms.recovery_window.total_seconds()
    living = [pod for pod in pods if is_live(pod)]
    if not living:
        is_done = any(pod.phase == "Succeeded" for pod in pods)
        return 0.0 if is_done else line.last_s + window_s
    ready = [pod.condition("Ready") for pod in living if pod.is_ready and _is_ready(node_of(pod.node))]
    if len(ready) < len(living):
        return None
    return max(condition.since_s for condition in ready if condition is not None) + window_s


def _healthy_nodes(
    pods: Iterable[PodRecord], node_of: Callable[[str], NodeRecord | None]
) -> Mapping[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for pod in pods:
        if pod.is_ready and is_live(pod) and _is_ready(node_of(pod.node)):
            found.setdefault(revision_of(pod), set()).add(pod.node)
    return {revision: frozenset(nodes) for revision, nodes in found.items()}


def _is_ready(node: NodeRecord | None) -> bool:
    return node is not None and node.is_ready


_MAX_NODES_LISTED = 5


def next_action_message(case: FailingReplica) -> str:
    """To go on after "next:"."""
    match case.decision:
        case Reschedule(number, avoid):
            goes_on = " is under way" if case.is_on_record and case.line.end is None else ""
            return f"try {number} of {case.retries}{goes_on}, on another node than {node_list_message(avoid)}"
        case RestartInPlace(number):
            return f"made anew on the same node, try {number} of {case.retries}"
        case RecordOnly(number):
            return f"its controller replaces it by itself, which is try {number} of {case.retries}"
        case ForceDelete(number):
            return f"removed by force, because its node is lost; try {number} of {case.retries}"
        case RetriesExhausted(count):
            used = f"{count} of {case.retries}; failed on {node_list_message(_nodes_failed_on(case))}"
            return f"its tries are used up ({used}): nothing more is done until its template changes"
        case NoAction(why):
            return f"nothing: {why}"
        case NotRequested(why):
            return f"nothing: {why}"


def _nodes_failed_on(case: FailingReplica) -> tuple[str, ...]:
    """Every node on which it failed, in that order."""
    nodes = [each.node for each in case.line.failures] + [case.pod.node]
    return tuple(dict.fromkeys(node for node in nodes if node))


def node_list_message(nodes: Sequence[str]) -> str:
    more = len(nodes) - _MAX_NODES_LISTED
    return ", ".join([*nodes[:_MAX_NODES_LISTED], *([f"{more} more"] if more > 0 else [])])
