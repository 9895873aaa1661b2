"""The watershed: the source is evicted, or the attempt is called off for good.

Calling off begins by taking our marks off the source, while the step is still Evicting. That raises the
pod's version, so that an eviction which another process may still have in flight is refused: every
eviction names the version that it saw. Only when the source is seen unmarked and standing does the
migration leave this step backwards.
"""

from datetime import timedelta

from rescheduler.migrations.budget_sync import sync_request
from rescheduler.migrations.copies import copy_gone
from rescheduler.migrations.effects import EvictSource, UnmarkSource
from rescheduler.migrations.interference import deadline, interrupted
from rescheduler.migrations.releasing import temporary_budget
from rescheduler.migrations.scene import Do, Happened, Report, Scene, Sight, Wait
from rescheduler.migrations.steps import Event
from rescheduler.migrations.target_node import target_lost
from rescheduler.model.budgets import BudgetRecord
from rescheduler.model.migrations import ConditionType, PodReference
from rescheduler.model.plan import Handover

__all__ = ["evicting", "evicting_beside_copy", "refused"]


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
    ended = interrupted(scene) or _impossible(scene) or _unsteered(scene)
    if ended is None and not scene.source_is_ours:
        # Another process has begun to call it off, and ended before it could say why.
        ended = Happened(Event.TIMED_OUT, "called off", "CalledOff")
    if ended is not None:
        return _called_off(scene, ended)
    if (spent := _spent(scene)) is not None:
        return refused(scene, f"budget {spent.name} allows no disruption now", deadline(scene))
    source = scene.source
    assert source is not None
    return Do(EvictSource(PodReference(source.name, source.uid), source.resource_version))


def _spent(scene: Scene) -> BudgetRecord | None:
    """A budget that says itself that it allows nothing: its next change is the time to ask."""
    if scene.source is None or not scene.source.is_ready:
        return None  # Pods that are not ready may go even under a budget that is spent.
    return next((each for each in scene.budgets if each.is_current and not each.disruptions_allowed), None)


def refused(scene: Scene, why: str, pause: timedelta) -> Wait:
    """Until the budget changes; and because what we know of it may be old, asked again after a pause."""
    report = Report(ConditionType.BUDGET_ALLOWS, holds=False, reason="Refused")
    return Wait(scene.now + min(pause, deadline(scene)), why, (report,))


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
    """Since the check, whoever told replacements where to go has gone: this one would come back at once."""
    node = scene.nodes.get(scene.migration.spec.source_node)
    if (
        scene.migration.status.handover is not Handover.EVICT
        or scene.is_steered
        or scene.policy.allow_unsteered
        or (node is not None and node.unschedulable)
    ):
        return None
    return Happened(Event.WORKLOAD_CHANGED, "nothing steers its replacement any more", "Unsteered")


def _left(scene: Scene) -> Happened:
    report = Report(ConditionType.BUDGET_ALLOWS, holds=True, reason="Evicted")
    return Happened(Event.SOURCE_LEFT, f"the source is {scene.source_end}", reports=(report,))


def _called_off(scene: Scene, why: Happened) -> Sight:
    source = scene.source
    assert source is not None
    if scene.source_is_marked:
        return Do(UnmarkSource(PodReference(source.name, source.uid), source.resource_version))
    return why
