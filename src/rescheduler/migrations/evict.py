"""Evict: the pod goes first, within its budget, and its controller's replacement is steered to the target."""

from datetime import UTC, datetime, timedelta
from typing import Final

from rescheduler.migrations.copies import marking
from rescheduler.migrations.effects import CreateBudget, DeleteReplacement, WithdrawSteering
from rescheduler.migrations.evicting import evicting
from rescheduler.migrations.interference import interrupted
from rescheduler.migrations.naming import budget_name
from rescheduler.migrations.releasing import releasing, temporary_budget
from rescheduler.migrations.scene import Do, Happened, Scene, Sight, Wait
from rescheduler.migrations.steps import Event, Step
from rescheduler.model.migrations import ConditionType
from rescheduler.model.pods import PodRecord
from rescheduler.model.steering import STEERED_BY

__all__ = ["LOOKS"]

_STEERING_LEAD: Final = timedelta(seconds=1)
"""How long before the eviction every replica of the webhook is given to hear of the intent."""


def protecting(scene: Scene) -> Sight:
    ended = interrupted(scene)
    if ended is not None:
        return ended
    budget = temporary_budget(scene)
    if budget is None and _needs_budget(scene):
        assert scene.owner is not None
        return Do(CreateBudget(budget_name((scene.deployment or scene.owner).name)))
    if budget is not None and not budget.is_current:
        return Wait(message=f"waits until the disruption controller has seen {budget.name}")
    known_since = scene.migration.status.step_since
    if scene.is_steered and known_since is not None and scene.now < known_since + _STEERING_LEAD:
        return Wait(known_since + _STEERING_LEAD, "lets the webhook hear of it")
    return Happened(Event.PROTECTED)


def _needs_budget(scene: Scene) -> bool:
    """Where a workload has several replicas and nobody protects them. Two budgets would block evictions."""
    return (
        scene.policy.temporary_budget
        and not scene.budgets
        and scene.owner is not None
        and scene.owner.replicas > 1
    )


def replacing(scene: Scene) -> Sight:
    replacement = scene.target
    if scene.owner is None or scene.owner.deleted_s is not None:
        return Happened(Event.ORPHANED, "the workload is gone: nobody makes a replacement")
    if replacement is None or replacement.is_terminating:
        return _until_it_comes(scene)
    if replacement.is_ready:
        return Happened(Event.REPLACED, f"{replacement.name} is ready on {replacement.node}")
    unschedulable_since = _unschedulable_since(replacement)
    if unschedulable_since is None:
        return Wait(message=f"waits for {replacement.name} to become ready")
    if _is_withdrawn(scene):
        return _made_anew(scene, replacement)
    withdrawn_at = unschedulable_since + scene.policy.steer_timeout
    if scene.now < withdrawn_at:
        return Wait(withdrawn_at, f"{replacement.name} finds no place as it is steered")
    # First the intent goes, then the pod: its successor must not be steered again.
    return Do(WithdrawSteering())


def _made_anew(scene: Scene, replacement: PodRecord) -> Sight:
    """Only one that was steered: what its controller makes after it is free to go anywhere."""
    if STEERED_BY in replacement.marks:
        return Do(DeleteReplacement(scene.target_reference))
    return Wait(message=f"{replacement.name} finds no place, though it may go anywhere")


def _until_it_comes(scene: Scene) -> Sight:
    handed_over_at = scene.migration.status.handed_over_at or scene.now
    given_up_at = handed_over_at + scene.policy.migration_timeout
    if scene.now < given_up_at:
        return Wait(given_up_at, "waits for the replacement")
    return Happened(Event.ORPHANED, "no replacement came", "NotReplaced")


def _unschedulable_since(pod: PodRecord) -> datetime | None:
    scheduled = pod.condition("PodScheduled")
    if pod.node or scheduled is None or scheduled.reason != "Unschedulable":
        return None
    return datetime.fromtimestamp(scheduled.since_s, UTC)


def _is_withdrawn(scene: Scene) -> bool:
    steered = scene.migration.status.condition(ConditionType.STEERED)
    return steered is not None and steered.status == "False"


LOOKS = {
    Step.MARKING: marking,
    Step.PROTECTING: protecting,
    Step.EVICTING: evicting,
    Step.REPLACING: replacing,
    Step.RELEASING: releasing,
}
