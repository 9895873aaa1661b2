"""The three handovers.

Adopt  the copy starts beside the source, and the ReplicaSet adopts it
Copy   a pod without a controller is copied to the target, then the original is evicted
Evict  the pod is evicted within its budget, and its replacement is steered to the target
"""

from datetime import UTC, datetime, timedelta
from typing import Final

from rescheduler.api.podmigration import ConditionType, ControllerReference, traits_of
from rescheduler.api.well_known_names import STEERED_BY_ANNOTATION
from rescheduler.cluster.pod_record import PodRecord
from rescheduler.migrations.effects import (
    CreateBudget,
    DeleteReplacement,
    OfferCopyForAdoption,
    ReleaseTarget,
    RestoreCopyOwner,
    WithdrawSteering,
)
from rescheduler.migrations.interruptions import interrupted, target_lost, time_left
from rescheduler.migrations.labels_and_names import budget_name, is_scaled_away
from rescheduler.migrations.make_before_break import (
    creating,
    marking,
    placing,
    settling,
    starting,
    why_not_adoptable,
)
from rescheduler.migrations.observation import (
    ConditionUpdate,
    Decision,
    Observation,
    Perform,
    Transition,
    Wait,
)
from rescheduler.migrations.release_and_rollback import is_serving, releasing
from rescheduler.migrations.source_eviction import evicting, evicting_beside_copy, own_temporary_budget
from rescheduler.migrations.transition_table import MigrationStep, Trigger
from rescheduler.recovery.failure_signs import PodFailure, failure_of, next_failure_check_s

__all__ = ["ADOPT_DECIDERS", "COPY_DECIDERS", "EVICT_DECIDERS"]


def adopting(observation: Observation) -> Decision:
    """Wait until the ReplicaSet adopts the copy. From here on nothing may delete the copy: it serves."""
    copy, owner = observation.target, observation.migration.status.owner
    assert owner is not None
    if copy is None or copy.is_terminating:
        return _copy_gone_while_adopting(observation)
    holder = "" if copy.owner is None else copy.owner.uid
    if observation.owner_is_gone and holder in {"", observation.migration.uid, owner.uid}:
        return _workload_deleted(observation, copy, owner)
    if holder == observation.migration.uid:
        if all(each.uid != owner.uid for each in copy.owners):
            # Its ReplicaSet may have been deleted, unseen by a watch so far: then the copy is deleted, too.
            return Perform(OfferCopyForAdoption(observation.target_reference))
        return Perform(ReleaseTarget(observation.target_reference))
    if copy.owner is not None:
        return Transition(Trigger.ADOPTED, f"{copy.owner.kind} {copy.owner.name} adopted {copy.name}")
    if copy.is_finished:
        return _not_adopted(f"{copy.name} is {copy.phase} ({copy.reason or 'its containers ended'})")
    if why := why_not_adoptable(observation):
        return _not_adopted(why)
    return Wait(message=f"waiting for {owner.kind} {owner.name} to adopt {copy.name}")


def _not_adopted(why: str) -> Transition:
    """Return the failed adoption; the copy stays, because nothing deletes it after the eviction."""
    report = ConditionUpdate(ConditionType.STEERED, holds=False, reason="TargetMissed")
    return Transition(Trigger.COPY_GONE, why, reports=(report,))


def _copy_gone_while_adopting(observation: Observation) -> Transition:
    if observation.owner_is_gone:
        return Transition(Trigger.COPY_GONE, "the workload and the copy were deleted")
    return Transition(
        Trigger.COPY_GONE,
        "the ReplicaSet had already created a replacement and kept it: no pod is missing, "
        "but none is on the target",
        reports=(ConditionUpdate(ConditionType.STEERED, holds=False, reason="TargetMissed"),),
    )


def _workload_deleted(observation: Observation, copy: PodRecord, owner: ControllerReference) -> Decision:
    """Treat the copy like the pods of its ReplicaSet, which was deleted.

    With `--cascade=orphan` they stay. Otherwise the garbage collector deletes them. From the copy it has only
    removed the reference to the ReplicaSet, because the migration owned the copy, too. So that reference is
    restored as the only one, and the garbage collector deletes the copy like any pod whose owner no longer
    exists.
    """
    if observation.pods_are_orphaned:
        return Transition(
            Trigger.ORPHANED, f"{owner.kind} {owner.name} no longer exists: {copy.name} is unchanged"
        )
    if [each.uid for each in copy.owners] == [owner.uid]:
        return Wait(message=f"{copy.name} is deleted with its workload")
    return Perform(RestoreCopyOwner(observation.target_reference, owner))


ADOPT_DECIDERS = {
    MigrationStep.MARKING: marking,
    MigrationStep.CREATING: creating,
    MigrationStep.PLACING: placing,
    MigrationStep.STARTING: starting,
    MigrationStep.SETTLING: settling,
    MigrationStep.EVICTING: evicting_beside_copy,
    MigrationStep.ADOPTING: adopting,
    MigrationStep.RELEASING: releasing,
}

COPY_DECIDERS = {
    MigrationStep.MARKING: marking,
    MigrationStep.CREATING: creating,
    MigrationStep.PLACING: placing,
    MigrationStep.STARTING: starting,
    MigrationStep.SETTLING: settling,
    MigrationStep.EVICTING: evicting_beside_copy,
    MigrationStep.RELEASING: releasing,
}

_KINDS_WITH_BUDGETS: Final = frozenset({"ReplicaSet", "StatefulSet"})
"""Controllers whose pods the disruption controller can count."""

_STEERING_PROPAGATION: Final = timedelta(seconds=1)
"""How long every replica of the webhook has to observe an intent, or its end."""


def protecting(observation: Observation) -> Decision:
    ended = interrupted(observation) or target_lost(observation)
    if ended is not None:
        return ended
    budget = own_temporary_budget(observation)
    if _needs_budget(observation):
        assert observation.owner is not None
        workload = observation.deployment or observation.owner
        return Perform(CreateBudget(budget_name(workload.name)))
    if budget is not None and not budget.is_current:
        waits_for = f"waiting for the disruption controller to observe {budget.name}"
        return Wait(observation.now + time_left(observation), waits_for)
    known_since = observation.migration.status.started_at
    if (
        observation.is_steered
        and known_since is not None
        and observation.now < known_since + _STEERING_PROPAGATION
    ):
        return Wait(known_since + _STEERING_PROPAGATION, "waiting for the webhook to observe the migration")
    return Transition(Trigger.PROTECTED, "protected by its budget" if observation.budgets else "")


def _needs_budget(observation: Observation) -> bool:
    """Return whether a workload has several replicas and no budget; two budgets would block evictions.

    A budget can't be computed for Jobs, so it would never allow a disruption.
    """
    return (
        observation.policy.temporary_budget
        and not observation.budgets
        and observation.owner is not None
        and observation.owner.kind in _KINDS_WITH_BUDGETS
        and observation.owner.replicas > 1
    )


def replacing(observation: Observation) -> Decision:
    replacement = observation.target
    if observation.owner_is_gone:
        return Transition(
            Trigger.ORPHANED, "the workload no longer exists: no controller creates a replacement"
        )
    if replacement is None and is_scaled_away(observation.migration, observation.owner):
        return Transition(
            Trigger.UNREPLACED, "the workload was scaled down: its controller creates no replacement"
        )
    # Not since the source left, which is a time of the API server's clock: ours may differ.
    since = observation.migration.status.step_since or observation.now
    deadline = since + observation.policy.migration_timeout
    if replacement is not None and not replacement.is_terminating:
        if is_serving(replacement):
            return _replaced(observation, replacement)
        if (failure := _replacement_failure(observation, replacement)) is not None:
            return Transition(
                Trigger.UNREPLACED, f"{replacement.name} on {replacement.node} also fails: {failure.message}"
            )
        if (decision := _unschedulable_as_steered(observation, replacement)) is not None:
            return decision
    if observation.now >= deadline:
        return Transition(Trigger.UNREPLACED, "no replacement became ready in time")
    retry_at = _replacement_failure_check_at(observation, replacement) or deadline
    return Wait(min(deadline, retry_at), "waiting for the replacement to become ready")


def _replaced(observation: Observation, replacement: PodRecord) -> Transition:
    hit = replacement.node == observation.migration.target_node
    report = ConditionUpdate(ConditionType.STEERED, holds=hit, reason="OnTarget" if hit else "Elsewhere")
    return Transition(
        Trigger.REPLACED, f"{replacement.name} is ready on {replacement.node}", reports=(report,)
    )


def _replacement_failure(observation: Observation, replacement: PodRecord) -> PodFailure | None:
    """Return why the replacement of a failing pod fails, too, so that the next attempt isn't delayed."""
    if not traits_of(observation.migration.spec.strategy).recovers:
        return None
    node, terms = observation.nodes.get(replacement.node), observation.policy.failed_pods
    return failure_of(replacement, node, terms, observation.now.timestamp())


def _replacement_failure_check_at(observation: Observation, replacement: PodRecord | None) -> datetime | None:
    if not traits_of(observation.migration.spec.strategy).recovers or replacement is None:
        return None
    node, terms = observation.nodes.get(replacement.node), observation.policy.failed_pods
    moment_s = next_failure_check_s(replacement, node, terms, observation.now.timestamp())
    return None if moment_s is None else datetime.fromtimestamp(moment_s, UTC)


def _unschedulable_as_steered(observation: Observation, replacement: PodRecord) -> Decision | None:
    """Return an effect if the steered replacement can't be scheduled: the next one may go anywhere."""
    since = _unschedulable_since(replacement)
    # A scheduler that asks our extender leaves no mark on the pod.
    is_steered = _is_steered_by(observation, replacement) or observation.policy.scheduler_extender
    if since is None or not is_steered:
        return None
    withdrawn_at = _steering_withdrawn_at(observation)
    if withdrawn_at is None:
        # Withdraw the intent before the pod is deleted: its successor must not be steered again.
        over_at = since + observation.policy.steer_timeout
        waits = Wait(over_at, f"{replacement.name} fits on no node that it is steered to")
        return waits if observation.now < over_at else Perform(WithdrawSteering())
    if _must_be_recreated(observation, replacement, withdrawn_at):
        return Perform(DeleteReplacement(observation.target_reference))
    return None


def _must_be_recreated(observation: Observation, replacement: PodRecord, withdrawn_at: datetime) -> bool:
    """Return whether this replacement made us withdraw the intent, or was steered before the withdrawal
    reached all webhooks.

    Its age is not enough: where our clock is ahead of the server's, one replacement after the other would be
    deleted.
    """
    previous = observation.migration.status.target_pod
    if previous is not None and previous.uid == replacement.uid:
        return True
    is_older = replacement.created_s <= (withdrawn_at + _STEERING_PROPAGATION).timestamp()
    return is_older and _is_steered_by(observation, replacement)


def _is_steered_by(observation: Observation, replacement: PodRecord) -> bool:
    return replacement.annotations.get(STEERED_BY_ANNOTATION) == observation.migration.name


def _unschedulable_since(pod: PodRecord) -> datetime | None:
    scheduled = pod.condition("PodScheduled")
    if pod.node or scheduled is None or scheduled.reason != "Unschedulable":
        return None
    return datetime.fromtimestamp(scheduled.since_s, UTC)


def _steering_withdrawn_at(observation: Observation) -> datetime | None:
    steered = observation.migration.status.condition(ConditionType.STEERED)
    return steered.last_transition_time if steered is not None and steered.status == "False" else None


EVICT_DECIDERS = {
    MigrationStep.MARKING: marking,
    MigrationStep.PROTECTING: protecting,
    MigrationStep.EVICTING: evicting,
    MigrationStep.REPLACING: replacing,
    MigrationStep.RELEASING: releasing,
}
