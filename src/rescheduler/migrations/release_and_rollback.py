"""The two ends of every migration: what was temporary goes, and what stays says what happened to it."""

from typing import Final

from rescheduler.api.podmigration import ConditionType, Handover, PodReference
from rescheduler.api.strategy_traits import traits_of
from rescheduler.cluster.budget_record import BudgetRecord
from rescheduler.cluster.pod_record import PodRecord
from rescheduler.migrations.copy_retention import is_overdue, overdue_at, retained
from rescheduler.migrations.disruption_budgets import sync_request
from rescheduler.migrations.effects import DeleteBudget, DeleteCopy, ReleaseTarget, UnlabelSource
from rescheduler.migrations.interruptions import TARGET_LOST, wants_no_pods, why_target_lost
from rescheduler.migrations.labels_and_names import STATUS_LABEL, MigrationLabelStatus
from rescheduler.migrations.make_before_break import why_not_adoptable
from rescheduler.migrations.observation import Decision, Observation, Perform, Transition, Wait
from rescheduler.migrations.successors import is_scaled_away, is_temporary_budget
from rescheduler.migrations.transition_table import Trigger

__all__ = ["SOURCE_LOST", "is_serving", "next_cleanup", "own_temporary_budget", "releasing", "rolling_back"]

SOURCE_LOST: Final = "SourceLost"
"""Reason of the condition HandedOver, where the source was gone or not ready before it was evicted."""


def releasing(scene: Observation) -> Decision:
    """After the watershed: the target is nobody's but its controller's, and marked as completed."""
    target = scene.target
    if target is not None and not target.is_terminating:
        is_owned = any(owner.uid == scene.migration.uid for owner in target.owners)
        if is_owned or target.labels.get(STATUS_LABEL) != MigrationLabelStatus.COMPLETED:
            return Perform(ReleaseTarget(scene.target_reference))
    budget = own_temporary_budget(scene)
    if budget is not None:
        return Perform(DeleteBudget(budget.name, budget.uid))
    if scene.source is not None and not scene.source.is_terminating and scene.source_is_marked:
        # It ended by itself, and its record stays behind.
        return Perform(_unlabel(scene.source))
    if scene.migration.status.handover is Handover.EVICT:
        return _replacement_result(scene)
    if scene.owner_is_gone and not scene.target_stands:
        return Transition(
            Trigger.MISSED, "the workload was deleted, and the pod with it", "WorkloadGone", final=True
        )
    if scene.migration.status.handover is Handover.COPY and not scene.target_stands:
        return Transition(Trigger.MISSED, "both the pod and its copy are gone", "CopyGone", final=True)
    if not scene.target_stands and scene.source_stands and _source_lost_suffix(scene):
        # Offered to its ReplicaSet because the source was not ready, which then was again.
        why = f"the ReplicaSet has removed the copy, and pod {scene.migration.spec.pod.name} stays as it was"
        return Transition(Trigger.MISSED, why, scene.migration.status.failure, final=True)
    if target is None:
        return Transition(Trigger.RELEASED)
    return _copy_not_serving(scene, target) or Transition(
        Trigger.RELEASED, f"moved{_source_lost_suffix(scene)}"
    )


def _copy_not_serving(scene: Observation, copy: PodRecord) -> Transition | None:
    """What became of a copy after the source was gone: there was no way back, and it is not a success."""
    if scene.target_stands and (loss := why_target_lost(scene)):
        return Transition(
            Trigger.MISSED, f"{copy.name} took the pod's place, but {loss}", TARGET_LOST, final=True
        )
    owner = scene.migration.status.owner
    if scene.target_stands and owner is not None and copy.owner is None and not scene.owner_is_gone:
        why = f"{owner.kind} {owner.name} did not adopt {copy.name}, and makes another pod in its place"
        return Transition(
            Trigger.MISSED, f"{why}: {scene.migration.status.message}", "NotAdopted", final=True
        )
    failure = scene.migration.status.failure
    if failure and not copy.is_ready:
        why = f"the pod was lost before its copy was ready; {copy.name} stays, and is not ready"
        return Transition(Trigger.MISSED, f"{why}{_source_lost_suffix(scene)}", failure, final=True)
    return None


def _source_lost_suffix(scene: Observation) -> str:
    handed_over = scene.migration.status.condition(ConditionType.HANDED_OVER)
    is_lost = handed_over is not None and handed_over.reason == SOURCE_LOST
    return f": {handed_over.message}" if is_lost and handed_over is not None else ""


def _replacement_result(scene: Observation) -> Transition:
    """An evicted pod's replacement is its controller's: it may end up where nobody wanted it, or not come."""
    if scene.target is None or not is_serving(scene.target):
        # Also beside one that was made just before, and is about to go.
        if is_scaled_away(scene.migration, scene.owner):
            why = "the workload was scaled down, and wants no replacement"
            return Transition(Trigger.MISSED, why, "ScaledDown", final=True)
        return Transition(Trigger.MISSED, "no replacement is ready", "NotReplaced", final=True)
    if scene.target.node == scene.migration.spec.source_node:
        return Transition(
            Trigger.MISSED, "the replacement is back on the source node", "BackOnSource", final=True
        )
    return Transition(Trigger.RELEASED)


def is_serving(replacement: PodRecord) -> bool:
    """Ready; or, of a Job, done before anybody could see it ready."""
    return replacement.is_ready or replacement.phase == "Succeeded"


def rolling_back(scene: Observation) -> Decision:
    """Before the watershed: exactly as before; but a copy is not removed while it is the only ready pod."""
    left = retained(scene) or next_cleanup(scene)
    if left is not None:
        return left
    if scene.migration.is_cancelled or not _may_retry(scene):
        return Transition(Trigger.GIVE_UP)
    return Transition(Trigger.RETRY)


def next_cleanup(scene: Observation) -> Perform | Wait | None:
    """What of ours is still there, of a migration that comes to nothing; None if it is as it was before.

    The lock goes last, so that nobody else begins meanwhile.
    """
    copy = scene.target if scene.migration.status.handover in {Handover.ADOPT, Handover.COPY} else None
    if copy is not None and copy.owner is not None and copy.owner.uid != scene.migration.uid:
        # Another controller has it: its ReplicaSet adopts a copy whose reference to the PodMigration is
        # removed, and removes one pod too many by itself. To delete the copy would take one more.
        is_released = copy.is_terminating or copy.labels.get(STATUS_LABEL) == MigrationLabelStatus.COMPLETED
        if not is_released:
            return Perform(ReleaseTarget(scene.target_reference))
        copy = None
    if (
        copy is not None
        and copy.is_terminating
        and not scene.node_is_lost(copy.node)
        and not is_overdue(scene)
    ):
        return Wait(overdue_at(scene), f"waits for copy {copy.name} to end")
    if copy is not None and not copy.is_terminating:
        if _is_being_adopted(scene, copy):
            return Wait(overdue_at(scene), f"waits for its ReplicaSet to adopt {copy.name}")
        within_budget = _counts_for_budget(scene, copy)
        request = sync_request(scene) if within_budget else None
        if isinstance(request, Perform):
            return request
        return Perform(DeleteCopy(scene.target_reference, within_budget))
    budget = own_temporary_budget(scene)
    if budget is not None:
        return Perform(DeleteBudget(budget.name, budget.uid))
    if scene.source is not None and not scene.source.is_terminating and scene.source_is_marked:
        return Perform(_unlabel(scene.source))
    return None


def _is_being_adopted(scene: Observation, copy: PodRecord) -> bool:
    """Whether our owner reference is gone from the copy, as the garbage collector removes it where the
    PodMigration is deleted in the foreground. Its ReplicaSet adopts it at any moment, and removes one pod too
    many: if the copy were deleted in that moment, there would be two fewer."""
    return (
        scene.migration.status.handover is Handover.ADOPT
        and copy.owner is None
        and bool(copy.node)
        and not scene.owner_is_gone
        and not why_not_adoptable(scene)
        and not wants_no_pods(scene)
        and not is_overdue(scene)
    )


def _counts_for_budget(scene: Observation, copy: PodRecord) -> bool:
    """Whether others may have been evicted because this copy serves: then its own budget decides, too."""
    return (
        copy.is_ready
        and not scene.node_is_lost(copy.node)
        and not wants_no_pods(scene)
        and not is_overdue(scene)
    )


def _unlabel(source: PodRecord) -> UnlabelSource:
    return UnlabelSource(PodReference(source.name, source.uid), source.resource_version)


def _may_retry(scene: Observation) -> bool:
    status = scene.migration.status
    if not traits_of(scene.migration.spec.strategy).retries:
        # This target is tried now; where to next is decided anew, with what has been learnt.
        return False
    return not status.failure_is_final and status.attempts <= scene.policy.max_retries


def own_temporary_budget(scene: Observation) -> BudgetRecord | None:
    """The one that we made for this migration, if it is still there."""
    return next((each for each in scene.budgets if is_temporary_budget(each, scene.migration)), None)
