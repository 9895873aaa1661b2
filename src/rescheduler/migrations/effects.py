"""The effects that a migration requests, as data that can be logged, tested and repeated.

Every effect is idempotent and names its preconditions (`uid`, `version`). If they no longer hold, nothing
happens, and the migration observes the cluster again.
"""

from dataclasses import dataclass
from typing import ClassVar

from rescheduler.api.podmigration import ControllerReference, PodReference

__all__ = [
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
    """Whether everything that it depends on is read live first."""


@dataclass(frozen=True, slots=True)
class AddFinalizer(Effect):
    """Add our finalizer to a migration that a user created, so that its deletion is rolled back."""


@dataclass(frozen=True, slots=True)
class RemoveFinalizer(Effect):
    """Remove our finalizer: nothing is left to do, so the object may be deleted."""


@dataclass(frozen=True, slots=True)
class CancelMigration(Effect):
    """It waits for its turn, and is not to have one: refused if it has changed since it was seen."""


@dataclass(frozen=True, slots=True)
class DeleteMigration(Effect):
    """It was history long enough."""


@dataclass(frozen=True, slots=True)
class LabelSource(Effect):
    """Takes the lock: refused if the pod has changed since it was seen."""

    pod: PodReference
    version: str


@dataclass(frozen=True, slots=True)
class UnlabelSource(Effect):
    """Gives the lock back. It raises the pod's version too, and so fences off an eviction in flight."""

    pod: PodReference
    version: str


@dataclass(frozen=True, slots=True)
class CreateCopy(Effect):
    """Behind a gate of ours, so that nothing is scheduled before its target is nominated."""

    name: str


@dataclass(frozen=True, slots=True)
class NominateNode(Effect):
    """The scheduler tries this node first, with all its rules."""

    pod: PodReference
    node: str


@dataclass(frozen=True, slots=True)
class RemoveSchedulingGate(Effect):
    pod: PodReference


@dataclass(frozen=True, slots=True)
class RecordEviction(Effect):
    """The time of the request that follows, on record: from then on the webhook guards the handover, for a
    few seconds only."""


@dataclass(frozen=True, slots=True)
class EvictSource(Effect):
    """The watershed: once this is accepted there is only forward."""

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
    """We no longer control the copy: its ReplicaSet adopts it. Each millisecond counts."""

    pod: PodReference


@dataclass(frozen=True, slots=True)
class RestoreCopyOwner(Effect):
    """Make a deleted owner the only owner of the copy, so that the garbage collector removes it like the
    owner's other pods. These are read live first."""

    pod: PodReference
    owner: ControllerReference


@dataclass(frozen=True, slots=True)
class ReleaseTarget(Effect):
    """Ours no more: the owner reference goes, the marks say completed."""

    pod: PodReference


@dataclass(frozen=True, slots=True)
class DeleteCopy(Effect):
    """Only ever before the source is gone, and only our own. One that serves goes within its budget:
    others may have been evicted because it was there."""

    pod: PodReference
    within_budget: bool = False


@dataclass(frozen=True, slots=True)
class DeleteReplacement(Effect):
    """One that was steered and found no place: it never ran."""

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
    """The replacement finds no place as it was steered: from now on it may go anywhere."""
