"""Migrations that are handed over together or not at all: pods that are of no use one by one."""

from rescheduler.migrations.scene import Happened, Scene
from rescheduler.migrations.steps import Event, Step
from rescheduler.model.migrations import Migration, Phase

__all__ = ["all_settled", "partner_failed"]

_SETTLED = frozenset({Step.SETTLING, Step.EVICTING, Step.ADOPTING, Step.RELEASING, Step.COMPLETED})
_HANDED_OVER = frozenset({Step.ADOPTING, Step.REPLACING, Step.RELEASING, Step.COMPLETED})


def all_settled(scene: Scene) -> bool:
    """As the others have recorded it: being settled is written down by members of a group."""
    if not scene.migration.spec.group:
        return True
    arrived = sum(each.status.step in _SETTLED for each in _others(scene))
    return 1 + arrived >= scene.migration.spec.group_size


def partner_failed(scene: Scene) -> Happened | None:
    """As long as none has been handed over, one that fails calls off all."""
    others = _others(scene)
    if any(each.status.step in _HANDED_OVER for each in others):
        return None
    for each in others:
        if each.status.phase is Phase.FAILED or each.status.step == Step.ROLLING_BACK:
            why = f"{each.name} of the same group failed: {each.status.message}"
            return Happened(Event.PARTNER_FAILED, why, "PartnerFailed", each.status.failure_is_final)
    return None


def _others(scene: Scene) -> list[Migration]:
    return [each for each in scene.group if each.key != scene.migration.key]
