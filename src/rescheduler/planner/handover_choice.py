"""Choose how a pod is moved: Adopt, Copy or Evict, and why.

`Auto` chooses the handover with the least disruption: Adopt if the workload tolerates an extra pod, Copy
for pods without a controller, Evict for the rest. The configuration, or the annotation on the workload,
takes precedence if that handover is possible.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from rescheduler.api.podmigration import Handover
from rescheduler.api.well_known_names import HANDOVER_ANNOTATION
from rescheduler.cluster.object_meta import OwnerReference
from rescheduler.cluster.pod_record import (
    CLAIM_VOLUME,
    EMPTY_DIR_VOLUME,
    HOST_PATH_VOLUME,
    PodRecord,
    PodVolume,
)
from rescheduler.cluster.snapshot import PodClass, Snapshot
from rescheduler.cluster.storage_records import ClaimRecord, Storage, VolumeRecord
from rescheduler.cluster.workload_record import WorkloadRecord, controller_of, is_rolling_out, tolerates_surge
from rescheduler.config.policy import Policy
from rescheduler.planner.reasons import Reason

__all__ = [
    "ASSUMED_STEERED",
    "HandoverChoice",
    "HandoverChooser",
    "ImpossibleHandover",
    "exclusive_claim",
    "exclusive_claims",
    "local_data",
    "unknown_claim",
]

_ONE_NODE = frozenset({"ReadWriteOnce", "ReadWriteOncePod"})


def exclusive_claim(pod_class: PodClass, storage: Storage) -> str:
    """Return a claim because of which no copy can start on another node: it outlives the pod and can be used
    on one node only. Empty if there is none."""
    return next(exclusive_claims(pod_class, storage), "")


def exclusive_claims(pod_class: PodClass, storage: Storage) -> Iterator[str]:
    for volume, claim in _claims(pod_class, storage):
        if claim is not None and not volume.ephemeral and _ONE_NODE.issuperset(claim.access_modes):
            yield claim.key


def unknown_claim(pod_class: PodClass, storage: Storage) -> str:
    """Return a claim that does not exist, or whose volume does not exist, else an empty string."""
    for volume, claim in _claims(pod_class, storage):
        if claim is None or (claim.volume and claim.volume not in storage.volumes):
            return f"{pod_class.namespace}/{volume.name}"
    return ""


def local_data(pod_class: PodClass, storage: Storage, *, replaceable: bool) -> str:
    """Return which data the pod has on its node; empty if none. The emptyDir of a `replaceable` pod doesn't
    count."""
    for volume in pod_class.volumes:
        if volume.kind == HOST_PATH_VOLUME:
            return f"hostPath {volume.name}"
        if volume.kind == EMPTY_DIR_VOLUME and not replaceable:
            return "an emptyDir"
    for _, claim in _claims(pod_class, storage):
        behind = _volume_of(claim, storage)
        if claim is not None and behind is not None and behind.is_local:
            return f"the local volume {behind.name} of claim {claim.key}"
    return ""


def _claims(pod_class: PodClass, storage: Storage) -> Iterator[tuple[PodVolume, ClaimRecord | None]]:
    for volume in pod_class.volumes:
        if volume.kind == CLAIM_VOLUME:
            yield volume, storage.claims.get(f"{pod_class.namespace}/{volume.name}")


def _volume_of(claim: ClaimRecord | None, storage: Storage) -> VolumeRecord | None:
    return storage.volumes.get(claim.volume) if claim is not None else None


ASSUMED_STEERED = "the webhook is installed and steers replacements of evicted pods to their targets"
_ASSUMED_WORKLOADS = "the input has no workloads: handovers follow the kind of each pod's owner"


@dataclass(frozen=True, slots=True)
class HandoverChoice:
    handover: Handover
    why: str
    assumed: str = ""
    """The assumption of the choice, as a message."""


@dataclass(frozen=True, slots=True)
class ImpossibleHandover:
    reason: Reason
    detail: str
    by: str = ""


@dataclass(frozen=True, slots=True)
class _ControllerChain:
    """The known controllers above a pod."""

    owner: OwnerReference | None
    """The controller of the pod."""
    record: WorkloadRecord | None
    above: OwnerReference | None
    """The controller of that: the Deployment above a ReplicaSet."""
    above_record: WorkloadRecord | None

    @property
    def top(self) -> OwnerReference | None:
        return self.above if self.above is not None and self.is_replica_set else self.owner

    @property
    def top_record(self) -> WorkloadRecord | None:
        return self.above_record if self.above is not None and self.is_replica_set else self.record

    @property
    def is_replica_set(self) -> bool:
        return self.owner is not None and _is_kind(self.owner, "ReplicaSet", "apps")


class HandoverChooser:
    def __init__(self, snapshot: Snapshot, policy: Policy) -> None:
        self._snapshot = snapshot
        self._configured = policy.handovers

    def choose(self, pod: PodRecord, pod_class: PodClass) -> HandoverChoice | ImpossibleHandover:
        chain = self._controller_chain(pod.namespace, pod.owner)
        unknown = self._unknown(chain)
        asked = self._asked(pod, chain)
        if isinstance(asked, ImpossibleHandover):
            return asked
        if unknown is not None and asked is None:
            return unknown
        claim = exclusive_claim(pod_class, self._snapshot.storage)
        assumed = (
            _ASSUMED_WORKLOADS
            if chain.owner is not None and chain.top_record is None and unknown is None
            else ""
        )
        if asked is None or asked is Handover.AUTO:
            return _automatic_choice(chain, claim, assumed, foreign=unknown is not None)
        return _configured_choice(asked, chain, claim)

    def _controller_chain(self, namespace: str, owner: OwnerReference | None) -> _ControllerChain:
        known = self._snapshot.controllers
        record = controller_of(known, namespace, owner)
        above = record.owner if record is not None else None
        above_record = controller_of(known, namespace, above)
        return _ControllerChain(owner, record, above, above_record)

    def _unknown(self, chain: _ControllerChain) -> ImpossibleHandover | None:
        """Return why the handover is impossible if we don't know how the pod's owner replaces its pods."""
        owner, above = chain.owner, chain.above
        if owner is None:
            return None
        if not any(_is_kind(owner, kind, group) for kind, group in _KNOWN):
            return ImpossibleHandover(
                Reason.OWNER_UNKNOWN,
                f"its owner is of the unknown kind {_qualified_kind(owner)}",
                _object_name(owner),
            )
        if chain.record is None and owner.kind in self._kinds_read:
            return ImpossibleHandover(Reason.OWNER_UNKNOWN, "its owner does not exist", _object_name(owner))
        if not chain.is_replica_set or above is None:
            return None
        if not _is_kind(above, "Deployment", "apps"):
            return ImpossibleHandover(
                Reason.OWNER_UNKNOWN,
                f"its ReplicaSet belongs to a {_qualified_kind(above)}",
                _object_name(above),
            )
        if chain.above_record is None and above.kind in self._kinds_read:
            return ImpossibleHandover(
                Reason.OWNER_UNKNOWN, "its Deployment does not exist", _object_name(above)
            )
        return None

    @cached_property
    def _kinds_read(self) -> frozenset[str]:
        return frozenset(record.kind for record in self._snapshot.controllers.values())

    def _asked(self, pod: PodRecord, chain: _ControllerChain) -> Handover | ImpossibleHandover | None:
        """Return the handover from the annotation, else from the configuration; None if neither sets it."""
        for annotations in _annotations_that_count(pod, chain):
            if (wanted := annotations.get(HANDOVER_ANNOTATION)) is not None:
                return _parse_handover(wanted)
        if chain.owner is None:
            return self._configured.get("Pod")
        return self._configured_for(chain.top) or (
            # The setting for ReplicaSets applies to those of Deployments, but not to those of unknown kinds.
            self._configured_for(chain.owner) if self._unknown(chain) is None else None
        )

    def _configured_for(self, owner: OwnerReference | None) -> Handover | None:
        if owner is None:
            return None
        return self._configured.get(_qualified_kind(owner)) or self._configured.get(owner.kind)


_KNOWN = (("ReplicaSet", "apps"), ("StatefulSet", "apps"), ("Job", "batch"))


def _automatic_choice(
    chain: _ControllerChain, claim: str, assumed: str, *, foreign: bool
) -> HandoverChoice | ImpossibleHandover:
    record = chain.top_record
    if chain.owner is None:
        if claim:
            return ImpossibleHandover(
                Reason.HANDOVER_IMPOSSIBLE,
                "it has no controller that would replace it, and a copy can't use its claim",
                claim,
            )
        return HandoverChoice(Handover.COPY, "it has no controller that would replace it")
    if record is not None and is_rolling_out(record):
        return ImpossibleHandover(
            Reason.ROLLING_OUT, f"{record.kind} {record.key} is rolling out", record.key
        )
    if not chain.is_replica_set:
        return HandoverChoice(
            Handover.EVICT, f"only its {chain.owner.kind} can create its successor", assumed
        )
    if foreign:
        return HandoverChoice(Handover.EVICT, "it is not known whether its owner tolerates an extra pod")
    if claim:
        return HandoverChoice(Handover.EVICT, f"its claim {claim} can be used on one node only", assumed)
    if record is not None and not tolerates_surge(record):
        return HandoverChoice(Handover.EVICT, f"{record.kind} {record.key} allows no extra pod")
    return HandoverChoice(Handover.ADOPT, "its workload tolerates an extra pod temporarily", assumed)


def _configured_choice(
    asked: Handover, chain: _ControllerChain, claim: str
) -> HandoverChoice | ImpossibleHandover:
    record = chain.top_record
    match asked:
        case Handover.ADOPT if not chain.is_replica_set:
            return ImpossibleHandover(Reason.HANDOVER_IMPOSSIBLE, "Adopt works only for pods of ReplicaSets")
        case Handover.COPY if chain.owner is not None:
            return ImpossibleHandover(
                Reason.HANDOVER_IMPOSSIBLE, "Copy works only for pods without a controller"
            )
        case Handover.EVICT if chain.owner is None:
            return ImpossibleHandover(
                Reason.HANDOVER_IMPOSSIBLE, "Evict would lose the pod, because no controller replaces it"
            )
        case Handover.ADOPT | Handover.COPY if claim:
            return ImpossibleHandover(
                Reason.HANDOVER_IMPOSSIBLE, f"{asked} needs a copy, which can't use its claim", claim
            )
        case Handover.ADOPT if record is not None and is_rolling_out(record):
            return ImpossibleHandover(
                Reason.ROLLING_OUT, f"{record.kind} {record.key} is rolling out", record.key
            )
    return HandoverChoice(asked, f"{asked} is configured")


def _parse_handover(wanted: str) -> Handover | ImpossibleHandover:
    try:
        return Handover(wanted)
    except ValueError:
        detail = f'the annotation {HANDOVER_ANNOTATION}: "{wanted}" is not one of {", ".join(Handover)}'
        return ImpossibleHandover(Reason.HANDOVER_IMPOSSIBLE, detail)


def _annotations_that_count(pod: PodRecord, chain: _ControllerChain) -> "tuple[Mapping[str, str], ...]":
    """Return the annotations that count: those of its workloads, topmost first; the pod's if it has none."""
    if chain.owner is None:
        return (pod.annotations,)
    return tuple(record.annotations for record in (chain.top_record, chain.record) if record is not None)


def _is_kind(owner: OwnerReference, kind: str, group: str) -> bool:
    return owner.kind == kind and owner.api_version.startswith(f"{group}/")


def _qualified_kind(owner: OwnerReference) -> str:
    """Return the kind as the configuration names it: `Rollout.argoproj.io`."""
    group, slash, _ = owner.api_version.rpartition("/")
    return f"{owner.kind}.{group}" if slash else owner.kind


def _object_name(owner: OwnerReference) -> str:
    return f"{owner.kind}/{owner.name}"
