"""The story of each migration, as it is told: one log line per step, and Events on what it concerns.

Steps are recognised from the cluster at every look, so one that was told already comes by again. What is
remembered here is only what was told and when; nothing is ever decided by it.
"""

import logging
from datetime import datetime
from typing import Final

from rescheduler.controller.events import EventWriter, Subject
from rescheduler.migrations.advance import step_of
from rescheduler.migrations.marks import ID, lock_of
from rescheduler.migrations.scene import Scene
from rescheduler.migrations.steps import Step
from rescheduler.model.migrations import Migration, PodReference
from rescheduler.model.pods import PodRecord
from rescheduler.model.saying import say

__all__ = ["Story"]

log = logging.getLogger("rescheduler.migrations")

_EVENTS: Final = {
    Step.MARKING: ("MigrationStarted", False),
    Step.ADOPTING: ("MigrationHandedOver", False),
    Step.REPLACING: ("MigrationHandedOver", False),
    Step.ROLLING_BACK: ("MigrationRolledBack", True),
    Step.COMPLETED: ("MigrationCompleted", False),
    Step.FAILED: ("MigrationFailed", True),
}
"""The steps that people are told of, and whether as a warning."""


class Story:
    def __init__(self, events: EventWriter) -> None:
        self._events = events
        self._since: dict[str, dict[tuple[int, Step], datetime]] = {}
        self._left_alone: dict[str, str] = {}

    def tell(self, scene: Scene, after: Migration) -> None:
        """It has come to the step that `after` is at; `scene` is what led there."""
        if self._was_told(after, scene.now):
            return
        step, status = step_of(after), after.status
        level = logging.WARNING if step in {Step.ROLLING_BACK, Step.FAILED} else logging.INFO
        say(
            log,
            level,
            "MigrationStep",
            status.message or str(step),
            migration=after.key,
            pod=after.pod_key,
            source=after.spec.source_node,
            target=after.target_node,
            strategy=after.spec.strategy,
            handover=str(status.handover or after.spec.handover),
            attempt=status.attempts,
            step=str(step),
        )
        if step in _EVENTS:
            self._write_events(scene, after, step)

    def left_alone(self, migration: Migration, why: str) -> None:
        """Nobody can go on with it: said once."""
        if self._left_alone.get(migration.uid) == why:
            return
        self._left_alone[migration.uid] = why
        words = f"{why}. It is left alone; once it is deleted, what it has marked is tidied up"
        say(log, logging.WARNING, "MigrationLeftAlone", words, migration=migration.key, pod=migration.pod_key)

    def cleaned_up(self, migration: Migration, pod: PodRecord, what: str) -> None:
        """A pod of a migration that was removed by force has been changed."""
        words = f"PodMigration {migration.key} was removed while it was under way; pod {pod.key}: {what}"
        say(log, logging.WARNING, "MigrationRemoved", words, migration=migration.key, pod=pod.key)
        subject = Subject("v1", "Pod", pod.namespace, pod.name, pod.uid)
        self._events.tell(subject, "MigrationRemoved", words, warning=True)

    def unexplained(self, pod: PodRecord) -> None:
        """A bare pod says that a migration moves it which does not exist: nothing is changed."""
        name = lock_of(pod)
        words = (
            f"pod {pod.key} carries the marks of PodMigration {name}, which does not exist. If the "
            f"PodMigration was removed by force and the pod is a copy that is not needed, delete the pod; "
            f"otherwise remove its label {ID}"
        )
        say(log, logging.WARNING, "MarksUnexplained", words, migration=name, pod=pod.key)
        subject = Subject("v1", "Pod", pod.namespace, pod.name, pod.uid)
        self._events.tell(subject, "MarksUnexplained", words, warning=True)

    def since(self, migration: Migration, now: datetime) -> datetime:
        """Since when it was seen at its step."""
        return self._since.get(migration.uid, {}).get(_place(migration), now)

    def forget(self, uid: str) -> None:
        self._since.pop(uid, None)
        self._left_alone.pop(uid, None)

    def _was_told(self, migration: Migration, now: datetime) -> bool:
        told = self._since.setdefault(migration.uid, {})
        if _place(migration) in told:
            return True
        told[_place(migration)] = now
        return False

    def _write_events(self, scene: Scene, after: Migration, step: Step) -> None:
        reason, warning = _EVENTS[step]
        spec, target = after.spec, after.target_node
        course = f"from {spec.source_node}" + (f" to {target}" if target else "")
        message = f"{after.name} ({spec.strategy}) moves {spec.pod.name} {course}"
        detail = after.status.message or spec.reason
        for subject in _subjects(scene, after, step):
            self._events.tell(subject, reason, f"{message}: {detail}" if detail else message, warning=warning)


def _place(migration: Migration) -> tuple[int, Step]:
    return migration.status.attempts, step_of(migration)


def _subjects(scene: Scene, after: Migration, step: Step) -> list[Subject]:
    """The pod, its workload; and the nodes when it begins and ends."""
    namespace = after.namespace
    pod = after.status.target_pod if step is Step.COMPLETED else None
    found = [_of_pod(namespace, pod or after.spec.pod)]
    workload = scene.deployment or scene.owner
    if workload is not None:
        found.append(Subject(workload.api_version, workload.kind, namespace, workload.name, workload.uid))
    if step in {Step.MARKING, Step.COMPLETED, Step.FAILED}:
        nodes = [name for name in (after.spec.source_node, after.target_node) if name]
        found += [Subject.of_node(name) for name in nodes]
    return found


def _of_pod(namespace: str, pod: PodReference) -> Subject:
    return Subject("v1", "Pod", namespace, pod.name, pod.uid)
