"""All steps of a migration, all triggers, and one table of transitions.

    Pending     Queued
    InProgress  Checking → Marking → (Creating → Placing → Starting → Settling | Protecting) → Evicting
                → (Adopting | Replacing) → Releasing;  from every step before the eviction: RollingBack
    Completed, Failed

Before the eviction of the source, every failure leads to RollingBack, which restores the original state.
After it, no rollback is possible. A trigger that the table does not have for a step is a bug: it raises and
changes nothing.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from rescheduler.api.podmigration import Handover, MigrationPhase

__all__ = [
    "TRANSITIONS",
    "IllegalTransition",
    "MigrationStep",
    "Trigger",
    "next_step",
    "phase_of",
]


class MigrationStep(StrEnum):
    QUEUED = "Queued"
    """Waits for its turn: limits, windows, the time of the next try."""
    CHECKING = "Checking"
    """Checks whether the pod may still move, how, and to which node. Nothing has been touched yet."""
    MARKING = "Marking"
    """Labels the source pod. The label is the lock: one migration per pod."""
    CREATING = "Creating"
    """Creates the copy, held back by our scheduling gate."""
    PLACING = "Placing"
    """Nominates the target and removes the gate: the scheduler decides, by all its rules."""
    STARTING = "Starting"
    """Waits until the copy is ready."""
    SETTLING = "Settling"
    """Waits until the copy is available, and load balancers have noticed."""
    PROTECTING = "Protecting"
    """Creates a temporary budget for a workload that has none, and waits until the webhook knows the
    intent."""
    EVICTING = "Evicting"
    """Evicts the source through the Eviction API, and retries later while a budget refuses."""
    ADOPTING = "Adopting"
    """The ReplicaSet takes over the copy."""
    REPLACING = "Replacing"
    """Waits until the controller's own replacement is ready."""
    RELEASING = "Releasing"
    """Removes everything temporary, and marks the rest as completed."""
    ROLLING_BACK = "RollingBack"
    """Removes everything that we created; the source stays as it was."""
    COMPLETED = "Completed"
    FAILED = "Failed"


class Trigger(StrEnum):
    # Before anything is touched.
    TURN_CAME = "turn granted"
    APPROVED = "move approved"
    POSTPONED = "move postponed"
    REFUSED = "move refused"
    # On the way.
    MARKED = "source labelled"
    LOCKED = "source locked by another migration"
    COPY_CREATED = "copy created"
    COPY_REFUSED = "copy refused at admission"
    COPY_BOUND = "copy bound to the target"
    COPY_MISPLACED = "copy bound elsewhere"
    COPY_READY = "copy ready"
    COPY_UNREADY = "copy no longer ready"
    COPY_FAILING = "copy can't run"
    COPY_GONE = "copy gone"
    TARGET_LOST = "target node lost"
    WRITE_REFUSED = "request refused by the API server"
    SETTLED = "copy settled"
    PROTECTED = "protected and steered"
    # Interruptions by other clients, and timeouts.
    SOURCE_GONE = "source deleted by another client"
    SOURCE_LOST = "source lost, copy replaces it"
    WORKLOAD_CHANGED = "workload changed"
    PARTNER_FAILED = "another member of its group failed"
    TIMED_OUT = "timed out"
    CANCELLED = "cancelled"
    # After the eviction.
    SOURCE_LEFT = "source evicted"
    ADOPTED = "copy adopted"
    ORPHANED = "controller deleted"
    REPLACED = "replacement ready"
    UNREPLACED = "no replacement in time"
    RELEASED = "everything released"
    MISSED = "move failed"
    # Rollback.
    RETRY = "rolled back, to be retried"
    GIVE_UP = "rolled back, not to be retried"


TransitionTable = Mapping[tuple[MigrationStep, Trigger], MigrationStep]

_INTERRUPTIONS: Final = (
    Trigger.SOURCE_GONE,
    Trigger.WORKLOAD_CHANGED,
    Trigger.TIMED_OUT,
    Trigger.CANCELLED,
)
"""Triggers that end every attempt, at any step between the mark and the eviction."""


def _interrupted_at(*steps: MigrationStep) -> dict[tuple[MigrationStep, Trigger], MigrationStep]:
    return {(step, trigger): MigrationStep.ROLLING_BACK for step in steps for trigger in _INTERRUPTIONS}


_START_TRANSITIONS: Final[TransitionTable] = {
    (MigrationStep.QUEUED, Trigger.TURN_CAME): MigrationStep.CHECKING,
    (MigrationStep.QUEUED, Trigger.SOURCE_GONE): MigrationStep.FAILED,
    (MigrationStep.QUEUED, Trigger.CANCELLED): MigrationStep.FAILED,
    (MigrationStep.QUEUED, Trigger.REFUSED): MigrationStep.FAILED,
    (MigrationStep.CHECKING, Trigger.APPROVED): MigrationStep.MARKING,
    (MigrationStep.CHECKING, Trigger.POSTPONED): MigrationStep.QUEUED,
    (MigrationStep.CHECKING, Trigger.REFUSED): MigrationStep.FAILED,
    (MigrationStep.CHECKING, Trigger.SOURCE_GONE): MigrationStep.FAILED,
    (MigrationStep.CHECKING, Trigger.CANCELLED): MigrationStep.FAILED,
    (MigrationStep.CHECKING, Trigger.WRITE_REFUSED): MigrationStep.FAILED,
    (MigrationStep.MARKING, Trigger.WRITE_REFUSED): MigrationStep.ROLLING_BACK,
    (MigrationStep.MARKING, Trigger.LOCKED): MigrationStep.FAILED,
}

_COPY_STEPS: Final = (
    MigrationStep.CREATING,
    MigrationStep.PLACING,
    MigrationStep.STARTING,
    MigrationStep.SETTLING,
)
"""The steps in which the copy starts beside the source."""

_COPY_TRANSITIONS: Final[TransitionTable] = {
    (MigrationStep.MARKING, Trigger.MARKED): MigrationStep.CREATING,
    (MigrationStep.CREATING, Trigger.COPY_CREATED): MigrationStep.PLACING,
    (MigrationStep.CREATING, Trigger.COPY_REFUSED): MigrationStep.ROLLING_BACK,
    (MigrationStep.PLACING, Trigger.COPY_BOUND): MigrationStep.STARTING,
    (MigrationStep.PLACING, Trigger.COPY_MISPLACED): MigrationStep.ROLLING_BACK,
    (MigrationStep.PLACING, Trigger.COPY_REFUSED): MigrationStep.ROLLING_BACK,
    (MigrationStep.PLACING, Trigger.COPY_GONE): MigrationStep.ROLLING_BACK,
    (MigrationStep.PLACING, Trigger.TARGET_LOST): MigrationStep.ROLLING_BACK,
    (MigrationStep.PLACING, Trigger.WRITE_REFUSED): MigrationStep.ROLLING_BACK,
    (MigrationStep.STARTING, Trigger.COPY_READY): MigrationStep.SETTLING,
    (MigrationStep.STARTING, Trigger.COPY_FAILING): MigrationStep.ROLLING_BACK,
    (MigrationStep.STARTING, Trigger.COPY_GONE): MigrationStep.ROLLING_BACK,
    (MigrationStep.STARTING, Trigger.TARGET_LOST): MigrationStep.ROLLING_BACK,
    (MigrationStep.SETTLING, Trigger.SETTLED): MigrationStep.EVICTING,
    (MigrationStep.SETTLING, Trigger.COPY_UNREADY): MigrationStep.STARTING,
    (MigrationStep.SETTLING, Trigger.COPY_GONE): MigrationStep.ROLLING_BACK,
    (MigrationStep.SETTLING, Trigger.TARGET_LOST): MigrationStep.ROLLING_BACK,
    (MigrationStep.SETTLING, Trigger.SOURCE_LOST): MigrationStep.EVICTING,
    (MigrationStep.EVICTING, Trigger.COPY_GONE): MigrationStep.ROLLING_BACK,
    **{(step, Trigger.PARTNER_FAILED): MigrationStep.ROLLING_BACK for step in _COPY_STEPS},
    **_interrupted_at(MigrationStep.MARKING, *_COPY_STEPS),
}
"""Make before break: shared by Adopt and Copy."""

_EVICTION_TRANSITIONS: Final[TransitionTable] = {
    (MigrationStep.EVICTING, Trigger.TARGET_LOST): MigrationStep.ROLLING_BACK,
    (MigrationStep.EVICTING, Trigger.WORKLOAD_CHANGED): MigrationStep.ROLLING_BACK,
    (MigrationStep.EVICTING, Trigger.TIMED_OUT): MigrationStep.ROLLING_BACK,
    (MigrationStep.EVICTING, Trigger.CANCELLED): MigrationStep.ROLLING_BACK,
}
"""SOURCE_GONE is missing: the source may have ended because of our request, so no rollback is possible.
COPY_UNREADY is missing: the eviction may have been requested, so only its cancellation leads back; until then
the migration waits here for the copy to be ready again."""

_END_TRANSITIONS: Final[TransitionTable] = {
    (MigrationStep.RELEASING, Trigger.RELEASED): MigrationStep.COMPLETED,
    (MigrationStep.RELEASING, Trigger.MISSED): MigrationStep.FAILED,
    (MigrationStep.ROLLING_BACK, Trigger.RETRY): MigrationStep.QUEUED,
    (MigrationStep.ROLLING_BACK, Trigger.GIVE_UP): MigrationStep.FAILED,
}

TRANSITIONS: Final[Mapping[Handover, TransitionTable]] = {
    Handover.ADOPT: {
        **_START_TRANSITIONS,
        **_COPY_TRANSITIONS,
        **_EVICTION_TRANSITIONS,
        (MigrationStep.EVICTING, Trigger.SOURCE_LEFT): MigrationStep.ADOPTING,
        (MigrationStep.ADOPTING, Trigger.ADOPTED): MigrationStep.RELEASING,
        (MigrationStep.ADOPTING, Trigger.ORPHANED): MigrationStep.RELEASING,
        (MigrationStep.ADOPTING, Trigger.COPY_GONE): MigrationStep.RELEASING,
        # The copy is ready and the source is not: the ReplicaSet adopts it and removes one pod too many.
        (MigrationStep.ROLLING_BACK, Trigger.SOURCE_LOST): MigrationStep.ADOPTING,
        (MigrationStep.ROLLING_BACK, Trigger.SOURCE_LEFT): MigrationStep.ADOPTING,
        **_END_TRANSITIONS,
    },
    Handover.COPY: {
        **_START_TRANSITIONS,
        **_COPY_TRANSITIONS,
        **_EVICTION_TRANSITIONS,
        (MigrationStep.EVICTING, Trigger.SOURCE_LEFT): MigrationStep.RELEASING,
        # The copy is all that is left of a pod without a controller: it is not removed.
        (MigrationStep.ROLLING_BACK, Trigger.SOURCE_LOST): MigrationStep.EVICTING,
        # Nor is a ready copy removed while the source is not ready: in the end the source is evicted.
        (MigrationStep.ROLLING_BACK, Trigger.SOURCE_LEFT): MigrationStep.RELEASING,
        **_END_TRANSITIONS,
    },
    Handover.EVICT: {
        **_START_TRANSITIONS,
        (MigrationStep.MARKING, Trigger.MARKED): MigrationStep.PROTECTING,
        (MigrationStep.PROTECTING, Trigger.PROTECTED): MigrationStep.EVICTING,
        (MigrationStep.PROTECTING, Trigger.TARGET_LOST): MigrationStep.ROLLING_BACK,
        (MigrationStep.PROTECTING, Trigger.WRITE_REFUSED): MigrationStep.ROLLING_BACK,
        **_interrupted_at(MigrationStep.MARKING, MigrationStep.PROTECTING),
        **_EVICTION_TRANSITIONS,
        (MigrationStep.EVICTING, Trigger.SOURCE_LEFT): MigrationStep.REPLACING,
        (MigrationStep.REPLACING, Trigger.REPLACED): MigrationStep.RELEASING,
        (MigrationStep.REPLACING, Trigger.ORPHANED): MigrationStep.RELEASING,
        (MigrationStep.REPLACING, Trigger.UNREPLACED): MigrationStep.RELEASING,
        **_END_TRANSITIONS,
    },
    # The handover is not chosen yet: only the transitions before that choice.
    Handover.AUTO: {**_START_TRANSITIONS},
}


class IllegalTransition(Exception):  # noqa: N818 - reads as what happened
    """The table has no transition for this trigger at this step; nothing was changed."""

    def __init__(self, handover: Handover, step: MigrationStep, trigger: Trigger) -> None:
        super().__init__(f"a migration by {handover} has no transition for {trigger.name} at {step}")


def next_step(handover: Handover, step: MigrationStep, trigger: Trigger) -> MigrationStep:
    """Return the next step; raise `IllegalTransition` if the table has none."""
    try:
        return TRANSITIONS[handover][step, trigger]
    except KeyError:
        raise IllegalTransition(handover, step, trigger) from None


_PHASES: Final = {
    MigrationStep.QUEUED: MigrationPhase.PENDING,
    MigrationStep.COMPLETED: MigrationPhase.COMPLETED,
    MigrationStep.FAILED: MigrationPhase.FAILED,
}


def phase_of(step: MigrationStep) -> MigrationPhase:
    return _PHASES.get(step, MigrationPhase.IN_PROGRESS)
