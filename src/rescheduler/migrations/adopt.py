"""Adopt: a pod of a ReplicaSet moves make-before-break, and its ReplicaSet takes over the copy."""

from rescheduler.migrations.copies import creating, marking, placing, settling, starting
from rescheduler.migrations.effects import OfferCopy
from rescheduler.migrations.evicting import evicting_beside_copy
from rescheduler.migrations.releasing import releasing
from rescheduler.migrations.scene import Do, Happened, Scene, Sight, Wait
from rescheduler.migrations.steps import Event, Step

__all__ = ["LOOKS"]


def adopting(scene: Scene) -> Sight:
    """From here on nothing may delete the copy: it is one of the pods that serve."""
    copy = scene.target
    if copy is None or copy.is_terminating:
        return Happened(
            Event.COPY_GONE,
            "the ReplicaSet had already made a replacement and kept that one: the pods are all there, "
            "but not on the target",
            "TargetMissed",
        )
    owner = scene.migration.status.owner
    assert owner is not None
    if copy.owner is not None and copy.owner.uid == owner.uid:
        return Happened(Event.ADOPTED, f"{owner.kind} {owner.name} has adopted {copy.name}")
    if copy.owner is not None and copy.owner.uid == scene.migration.uid:
        return Do(OfferCopy(scene.target_reference))
    if scene.owner is None or scene.owner.deleted_s is not None:
        return Happened(Event.ORPHANED, f"{owner.kind} {owner.name} is gone: {copy.name} stays as it is")
    return Wait(message=f"waits for {owner.kind} {owner.name} to adopt {copy.name}")


LOOKS = {
    Step.MARKING: marking,
    Step.CREATING: creating,
    Step.PLACING: placing,
    Step.STARTING: starting,
    Step.SETTLING: settling,
    Step.EVICTING: evicting_beside_copy,
    Step.ADOPTING: adopting,
    Step.RELEASING: releasing,
}
