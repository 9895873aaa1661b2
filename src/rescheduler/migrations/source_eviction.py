"""The step that can't be undone: the source is evicted, or the eviction is cancelled.

A cancellation first removes our labels from the source, while the step is still Evicting. That raises the
version of the pod, so that the API server refuses an eviction that another process may have in flight: every
eviction names the version that it is based on. Only when the source still runs without labels does the
migration roll back.

A workload without a budget gets a temporary one during the eviction. A budget that failed to sync is
repaired: the disruption controller discovers a new kind about every half minute, and a budget that it syncs
before it knows PodMigration allows no disruption, and is not synced again until one of its pods changes. So
the migration changes an annotation of the copy. The annotation says how often and when that happened, so that
another process that continues the migration keeps the same intervals.
"""

from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from rescheduler.api.podmigration import ConditionType, Handover, Migration, PodReference, label_value
from rescheduler.api.well_known_names import SYNC_REQUESTED_ANNOTATION
from rescheduler.cluster.budget_record import BudgetRecord
from rescheduler.cluster.pod_constraints import LabelSelector
from rescheduler.cluster.pod_record import PodRecord
from rescheduler.kube.api_resources import POD_DISRUPTION_BUDGETS, Object
from rescheduler.migrations.copy_manifest import owner_reference_to
from rescheduler.migrations.effects import EvictSource, RecordEviction, RequestBudgetSync, UnlabelSource
from rescheduler.migrations.interruptions import interrupted, target_lost, time_left
from rescheduler.migrations.labels_and_names import MIGRATION_ID_LABEL, is_temporary_budget
from rescheduler.migrations.make_before_break import before_deadline, copy_gone, settled_at
from rescheduler.migrations.observation import (
    ConditionUpdate,
    Decision,
    Observation,
    Perform,
    Transition,
    Wait,
)
from rescheduler.migrations.transition_table import Trigger
from rescheduler.rules.taint_toleration import tolerates_cordon

__all__ = [
    "GUARD_INTERVAL",
    "NO_ROOM",
    "SURPLUS_WOULD_PREEMPT",
    "depends_on_webhook",
    "evicting",
    "evicting_beside_copy",
    "eviction_refused",
    "own_temporary_budget",
    "source_left_at",
    "sync_request",
    "temporary_budget_manifest",
    "with_eviction_requested",
]


_MIN_SYNC_INTERVAL: Final = timedelta(seconds=2)
_MAX_SYNC_INTERVAL: Final = timedelta(minutes=1)
_TIMESTAMP_FORMAT: Final = "%Y-%m-%dT%H:%M:%SZ"


def sync_request(observation: Observation) -> Perform | Wait | None:
    """Return what to do about a budget whose sync failed; None if there is no such budget."""
    budget = next((each for each in observation.budgets if each.sync_failure), None)
    if budget is None or not observation.target_remains:
        return None
    count, due_at = _sync_requests_made(observation)
    if observation.now >= due_at:
        value = f"{count + 1} {observation.now.strftime(_TIMESTAMP_FORMAT)}"
        return Perform(RequestBudgetSync(observation.target_reference, value))
    report = ConditionUpdate(ConditionType.BUDGET_ALLOWS, holds=False, reason="SyncFailed")
    return Wait(
        min(due_at, observation.now + time_left(observation)), _sync_message(budget, count), (report,)
    )


def _sync_requests_made(observation: Observation) -> tuple[int, datetime]:
    """Return how many sync requests were made, and when the next one is due."""
    assert observation.target is not None
    count, _, written = observation.target.annotations.get(SYNC_REQUESTED_ANNOTATION, "").partition(" ")
    try:
        last = datetime.strptime(written, _TIMESTAMP_FORMAT).replace(tzinfo=UTC)
        made = max(0, min(int(count), 100))
    except ValueError:
        return 0, observation.now
    # A time in the future is from another clock, or forged. Timestamps are whole seconds, rounded down.
    last = min(last, observation.now - timedelta(seconds=1)) + timedelta(seconds=1)
    return made, last + min(_MIN_SYNC_INTERVAL * (1 << min(made, 10)), _MAX_SYNC_INTERVAL)


def _sync_message(budget: BudgetRecord, count: int) -> str:
    return (
        f"the disruption controller could not sync budget {budget.name} ({budget.sync_failure}); "
        f"requested {count} syncs so far"
    )


def temporary_budget_manifest(observation: Observation, name: str) -> Object:
    """Return a budget owned by the PodMigration, so that it is never left behind."""
    migration, workload = observation.migration, observation.deployment or observation.owner
    assert workload is not None
    return {
        "apiVersion": POD_DISRUPTION_BUDGETS.api_version,
        "kind": POD_DISRUPTION_BUDGETS.kind,
        "metadata": {
            "namespace": migration.namespace,
            "name": name,
            "labels": {MIGRATION_ID_LABEL: label_value(migration.name)},
            "ownerReferences": [owner_reference_to(migration, controller=True)],
        },
        "spec": {"maxUnavailable": 1, "selector": _selector_manifest(workload.selector)},
    }


def _selector_manifest(selector: LabelSelector | None) -> Object:
    if selector is None:
        return {}
    written: Object = {"matchLabels": dict(selector.match_labels)}
    if selector.match_expressions:
        written["matchExpressions"] = msgspec.to_builtins(selector.match_expressions)
    return written


def own_temporary_budget(observation: Observation) -> BudgetRecord | None:
    """Return the budget that was created for this migration, if it still exists."""
    return next(
        (each for each in observation.budgets if is_temporary_budget(each, observation.migration)), None
    )


SURPLUS_WOULD_PREEMPT: Final = "SurplusWouldPreempt"
"""The failure of a migration whose ReplicaSet would create a pod that preempts others."""

NO_ROOM: Final = "NoRoomForReplacement"
"""The failure of a migration whose pod would be evicted and find no node."""

_MAX_RECORD_AGE: Final = timedelta(seconds=8)
"""The longest time between recording an eviction and requesting it: the webhook guards the handover for ten
seconds from the record on. An API server that answers slowly may need some of them."""

_MAX_PREEMPTING_RECORD_AGE: Final = timedelta(seconds=3)
"""The limit where a surplus pod could preempt others, so that the guard must last until the adoption."""

GUARD_INTERVAL: Final = timedelta(seconds=30)
"""The time between two windows in which the webhook guards a handover of the same migration."""

_GUARD_PROPAGATION: Final = timedelta(milliseconds=500)
"""How long every replica of the webhook has to observe the eviction, where a surplus pod could preempt
others."""


def evicting_beside_copy(observation: Observation) -> Decision:
    """Evict the source of Adopt and Copy, only while the copy serves."""
    if not observation.source_is_active:
        return _source_left(observation)
    lost = copy_gone(observation) or _copy_ended(observation) or target_lost(observation)
    if lost is not None:
        return _cancel_eviction(observation, lost)
    assert observation.target is not None
    if (waiting := _copy_was_not_ready(observation, observation.target)) is not None:
        ended = interrupted(observation)
        return waiting if ended is None else _cancel_eviction(observation, ended)
    decision = evicting(observation)
    if isinstance(decision, Wait) or (
        isinstance(decision, Perform) and isinstance(decision.effect, EvictSource)
    ):
        assert observation.source is not None
        return (sync_request(observation) if observation.source.is_ready else None) or decision
    return decision


def _copy_was_not_ready(observation: Observation, copy: PodRecord) -> Wait | None:
    """Return the wait for a copy that was not ready while the eviction waited for its budget."""
    if not copy.is_ready:
        over_at = observation.now + time_left(observation)
        return Wait(over_at, f"waiting for copy {copy.name} to be ready again")
    settled_by = settled_at(observation)
    if observation.now < settled_by:
        until = before_deadline(observation, settled_by)
        return Wait(until, f"copy {copy.name} was not ready, and settles again until {settled_by:%H:%M:%S}")
    return None


def _copy_ended(observation: Observation) -> Transition | None:
    copy = observation.target
    if copy is None or not copy.is_finished:
        return None
    why = f"copy {copy.name} is {copy.phase} ({copy.reason or 'its containers ended'})"
    return Transition(Trigger.COPY_GONE, why, "CopyGone")


def evicting(observation: Observation) -> Decision:
    if not observation.source_is_active:
        return _source_left(observation)
    ended = (
        interrupted(observation)
        or target_lost(observation)
        or _several_budgets(observation)
        or _unsteered(observation)
        or _unguarded(observation)
        or _without_room(observation)
    )
    if ended is None and not observation.source_is_ours:
        # Another process started to cancel the eviction, and ended before it wrote the reason.
        ended = Transition(Trigger.TIMED_OUT, "eviction cancelled", "EvictionCancelled")
    if ended is not None:
        return _cancel_eviction(observation, ended)
    if (spent := _exhausted_budget(observation)) is not None:
        return eviction_refused(
            observation, f"budget {spent.name} allows no disruption now", time_left(observation)
        )
    if (decision := _record_first(observation)) is not None:
        return decision
    source = observation.source
    assert source is not None
    return Perform(EvictSource(PodReference(source.name, source.uid), source.resource_version))


def _record_first(observation: Observation) -> Decision | None:
    """Record the eviction, and wait until the webhook has observed it, before the ReplicaSet does."""
    if observation.migration.status.handover is not Handover.ADOPT:
        return None
    requested_at = observation.migration.status.eviction_requested_at
    if requested_at is None or observation.now < requested_at:
        return Perform(RecordEviction())
    max_age = _MAX_PREEMPTING_RECORD_AGE if observation.may_preempt else _MAX_RECORD_AGE
    if observation.now - requested_at > max_age:
        # The eviction was refused. One that depends on the guard waits until the webhook guards again.
        again_at = requested_at + GUARD_INTERVAL
        if observation.may_preempt and observation.now < again_at:
            return Wait(again_at, "waiting for the webhook to guard the handover again")
        return Perform(RecordEviction())
    guarded_at = requested_at + _GUARD_PROPAGATION
    if observation.may_preempt and observation.now < guarded_at:
        return Wait(guarded_at, "waiting for the webhook to observe the eviction")
    return None


def with_eviction_requested(observation: Observation) -> Migration:
    status = msgspec.structs.replace(observation.migration.status, eviction_requested_at=observation.now)
    return msgspec.structs.replace(observation.migration, status=status)


def depends_on_webhook(observation: Observation) -> bool:
    """Return whether the eviction would do harm if the webhook did not answer: then the webhook is probed
    first."""
    if observation.migration.status.handover is Handover.ADOPT:
        return bool(observation.may_preempt)
    return observation.migration.status.handover is Handover.EVICT and not _may_go_unsteered(observation)


def _exhausted_budget(observation: Observation) -> BudgetRecord | None:
    """Return a budget whose status allows no disruption: the eviction is tried again when it changes."""
    if observation.source is None or not observation.source.is_ready:
        return None  # Pods that are not ready may go even under a budget that is spent.
    return next(
        (each for each in observation.budgets if each.is_current and not each.disruptions_allowed), None
    )


def eviction_refused(observation: Observation, why: str, pause: timedelta) -> Wait:
    """Return a wait until the budget changes; after a pause the eviction is tried again anyway."""
    report = ConditionUpdate(ConditionType.BUDGET_ALLOWS, holds=False, reason="Refused")
    left = time_left(observation)
    # A rollback may ask for the eviction after the deadline of the attempt.
    return Wait(observation.now + (min(pause, left) if left > timedelta() else pause), why, (report,))


def _several_budgets(observation: Observation) -> Transition | None:
    # Budgets don't apply to a pod that has not started to run.
    if (
        len(observation.budgets) > 1
        and observation.source is not None
        and observation.source.phase != "Pending"
    ):
        names = ", ".join(sorted(each.name for each in observation.budgets))
        why = f"several budgets cover the pod ({names}): Kubernetes does not evict such a pod"
        # If one of them is our temporary budget, a rollback removes it.
        final = own_temporary_budget(observation) is None
        return Transition(Trigger.WORKLOAD_CHANGED, why, "SeveralBudgets", final)
    return None


def _unsteered(observation: Observation) -> Transition | None:
    """Return a refusal if nothing steers the replacement, because it might come back to the same node."""
    if (
        observation.migration.status.handover is not Handover.EVICT
        or observation.is_steered
        or _may_go_unsteered(observation)
    ):
        return None
    why = f"nothing steers its replacement: {observation.webhook_problem or 'the webhook does not answer'}"
    return Transition(Trigger.WORKLOAD_CHANGED, why, "Unsteered")


def _may_go_unsteered(observation: Observation) -> bool:
    """Return whether the policy allows an unsteered replacement, or the cordon keeps it off the source
    node."""
    node = observation.nodes.get(observation.migration.spec.source_node)
    is_kept_off = (
        node is not None
        and node.unschedulable
        and observation.source is not None
        and not tolerates_cordon(observation.source.shape.constraints.tolerations)
    )
    return observation.policy.allow_unsteered or is_kept_off


def _unguarded(observation: Observation) -> Transition | None:
    """Return a refusal if the ReplicaSet would create a surplus pod and nothing prevents that."""
    if (
        observation.migration.status.handover is not Handover.ADOPT
        or observation.is_guarded
        or not observation.may_preempt
    ):
        return None
    problem = f" ({observation.webhook_problem})" if observation.webhook_problem else ""
    why = (
        "the pod that its ReplicaSet creates until it adopts the copy could preempt "
        f"{observation.may_preempt}, and no webhook prevents that{problem}"
    )
    return Transition(Trigger.WORKLOAD_CHANGED, why, SURPLUS_WOULD_PREEMPT)


def _without_room(observation: Observation) -> Transition | None:
    """Return a refusal if no other node has room for the replacement any more."""
    return Transition(Trigger.WORKLOAD_CHANGED, observation.no_room, NO_ROOM) if observation.no_room else None


def _source_left(observation: Observation) -> Transition:
    report = ConditionUpdate(ConditionType.BUDGET_ALLOWS, holds=True, reason="Evicted")
    return Transition(Trigger.SOURCE_LEFT, f"the source is {observation.source_end}", reports=(report,))


def source_left_at(observation: Observation) -> datetime:
    """Return when the source ended, as far as that is known."""
    source, status = observation.source or observation.last_seen_source, observation.migration.status
    if source is not None and source.deleted_s is not None:
        return datetime.fromtimestamp(source.deleted_s - (source.deletion_grace_s or 0), UTC)
    if observation.source is not None:
        return observation.now
    # The source was gone before its deletion was observed. An eviction sets this condition first.
    disruption = None if source is None else source.condition("DisruptionTarget")
    if disruption is not None and disruption.since_s:
        return datetime.fromtimestamp(disruption.since_s, UTC)
    # The step may have waited long for a budget before the eviction was requested.
    return max(filter(None, (status.step_since, status.eviction_requested_at)), default=observation.now)


def _cancel_eviction(observation: Observation, why: Transition) -> Decision:
    source = observation.source
    assert source is not None
    if observation.source_is_marked:
        return Perform(UnlabelSource(PodReference(source.name, source.uid), source.resource_version))
    return why
