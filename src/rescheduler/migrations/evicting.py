"""The watershed: the source is evicted, or the attempt is called off for good.

Calling off begins by taking our marks off the source, while the step is still Evicting. That raises the
pod's version, so that an eviction which another process may still have in flight is refused: every
eviction names the version that it saw. Only when the source is seen unmarked and standing does the
migration leave this step backwards.
"""

from datetime import timedelta
from typing import Final

import msgspec

from rescheduler.migrations.budget_sync import sync_request
from rescheduler.migrations.copies import copy_gone
from rescheduler.migrations.effects import EvictSource, RecordEviction, UnmarkSource
from rescheduler.migrations.interference import deadline, interrupted
from rescheduler.migrations.releasing import temporary_budget
from rescheduler.migrations.scene import Do, Happened, Report, Scene, Sight, Wait
from rescheduler.migrations.steps import Event
from rescheduler.migrations.target_node import target_lost
from rescheduler.model.budgets import BudgetRecord
from rescheduler.model.migrations import ConditionType, Migration, PodReference
from rescheduler.model.plan import Handover
from rescheduler.rules.taints import tolerates_cordon

__all__ = [
    "GUARD_INTERVAL",
    "NO_ROOM",
    "SURPLUS_WOULD_PREEMPT",
    "depends_on_webhook",
    "evicting",
    "evicting_beside_copy",
    "refused",
    "with_eviction_requested",
]

SURPLUS_WOULD_PREEMPT: Final = "SurplusWouldPreempt"
"""The failure of a migration whose ReplicaSet would create a pod that preempts others."""

NO_ROOM: Final = "NoRoomForReplacement"
"""The failure of a migration whose pod would be evicted and find no node."""

_RECORD_HOLDS: Final = timedelta(seconds=3)
"""An eviction is asked for so long after it was put on record at most: the webhook guards the handover for a
few seconds from then on."""

GUARD_INTERVAL: Final = timedelta(seconds=30)
"""From one window in which the webhook guards a handover to the next of the same migration."""

_GUARD_LEAD: Final = timedelta(milliseconds=500)
"""How long every replica of the webhook is given to hear of the eviction, where others depend on that."""


def evicting_beside_copy(scene: Scene) -> Sight:
    """Adopt and Copy: only as long as the copy serves."""
    if not scene.source_stands:
        return _left(scene)
    lost = copy_gone(scene) or _copy_ended(scene) or target_lost(scene)
    if lost is not None:
        return _called_off(scene, lost)
    assert scene.target is not None
    if not scene.target.is_ready:
        ended = interrupted(scene)
        if ended is not None:
            return _called_off(scene, ended)
        return Wait(scene.now + deadline(scene), f"waits for copy {scene.target.name} to be ready again")
    sight = evicting(scene)
    if isinstance(sight, Wait) or (isinstance(sight, Do) and isinstance(sight.effect, EvictSource)):
        assert scene.source is not None
        return (sync_request(scene) if scene.source.is_ready else None) or sight
    return sight


def _copy_ended(scene: Scene) -> Happened | None:
    copy = scene.target
    if copy is None or not copy.is_finished:
        return None
    why = f"copy {copy.name} is {copy.phase} ({copy.reason or 'its containers ended'})"
    return Happened(Event.COPY_GONE, why, "CopyGone")


def evicting(scene: Scene) -> Sight:
    if not scene.source_stands:
        return _left(scene)
    ended = (
        interrupted(scene)
        or target_lost(scene)
        or _impossible(scene)
        or _unsteered(scene)
        or _unguarded(scene)
        or _without_room(scene)
    )
    if ended is None and not scene.source_is_ours:
        # Another process has begun to call it off, and ended before it could say why.
        ended = Happened(Event.TIMED_OUT, "called off", "CalledOff")
    if ended is not None:
        return _called_off(scene, ended)
    if (spent := _spent(scene)) is not None:
        return refused(scene, f"budget {spent.name} allows no disruption now", deadline(scene))
    if (sight := _unrecorded(scene)) is not None:
        return sight
    source = scene.source
    assert source is not None
    return Do(EvictSource(PodReference(source.name, source.uid), source.resource_version))


def _unrecorded(scene: Scene) -> Sight | None:
    """The webhook has to hear of the eviction before the ReplicaSet does."""
    if scene.migration.status.handover is not Handover.ADOPT:
        return None
    requested_at = scene.migration.status.eviction_requested_at
    if requested_at is None or scene.now < requested_at:
        return Do(RecordEviction())
    if scene.now - requested_at > _RECORD_HOLDS:
        # An eviction that was refused: what depends on the guard waits until it guards again.
        again_at = requested_at + GUARD_INTERVAL
        if scene.may_preempt and scene.now < again_at:
            return Wait(again_at, "waits until the webhook guards the handover again")
        return Do(RecordEviction())
    guarded_at = requested_at + _GUARD_LEAD
    if scene.may_preempt and scene.now < guarded_at:
        return Wait(guarded_at, "lets the webhook hear of the eviction")
    return None


def with_eviction_requested(scene: Scene) -> Migration:
    status = msgspec.structs.replace(scene.migration.status, eviction_requested_at=scene.now)
    return msgspec.structs.replace(scene.migration, status=status)


def depends_on_webhook(scene: Scene) -> bool:
    """Whether the eviction would do harm if the webhook does not answer: then that is found out first."""
    if scene.migration.status.handover is Handover.ADOPT:
        return bool(scene.may_preempt)
    return scene.migration.status.handover is Handover.EVICT and not _may_go_unsteered(scene)


def _spent(scene: Scene) -> BudgetRecord | None:
    """A budget that says itself that it allows nothing: its next change is the time to ask."""
    if scene.source is None or not scene.source.is_ready:
        return None  # Pods that are not ready may go even under a budget that is spent.
    return next((each for each in scene.budgets if each.is_current and not each.disruptions_allowed), None)


def refused(scene: Scene, why: str, pause: timedelta) -> Wait:
    """Until the budget changes; and because what we know of it may be old, asked again after a pause."""
    report = Report(ConditionType.BUDGET_ALLOWS, holds=False, reason="Refused")
    left = deadline(scene)
    # A rollback may ask for the eviction after the deadline of the attempt.
    return Wait(scene.now + (min(pause, left) if left > timedelta() else pause), why, (report,))


def _impossible(scene: Scene) -> Happened | None:
    # A pod that has not begun to run is evicted whatever budgets say.
    if len(scene.budgets) > 1 and scene.source is not None and scene.source.phase != "Pending":
        names = ", ".join(sorted(each.name for each in scene.budgets))
        why = f"several budgets cover the pod ({names}): Kubernetes evicts no such pod"
        # With ours among them, a roll-back leaves one fewer.
        final = temporary_budget(scene) is None
        return Happened(Event.WORKLOAD_CHANGED, why, "SeveralBudgets", final)
    return None


def _unsteered(scene: Scene) -> Happened | None:
    """Nothing tells the replacement where to go: this one would come back at once."""
    if scene.migration.status.handover is not Handover.EVICT or scene.is_steered or _may_go_unsteered(scene):
        return None
    why = f"nothing steers its replacement: {scene.webhook_problem or 'the webhook does not answer'}"
    return Happened(Event.WORKLOAD_CHANGED, why, "Unsteered")


def _may_go_unsteered(scene: Scene) -> bool:
    """Where its owner allows it, or where the replacement can't come back."""
    node = scene.nodes.get(scene.migration.spec.source_node)
    is_kept_off = (
        node is not None
        and node.unschedulable
        and scene.source is not None
        and not tolerates_cordon(scene.source.shape.constraints.tolerations)
    )
    return scene.policy.allow_unsteered or is_kept_off


def _unguarded(scene: Scene) -> Happened | None:
    """Its ReplicaSet would create one more pod for a moment, and nothing keeps it from that."""
    if scene.migration.status.handover is not Handover.ADOPT or scene.is_guarded or not scene.may_preempt:
        return None
    problem = f" ({scene.webhook_problem})" if scene.webhook_problem else ""
    why = (
        "the pod that its ReplicaSet creates until it adopts the copy could preempt "
        f"{scene.may_preempt}, and no webhook prevents that{problem}"
    )
    return Happened(Event.WORKLOAD_CHANGED, why, SURPLUS_WOULD_PREEMPT)


def _without_room(scene: Scene) -> Happened | None:
    """The room that there was at the check was taken since."""
    return Happened(Event.WORKLOAD_CHANGED, scene.no_room, NO_ROOM) if scene.no_room else None


def _left(scene: Scene) -> Happened:
    report = Report(ConditionType.BUDGET_ALLOWS, holds=True, reason="Evicted")
    return Happened(Event.SOURCE_LEFT, f"the source is {scene.source_end}", reports=(report,))


def _called_off(scene: Scene, why: Happened) -> Sight:
    source = scene.source
    assert source is not None
    if scene.source_is_marked:
        return Do(UnmarkSource(PodReference(source.name, source.uid), source.resource_version))
    return why
