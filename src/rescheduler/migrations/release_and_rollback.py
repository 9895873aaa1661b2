"""The two ends of a migration: Releasing after the eviction, and RollingBack before it.

A rollback never removes a ready copy while its source is not ready: the copy may be the last ready pod. If
the source has a ReplicaSet, the ReplicaSet adopts the copy and removes the pod that is not ready. Without a
controller, the copy stays until the source is ready again; if that takes longer than migrationTimeout, the
source is evicted and the copy replaces it.
"""

from dataclasses import replace
from datetime import datetime
from typing import Final

from rescheduler.api.podmigration import ConditionType, Handover, PodReference, traits_of
from rescheduler.api.well_known_names import SCHEDULING_GATE
from rescheduler.cluster.pod_record import PodRecord
from rescheduler.migrations.effects import (
    DeleteBudget,
    DeleteCopy,
    EvictSource,
    ReleaseTarget,
    RemoveSchedulingGate,
    UnlabelSource,
)
from rescheduler.migrations.interruptions import SOURCE_GONE, TARGET_LOST, wants_no_pods, why_target_lost
from rescheduler.migrations.labels_and_names import (
    STATUS_LABEL,
    MigrationLabelStatus,
    is_owned,
    is_scaled_away,
)
from rescheduler.migrations.make_before_break import source_lost, why_not_adoptable
from rescheduler.migrations.observation import (
    ConditionUpdate,
    Decision,
    Observation,
    Perform,
    Transition,
    Wait,
)
from rescheduler.migrations.source_eviction import own_temporary_budget, sync_request
from rescheduler.migrations.transition_table import Trigger

__all__ = [
    "SOURCE_LOST",
    "is_overdue",
    "is_serving",
    "next_cleanup",
    "overdue_at",
    "releasing",
    "retained",
    "rolling_back",
]


def retained(observation: Observation) -> Decision | None:
    """Return what a rollback does instead of removing the copy; None if the copy may be removed."""
    if observation.copy_is_all_that_is_left and observation.migration.status.failure != SOURCE_GONE:
        return _keep(observation)
    if not _is_only_ready_pod(observation) or wants_no_pods(observation) or why_not_adoptable(observation):
        return None
    if observation.migration.status.owner is not None and not observation.owner_is_gone:
        return _offered(observation)
    if observation.source_is_active:
        return _until_source_is_ready(observation)
    is_orphaned = (
        observation.migration.status.handover is Handover.ADOPT and not observation.source_was_deleted
    )
    return _taken_over(observation) if is_orphaned else None


def _is_only_ready_pod(observation: Observation) -> bool:
    """Return whether only the copy is ready, and it still belongs to the migration."""
    copy = observation.target
    return (
        observation.migration.status.handover in {Handover.ADOPT, Handover.COPY}
        and copy is not None
        and (copy.owner is None or copy.owner.uid == observation.migration.uid)
        and copy.is_ready
        and not copy.is_terminating
        and not observation.node_is_lost(copy.node)
        and not observation.source_serves
    )


def _keep(observation: Observation) -> Decision:
    """Keep the copy, because it is all that is left of the pod."""
    assert observation.target is not None
    if SCHEDULING_GATE in observation.target.shape.scheduling_gates:
        return Perform(RemoveSchedulingGate(observation.target_reference))
    return source_lost(observation)


def _offered(observation: Observation) -> Decision:
    source = observation.source
    if source is not None and source.is_active and source.is_ready and not is_overdue(observation):
        # The ReplicaSet does not look at nodes. As long as the pod on the lost node counts as ready, it would
        # remove the younger one of the two: the copy.
        return Wait(
            overdue_at(observation), f"{_words(observation)}; waiting until the pod counts as not ready"
        )
    return _taken_over(observation)


def _until_source_is_ready(observation: Observation) -> Decision:
    if not is_overdue(observation):
        return Wait(
            overdue_at(observation), f"{_words(observation)}; the copy is removed when the pod is ready again"
        )
    source = observation.source
    assert source is not None
    return Perform(EvictSource(PodReference(source.name, source.uid), source.resource_version))


def _taken_over(observation: Observation) -> Transition:
    report = ConditionUpdate(ConditionType.COPY_READY, holds=True, reason="Ready")
    return Transition(Trigger.SOURCE_LOST, f"{_words(observation)}, which takes its place", reports=(report,))


def _words(observation: Observation) -> str:
    assert observation.target is not None
    pod, failure = observation.migration.spec.pod.name, observation.migration.status.failure
    copy, state = observation.target.name, observation.source_state
    return f"pod {pod} is {state}, so the rollback ({failure}) keeps copy {copy}"


def is_overdue(observation: Observation) -> bool:
    """Return whether the rollback has waited too long for a budget, for the source, or for a finalizer of
    another client on the copy."""
    moment = overdue_at(observation)
    return moment is not None and observation.now >= moment


def overdue_at(observation: Observation) -> datetime | None:
    since = observation.migration.status.step_since
    return None if since is None else since + observation.policy.migration_timeout


SOURCE_LOST: Final = "SourceLost"
"""Reason of the condition HandedOver, where the source was gone or not ready before it was evicted."""


def releasing(observation: Observation) -> Decision:
    """Release the target to its controller after the eviction, mark it as completed, and clean up."""
    target = observation.target
    if target is not None and _must_be_released(observation, target):
        return Perform(ReleaseTarget(observation.target_reference))
    if (cleanup := _cleanup(observation)) is not None:
        return cleanup
    result = _result(observation, target)
    if why := _refused_labels(observation):
        return replace(result, message=f"{result.message or observation.migration.status.message}; {why}")
    return result


def _result(observation: Observation, target: PodRecord | None) -> Transition:
    """Return how the move ended."""
    if observation.migration.status.handover is Handover.EVICT:
        return _replacement_result(observation)
    if observation.owner_is_gone and not observation.target_remains:
        return Transition(Trigger.MISSED, "the workload and the pod were deleted", "WorkloadGone", final=True)
    if observation.migration.status.handover is Handover.COPY and not observation.target_remains:
        return Transition(Trigger.MISSED, "both the pod and its copy are gone", "CopyGone", final=True)
    if not observation.target_remains and observation.source_is_active and _source_lost_suffix(observation):
        # The copy was offered to its ReplicaSet because the source was not ready, but then it became ready.
        pod = observation.migration.spec.pod.name
        why = f"the ReplicaSet removed the copy, and pod {pod} is unchanged"
        return Transition(Trigger.MISSED, why, observation.migration.status.failure, final=True)
    if target is None:
        return Transition(Trigger.RELEASED)
    return _copy_not_serving(observation, target) or Transition(
        Trigger.RELEASED, f"moved{_source_lost_suffix(observation)}"
    )


def _must_be_released(observation: Observation, pod: PodRecord) -> bool:
    """Return whether the pod still has our owner reference, or labels that don't say that the move is over.

    If the server refused these labels for good, the migration ends without them.
    """
    if pod.is_terminating:
        return False
    is_marked = pod.labels.get(STATUS_LABEL) == MigrationLabelStatus.COMPLETED
    return is_owned(pod, observation.migration) or not (is_marked or _refused_labels(observation))


def _refused_labels(observation: Observation) -> str:
    """Return why the server refused the labels that say that the move is over; empty if it did not."""
    marked = observation.migration.status.condition(ConditionType.MARKED)
    return "" if marked is None else marked.message


def _copy_not_serving(observation: Observation, copy: PodRecord) -> Transition | None:
    """Return the failure of a copy that doesn't serve after the source is gone."""
    if observation.target_remains and (loss := why_target_lost(observation)):
        return Transition(
            Trigger.MISSED, f"{copy.name} took the pod's place, but {loss}", TARGET_LOST, final=True
        )
    owner = observation.migration.status.owner
    if (
        observation.target_remains
        and owner is not None
        and copy.owner is None
        and not observation.owner_is_gone
    ):
        why = f"{owner.kind} {owner.name} did not adopt {copy.name}, and creates another pod instead"
        return Transition(
            Trigger.MISSED, f"{why}: {observation.migration.status.message}", "NotAdopted", final=True
        )
    failure = observation.migration.status.failure
    if failure and not copy.is_ready:
        why = f"the pod was lost before its copy was ready; {copy.name} stays, but is not ready"
        return Transition(Trigger.MISSED, f"{why}{_source_lost_suffix(observation)}", failure, final=True)
    return None


def _source_lost_suffix(observation: Observation) -> str:
    handed_over = observation.migration.status.condition(ConditionType.HANDED_OVER)
    is_lost = handed_over is not None and handed_over.reason == SOURCE_LOST
    return f": {handed_over.message}" if is_lost and handed_over is not None else ""


def _replacement_result(observation: Observation) -> Transition:
    """Return how an eviction ended: with a replacement on the target, elsewhere, or with none."""
    if observation.target is None or not is_serving(observation.target):
        # A replacement that was created just before the scaling does not count: it is about to be deleted.
        if is_scaled_away(observation.migration, observation.owner):
            why = "the workload was scaled down and needs no replacement"
            return Transition(Trigger.MISSED, why, "ScaledDown", final=True)
        return Transition(Trigger.MISSED, "no replacement is ready", "NotReplaced", final=True)
    if observation.target.node == observation.migration.spec.source_node:
        return Transition(
            Trigger.MISSED, "the replacement runs on the source node again", "BackOnSource", final=True
        )
    return Transition(Trigger.RELEASED)


def is_serving(replacement: PodRecord) -> bool:
    """Return whether the pod is ready, or is a Job's and has completed."""
    return replacement.is_ready or replacement.phase == "Succeeded"


def rolling_back(observation: Observation) -> Decision:
    """Undo everything before the eviction; a copy stays while it is the only ready pod."""
    left = retained(observation) or next_cleanup(observation)
    if left is not None:
        return left
    if observation.migration.is_cancelled or not _may_retry(observation):
        return Transition(Trigger.GIVE_UP)
    return Transition(Trigger.RETRY)


def next_cleanup(observation: Observation) -> Perform | Wait | None:
    """Return the next step of a rollback; None if everything is as it was before.

    The lock is removed last, so that no other migration starts meanwhile.
    """
    copy = (
        observation.target
        if observation.migration.status.handover in {Handover.ADOPT, Handover.COPY}
        else None
    )
    if copy is not None and copy.owner is not None and copy.owner.uid != observation.migration.uid:
        # Another controller owns the copy: the ReplicaSet adopts a copy that no longer refers to the
        # PodMigration, and removes the surplus pod itself. Deleting the copy would remove one more pod.
        if _must_be_released(observation, copy):
            return Perform(ReleaseTarget(observation.target_reference))
        copy = None
    if (
        copy is not None
        and copy.is_terminating
        and not observation.node_is_lost(copy.node)
        and not is_overdue(observation)
    ):
        return Wait(overdue_at(observation), f"waiting for copy {copy.name} to end")
    if copy is not None and not copy.is_terminating:
        if _is_being_adopted(observation, copy):
            return Wait(overdue_at(observation), f"waiting for its ReplicaSet to adopt {copy.name}")
        within_budget = _counts_for_budget(observation, copy)
        request = sync_request(observation) if within_budget else None
        if isinstance(request, Perform):
            return request
        return Perform(DeleteCopy(observation.target_reference, within_budget))
    return _cleanup(observation)


def _cleanup(observation: Observation) -> Perform | None:
    """Return the next removal of what is temporary: first the budget, then the labels of the source."""
    budget, source = own_temporary_budget(observation), observation.source
    if budget is not None:
        return Perform(DeleteBudget(budget.name, budget.uid))
    if source is not None and not source.is_terminating and observation.source_is_marked:
        return Perform(_unlabel(source))
    return None


def _is_being_adopted(observation: Observation, copy: PodRecord) -> bool:
    """Return whether our owner reference is gone from the copy, as the garbage collector removes it where the
    PodMigration is deleted in the foreground. Its ReplicaSet may adopt it at any moment, and then removes the
    surplus pod: if the copy were deleted at that moment, two pods would be gone instead of one."""
    return (
        observation.migration.status.handover is Handover.ADOPT
        and copy.owner is None
        and bool(copy.node)
        and not observation.owner_is_gone
        and not why_not_adoptable(observation)
        and not wants_no_pods(observation)
        and not is_overdue(observation)
    )


def _counts_for_budget(observation: Observation, copy: PodRecord) -> bool:
    """Return whether other pods may have been evicted because this copy serves: then its budget applies to
    it, too."""
    return (
        copy.is_ready
        and not observation.node_is_lost(copy.node)
        and not wants_no_pods(observation)
        and not is_overdue(observation)
    )


def _unlabel(source: PodRecord) -> UnlabelSource:
    return UnlabelSource(PodReference(source.name, source.uid), source.resource_version)


def _may_retry(observation: Observation) -> bool:
    status = observation.migration.status
    if not traits_of(observation.migration.spec.strategy).retries:
        # This migration is for one target. The next target is chosen later, with what is known then.
        return False
    return not status.failure_is_final and status.attempts <= observation.policy.max_retries
