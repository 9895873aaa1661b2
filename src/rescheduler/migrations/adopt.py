"""Adopt: a pod of a ReplicaSet moves make-before-break, and its ReplicaSet takes over the copy."""

from rescheduler.migrations.copies import creating, marking, placing, settling, starting
from rescheduler.migrations.effects import OfferCopy, ReturnCopy
from rescheduler.migrations.evicting import evicting_beside_copy
from rescheduler.migrations.releasing import releasing
from rescheduler.migrations.scene import Do, Happened, Report, Scene, Sight, Wait
from rescheduler.migrations.steps import Event, Step
from rescheduler.model.migrations import ConditionType, OwnerReference
from rescheduler.model.pods import PodRecord

__all__ = ["LOOKS"]


def adopting(scene: Scene) -> Sight:
    """From here on nothing may delete the copy: it is one of the pods that serve."""
    copy, owner = scene.target, scene.migration.status.owner
    assert owner is not None
    if copy is None or copy.is_terminating:
        return _gone(scene)
    if scene.owner_is_gone and scene.workload_is_gone:
        return _left_to_the_garbage_collector(scene, copy, owner)
    if copy.owner is not None and copy.owner.uid == scene.migration.uid:
        return Do(OfferCopy(scene.target_reference))
    if copy.owner is not None:
        return Happened(Event.ADOPTED, f"{copy.owner.kind} {copy.owner.name} has adopted {copy.name}")
    if scene.owner_is_gone:
        return Happened(Event.ORPHANED, f"{owner.kind} {owner.name} is gone: {copy.name} stays as it is")
    return Wait(message=f"waits for {owner.kind} {owner.name} to adopt {copy.name}")


def _gone(scene: Scene) -> Happened:
    if scene.owner_is_gone:
        return Happened(Event.COPY_GONE, "the workload was deleted, and the copy with it")
    return Happened(
        Event.COPY_GONE,
        "the ReplicaSet had already made a replacement and kept that one: the pods are all there, "
        "but not on the target",
        reports=(Report(ConditionType.STEERED, holds=False, reason="TargetMissed"),),
    )


def _left_to_the_garbage_collector(scene: Scene, copy: PodRecord, owner: OwnerReference) -> Sight:
    """Deployment and ReplicaSet were deleted, and with them would have gone all their pods.

    The collector has taken the ReplicaSet off the copy, because we owned it as well: it is put back, as the
    only owner, and the collector does what it does with pods whose owner is no more.
    """
    if [each.uid for each in copy.owners] == [owner.uid]:
        return Wait(message=f"{copy.name} goes the way of its workload")
    return Do(ReturnCopy(scene.target_reference, owner))


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
