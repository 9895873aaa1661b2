"""Examine all pods of one ledger together: which fail, what to do about each, and which recovered."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from rescheduler.api.well_known_names import (
    FAILED_ATTEMPTS_ANNOTATION,
    ORIGINAL_POD_ANNOTATION,
    ORIGINAL_POD_NAME_ANNOTATION,
)
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
from rescheduler.recovery.replica_lineage import ledger_from_kse, lineages_of, revision_of

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
    """The object that carries the ledger: the topmost known workload, or a pod without a controller."""

    kind: str
    key: str
    uid: str
    annotations: Mapping[str, str]
    formerly: str = ""
    """The uid of the original pod, if this is its copy and has no controller: the copy carries its ledger."""

    @property
    def name(self) -> str:
        return self.key.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class FailingReplica:
    """A failing pod, its lineage, and what to do about it."""

    pod: PodRecord
    failure: PodFailure
    allowance: RetryAllowance | MalformedRetries | None
    name: str
    """The name of its lineage."""
    lineage: ReplicaLineage
    """Its lineage, from pods of the same template."""
    decision: RecoveryDecision

    @property
    def retries(self) -> int:
        return self.allowance.retries if isinstance(self.allowance, RetryAllowance) else 0

    @property
    def is_on_record(self) -> bool:
        return self.lineage.knows(self.pod.uid)

    @property
    def revision(self) -> str:
        """Return the revision of its template."""
        return revision_of(self.pod)

    def recorded_in(self, ledger: AttemptLedger, now_s: float) -> AttemptLedger:
        """Return the ledger with this failure: as one more attempt, or as the end of its lineage."""
        # The controller replaced the pod when it failed, not when we noticed.
        at_s = self.failure.since_s if isinstance(self.decision, RecordOnly) else now_s
        attempt = FailedAttempt(int(at_s), self.pod.node, self.pod.uid)
        return ledger.with_failure(self.name, attempt, self.retries, self.revision)


@dataclass(frozen=True, slots=True)
class WorkloadExamination:
    """The result of an examination."""

    holder: LedgerHolder
    ledger: AttemptLedger
    """The ledger as written, or as converted from the record of kse-rescheduler."""
    is_carried_over: bool
    """Whether the ledger was converted: then it must be written, and the record of kse-rescheduler
    removed."""
    lineages: Mapping[str, str]
    """The name of the lineage of each pod, by uid."""
    failing: tuple[FailingReplica, ...]
    """The failing replicas by key, including those whose owners don't ask for recovery."""
    malformed: tuple[MalformedRetries, ...]
    """Invalid annotations, whether pods fail or not."""
    capped: tuple[RetryAllowance, ...]
    """Annotations that ask for more attempts than `failedPods.maxRetries`, whether pods fail or not."""
    recovered: tuple[str, ...]
    """Lineages to remove: their pods have been ready for long enough, or don't exist any more."""
    healthy_nodes: Mapping[str, frozenset[str]]
    """Nodes on which pods are ready, by template; empty if nothing fails or has failed."""
    check_again_at_s: float | None
    """When to examine again although nothing changes; None for never."""


def holder_of(pod: PodRecord, chain: Sequence[WorkloadRecord]) -> LedgerHolder | None:
    """Return the holder of the ledger of a pod; None if its controller is unknown."""
    if chain:
        top = chain[-1]
        return LedgerHolder(top.kind, top.key, top.uid, top.annotations)
    if pod.owner is not None:
        return None
    return LedgerHolder(
        "Pod", pod.key, pod.uid, pod.annotations, formerly=pod.annotations.get(ORIGINAL_POD_ANNOTATION, "")
    )


def examine_workload(
    holder: LedgerHolder,
    pods: Iterable[PodRecord],
    chain_of: Callable[[PodRecord], tuple[WorkloadRecord, ...]],
    node_of: Callable[[str], NodeRecord | None],
    terms: FailedPodsPolicy,
    now_s: float,
) -> WorkloadExamination:
    """Examine a workload. `pods` are all pods of the holder, in any state."""
    members = sorted(pods, key=lambda pod: pod.key)
    # All pods of a controller have the same annotations above them.
    first_of_each = {pod.owner.uid if pod.owner else "": pod for pod in reversed(members)}.values()
    allowances = [allowance_of(pod, chain_of(pod), terms) for pod in first_of_each]
    ledger, is_carried_over = _read_ledger_of(holder, allowances, now_s)
    # The annotation of the holder is reported even while it has no pods.
    allowed = tuple(
        dict.fromkeys((allowance_on(holder.kind, holder.key, holder.annotations, terms), *allowances))
    )
    lineages = lineages_of(ledger, members)
    failing: list[FailingReplica] = []
    check_times: list[float] = []
    for pod in members:
        node = node_of(pod.node)
        failure, check_at_s = failure_and_next_check(pod, node, terms, now_s)
        if check_at_s is not None:
            check_times.append(check_at_s)
        if failure is not None:
            name = lineages[pod.uid]
            lineage = ledger.lineage(name, revision_of(pod))
            allowance = allowance_of(pod, chain_of(pod), terms)
            decision = decide_recovery(pod, node, failure, allowance, lineage, terms)
            if not ledger.has_room_for(name) and not isinstance(decision, NotRequested):
                decision = NoAction(
                    f"too many replicas of {holder.key} fail: no more attempts can be recorded"
                )
            failing.append(FailingReplica(pod, failure, allowance, name, lineage, decision))
    by_lineage: dict[str, list[PodRecord]] = {name: [] for name in ledger.lineages}
    for pod in members:
        by_lineage.setdefault(lineages[pod.uid], []).append(pod)
    due = {
        name: _recovered_at_s(lineage, by_lineage[name], node_of, terms)
        for name, lineage in ledger.lineages.items()
    }
    check_times += [moment for moment in due.values() if moment is not None and moment > now_s]
    return WorkloadExamination(
        holder=holder,
        ledger=ledger,
        is_carried_over=is_carried_over,
        lineages=lineages,
        failing=tuple(failing),
        malformed=tuple(each for each in allowed if isinstance(each, MalformedRetries)),
        capped=tuple(each for each in allowed if isinstance(each, RetryAllowance) and each.asked_for),
        recovered=tuple(name for name, moment in due.items() if moment is not None and moment <= now_s),
        healthy_nodes=_healthy_nodes(members, node_of) if failing or ledger.lineages else {},
        check_again_at_s=min(check_times, default=None),
    )


def _read_ledger_of(
    holder: LedgerHolder, allowances: Iterable[RetryAllowance | MalformedRetries | None], now_s: float
) -> tuple[AttemptLedger, bool]:  # fmt: skip
    ours = holder.annotations.get(FAILED_ATTEMPTS_ANNOTATION, "")
    most = max((each.retries for each in allowances if isinstance(each, RetryAllowance)), default=0)
    if not ours and most:
        name = holder.annotations.get(ORIGINAL_POD_NAME_ANNOTATION, holder.name)
        older = ledger_from_kse(holder.kind, name, holder.annotations, most)
        if older is not None:
            return older, True
    return read_ledger(ours, {holder.uid, holder.formerly} - {""}, now_s), False


def _recovered_at_s(
    lineage: ReplicaLineage,
    pods: Sequence[PodRecord],
    node_of: Callable[[str], NodeRecord | None],
    terms: FailedPodsPolicy,
) -> float | None:
    """Return when the lineage can be removed; None if that is unknown."""
    window_s = terms.recovery_window.total_seconds()
    living = [pod for pod in pods if pod.is_active]
    if not living:
        is_done = any(pod.phase == "Succeeded" for pod in pods)
        return 0.0 if is_done else lineage.last_s + window_s
    ready = [pod.condition("Ready") for pod in living if pod.is_ready and _is_ready(node_of(pod.node))]
    if len(ready) < len(living):
        return None
    return max(condition.since_s for condition in ready if condition is not None) + window_s


def _healthy_nodes(
    pods: Iterable[PodRecord], node_of: Callable[[str], NodeRecord | None]
) -> Mapping[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for pod in pods:
        if pod.is_ready and pod.is_active and _is_ready(node_of(pod.node)):
            found.setdefault(revision_of(pod), set()).add(pod.node)
    return {revision: frozenset(nodes) for revision, nodes in found.items()}


def _is_ready(node: NodeRecord | None) -> bool:
    return node is not None and node.is_ready


_MAX_NODES_LISTED = 5


def next_action_message(replica: FailingReplica) -> str:
    """Return the next action for a failing pod, as text after "next:"."""
    match replica.decision:
        case Reschedule(number, avoid):
            state = " (in progress)" if replica.is_on_record and replica.lineage.end is None else ""
            attempt = f"attempt {number} of {replica.retries}{state}"
            return f"{attempt}, on a node other than {node_list_message(avoid)}"
        case RestartInPlace(number):
            return f"restart on the same node, attempt {number} of {replica.retries}"
        case RecordOnly(number):
            return f"its controller replaces it, which counts as attempt {number} of {replica.retries}"
        case ForceDelete(number):
            return f"force deletion, because its node is lost; attempt {number} of {replica.retries}"
        case RetriesExhausted(count):
            used = f"{count} of {replica.retries}; failed on {node_list_message(_nodes_failed_on(replica))}"
            return f"no attempts left ({used}): it stays where it is until its template changes"
        case NoAction(why) | NotRequested(why):
            return f"nothing, because {why}"


def _nodes_failed_on(replica: FailingReplica) -> tuple[str, ...]:
    """Return every node on which the replica failed, in that order."""
    nodes = [each.node for each in replica.lineage.failures] + [replica.pod.node]
    return tuple(dict.fromkeys(node for node in nodes if node))


def node_list_message(nodes: Sequence[str]) -> str:
    """Return the first of these nodes, and how many more there are."""
    more = len(nodes) - _MAX_NODES_LISTED
    return ", ".join([*nodes[:_MAX_NODES_LISTED], *([f"{more} more"] if more > 0 else [])])
