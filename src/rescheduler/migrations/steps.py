"""The machine: all steps of a migration, all events, and one table of what follows what.

    Pending     Queued
    InProgress  Checking → Marking → (Creating → Placing → Starting → Settling | Protecting) → Evicting
                → (Adopting | Replacing) → Releasing;  from every step before the source is gone: RollingBack
    Completed, Failed

The source's eviction is the watershed. Before it every failure leads to RollingBack, and that to a state
exactly as before; after it there is only forward, and nothing ever leads back. An event that the table does
not know at a step is a fault in the program: it raises and changes nothing.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from rescheduler.model.migrations import Phase
from rescheduler.model.plan import Handover

__all__ = ["NEXT", "Event", "IllegalEvent", "Step", "next_step", "phase_of", "reversible"]


class Step(StrEnum):
    QUEUED = "Queued"
    """Waits for its turn: limits, windows, the time of the next try."""
    CHECKING = "Checking"
    """May it still move, how, and where to? Nothing has been touched yet."""
    MARKING = "Marking"
    """The label on the source pod is the lock: one migration per pod."""
    CREATING = "Creating"
    """The copy, held back by a scheduling gate of ours."""
    PLACING = "Placing"
    """The target is nominated and the gate opened: the scheduler decides, by all its rules."""
    STARTING = "Starting"
    """Until the copy is ready."""
    SETTLING = "Settling"
    """Until it is available, and load balancers have noticed."""
    PROTECTING = "Protecting"
    """A temporary budget for a workload that has none; and the replacement's steering is known."""
    EVICTING = "Evicting"
    """The source, through the Eviction API: as long as a budget refuses, ask again later."""
    ADOPTING = "Adopting"
    """The ReplicaSet takes over the copy."""
    REPLACING = "Replacing"
    """The controller's own replacement becomes ready."""
    RELEASING = "Releasing"
    """What was temporary goes; what is to stay is marked as completed."""
    ROLLING_BACK = "RollingBack"
    """Everything of ours goes, and the source stays as it was."""
    COMPLETED = "Completed"
    FAILED = "Failed"


class Event(StrEnum):
    # Before anything is touched.
    TURN_CAME = "its turn came"
    APPROVED = "still a good move"
    POSTPONED = "not now"
    REFUSED = "not any more"
    # On the way.
    MARKED = "source marked"
    LOCKED = "source locked by another migration"
    COPY_CREATED = "copy created"
    COPY_REFUSED = "copy refused at admission"
    COPY_BOUND = "copy bound to the target"
    COPY_MISPLACED = "copy bound elsewhere"
    COPY_READY = "copy ready"
    COPY_UNREADY = "copy not ready any more"
    COPY_FAILING = "copy can't run"
    COPY_GONE = "copy gone"
    TARGET_LOST = "target node lost"
    WRITE_REFUSED = "request refused by the API server"
    SETTLED = "copy settled"
    PROTECTED = "protected and steered"
    # What others do meanwhile, and what takes too long.
    SOURCE_GONE = "source gone by itself"
    SOURCE_LOST = "source lost, and its copy takes its place"
    WORKLOAD_CHANGED = "workload changed"
    PARTNER_FAILED = "another of its group failed"
    TIMED_OUT = "took too long"
    CANCELLED = "cancelled"
    # After the watershed.
    SOURCE_LEFT = "source evicted"
    ADOPTED = "copy adopted"
    ORPHANED = "its controller is gone"
    REPLACED = "replacement ready"
    UNREPLACED = "no replacement in time"
    RELEASED = "all released"
    MISSED = "came to nothing"
    # The way back.
    RETRY = "undone, to be tried again"
    GIVE_UP = "undone for good"


Transitions = Mapping[tuple[Step, Event], Step]

_UNDO: Final = (
    Event.SOURCE_GONE,
    Event.WORKLOAD_CHANGED,
    Event.TIMED_OUT,
    Event.CANCELLED,
)
"""What ends every attempt, at any step between the mark and the eviction."""


def _undone_at(*steps: Step) -> dict[tuple[Step, Event], Step]:
    return {(step, event): Step.ROLLING_BACK for step in steps for event in _UNDO}


_BEGIN: Final[Transitions] = {
    (Step.QUEUED, Event.TURN_CAME): Step.CHECKING,
    (Step.QUEUED, Event.SOURCE_GONE): Step.FAILED,
    (Step.QUEUED, Event.CANCELLED): Step.FAILED,
    (Step.QUEUED, Event.REFUSED): Step.FAILED,
    (Step.CHECKING, Event.APPROVED): Step.MARKING,
    (Step.CHECKING, Event.POSTPONED): Step.QUEUED,
    (Step.CHECKING, Event.REFUSED): Step.FAILED,
    (Step.CHECKING, Event.SOURCE_GONE): Step.FAILED,
    (Step.CHECKING, Event.CANCELLED): Step.FAILED,
    (Step.CHECKING, Event.WRITE_REFUSED): Step.FAILED,
    (Step.MARKING, Event.WRITE_REFUSED): Step.ROLLING_BACK,
    (Step.MARKING, Event.LOCKED): Step.FAILED,
}

_BESIDE: Final = (Step.CREATING, Step.PLACING, Step.STARTING, Step.SETTLING)
"""While the copy comes up beside the source."""

_COPY: Final[Transitions] = {
    (Step.MARKING, Event.MARKED): Step.CREATING,
    (Step.CREATING, Event.COPY_CREATED): Step.PLACING,
    (Step.CREATING, Event.COPY_REFUSED): Step.ROLLING_BACK,
    (Step.PLACING, Event.COPY_BOUND): Step.STARTING,
    (Step.PLACING, Event.COPY_MISPLACED): Step.ROLLING_BACK,
    (Step.PLACING, Event.COPY_REFUSED): Step.ROLLING_BACK,
    (Step.PLACING, Event.COPY_GONE): Step.ROLLING_BACK,
    (Step.PLACING, Event.TARGET_LOST): Step.ROLLING_BACK,
    (Step.PLACING, Event.WRITE_REFUSED): Step.ROLLING_BACK,
    (Step.STARTING, Event.COPY_READY): Step.SETTLING,
    (Step.STARTING, Event.COPY_FAILING): Step.ROLLING_BACK,
    (Step.STARTING, Event.COPY_GONE): Step.ROLLING_BACK,
    (Step.STARTING, Event.TARGET_LOST): Step.ROLLING_BACK,
    (Step.SETTLING, Event.SETTLED): Step.EVICTING,
    (Step.SETTLING, Event.COPY_UNREADY): Step.STARTING,
    (Step.SETTLING, Event.COPY_GONE): Step.ROLLING_BACK,
    (Step.SETTLING, Event.TARGET_LOST): Step.ROLLING_BACK,
    (Step.SETTLING, Event.SOURCE_LOST): Step.EVICTING,
    (Step.EVICTING, Event.COPY_GONE): Step.ROLLING_BACK,
    **{(step, Event.PARTNER_FAILED): Step.ROLLING_BACK for step in _BESIDE},
    **_undone_at(Step.MARKING, *_BESIDE),
}
"""Make before break: shared by Adopt and Copy."""

_EVICTING: Final[Transitions] = {
    (Step.EVICTING, Event.TARGET_LOST): Step.ROLLING_BACK,
    (Step.EVICTING, Event.WORKLOAD_CHANGED): Step.ROLLING_BACK,
    (Step.EVICTING, Event.TIMED_OUT): Step.ROLLING_BACK,
    (Step.EVICTING, Event.CANCELLED): Step.ROLLING_BACK,
}
"""No SOURCE_GONE here: at this step a source that goes may have gone by our request. Then only forward.
Nor COPY_UNREADY: whoever is at this step may have asked for the eviction, so it is left backwards only by
calling that off; until then it waits here for the copy to be ready again."""

_END: Final[Transitions] = {
    (Step.RELEASING, Event.RELEASED): Step.COMPLETED,
    (Step.RELEASING, Event.MISSED): Step.FAILED,
    (Step.ROLLING_BACK, Event.RETRY): Step.QUEUED,
    (Step.ROLLING_BACK, Event.GIVE_UP): Step.FAILED,
}

NEXT: Final[Mapping[Handover, Transitions]] = {
    Handover.ADOPT: {
        **_BEGIN,
        **_COPY,
        **_EVICTING,
        (Step.EVICTING, Event.SOURCE_LEFT): Step.ADOPTING,
        (Step.ADOPTING, Event.ADOPTED): Step.RELEASING,
        (Step.ADOPTING, Event.ORPHANED): Step.RELEASING,
        (Step.ADOPTING, Event.COPY_GONE): Step.RELEASING,
        # The copy is ready and the source is not: the ReplicaSet adopts it and removes one pod too many.
        (Step.ROLLING_BACK, Event.SOURCE_LOST): Step.ADOPTING,
        (Step.ROLLING_BACK, Event.SOURCE_LEFT): Step.ADOPTING,
        **_END,
    },
    Handover.COPY: {
        **_BEGIN,
        **_COPY,
        **_EVICTING,
        (Step.EVICTING, Event.SOURCE_LEFT): Step.RELEASING,
        # The copy is all that is left of a pod without a controller: it is not removed.
        (Step.ROLLING_BACK, Event.SOURCE_LOST): Step.EVICTING,
        # Nor while it is ready and the source is not: in the end the source is evicted.
        (Step.ROLLING_BACK, Event.SOURCE_LEFT): Step.RELEASING,
        **_END,
    },
    Handover.EVICT: {
        **_BEGIN,
        (Step.MARKING, Event.MARKED): Step.PROTECTING,
        (Step.PROTECTING, Event.PROTECTED): Step.EVICTING,
        (Step.PROTECTING, Event.TARGET_LOST): Step.ROLLING_BACK,
        (Step.PROTECTING, Event.WRITE_REFUSED): Step.ROLLING_BACK,
        **_undone_at(Step.MARKING, Step.PROTECTING),
        **_EVICTING,
        (Step.EVICTING, Event.SOURCE_LEFT): Step.REPLACING,
        (Step.REPLACING, Event.REPLACED): Step.RELEASING,
        (Step.REPLACING, Event.ORPHANED): Step.RELEASING,
        (Step.REPLACING, Event.UNREPLACED): Step.RELEASING,
        **_END,
    },
    # Not chosen yet: only what can happen before it is.
    Handover.AUTO: {**_BEGIN},
}


class IllegalEvent(Exception):  # noqa: N818 - reads as what happened
    """A step that does not know this event: nothing was changed."""

    def __init__(self, handover: Handover, step: Step, event: Event) -> None:
        super().__init__(f"a migration by {handover} can't see {event.name} at {step}")


def next_step(handover: Handover, step: Step, event: Event) -> Step:
    """Raises `IllegalEvent`."""
    try:
        return NEXT[handover][step, event]
    except KeyError:
        raise IllegalEvent(handover, step, event) from None


_PHASES: Final = {
    Step.QUEUED: Phase.PENDING,
    Step.COMPLETED: Phase.COMPLETED,
    Step.FAILED: Phase.FAILED,
}


def phase_of(step: Step) -> Phase:
    return _PHASES.get(step, Phase.IN_PROGRESS)


_FORWARD_ONLY: Final = frozenset({Step.ADOPTING, Step.REPLACING, Step.RELEASING})


def reversible(step: Step) -> bool:
    """Whether everything can still be undone, so that the end may be as if nothing had been."""
    return step not in _FORWARD_ONLY
