"""Decide how often a failing replica may be rescheduled, and what to do about a failing pod.

Owners ask for reschedulings with an annotation. They are tenants, so `failedPods.maxRetries` is the upper
bound.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rescheduler.cluster.node_record import NodeRecord
from rescheduler.cluster.pod_record import PodRecord
from rescheduler.cluster.workload_record import WorkloadRecord
from rescheduler.config.policy import FailedPodsPolicy
from rescheduler.recovery.attempt_ledger import ReplicaLineage
from rescheduler.recovery.failure_signs import FailureKind, PodFailure
from rescheduler.recovery.replica_lineage import has_identity

__all__ = [
    "OUT_OF_SERVICE_TAINT",
    "RETRIES_ANNOTATION",
    "ForceDelete",
    "MalformedRetries",
    "NoAction",
    "NotRequested",
    "RecordOnly",
    "RecoveryDecision",
    "Reschedule",
    "RestartInPlace",
    "RetriesExhausted",
    "RetryAllowance",
    "allowance_of",
    "allowance_on",
    "decide_recovery",
    "is_confirmed_down",
]

RETRIES_ANNOTATION: Final = "scheduling-retries"
"""The annotation by which owners ask for recovery."""

_BY_DEFAULT: Final = "failedPods.defaultRetries"
_MOST_DIGITS: Final = 9
"""A longer number is above every bound, and Python refuses to parse thousands of digits."""
_MOST_CHARACTERS_SHOWN: Final = 40
"""How much of an annotation a message shows; annotations may have 256 KiB."""


@dataclass(frozen=True, slots=True)
class RetryAllowance:
    """How many reschedulings each failing replica may have."""

    retries: int
    """The number of reschedulings."""
    by: str
    """The object or setting that sets the number: `Deployment/web` or `failedPods.defaultRetries`."""
    asked_for: str = ""
    """The value of the annotation if it exceeds `failedPods.maxRetries`; empty otherwise."""

    @property
    def source(self) -> str:
        """Return where the number is set, and whether it was capped."""
        return f"{self.by}, {self.cap}" if self.asked_for else self.by

    @property
    def cap(self) -> str:
        return (
            f'{RETRIES_ANNOTATION}: "{self.asked_for}" is capped at {self.retries} by failedPods.maxRetries'
        )


@dataclass(frozen=True, slots=True)
class MalformedRetries:
    """An invalid annotation. It allows nothing, not even the default, because `"off"` asks for none."""

    kind: str
    key: str
    value: str

    @property
    def why(self) -> str:
        value = _shortened_value(self.value)
        return f'{RETRIES_ANNOTATION}: "{value}" on {self.kind} {self.key} is not a non-negative integer'


def allowance_of(
    pod: PodRecord, chain: Sequence[WorkloadRecord], terms: FailedPodsPolicy
) -> RetryAllowance | MalformedRetries | None:
    """Return how often a pod may be rescheduled; None if its owner does not ask for recovery.

    `chain` are the controllers above the pod, the nearest first.
    """
    if pod.owner is not None and not chain:
        return None
    for holder in _annotated_objects(pod, chain):
        if (allowance := allowance_on(*holder, terms)) is not None:
            return allowance
    for default in terms.default_retries:
        here = not default.namespaces or pod.namespace in default.namespaces
        if here and default.pod_selector.matches(pod.labels):
            return RetryAllowance(default.retries, _BY_DEFAULT)
    return None


def allowance_on(
    kind: str, key: str, annotations: Mapping[str, str], terms: FailedPodsPolicy
) -> RetryAllowance | MalformedRetries | None:  # fmt: skip
    """Return what the annotation of one object allows; None if it has none."""
    value = annotations.get(RETRIES_ANNOTATION)
    return None if value is None else _parse_retries(kind, key, value, terms.max_retries)


def _annotated_objects(
    pod: PodRecord, chain: Sequence[WorkloadRecord]
) -> Iterator[tuple[str, str, Mapping[str, str]]]:
    """Yield the objects whose annotation may count, the topmost first. A ReplicaSet below a Deployment does
    not count, because it only has old copies of the Deployment's annotations."""
    if not chain:
        yield "Pod", pod.key, pod.annotations
    for record in reversed(chain):
        yield record.kind, record.key, record.annotations
        if record.kind == "Deployment":
            return


def _parse_retries(kind: str, key: str, value: str, most: int) -> RetryAllowance | MalformedRetries:
    if not (value.isascii() and value.isdigit()):
        return MalformedRetries(kind, key, value)
    by, digits = f"{kind}/{key.rpartition('/')[2]}", value.lstrip("0")
    if len(digits) > _MOST_DIGITS or int(digits or "0") > most:
        return RetryAllowance(most, by, asked_for=_shortened_value(value))
    return RetryAllowance(int(digits or "0"), by)


def _shortened_value(value: str) -> str:
    return value if len(value) <= _MOST_CHARACTERS_SHOWN else f"{value[:_MOST_CHARACTERS_SHOWN]}…"


OUT_OF_SERVICE_TAINT: Final = "node.kubernetes.io/out-of-service"
"""The taint by which an operator confirms that a node is switched off."""


@dataclass(frozen=True, slots=True)
class Reschedule:
    """Move the pod to another node, by a migration that the strategy FailedPods proposes."""

    number: int
    """The number of this attempt, from 1 on."""
    avoid: tuple[str, ...]
    """Nodes on which the replica failed, sorted; the present one is among them."""


@dataclass(frozen=True, slots=True)
class RestartInPlace:
    """Evict the pod of a DaemonSet, so that its controller creates it again on the same node."""

    number: int


@dataclass(frozen=True, slots=True)
class RecordOnly:
    """Only record the attempt: the controller replaces the pod, and the ledger steers the replacement."""

    number: int


@dataclass(frozen=True, slots=True)
class ForceDelete:
    """Delete the pod without a grace period: its node is lost, so its kubelet can't confirm that it
    stopped."""

    number: int


@dataclass(frozen=True, slots=True)
class RetriesExhausted:
    """Do nothing more: no attempts are left. The failure is recorded as the end of the lineage."""

    count: int


@dataclass(frozen=True, slots=True)
class NoAction:
    """Do nothing for now."""

    why: str


@dataclass(frozen=True, slots=True)
class NotRequested:
    """Do nothing: the owner does not ask for recovery, or the annotation is invalid."""

    why: str


RecoveryDecision = (
    Reschedule | RestartInPlace | RecordOnly | ForceDelete | RetriesExhausted | NoAction | NotRequested
)


def decide_recovery(
    pod: PodRecord,
    node: NodeRecord | None,
    failure: PodFailure,
    allowance: RetryAllowance | MalformedRetries | None,
    lineage: ReplicaLineage,
    terms: FailedPodsPolicy,
) -> RecoveryDecision:
    """Decide what to do about a failing pod. `lineage` is that of its replica."""
    if not isinstance(allowance, RetryAllowance):
        return NotRequested(_not_requested_message(pod) if allowance is None else allowance.why)
    if allowance.retries == 0:
        return NotRequested(f"{allowance.by} allows no reschedulings")
    has_more = lineage.count < allowance.retries
    if not has_more and (lineage.end is not None or not lineage.knows(pod.uid)):
        return RetriesExhausted(lineage.count)
    # If the failure of this pod is recorded, its attempt is in progress and does not count again.
    is_in_progress = lineage.end is None and lineage.knows(pod.uid)
    number = max(lineage.count, 1) if is_in_progress else lineage.count + 1
    if failure.kind is FailureKind.NODE_LOST:
        return _on_lost_node(pod, node, number, lineage, terms)
    if pod.owner is not None and pod.is_finished:
        return RecordOnly(number)
    if pod.owner is not None and pod.owner.kind == "DaemonSet":
        return RestartInPlace(number)
    return _reschedule(pod, number, lineage)


def _reschedule(pod: PodRecord, number: int, lineage: ReplicaLineage) -> Reschedule:
    return Reschedule(number, tuple(sorted({*lineage.nodes, pod.node})))


def _on_lost_node(
    pod: PodRecord, node: NodeRecord | None, number: int, lineage: ReplicaLineage, terms: FailedPodsPolicy
) -> RecoveryDecision:
    if pod.owner is not None and pod.owner.kind == "DaemonSet":
        return NoAction("its node is lost, and a pod of a DaemonSet can't run on another one")
    if pod.is_terminating and pod.owner is None:
        return NoAction("it is being deleted, and no controller would replace it")
    if not pod.is_terminating and not has_identity(pod):
        return _reschedule(pod, number, lineage)
    if not terms.force_on_lost_nodes:
        return NoAction(
            "its kubelet can't confirm that it has stopped, and failedPods.forceOnLostNodes is not set"
        )
    if has_identity(pod) and not is_confirmed_down(node):
        return NoAction(
            "it must never run twice, and it may still run on the lost node. Once the node is switched off, "
            f"delete the node or add the taint {OUT_OF_SERVICE_TAINT}"
        )
    return ForceDelete(number)


def is_confirmed_down(node: NodeRecord | None) -> bool:
    """Return whether the node is deleted, or an operator has confirmed that it is switched off."""
    return node is None or any(taint.key == OUT_OF_SERVICE_TAINT for taint in node.taints)


def _not_requested_message(pod: PodRecord) -> str:
    holder = "the pod" if pod.owner is None else "its workload"
    return (
        f"{holder} has no annotation {RETRIES_ANNOTATION}, and no entry of failedPods.defaultRetries applies"
    )
