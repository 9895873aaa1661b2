"""The watershed: the source is evicted, or the attempt is called off for good.

Calling off begins by taking our marks off the source, while the step is still Evicting. That raises the
pod's version, so that an eviction which another process may still have in flight is refused: every
eviction names the version that it saw. Only when the source is seen unmarked and standing does the
migration leave this step backwards.
"""

from datetime import timedelta
from typing import Final

import msgspec

from rescheduler.api.podmigration import ConditionType, Handover, Migration, PodReference
from rescheduler.cluster.budget_record import BudgetRecord
from rescheduler.migrations.disruption_budgets import sync_request
from rescheduler.migrations.effects import EvictSource, RecordEviction, UnlabelSource
from rescheduler.migrations.interruptions import interrupted, target_lost, time_left
from rescheduler.migrations.make_before_break import copy_gone
from rescheduler.migrations.observation import (
    ConditionUpdate,
    Decision,
    Observation,
    Perform,
    Transition,
    Wait,
)
from rescheduler.migrations.release_and_rollback import own_temporary_budget
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
    "with_eviction_requested",
]

SURPLUS_WOULD_PREEMPT: Final = "SurplusWouldPreempt"
"""The failure of a migration whose ReplicaSet would create a pod that preempts others."""

NO_ROOM: Final = "NoRoomForReplacement"
"""The failure of a migration whose pod would be evicted and find no node."""

_MAX_RECORD_AGE: Final = timedelta(seconds=3)
"""An eviction is asked for so long after it was put on record at most: the webhook guards the handover for a
few seconds from then on."""

GUARD_INTERVAL: Final = timedelta(seconds=30)
"""From one window in which the webhook guards a handover to the next of the same migration."""

_GUARD_PROPAGATION: Final = timedelta(milliseconds=500)
"""How long every replica of the webhook is given to hear of the eviction, where others depend on that."""


def evicting_beside_copy(scene: Observation) -> Decision:
    """Adopt and Copy: only as long as the copy serves."""
    if not scene.source_stands:
        return _source_left(scene)
    lost = copy_gone(scene) or _copy_ended(scene) or target_lost(scene)
    if lost is not None:
        return _cancel_eviction(scene, lost)
    assert scene.target is not None
    if not scene.target.is_ready:
        ended = interrupted(scene)
        if ended is not None:
            return _cancel_eviction(scene, ended)
        return Wait(scene.now + time_left(scene), f"waits for copy {scene.target.name} to be ready again")
    decision = evicting(scene)
    if isinstance(decision, Wait) or (
        isinstance(decision, Perform) and isinstance(decision.effect, EvictSource)
    ):
        assert scene.source is not None
        return (sync_request(scene) if scene.source.is_ready else None) or decision
    return decision


def _copy_ended(scene: Observation) -> Transition | None:
    copy = scene.target
    if copy is None or not copy.is_finished:
        return None
    why = f"copy {copy.name} is {copy.phase} ({copy.reason or 'its containers ended'})"
    return Transition(Trigger.COPY_GONE, why, "CopyGone")


def evicting(scene: Observation) -> Decision:
    if not scene.source_stands:
        return _source_left(scene)
    ended = (
        interrupted(scene)
        or target_lost(scene)
        or _several_budgets(scene)
        or _unsteered(scene)
        or _unguarded(scene)
        or _without_room(scene)
    )
    if ended is None and not scene.source_is_ours:
        # Another process has begun to call it off, and ended before it could say why.
        ended = Transition(Trigger.TIMED_OUT, "called off", "CalledOff")
    if ended is not None:
        return _cancel_eviction(scene, ended)
    if (spent := _exhausted_budget(scene)) is not None:
        return eviction_refused(scene, f"budget {spent.name} allows no disruption now", time_left(scene))
    if (decision := _record_first(scene)) is not None:
        return decision
    source = scene.source
    assert source is not None
    return Perform(EvictSource(PodReference(source.name, source.uid), source.resource_version))


def _record_first(scene: Observation) -> Decision | None:
    """The webhook has to hear of the eviction before the ReplicaSet does."""
    if scene.migration.status.handover is not Handover.ADOPT:
        return None
    requested_at = scene.migration.status.eviction_requested_at
    if requested_at is None or scene.now < requested_at:
        return Perform(RecordEviction())
    if scene.now - requested_at > _MAX_RECORD_AGE:
        # An eviction that was refused: what depends on the guard waits until it guards again.
        again_at = requested_at + GUARD_INTERVAL
        if scene.may_preempt and scene.now < again_at:
            return Wait(again_at, "waits until the webhook guards the handover again")
        return Perform(RecordEviction())
    guarded_at = requested_at + _GUARD_PROPAGATION
    if scene.may_preempt and scene.now < guarded_at:
        return Wait(guarded_at, "lets the webhook hear of the eviction")
    return None


def with_eviction_requested(scene: Observation) -> Migration:
    status = msgspec.structs.replace(scene.migration.status, eviction_requested_at=scene.now)
    return msgspec.structs.replace(scene.migration, status=status)


def depends_on_webhook(scene: Observation) -> bool:
    """Whether the eviction would do harm if the webhook does not answer: then that is found out first."""
    if scene.migration.status.handover is Handover.ADOPT:
        return bool(scene.may_preempt)
    return scene.migration.status.handover is Handover.EVICT and not _may_go_unsteered(scene)


def _exhausted_budget(scene: Observation) -> BudgetRecord | None:
    """A budget that says itself that it allows nothing: its next change is the time to ask."""
    if scene.source is None or not scene.source.is_ready:
        return None  # Pods that are not ready may go even under a budget that is spent.
    return next((each for each in scene.budgets if each.is_current and not each.disruptions_allowed), None)


def eviction_refused(scene: Observation, why: str, pause: timedelta) -> Wait:
    """Until the budget changes; and because what we know of it may be old, asked again after a pause."""
    report = ConditionUpdate(ConditionType.BUDGET_ALLOWS, holds=False, reason="Refused")
    left = time_left(scene)
    # A rollback may ask for the eviction after the deadline of the attempt.
    return Wait(scene.now + (min(pause, left) if left > timedelta() else pause), why, (report,))


def _several_budgets(scene: Observation) -> Transition | None:
    # A pod that has not begun to run is evicted whatever budgets say.
    if len(scene.budgets) > 1 and scene.source is not None and scene.source.phase != "Pending":
        names = ", ".join(sorted(each.name for each in scene.budgets))
        why = f"several budgets cover the pod ({names}): Kubernetes evicts no such pod"
        # With ours among them, a roll-back leaves one fewer.
        final = own_temporary_budget(scene) is None
        return Transition(Trigger.WORKLOAD_CHANGED, why, "SeveralBudgets", final)
    return None


def _unsteered(scene: Observation) -> Transition | None:
    """Nothing tells the replacement where to go: this one would come back at once."""
    if scene.migration.status.handover is not Handover.EVICT or scene.is_steered or _may_go_unsteered(scene):
        return None
    why = f"nothing steers its replacement: {scene.webhook_problem or 'the webhook does not answer'}"
    return Transition(Trigger.WORKLOAD_CHANGED, why, "Unsteered")


def _may_go_unsteered(scene: Observation) -> bool:
    """Where its owner allows it, or where the replacement can't come back."""
    node = scene.nodes.get(scene.migration.spec.source_node)
    is_kept_off = (
        node is not None
        and node.unschedulable
        and scene.source is not None
        and not tolerates_cordon(scene.source.shape.constraints.tolerations)
    )
    return scene.policy.allow_unsteered or is_kept_off


def _unguarded(scene: Observation) -> Transition | None:
    """Its ReplicaSet would create one more pod for a moment, and nothing keeps it from that."""
    if scene.migration.status.handover is not Handover.ADOPT or scene.is_guarded or not scene.may_preempt:
        return None
    problem = f" ({scene.webhook_problem})" if scene.webhook_problem else ""
    why = (
        "the pod that its ReplicaSet creates until it adopts the copy could preempt "
        f"{scene.may_preempt}, and no webhook prevents that{problem}"
    )
    return Transition(Trigger.WORKLOAD_CHANGED, why, SURPLUS_WOULD_PREEMPT)


def _without_room(scene: Observation) -> Transition | None:
    """The room that there was at the check was taken since."""
    return Transition(Trigger.WORKLOAD_CHANGED, scene.no_room, NO_ROOM) if scene.no_room else None


def _source_left(scene: Observation) -> Transition:
    report = ConditionUpdate(ConditionType.BUDGET_ALLOWS, holds=True, reason="Evicted")
    return Transition(Trigger.SOURCE_LEFT, f"the source is {scene.source_end}", reports=(report,))


def _cancel_eviction(scene: Observation, why: Transition) -> Decision:
    source = scene.source
    assert source is not None
    if scene.source_is_marked:
        return Perform(UnlabelSource(PodReference(source.name, source.uid), source.resource_version))
    return why
