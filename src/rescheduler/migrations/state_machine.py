"""Decide what a migration does next, and compute the status that follows.

decide(observation)
  Transition → `advance(observation, transition)` returns the migration at the next step
  Perform    → an effect; decide again after it
  Wait       → until something changes, or until a time
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from rescheduler.api.podmigration import (
    CANCELLED,
    MANUAL,
    MAX_TEXT_LENGTH,
    ConditionType,
    ControllerReference,
    Handover,
    Migration,
    MigrationCondition,
    MigrationPhase,
    MigrationStatus,
)
from rescheduler.api.well_known_names import FINALIZER
from rescheduler.cluster.workload_record import WorkloadRecord
from rescheduler.migrations import handovers
from rescheduler.migrations.effects import (
    AddFinalizer,
    CancelMigration,
    DeleteBudget,
    DeleteMigration,
    RemoveFinalizer,
)
from rescheduler.migrations.interruptions import (
    deadline_exceeded,
    deadline_of,
    time_kept,
    waiting_for_group,
)
from rescheduler.migrations.labels_and_names import recorded_siblings
from rescheduler.migrations.observation import (
    ConditionUpdate,
    Decision,
    Observation,
    Perform,
    RevalidationOutcome,
    Transition,
    Wait,
)
from rescheduler.migrations.release_and_rollback import (
    SOURCE_LOST,
    next_cleanup,
    rolling_back,
)
from rescheduler.migrations.source_eviction import own_temporary_budget, source_left_at
from rescheduler.migrations.transition_table import MigrationStep, Trigger, next_step, phase_of

__all__ = [
    "advance",
    "checking",
    "decide",
    "handover_of",
    "invalid_status",
    "is_checkpoint",
    "queued",
    "step_of",
    "with_conditions",
    "with_wait_message",
]


def queued(observation: Observation) -> Decision:
    if observation.migration.is_cancelled:
        return Transition(Trigger.CANCELLED, "cancelled before it started", CANCELLED, final=True)
    if not observation.source_is_active:
        return Transition(Trigger.SOURCE_GONE, "the pod no longer exists", "SourceGone", final=True)
    if (late := deadline_exceeded(observation)) is not None:
        return replace(late, trigger=Trigger.REFUSED)
    if observation.is_winding_down and (undone := _cancel_or_release(observation)) is not None:
        return undone
    retry_at = observation.migration.status.retry_at
    if retry_at is not None and observation.now < retry_at:
        return Wait(retry_at, f"retry at {retry_at:%H:%M:%S}")
    if (reason := waiting_for_group(observation)) is not None:
        return reason
    if not observation.has_turn:
        deadline = deadline_of(observation.migration, observation.policy)
        return Wait(deadline, "waiting for its turn")
    return Transition(Trigger.TURN_CAME)


def _cancel_or_release(observation: Observation) -> Perform | None:
    """Cancel a queued migration of rescheduler itself. Leave a user's, without our finalizer, to the next
    process that executes migrations, such as the command `drain`, which waits for the Lease."""
    if observation.migration.spec.strategy != MANUAL and not observation.migration.requested_by:
        return Perform(CancelMigration())
    return Perform(RemoveFinalizer()) if FINALIZER in observation.migration.finalizers else None


def checking(observation: Observation) -> Decision:
    if observation.migration.is_cancelled:
        return Transition(Trigger.CANCELLED, "cancelled before it started", CANCELLED, final=True)
    if not observation.source_is_active:
        return Transition(Trigger.SOURCE_GONE, "the pod no longer exists", "SourceGone", final=True)
    revalidation = observation.revalidation
    assert revalidation is not None, "Checking needs the result of the revalidation"
    match revalidation.outcome:
        case RevalidationOutcome.APPROVED if FINALIZER not in observation.migration.finalizers:
            return Perform(AddFinalizer())
        case RevalidationOutcome.APPROVED:
            return Transition(Trigger.APPROVED, revalidation.message)
        case RevalidationOutcome.POSTPONED:
            return Transition(Trigger.POSTPONED, revalidation.message, revalidation.reason)
        case RevalidationOutcome.REFUSED:
            return Transition(Trigger.REFUSED, revalidation.message, revalidation.reason, final=True)


def step_of(migration: Migration) -> MigrationStep:
    """Return the step of a migration whose status is valid."""
    return MigrationStep(migration.status.step or MigrationStep.QUEUED)


def handover_of(migration: Migration) -> Handover:
    """Return the chosen handover; `Auto` until it is chosen."""
    return migration.status.handover or Handover.AUTO


def invalid_status(migration: Migration) -> str:
    """Return why the status is invalid, because a user edited it or another version wrote it; empty if it is
    valid."""
    status, handover = migration.status, handover_of(migration)
    step = status.step or MigrationStep.QUEUED
    if step not in _DECIDERS[handover]:
        how = "whose handover is not chosen" if handover is Handover.AUTO else f"by {handover}"
        return f"invalid status: a migration {how} has no step {step}"
    if status.phase is not phase_of(MigrationStep(step)):
        return f"invalid status: step {step} is not of phase {status.phase}"
    if step == MigrationStep.ADOPTING and status.owner is None:
        return "invalid status: it does not name the owner that adopts the copy"
    moments = [status.step_since, status.started_at, status.handed_over_at, status.finished_at]
    moments += [each.last_transition_time for each in status.conditions]
    if any(moment is not None and moment > _LATEST_TIMESTAMP for moment in moments):
        return "invalid status: timestamps after the year 9000"
    return ""


def decide(observation: Observation) -> Decision:
    if why := invalid_status(observation.migration):
        return _leave_invalid_alone(observation, why)
    return _DECIDERS[handover_of(observation.migration)][step_of(observation.migration)](observation)


def _leave_invalid_alone(observation: Observation, why: str) -> Decision:
    """Do nothing with an invalid migration, because any action would be a guess. If it is cancelled, it loses
    its finalizer: then its pods are cleaned up as after a removal by force, by uids on record, read live."""
    if observation.migration.is_cancelled and FINALIZER in observation.migration.finalizers:
        return Perform(RemoveFinalizer())
    return Wait(message=why)


def _finished(observation: Observation) -> Decision:
    """Keep a finished migration for `migrationTTL`: podCooldown depends on it."""
    status = observation.migration.status
    # After the handover, the copy is one of the workload's pods, even if the move fails.
    is_undone = status.phase is MigrationPhase.FAILED and status.handed_over_at is None
    if is_undone and handover_of(observation.migration) is not Handover.AUTO:
        # A request of a process that has long ended may have arrived only now.
        left = next_cleanup(observation)
        if isinstance(left, Perform):
            return left
    budget = own_temporary_budget(observation)
    if budget is not None:
        # A request that creates the budget may arrive late, too, even for a completed migration.
        return Perform(DeleteBudget(budget.name, budget.uid))
    if FINALIZER in observation.migration.finalizers:
        return Perform(RemoveFinalizer())
    finished_at = observation.migration.status.finished_at
    if observation.migration.is_cancelled or finished_at is None:
        return Wait()
    forgotten_at = finished_at + time_kept(observation)
    return Wait(forgotten_at) if observation.now < forgotten_at else Perform(DeleteMigration())


_BEFORE_HANDOVER_CHOICE: Final = {
    MigrationStep.QUEUED: queued,
    MigrationStep.CHECKING: checking,
    MigrationStep.COMPLETED: _finished,
    MigrationStep.FAILED: _finished,
}
_EVERY_HANDOVER: Final = _BEFORE_HANDOVER_CHOICE | {MigrationStep.ROLLING_BACK: rolling_back}

_DECIDERS: Final[Mapping[Handover, Mapping[MigrationStep, Callable[[Observation], Decision]]]] = {
    Handover.AUTO: _BEFORE_HANDOVER_CHOICE,
    Handover.ADOPT: _EVERY_HANDOVER | handovers.ADOPT_DECIDERS,
    Handover.COPY: _EVERY_HANDOVER | handovers.COPY_DECIDERS,
    Handover.EVICT: _EVERY_HANDOVER | handovers.EVICT_DECIDERS,
}


_LATEST_TIMESTAMP: Final = datetime(9000, 1, 1, tzinfo=UTC)
"""Durations can't be added to later timestamps: `datetime` would overflow."""


# -- the status that follows


_CONDITION_OF_TRIGGER: Final[Mapping[Trigger, ConditionUpdate]] = {
    Trigger.COPY_READY: ConditionUpdate(ConditionType.COPY_READY, holds=True, reason="Ready"),
    Trigger.COPY_UNREADY: ConditionUpdate(ConditionType.COPY_READY, holds=False, reason="NotReady"),
    Trigger.SOURCE_LEFT: ConditionUpdate(ConditionType.HANDED_OVER, holds=True, reason="SourceEvicted"),
    Trigger.SOURCE_LOST: ConditionUpdate(ConditionType.HANDED_OVER, holds=True, reason=SOURCE_LOST),
    Trigger.RETRY: ConditionUpdate(ConditionType.ROLLED_BACK, holds=True, reason="Undone"),
    Trigger.GIVE_UP: ConditionUpdate(ConditionType.ROLLED_BACK, holds=True, reason="Undone"),
}
"""The condition that each trigger sets."""


def advance(observation: Observation, transition: Transition) -> Migration:
    """Return the migration one step further; raise `IllegalTransition` if the table has none for it."""
    migration, now, message = observation.migration, observation.now, _truncated(transition.message)
    before = migration.status
    step = next_step(handover_of(migration), step_of(migration), transition.trigger)
    changes: dict[str, object] = {
        "observed_generation": migration.generation,
        "phase": phase_of(step),
        "step": step,
        "step_since": now,
        "message": message or before.message,
    }
    if transition.failure:
        changes |= {"failure": transition.failure, "failure_is_final": transition.final}
    changes |= _status_changes(observation, transition)
    if transition.trigger is Trigger.COPY_BOUND and observation.target is not None:
        changes["target_node"] = observation.target.node
    if phase_of(step).is_final:
        changes["finished_at"] = now
    status = msgspec.structs.replace(before, **changes)
    is_repeated = _is_already_handed_over(before, transition.trigger)
    report = None if is_repeated else _CONDITION_OF_TRIGGER.get(transition.trigger)
    reports = transition.reports if report is None else (*transition.reports, report)
    return msgspec.structs.replace(migration, status=with_conditions(status, reports, message, now))


def _is_already_handed_over(before: MigrationStatus, trigger: Trigger) -> bool:
    """Return whether the handover is on record already: a source that was lost before was not evicted by
    us."""
    handed_over = before.condition(ConditionType.HANDED_OVER)
    return trigger is Trigger.SOURCE_LEFT and handed_over is not None and handed_over.status == "True"


def with_wait_message(observation: Observation, wait: Wait) -> Migration:
    """Return the same step with a message that says what it waits for. An invalid status is not
    overwritten."""
    if invalid_status(observation.migration):
        return observation.migration
    message = _truncated(wait.message)
    status = msgspec.structs.replace(
        observation.migration.status,
        observed_generation=observation.migration.generation,
        phase=phase_of(step_of(observation.migration)),
        message=message or observation.migration.status.message,
    )
    return msgspec.structs.replace(
        observation.migration, status=with_conditions(status, wait.reports, message, observation.now)
    )


def _truncated(message: str) -> str:
    """Return the message, shortened: if it were too long, the status could not be written."""
    return message if len(message) <= MAX_TEXT_LENGTH else f"{message[: MAX_TEXT_LENGTH - 1]}…"


def is_checkpoint(before: Migration, after: Migration) -> bool:
    """Return whether the status must be written before anything else; other steps follow from the cluster.

    It must be written before anything is touched (handover, target and attempt), before the copy of a bare
    pod may be scheduled (which pod it is, because no owner reference says so), before the eviction (it may be
    in flight), before a rollback (and when it keeps the copy), and when members of a group wait.
    """
    step = step_of(after)
    return (
        step
        in {
            MigrationStep.MARKING,
            MigrationStep.EVICTING,
            MigrationStep.REPLACING,
            MigrationStep.ROLLING_BACK,
        }
        or (step is MigrationStep.ADOPTING and step_of(before) is MigrationStep.ROLLING_BACK)
        or (step is MigrationStep.PLACING and handover_of(after) is Handover.COPY)
        or phase_of(step).is_final
        or (step is MigrationStep.QUEUED and step_of(before) is not MigrationStep.QUEUED)
        or (bool(after.spec.group) and MigrationStep.SETTLING in {step, step_of(before)})
    )


def _status_changes(observation: Observation, transition: Transition) -> dict[str, object]:
    """Return the changes of the status that follow from the trigger."""
    before = observation.migration.status
    match transition.trigger:
        case Trigger.APPROVED:
            return _attempt_status(observation)
        case Trigger.COPY_CREATED | Trigger.REPLACED:
            return {"target_pod": observation.target_reference}
        case Trigger.SOURCE_LOST:
            return {
                "target_pod": observation.target_reference,
                "handed_over_at": source_left_at(observation),
            }
        case Trigger.SETTLED:
            return {"eviction_requested_at": observation.now}
        case Trigger.UNREPLACED:
            return {"target_pod": None}
        case Trigger.PROTECTED:
            return {"siblings": recorded_siblings(observation.siblings)}
        case Trigger.SOURCE_LEFT:
            # The eviction was accepted a moment ago: no pod that was seen just before is the replacement.
            siblings = (
                recorded_siblings(observation.siblings) if observation.source_is_active else before.siblings
            )
            return {"handed_over_at": source_left_at(observation), "siblings": siblings}
        case Trigger.RELEASED:
            return {"failure": "", "failure_is_final": False}
        case Trigger.POSTPONED | Trigger.RETRY:
            return {
                "retry_at": observation.now
                + _with_jitter(observation, _pause(observation, transition.trigger))
            }
        case _:
            return {}


def _attempt_status(observation: Observation) -> dict[str, object]:
    revalidation = observation.revalidation
    assert revalidation is not None
    return {
        "attempts": observation.migration.status.attempts + 1,
        "started_at": observation.now,
        "retry_at": None,
        "handover": revalidation.handover,
        "target_node": revalidation.target,
        "target_pod": None,
        "eviction_requested_at": None,
        "owner": revalidation.owner,
        "workload": _controller_reference(observation.deployment),
        "siblings": (),
        "failure": "",
        "failure_is_final": False,
        "conditions": (),
    }


def _controller_reference(workload: WorkloadRecord | None) -> ControllerReference | None:
    if workload is None:
        return None
    return ControllerReference(workload.api_version, workload.kind, workload.name, workload.uid)


_MIN_RETRY_DELAY: Final = timedelta(seconds=10)
_MAX_RETRY_DELAY: Final = timedelta(minutes=5)


def _pause(observation: Observation, after: Trigger) -> timedelta:
    if after is Trigger.POSTPONED:
        return (observation.now - observation.migration.created) / 4
    doublings = min(max(observation.migration.status.attempts - 1, 0), 10)
    return _MIN_RETRY_DELAY * (1 << doublings)


def _with_jitter(observation: Observation, pause: timedelta) -> timedelta:
    """Return the delay with a jitter that differs per migration, so that they don't retry together."""
    pause = min(max(pause, _MIN_RETRY_DELAY), _MAX_RETRY_DELAY)
    share = int.from_bytes(hashlib.sha256(observation.migration.uid.encode()).digest()[:2]) / 0xFFFF
    return pause * (1 + share / 2)


def with_conditions(
    status: MigrationStatus, reports: tuple[ConditionUpdate, ...], message: str, now: datetime
) -> MigrationStatus:
    """Return the status with these conditions; the time of a condition changes only with its status."""
    conditions = {each.type: each for each in status.conditions}
    for report in reports:
        value = "True" if report.holds else "False"
        before = conditions.get(report.kind)
        since = before.last_transition_time if before is not None and before.status == value else now
        conditions[report.kind] = MigrationCondition(
            report.kind, value, since, report.reason, message, status.observed_generation
        )
    return msgspec.structs.replace(status, conditions=tuple(conditions[kind] for kind in sorted(conditions)))
