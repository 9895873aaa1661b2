"""The effects that a migration requests, as data that can be logged, tested and repeated.

Every effect is idempotent and names its preconditions (`uid`, `version`). If they no longer hold, nothing
happens, and the migration observes the cluster again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from rescheduler.api.podmigration import ControllerReference, PodReference

__all__ = [
    "FAILURE_OF_REFUSED_EFFECT",
    "AddFinalizer",
    "CancelMigration",
    "CreateBudget",
    "CreateCopy",
    "DeleteBudget",
    "DeleteCopy",
    "DeleteMigration",
    "DeleteReplacement",
    "Effect",
    "EvictSource",
    "LabelSource",
    "NominateNode",
    "OfferCopyForAdoption",
    "ProtectSource",
    "RecordEviction",
    "ReleaseTarget",
    "RemoveFinalizer",
    "RemoveSchedulingGate",
    "RequestBudgetSync",
    "RestoreCopyOwner",
    "UnlabelSource",
    "WithdrawSteering",
]


@dataclass(frozen=True, slots=True)
class Effect:
    irreversible: ClassVar[bool] = False
    """Whether the effect can't be undone, so that everything that it depends on is read live first."""


@dataclass(frozen=True, slots=True)
class AddFinalizer(Effect):
    """Add our finalizer to a migration that a user created, so that its deletion is rolled back."""


@dataclass(frozen=True, slots=True)
class RemoveFinalizer(Effect):
    """Remove our finalizer: nothing is left to do, so the object may be deleted."""


@dataclass(frozen=True, slots=True)
class CancelMigration(Effect):
    """Cancel a migration that waits for its turn; refused if it has changed since it was observed."""


@dataclass(frozen=True, slots=True)
class DeleteMigration(Effect):
    """Delete a finished migration after `migrationTTL`."""


@dataclass(frozen=True, slots=True)
class LabelSource(Effect):
    """Label the source, which takes the lock; refused if the pod has changed since it was observed."""

    pod: PodReference
    version: str


@dataclass(frozen=True, slots=True)
class UnlabelSource(Effect):
    """Remove the label, which releases the lock. The new version of the pod also blocks an eviction in
    flight."""

    pod: PodReference
    version: str


@dataclass(frozen=True, slots=True)
class CreateCopy(Effect):
    """Create the copy with a scheduling gate, so that it is not scheduled before its target is nominated."""

    name: str


@dataclass(frozen=True, slots=True)
class NominateNode(Effect):
    """Nominate the target: the scheduler tries this node first, with all its rules."""

    pod: PodReference
    node: str


@dataclass(frozen=True, slots=True)
class RemoveSchedulingGate(Effect):
    pod: PodReference


@dataclass(frozen=True, slots=True)
class ProtectSource(Effect):
    """Tell Karpenter not to disrupt the source until that long after its start: Karpenter would launch
    another node for it, although its copy takes its place. Refused if the pod has changed: a request that
    arrives after a rollback must not restore the annotation."""

    pod: PodReference
    version: str
    seconds_after_start: int


@dataclass(frozen=True, slots=True)
class RecordEviction(Effect):
    """Record the time of the eviction that follows: from then on the webhook guards the handover, for a few
    seconds only."""


@dataclass(frozen=True, slots=True)
class EvictSource(Effect):
    """Evict the source. Once the server accepts this, the migration can't be rolled back."""

    irreversible: ClassVar[bool] = True
    pod: PodReference
    version: str


@dataclass(frozen=True, slots=True)
class RequestBudgetSync(Effect):
    """Change an annotation of the copy, so that the disruption controller syncs its budgets again."""

    pod: PodReference
    value: str


@dataclass(frozen=True, slots=True)
class OfferCopyForAdoption(Effect):
    """Stop controlling a copy that does not name its ReplicaSet, but stay its owner until it is adopted."""

    pod: PodReference


@dataclass(frozen=True, slots=True)
class RestoreCopyOwner(Effect):
    """Make a deleted owner the only owner of the copy, so that the garbage collector removes it like the
    owner's other pods. The other pods are read live first."""

    pod: PodReference
    owner: ControllerReference


@dataclass(frozen=True, slots=True)
class ReleaseTarget(Effect):
    """Remove our owner reference from the successor, and set its labels to completed. Only then can the
    ReplicaSet adopt a copy, so each millisecond counts. Refused if the copy no longer names its ReplicaSet:
    it would have no owner, and nothing would delete it with its workload."""

    pod: PodReference


@dataclass(frozen=True, slots=True)
class DeleteCopy(Effect):
    """Delete our own copy, only before the source is gone. A copy that serves is deleted within its budget:
    other pods may have been evicted because it was there."""

    pod: PodReference
    within_budget: bool = False


@dataclass(frozen=True, slots=True)
class DeleteReplacement(Effect):
    """Delete a replacement that was steered and could not be scheduled: it never ran."""

    pod: PodReference


@dataclass(frozen=True, slots=True)
class CreateBudget(Effect):
    name: str


@dataclass(frozen=True, slots=True)
class DeleteBudget(Effect):
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class WithdrawSteering(Effect):
    """Stop steering: the replacement can't be scheduled at the target, so it may go anywhere."""


FAILURE_OF_REFUSED_EFFECT: Final[Mapping[type[Effect], str]] = {
    AddFinalizer: "FinalizerRefused",
    LabelSource: "MarkRefused",
    NominateNode: "PlacementRefused",
    RemoveSchedulingGate: "PlacementRefused",
    CreateBudget: "BudgetRefused",
}
"""The failure of an attempt if the server refuses its request for good. Other effects undo or finish
something: nothing else can be done, so they are tried again, with a pause that doubles."""
