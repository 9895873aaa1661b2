"""A roll-back never removes a ready copy while its source is not ready: the copy may be the last ready pod.

Where the source has a ReplicaSet, the copy is offered to it: the ReplicaSet adopts the copy and removes one
pod too many by itself, the one that is not ready first. A pod without a controller has nobody who would do
that. Its copy is kept until the source is ready again, and then removed; if the source is not ready again
within migrationTimeout, the source is evicted and the copy takes its place.
"""

from datetime import datetime

from rescheduler.api.podmigration import ConditionType, Handover, PodReference
from rescheduler.api.well_known_names import SCHEDULING_GATE
from rescheduler.migrations.effects import EvictSource, RemoveSchedulingGate
from rescheduler.migrations.interruptions import SOURCE_GONE, wants_no_pods
from rescheduler.migrations.make_before_break import source_lost, why_not_adoptable
from rescheduler.migrations.observation import (
    ConditionUpdate,
    Decision,
    Observation,
    Perform,
    Transition,
    Wait,
)
from rescheduler.migrations.transition_table import Trigger

__all__ = ["is_overdue", "overdue_at", "retained"]


def retained(scene: Observation) -> Decision | None:
    """Return what a roll-back does instead of removing the copy; None if the copy may be removed."""
    if scene.copy_is_all_that_is_left and scene.migration.status.failure != SOURCE_GONE:
        return _keep(scene)
    if not _is_only_ready_pod(scene) or wants_no_pods(scene) or why_not_adoptable(scene):
        return None
    if scene.migration.status.owner is not None and not scene.owner_is_gone:
        return _offered(scene)
    if scene.source_stands:
        return _until_source_is_ready(scene)
    is_orphaned = scene.migration.status.handover is Handover.ADOPT and not scene.source_was_deleted
    return _taken_over(scene) if is_orphaned else None


def _is_only_ready_pod(scene: Observation) -> bool:
    """Of the two; and the copy is still the migration's own."""
    copy = scene.target
    return (
        scene.migration.status.handover in {Handover.ADOPT, Handover.COPY}
        and copy is not None
        and (copy.owner is None or copy.owner.uid == scene.migration.uid)
        and copy.is_ready
        and not copy.is_terminating
        and not scene.node_is_lost(copy.node)
        and not scene.source_serves
    )


def _keep(scene: Observation) -> Decision:
    """Of a pod of which only the copy is left: it stays, wherever it is."""
    assert scene.target is not None
    if SCHEDULING_GATE in scene.target.shape.scheduling_gates:
        return Perform(RemoveSchedulingGate(scene.target_reference))
    return source_lost(scene)


def _offered(scene: Observation) -> Decision:
    source = scene.source
    if scene.source_stands and source is not None and source.is_ready and not is_overdue(scene):
        # The ReplicaSet does not look at nodes. As long as the pod on the lost node counts as ready, it would
        # remove the younger one of the two: the copy.
        return Wait(overdue_at(scene), f"{_words(scene)}; waits until the pod counts as not ready")
    return _taken_over(scene)


def _until_source_is_ready(scene: Observation) -> Decision:
    if not is_overdue(scene):
        return Wait(overdue_at(scene), f"{_words(scene)}; it is removed when the pod is ready again")
    source = scene.source
    assert source is not None
    return Perform(EvictSource(PodReference(source.name, source.uid), source.resource_version))


def _taken_over(scene: Observation) -> Transition:
    report = ConditionUpdate(ConditionType.COPY_READY, holds=True, reason="Ready")
    return Transition(Trigger.SOURCE_LOST, f"{_words(scene)} and takes its place", reports=(report,))


def _words(scene: Observation) -> str:
    assert scene.target is not None
    pod, failure = scene.migration.spec.pod.name, scene.migration.status.failure
    return f"pod {pod} is {scene.source_trouble}: the rollback ({failure}) keeps copy {scene.target.name}"


def is_overdue(scene: Observation) -> bool:
    """Neither a budget or source that does not recover, nor a finalizer of others on the copy, may hold the
    way back for ever."""
    moment = overdue_at(scene)
    return moment is not None and scene.now >= moment


def overdue_at(scene: Observation) -> datetime | None:
    since = scene.migration.status.step_since
    return None if since is None else since + scene.policy.migration_timeout
