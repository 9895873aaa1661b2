"""How often a failing replica may be rescheduled: as often as its owner says, and not at all unless asked.

Owners are tenants: what they may ask for has an upper bound, `failedPods.maxRetries`.

What is to be done about a failing pod.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rescheduler.cluster.node_record import NodeRecord
from rescheduler.cluster.pod_record import PodRecord
from rescheduler.cluster.workload_record import WORKLOAD_KINDS, WorkloadRecord, controller_of
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
    "owner_chain",
]

RETRIES_ANNOTATION: Final = "scheduling-retries"
"""The annotation by which owners ask for it."""

_BY_DEFAULT: Final = "failedPods.defaultRetries"
_MOST_DIGITS: Final = 9
"""Whatever is longer is above every bound; Python refuses to read numbers of thousands of digits."""
_MOST_CHARACTERS_SHOWN: Final = 40
"""Of what somebody has written: an annotation may have a quarter of a million characters."""


@dataclass(frozen=True, slots=True)
class RetryAllowance:
    retries: int
    """Reschedulings of one failing replica."""
    by: str
    """Who says so: `Deployment/web`, or `failedPods.defaultRetries`."""
    asked_for: str = ""
    """What the annotation says if that is more than `failedPods.maxRetries` allows; empty otherwise."""

    @property
    def words(self) -> str:
        """Who says so, and whether that was capped."""
        return f"{self.by}, {self.cap}" if self.asked_for else self.by

    @property
    def cap(self) -> str:
        return (
            f'{RETRIES_ANNOTATION}: "{self.asked_for}" is capped at {self.retries} by failedPods.maxRetries'
        )


@dataclass(frozen=True, slots=True)
class MalformedRetries:
    """What stands there makes no sense, and so allows nothing: not even the default, because who wrote
    `"off"` did not mean that."""

    kind: str
    key: str
    value: str

    @property
    def why(self) -> str:
        value = _shortened_value(self.value)
        return f'{RETRIES_ANNOTATION}: "{value}" on {self.kind} {self.key} is not a non-negative integer'


def owner_chain(pod: PodRecord, controllers: Mapping[str, WorkloadRecord]) -> tuple[WorkloadRecord, ...]:
    """The controllers above a pod, as far as they are known, the nearest first."""
    found: list[WorkloadRecord] = []
    owner = pod.owner
    while owner is not None and WORKLOAD_KINDS.get(owner.kind) == owner.api_version:
        record = controller_of(controllers, pod.namespace, owner)
        if record is None or record in found:
            break
        found.append(record)
        owner = record.owner
    return tuple(found)


def allowance_of(
    pod: PodRecord, chain: Sequence[WorkloadRecord], terms: FailedPodsPolicy
) -> RetryAllowance | MalformedRetries | None:
    """None if nobody asked for it. `chain` are the controllers above the pod, the nearest first."""
    if pod.owner is not None and not chain:
        return None
    for holder in _annotated_objects(pod, chain):
        if (said := allowance_on(*holder, terms)) is not None:
            return said
    for default in terms.default_retries:
        here = not default.namespaces or pod.namespace in default.namespaces
        if here and default.pod_selector.matches(pod.labels):
            return RetryAllowance(default.retries, _BY_DEFAULT)
    return None


def allowance_on(
    kind: str, key: str, marks: Mapping[str, str], terms: FailedPodsPolicy
) -> RetryAllowance | MalformedRetries | None:  # fmt: skip
    """What the annotations of one object say, whoever belongs to it; None if nothing."""
    value = marks.get(RETRIES_ANNOTATION)
    return None if value is None else _parse_retries(kind, key, value, terms.max_retries)


def _annotated_objects(
    pod: PodRecord, chain: Sequence[WorkloadRecord]
) -> Iterator[tuple[str, str, Mapping[str, str]]]:
    """The topmost counts. A ReplicaSet only has copies of what its Deployment once had, and keeps them."""
    if not chain:
        yield "Pod", pod.key, pod.marks
    for record in reversed(chain):
        yield record.kind, record.key, record.marks
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
"""The taint by which an operator confirms that nothing runs on a node any more."""


@dataclass(frozen=True, slots=True)
class Reschedule:
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
class RecordOnly:
    """Its controller replaces it by itself; the try is put on record, so that the next one is steered."""

    number: int


@dataclass(frozen=True, slots=True)
class ForceDelete:
    """On a lost node, whose kubelet can't say that it has stopped."""

    number: int


@dataclass(frozen=True, slots=True)
class RetriesExhausted:
    """It has had all its tries. To be put on record, once, as the line's end."""

    count: int


@dataclass(frozen=True, slots=True)
class NoAction:
    """Nothing is done for now."""

    why: str


@dataclass(frozen=True, slots=True)
class NotRequested:
    """Its owner did not ask for it, or not in a way that makes sense."""

    why: str


RecoveryDecision = (
    Reschedule | RestartInPlace | RecordOnly | ForceDelete | RetriesExhausted | NoAction | NotRequested
)


def decide_recovery(
    pod: PodRecord,
    node: NodeRecord | None,
    trouble: PodFailure,
    allowance: RetryAllowance | MalformedRetries | None,
    line: ReplicaLineage,
    terms: FailedPodsPolicy,
) -> RecoveryDecision:
    """`line` is what is on record of the replica that this pod is."""
    if not isinstance(allowance, RetryAllowance):
        return NotRequested(_not_requested_message(pod) if allowance is None else allowance.why)
    if allowance.retries == 0:
        return NotRequested(f"{allowance.by} allows no rescheduling")
    has_more = line.count < allowance.retries
    if not has_more and (line.end is not None or not line.knows(pod.uid)):
        return RetriesExhausted(line.count)
    # A pod whose try is on record is in the middle of it, and does not count again.
    goes_on = line.end is None and line.knows(pod.uid)
    number = max(line.count, 1) if goes_on else line.count + 1
    if trouble.kind is FailureKind.NODE_LOST:
        return _on_lost_node(pod, node, number, line, terms)
    if pod.owner is not None and pod.is_finished:
        return RecordOnly(number)
    if pod.owner is not None and pod.owner.kind == "DaemonSet":
        return RestartInPlace(number)
    return _reschedule(pod, number, line)


def _reschedule(pod: PodRecord, number: int, line: ReplicaLineage) -> Reschedule:
    return Reschedule(number, tuple(sorted({*line.nodes, pod.node})))


def _on_lost_node(
    pod: PodRecord, node: NodeRecord | None, number: int, line: ReplicaLineage, terms: FailedPodsPolicy
) -> RecoveryDecision:
    if pod.owner is not None and pod.owner.kind == "DaemonSet":
        return NoAction("a DaemonSet's pod shares the fate of its node")
    if pod.is_terminating and pod.owner is None:
        return NoAction("it is being deleted, and nobody would replace it")
    if not pod.is_terminating and not has_identity(pod):
        return _reschedule(pod, number, line)
    if not terms.force_on_lost_nodes:
        return NoAction("its kubelet can't say that it has stopped, and forceOnLostNodes is not set")
    if has_identity(pod) and not is_confirmed_down(node):
        why = "there may never be two of it, and it may still run there: delete the node"
        return NoAction(f"{why}, or taint it {OUT_OF_SERVICE_TAINT}, once it is switched off")
    return ForceDelete(number)


def is_confirmed_down(node: NodeRecord | None) -> bool:
    """Whether somebody vouches for it that nothing runs there any more."""
    return node is None or any(taint.key == OUT_OF_SERVICE_TAINT for taint in node.taints)


def _not_requested_message(pod: PodRecord) -> str:
    holder = "the pod" if pod.owner is None else "its workload"
    return (
        f"{holder} has no annotation {RETRIES_ANNOTATION}, and failedPods.defaultRetries has no entry for it"
    )
