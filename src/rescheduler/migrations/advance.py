"""One look: where is the migration, what does it see there, and what follows?

sight = look(scene)
Happened → `advanced(scene, sight)`: the next step, by the table, with its status
Do       → an effect to perform; then look again
Wait     → until something changes, or until a time
"""

import hashlib
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from rescheduler.migrations import adopt, copy, evict
from rescheduler.migrations.beginning import checking, queued
from rescheduler.migrations.effects import DeleteBudget, DeleteMigration, LetGoMigration
from rescheduler.migrations.releasing import SOURCE_LOST, remains, rolling_back, temporary_budget
from rescheduler.migrations.replacement import worth_recording
from rescheduler.migrations.scene import Do, Happened, Report, Scene, Sight, Wait
from rescheduler.migrations.steps import Event, Step, next_step, phase_of
from rescheduler.model.migrations import (
    FINALIZER,
    LONGEST_TEXT,
    Condition,
    ConditionType,
    Migration,
    MigrationStatus,
    OwnerReference,
    Phase,
)
from rescheduler.model.plan import Handover
from rescheduler.model.workloads import WorkloadRecord

__all__ = [
    "advanced",
    "handover_of",
    "is_checkpoint",
    "look",
    "senseless",
    "shown",
    "step_of",
    "with_reports",
]


def step_of(migration: Migration) -> Step:
    """Of a migration that is not `senseless`."""
    return Step(migration.status.step or Step.QUEUED)


def handover_of(migration: Migration) -> Handover:
    """As chosen; `Auto` while it is not."""
    return migration.status.handover or Handover.AUTO


def senseless(migration: Migration) -> str:
    """Why nobody can go on from its status, which a person has edited or another version has written; empty
    if somebody can."""
    status, handover = migration.status, handover_of(migration)
    step = status.step or Step.QUEUED
    if step not in _LOOKS[handover]:
        how = "whose handover is not chosen" if handover is Handover.AUTO else f"by {handover}"
        return f"its status makes no sense: a migration {how} has no step {step}"
    if step == Step.ADOPTING and status.owner is None:
        return "its status makes no sense: it does not say who is to adopt the copy"
    moments = [status.step_since, status.started_at, status.handed_over_at, status.finished_at]
    moments += [each.last_transition_time for each in status.conditions]
    if any(moment is not None and moment > _END_OF_TIME for moment in moments):
        return "its status makes no sense: it tells of times that nobody will live to see"
    return ""


def look(scene: Scene) -> Sight:
    if why := senseless(scene.migration):
        return _left_alone(scene, why)
    return _LOOKS[handover_of(scene.migration)][step_of(scene.migration)](scene)


def _left_alone(scene: Scene, why: str) -> Sight:
    """Nothing is done by guessing. One that is cancelled is let go: then its pods are cleaned up like those
    of a migration that was removed by force, by the names and uids on record, read live."""
    if scene.migration.is_cancelled and FINALIZER in scene.migration.finalizers:
        return Do(LetGoMigration())
    return Wait(message=why)


def _finished(scene: Scene) -> Sight:
    """History for a while, and the memory behind podCooldown."""
    status = scene.migration.status
    # Once the source is handed over the copy is one of the pods that serve, whatever became of the move.
    is_undone = status.phase is Phase.FAILED and status.handed_over_at is None
    if is_undone and handover_of(scene.migration) is not Handover.AUTO:
        # A request of a process that has long ended may have arrived only now.
        left = remains(scene)
        if isinstance(left, Do):
            return left
    budget = temporary_budget(scene)
    if budget is not None:
        # So may one that creates the budget, also of a migration that went well.
        return Do(DeleteBudget(budget.name, budget.uid))
    if FINALIZER in scene.migration.finalizers:
        return Do(LetGoMigration())
    finished_at = scene.migration.status.finished_at
    if scene.migration.is_cancelled or finished_at is None:
        return Wait()
    forgotten_at = finished_at + scene.policy.migration_ttl
    return Wait(forgotten_at) if scene.now < forgotten_at else Do(DeleteMigration())


_UNCHOSEN: Final = {
    Step.QUEUED: queued,
    Step.CHECKING: checking,
    Step.COMPLETED: _finished,
    Step.FAILED: _finished,
}
_EVERY: Final = _UNCHOSEN | {Step.ROLLING_BACK: rolling_back}

_LOOKS: Final[Mapping[Handover, Mapping[Step, Callable[[Scene], Sight]]]] = {
    Handover.AUTO: _UNCHOSEN,
    Handover.ADOPT: _EVERY | adopt.LOOKS,
    Handover.COPY: _EVERY | copy.LOOKS,
    Handover.EVICT: _EVERY | evict.LOOKS,
}


_END_OF_TIME: Final = datetime(9000, 1, 1, tzinfo=UTC)
"""What is later can't be reckoned with."""


# -- the status that follows


_TELLS: Final[Mapping[Event, Report]] = {
    Event.COPY_READY: Report(ConditionType.COPY_READY, holds=True, reason="Ready"),
    Event.COPY_UNREADY: Report(ConditionType.COPY_READY, holds=False, reason="NotReady"),
    Event.SOURCE_LEFT: Report(ConditionType.HANDED_OVER, holds=True, reason="SourceEvicted"),
    Event.SOURCE_LOST: Report(ConditionType.HANDED_OVER, holds=True, reason=SOURCE_LOST),
    Event.RETRY: Report(ConditionType.ROLLED_BACK, holds=True, reason="Undone"),
    Event.GIVE_UP: Report(ConditionType.ROLLED_BACK, holds=True, reason="Undone"),
}
"""What an event means for a condition, whatever led to it."""


def advanced(scene: Scene, happened: Happened) -> Migration:
    """The migration one step further; raises `IllegalEvent` where the table has none."""
    migration, now, message = scene.migration, scene.now, _shortened(happened.message)
    before = migration.status
    step = next_step(handover_of(migration), step_of(migration), happened.event)
    changes: dict[str, object] = {
        "observed_generation": migration.generation,
        "phase": phase_of(step),
        "step": step,
        "step_since": now,
        "message": message or before.message,
    }
    if happened.failure:
        changes |= {"failure": happened.failure, "failure_is_final": happened.final}
    changes |= _of_the_event(scene, happened)
    if phase_of(step).is_final:
        changes["finished_at"] = now
    status = msgspec.structs.replace(before, **changes)
    told = None if _is_said(before, happened.event) else _TELLS.get(happened.event)
    reports = happened.reports if told is None else (*happened.reports, told)
    return msgspec.structs.replace(migration, status=with_reports(status, reports, message, now))


def _is_said(before: MigrationStatus, event: Event) -> bool:
    """A source that was lost has not been evicted by us, too."""
    handed_over = before.condition(ConditionType.HANDED_OVER)
    return event is Event.SOURCE_LEFT and handed_over is not None and handed_over.status == "True"


def shown(scene: Scene, wait: Wait) -> Migration:
    """The same step, with what it waits for: for people. What makes no sense is not written over."""
    if senseless(scene.migration):
        return scene.migration
    message = _shortened(wait.message)
    status = msgspec.structs.replace(
        scene.migration.status,
        observed_generation=scene.migration.generation,
        phase=phase_of(step_of(scene.migration)),
        message=message or scene.migration.status.message,
    )
    return msgspec.structs.replace(
        scene.migration, status=with_reports(status, wait.reports, message, scene.now)
    )


def _shortened(message: str) -> str:
    """Policies and schedulers may say as much as they like; one word too many, and nothing is recorded."""
    return message if len(message) <= LONGEST_TEXT else f"{message[: LONGEST_TEXT - 1]}…"


def is_checkpoint(before: Migration, after: Migration) -> bool:
    """What must be on record before anything more is done; other steps are recognised from the cluster.

    Before anything is touched: how, where to, and which attempt. Before a bare pod's copy may be scheduled:
    which pod it is, because no owner reference says so. Before the eviction: that it may be under way. Before
    anything is undone: that there is no going on, or that the copy is kept after all. And that a member waits
    for the others of its group, or they for it again.
    """
    step = step_of(after)
    return (
        step in {Step.MARKING, Step.EVICTING, Step.REPLACING, Step.ROLLING_BACK}
        or (step is Step.ADOPTING and step_of(before) is Step.ROLLING_BACK)
        or (step is Step.PLACING and handover_of(after) is Handover.COPY)
        or phase_of(step).is_final
        or (step is Step.QUEUED and step_of(before) is not Step.QUEUED)
        or (bool(after.spec.group) and Step.SETTLING in {step, step_of(before)})
    )


def _of_the_event(scene: Scene, happened: Happened) -> dict[str, object]:
    """What particular events leave behind in the status."""
    before = scene.migration.status
    match happened.event:
        case Event.APPROVED:
            return _new_attempt(scene)
        case Event.COPY_CREATED | Event.REPLACED:
            return {"target_pod": scene.target_reference}
        case Event.SOURCE_LOST:
            return {"target_pod": scene.target_reference, "handed_over_at": _left_at(scene)}
        case Event.SETTLED:
            return {"eviction_requested_at": scene.now}
        case Event.UNREPLACED:
            return {"target_pod": None}
        case Event.PROTECTED:
            return {"siblings": worth_recording(scene.siblings)}
        case Event.SOURCE_LEFT:
            # Accepted a moment ago: what was seen just before is what its replacement is not.
            siblings = worth_recording(scene.siblings) if scene.source_stands else before.siblings
            return {"handed_over_at": _left_at(scene), "siblings": siblings}
        case Event.RELEASED:
            return {"failure": "", "failure_is_final": False}
        case Event.POSTPONED | Event.RETRY:
            return {"retry_at": scene.now + _spread(scene, _pause(scene, happened.event))}
        case _:
            return {}


def _new_attempt(scene: Scene) -> dict[str, object]:
    verdict = scene.verdict
    assert verdict is not None
    return {
        "attempts": scene.migration.status.attempts + 1,
        "started_at": scene.now,
        "retry_at": None,
        "handover": verdict.handover,
        "target_node": verdict.target,
        "target_pod": None,
        "eviction_requested_at": None,
        "owner": verdict.owner,
        "workload": _reference(scene.deployment),
        "siblings": (),
        "failure": "",
        "failure_is_final": False,
        "conditions": (),
    }


def _reference(workload: WorkloadRecord | None) -> OwnerReference | None:
    if workload is None:
        return None
    return OwnerReference(workload.api_version, workload.kind, workload.name, workload.uid)


def _left_at(scene: Scene) -> datetime:
    """When the source went, as far as that can be told."""
    source = scene.source
    if source is None:
        return scene.migration.status.step_since or scene.now
    if source.deleted_s is None:
        return scene.now
    return datetime.fromtimestamp(source.deleted_s - (source.deletion_grace_s or 0), UTC)


_FIRST_PAUSE: Final = timedelta(seconds=10)
_LONGEST_PAUSE: Final = timedelta(minutes=5)


def _pause(scene: Scene, after: Event) -> timedelta:
    if after is Event.POSTPONED:
        return (scene.now - scene.migration.created) / 4
    doublings = min(max(scene.migration.status.attempts - 1, 0), 10)
    return _FIRST_PAUSE * (1 << doublings)


def _spread(scene: Scene, pause: timedelta) -> timedelta:
    """Within bounds, and a little different for each migration, so that they don't come all at once."""
    pause = min(max(pause, _FIRST_PAUSE), _LONGEST_PAUSE)
    share = int.from_bytes(hashlib.sha256(scene.migration.uid.encode()).digest()[:2]) / 0xFFFF
    return pause * (1 + share / 2)


def with_reports(
    status: MigrationStatus, reports: tuple[Report, ...], message: str, now: datetime
) -> MigrationStatus:
    """The time of a condition is that of its last change from true to false or back."""
    conditions = {each.type: each for each in status.conditions}
    for report in reports:
        value = "True" if report.holds else "False"
        before = conditions.get(report.kind)
        since = before.last_transition_time if before is not None and before.status == value else now
        conditions[report.kind] = Condition(
            report.kind, value, since, report.reason, message, status.observed_generation
        )
    return msgspec.structs.replace(status, conditions=tuple(conditions[kind] for kind in sorted(conditions)))
