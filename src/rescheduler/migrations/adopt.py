"""Adopt: a pod of a ReplicaSet moves make-before-break, and its ReplicaSet takes over the copy."""

from rescheduler.migrations.copies import creating, marking, not_adoptable, placing, settling, starting
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
    holder = "" if copy.owner is None else copy.owner.uid
    if scene.owner_is_gone and holder in {"", scene.migration.uid, owner.uid}:
        return _without_workload(scene, copy, owner)
    if holder == scene.migration.uid:
        return Do(OfferCopy(scene.target_reference))
    if copy.owner is not None:
        return Happened(Event.ADOPTED, f"{copy.owner.kind} {copy.owner.name} has adopted {copy.name}")
    if copy.is_finished:
        return _not_adopted(f"{copy.name} is {copy.phase} ({copy.reason or 'its containers ended'})")
    if why := not_adoptable(scene):
        return _not_adopted(why)
    return Wait(message=f"waits for {owner.kind} {owner.name} to adopt {copy.name}")


def _not_adopted(why: str) -> Happened:
    """To wait for it would be in vain. The copy stays as it is: nothing deletes it after the eviction."""
    report = Report(ConditionType.STEERED, holds=False, reason="TargetMissed")
    return Happened(Event.COPY_GONE, why, reports=(report,))


def _gone(scene: Scene) -> Happened:
    if scene.owner_is_gone:
        return Happened(Event.COPY_GONE, "the workload was deleted, and the copy with it")
    return Happened(
        Event.COPY_GONE,
        "the ReplicaSet had already made a replacement and kept that one: the pods are all there, "
        "but not on the target",
        reports=(Report(ConditionType.STEERED, holds=False, reason="TargetMissed"),),
    )


def _without_workload(scene: Scene, copy: PodRecord, owner: OwnerReference) -> Sight:
    """The ReplicaSet was deleted: what becomes of its pods becomes of the copy.

    With `--cascade=orphan` they stay. Otherwise the garbage collector takes them; from the copy it has only
    taken the ReplicaSet off, because we owned it as well. So that is put back, as the only owner, and the
    collector does what it does with pods whose owner is no more.
    """
    if scene.pods_are_orphaned:
        return Happened(Event.ORPHANED, f"{owner.kind} {owner.name} is gone: {copy.name} stays as it is")
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
