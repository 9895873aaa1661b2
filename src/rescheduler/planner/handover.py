"""How a pod would be moved: Adopt, Copy or Evict, and why.

`Auto` takes what keeps the service whole: Adopt where the workload reckons with one pod more, Copy for pods
that nobody would replace, Evict for the rest. A configured handover, or the annotation on the workload,
overrules that, as far as it can be done at all.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from rescheduler.config.policy import Policy
from rescheduler.model.metadata import Owner
from rescheduler.model.plan import Handover
from rescheduler.model.pods import PodRecord
from rescheduler.model.workloads import WorkloadRecord, controller_of, is_rolling_out, tolerates_one_more
from rescheduler.planner.claims import exclusive_claim
from rescheduler.planner.reasons import Reason
from rescheduler.snapshot.snapshot import PodClass, Snapshot

__all__ = ["ASSUMED_STEERED", "HANDOVER_ANNOTATION", "Choice", "Handovers", "Impossible"]

HANDOVER_ANNOTATION = "rescheduler.dev/handover"

ASSUMED_STEERED = "the webhook is installed: replacements of evicted pods go where they should"
_ASSUMED = "workloads were not given: handovers follow the kind of each pod's owner"


@dataclass(frozen=True, slots=True)
class Choice:
    handover: Handover
    why: str
    assumed: str = ""
    """What had to be taken for granted, in words."""


@dataclass(frozen=True, slots=True)
class Impossible:
    reason: Reason
    detail: str
    by: str = ""


@dataclass(frozen=True, slots=True)
class _Line:
    """The controllers above a pod, as far as they are known."""

    owner: Owner | None
    """What controls the pod itself."""
    record: WorkloadRecord | None
    above: Owner | None
    """What controls that: the Deployment above a ReplicaSet."""
    above_record: WorkloadRecord | None

    @property
    def top(self) -> Owner | None:
        return self.above if self.above is not None and self.is_replica_set else self.owner

    @property
    def top_record(self) -> WorkloadRecord | None:
        return self.above_record if self.above is not None and self.is_replica_set else self.record

    @property
    def is_replica_set(self) -> bool:
        return self.owner is not None and _is(self.owner, "ReplicaSet", "apps")


class Handovers:
    def __init__(self, snapshot: Snapshot, policy: Policy) -> None:
        self._snapshot = snapshot
        self._configured = policy.handovers

    def choose(self, pod: PodRecord, shared: PodClass) -> Choice | Impossible:
        line = self._line(pod.namespace, pod.owner)
        unknown = self._unknown(line)
        asked = self._asked(pod, line)
        if isinstance(asked, Impossible):
            return asked
        if unknown is not None and asked is None:
            return unknown
        claim = exclusive_claim(shared, self._snapshot.storage)
        assumed = _ASSUMED if line.owner is not None and line.top_record is None and unknown is None else ""
        if asked is None or asked is Handover.AUTO:
            return _automatic(line, claim, assumed, foreign=unknown is not None)
        return _as_asked(asked, line, claim)

    def _line(self, namespace: str, owner: Owner | None) -> _Line:
        known = self._snapshot.controllers
        record = controller_of(known, namespace, owner)
        above = record.owner if record is not None else None
        above_record = controller_of(known, namespace, above)
        return _Line(owner, record, above, above_record)

    def _unknown(self, line: _Line) -> Impossible | None:
        """Whether we know how the pod's owner replaces its pods."""
        owner, above = line.owner, line.above
        if owner is None:
            return None
        if not any(_is(owner, kind, group) for kind, group in _KNOWN):
            return Impossible(Reason.OWNER_UNKNOWN, f"its owner is a {_full(owner)}", _named(owner))
        if line.record is None and owner.kind in self._kinds_read:
            return Impossible(Reason.OWNER_UNKNOWN, "its owner is not in the cluster", _named(owner))
        if not line.is_replica_set or above is None:
            return None
        if not _is(above, "Deployment", "apps"):
            return Impossible(
                Reason.OWNER_UNKNOWN, f"its ReplicaSet belongs to a {_full(above)}", _named(above)
            )
        if line.above_record is None and above.kind in self._kinds_read:
            return Impossible(Reason.OWNER_UNKNOWN, "its Deployment is not in the cluster", _named(above))
        return None

    @cached_property
    def _kinds_read(self) -> frozenset[str]:
        return frozenset(record.kind for record in self._snapshot.controllers.values())

    def _asked(self, pod: PodRecord, line: _Line) -> Handover | Impossible | None:
        """By the annotation on the workload, else by the configuration; None if by neither."""
        for marks in _marks(pod, line):
            if (wanted := marks.get(HANDOVER_ANNOTATION)) is not None:
                return _read(wanted)
        if line.owner is None:
            return self._configured.get("Pod")
        return self._configured_for(line.top) or (
            # What is said of ReplicaSets holds for those of Deployments too, but not for those of strangers.
            self._configured_for(line.owner) if self._unknown(line) is None else None
        )

    def _configured_for(self, owner: Owner | None) -> Handover | None:
        if owner is None:
            return None
        return self._configured.get(_full(owner)) or self._configured.get(owner.kind)


_KNOWN = (("ReplicaSet", "apps"), ("StatefulSet", "apps"), ("Job", "batch"))


def _automatic(line: _Line, claim: str, assumed: str, *, foreign: bool) -> Choice | Impossible:
    record = line.top_record
    if line.owner is None:
        if claim:
            return Impossible(
                Reason.HANDOVER_IMPOSSIBLE, "nobody would replace it, and a copy can't use its claim", claim
            )
        return Choice(Handover.COPY, "it has no controller that would replace it")
    if record is not None and is_rolling_out(record):
        return Impossible(Reason.ROLLING_OUT, f"{record.kind} {record.key} is rolling out", record.key)
    if not line.is_replica_set:
        return Choice(Handover.EVICT, f"only its {line.owner.kind} can make its successor", assumed)
    if foreign:
        return Choice(Handover.EVICT, "whether its owner tolerates one more pod is not known")
    if claim:
        return Choice(Handover.EVICT, f"its claim {claim} can be used on one node only", assumed)
    if record is not None and not tolerates_one_more(record):
        return Choice(Handover.EVICT, f"{record.kind} {record.key} allows no pod more than it asks for")
    return Choice(Handover.ADOPT, "its workload tolerates one more pod for a while", assumed)


def _as_asked(asked: Handover, line: _Line, claim: str) -> Choice | Impossible:
    record = line.top_record
    match asked:
        case Handover.ADOPT if not line.is_replica_set:
            return Impossible(Reason.HANDOVER_IMPOSSIBLE, "Adopt is for pods of ReplicaSets")
        case Handover.COPY if line.owner is not None:
            return Impossible(Reason.HANDOVER_IMPOSSIBLE, "Copy is for pods without a controller")
        case Handover.EVICT if line.owner is None:
            return Impossible(Reason.HANDOVER_IMPOSSIBLE, "Evict would lose a pod that has no controller")
        case Handover.ADOPT | Handover.COPY if claim:
            return Impossible(
                Reason.HANDOVER_IMPOSSIBLE, f"{asked} needs a copy, which can't use its claim", claim
            )
        case Handover.ADOPT if record is not None and is_rolling_out(record):
            return Impossible(Reason.ROLLING_OUT, f"{record.kind} {record.key} is rolling out", record.key)
    return Choice(asked, f"{asked} is asked for")


def _read(wanted: str) -> Handover | Impossible:
    try:
        return Handover(wanted)
    except ValueError:
        detail = f'the annotation {HANDOVER_ANNOTATION}: "{wanted}" is none of {", ".join(Handover)}'
        return Impossible(Reason.HANDOVER_IMPOSSIBLE, detail)


def _marks(pod: PodRecord, line: _Line) -> "tuple[Mapping[str, str], ...]":
    """Where the annotation may stand; the topmost counts, the pod itself only if it has no workload."""
    if line.owner is None:
        return (pod.marks,)
    return tuple(record.marks for record in (line.top_record, line.record) if record is not None)


def _is(owner: Owner, kind: str, group: str) -> bool:
    return owner.kind == kind and owner.api_version.startswith(f"{group}/")


def _full(owner: Owner) -> str:
    """`Rollout.argoproj.io`, as the configuration names it."""
    group, slash, _ = owner.api_version.rpartition("/")
    return f"{owner.kind}.{group}" if slash else owner.kind


def _named(owner: Owner) -> str:
    return f"{owner.kind}/{owner.name}"
