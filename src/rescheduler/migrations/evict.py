"""Evict: the pod goes first, within its budget, and its controller's replacement is steered to the target."""

from datetime import UTC, datetime, timedelta
from typing import Final

from rescheduler.migrations.copies import marking
from rescheduler.migrations.effects import CreateBudget, DeleteReplacement, WithdrawSteering
from rescheduler.migrations.evicting import evicting
from rescheduler.migrations.interference import deadline, interrupted
from rescheduler.migrations.naming import budget_name
from rescheduler.migrations.releasing import releasing, serves, temporary_budget
from rescheduler.migrations.replacement import is_scaled_away
from rescheduler.migrations.scene import Do, Happened, Report, Scene, Sight, Wait
from rescheduler.migrations.steps import Event, Step
from rescheduler.migrations.target_node import target_lost
from rescheduler.model.migrations import FAILED_PODS, ConditionType
from rescheduler.model.pods import PodRecord
from rescheduler.model.steering import STEERED_BY
from rescheduler.recovery.trouble import Trouble, next_look_s, trouble_of

__all__ = ["LOOKS"]

_COUNTED: Final = frozenset({"ReplicaSet", "StatefulSet"})
"""Controllers that the disruption controller knows how to count."""

_STEERING_LEAD: Final = timedelta(seconds=1)
"""How long every replica of the webhook is given to hear of an intent, or of its end."""


def protecting(scene: Scene) -> Sight:
    ended = interrupted(scene) or target_lost(scene)
    if ended is not None:
        return ended
    budget = temporary_budget(scene)
    if _needs_budget(scene):
        assert scene.owner is not None
        workload = scene.deployment or scene.owner
        return Do(CreateBudget(budget_name(workload.name)))
    if budget is not None and not budget.is_current:
        waits_for = f"waits until the disruption controller has seen {budget.name}"
        return Wait(scene.now + deadline(scene), waits_for)
    known_since = scene.migration.status.started_at
    if scene.is_steered and known_since is not None and scene.now < known_since + _STEERING_LEAD:
        return Wait(known_since + _STEERING_LEAD, "lets the webhook hear of it")
    return Happened(Event.PROTECTED, "protected by its budget" if scene.budgets else "")


def _needs_budget(scene: Scene) -> bool:
    """Where a workload has several replicas and nobody protects them. Two budgets would block evictions.

    Not for Jobs: nobody can compute a budget of theirs, so that it would never allow anything.
    """
    return (
        scene.policy.temporary_budget
        and not scene.budgets
        and scene.owner is not None
        and scene.owner.kind in _COUNTED
        and scene.owner.replicas > 1
    )


def replacing(scene: Scene) -> Sight:
    replacement = scene.target
    if scene.owner_is_gone:
        return Happened(Event.ORPHANED, "the workload is gone: nobody makes a replacement")
    if replacement is None and is_scaled_away(scene.migration, scene.owner):
        return Happened(Event.UNREPLACED, "the workload was scaled down: nobody makes a replacement")
    given_up_at = (scene.migration.status.handed_over_at or scene.now) + scene.policy.migration_timeout
    if replacement is not None and not replacement.is_terminating:
        if serves(replacement):
            return _replaced(scene, replacement)
        if (trouble := _trouble(scene, replacement)) is not None:
            return Happened(
                Event.UNREPLACED, f"{replacement.name} on {replacement.node} fails, too: {trouble.words}"
            )
        if (sight := _steered_in_vain(scene, replacement)) is not None:
            return sight
    if scene.now >= given_up_at:
        return Happened(Event.UNREPLACED, "no replacement became ready in time")
    look_again_at = _trouble_may_count_at(scene, replacement) or given_up_at
    return Wait(min(given_up_at, look_again_at), "waits for the replacement to become ready")


def _replaced(scene: Scene, replacement: PodRecord) -> Happened:
    hit = replacement.node == scene.migration.target_node
    report = Report(ConditionType.STEERED, holds=hit, reason="OnTarget" if hit else "Elsewhere")
    return Happened(Event.REPLACED, f"{replacement.name} is ready on {replacement.node}", reports=(report,))


def _trouble(scene: Scene, replacement: PodRecord) -> Trouble | None:
    """Of a pod that failed where it was: waiting for its successor would only hold up the next try."""
    if scene.migration.spec.strategy != FAILED_PODS:
        return None
    node, terms = scene.nodes.get(replacement.node), scene.policy.failed_pods
    return trouble_of(replacement, node, terms, scene.now.timestamp())


def _trouble_may_count_at(scene: Scene, replacement: PodRecord | None) -> datetime | None:
    if scene.migration.spec.strategy != FAILED_PODS or replacement is None:
        return None
    node, terms = scene.nodes.get(replacement.node), scene.policy.failed_pods
    moment_s = next_look_s(replacement, node, terms, scene.now.timestamp())
    return None if moment_s is None else datetime.fromtimestamp(moment_s, UTC)


def _steered_in_vain(scene: Scene, replacement: PodRecord) -> Sight | None:
    """One that finds no place as it was steered: its controller makes another, which may go anywhere."""
    since = _unschedulable_since(replacement)
    # A scheduler that asks our extender leaves no mark on the pod.
    is_steered = _is_steered_by(scene, replacement) or scene.policy.scheduler_extender
    if since is None or not is_steered:
        return None
    withdrawn_at = _withdrawn_at(scene)
    if withdrawn_at is None:
        # First the intent goes, then the pod: its successor must not be steered again.
        over_at = since + scene.policy.steer_timeout
        waits = Wait(over_at, f"{replacement.name} finds no place as it is steered")
        return waits if scene.now < over_at else Do(WithdrawSteering())
    if _is_to_make_way(scene, replacement, withdrawn_at):
        return Do(DeleteReplacement(scene.target_reference))
    return None


def _is_to_make_way(scene: Scene, replacement: PodRecord, withdrawn_at: datetime) -> bool:
    """The one because of which the intent was withdrawn, or one that was steered before all had heard of it.

    By its age alone one after the other would be removed where our clock is ahead of the server's."""
    in_vain = scene.migration.status.target_pod
    if in_vain is not None and in_vain.uid == replacement.uid:
        return True
    is_of_before = replacement.created_s <= (withdrawn_at + _STEERING_LEAD).timestamp()
    return is_of_before and _is_steered_by(scene, replacement)


def _is_steered_by(scene: Scene, replacement: PodRecord) -> bool:
    return replacement.marks.get(STEERED_BY) == scene.migration.name


def _unschedulable_since(pod: PodRecord) -> datetime | None:
    scheduled = pod.condition("PodScheduled")
    if pod.node or scheduled is None or scheduled.reason != "Unschedulable":
        return None
    return datetime.fromtimestamp(scheduled.since_s, UTC)


def _withdrawn_at(scene: Scene) -> datetime | None:
    steered = scene.migration.status.condition(ConditionType.STEERED)
    return steered.last_transition_time if steered is not None and steered.status == "False" else None


LOOKS = {
    Step.MARKING: marking,
    Step.PROTECTING: protecting,
    Step.EVICTING: evicting,
    Step.REPLACING: replacing,
    Step.RELEASING: releasing,
}
