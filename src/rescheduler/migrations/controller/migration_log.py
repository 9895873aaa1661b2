"""Report the progress of each migration: one log line per step, and Events on the objects concerned.

Every reconciliation recognises steps that were reported before. This module remembers only which were
reported and when; no decision depends on it.
"""

import logging
from collections.abc import Callable
from datetime import datetime
from typing import Final

from rescheduler.api.podmigration import Migration, PodReference, traits_of
from rescheduler.api.well_known_names import GROUP, POD_MIGRATION_KIND, VERSION
from rescheduler.cluster.pod_record import PodRecord
from rescheduler.kube.event_recorder import EventRecorder, InvolvedObject, log_event
from rescheduler.migrations.labels_and_names import MIGRATION_ID_LABEL, lock_of
from rescheduler.migrations.observation import Observation
from rescheduler.migrations.state_machine import step_of
from rescheduler.migrations.transition_table import MigrationStep

__all__ = ["MigrationLog", "StepObserver"]

StepObserver = Callable[[Migration, Migration], None]
"""Called with a migration before and after it reached a step."""

log = logging.getLogger("rescheduler.migrations")

_EVENT_OF_STEP: Final = {
    MigrationStep.MARKING: ("MigrationStarted", False),
    MigrationStep.ADOPTING: ("MigrationHandedOver", False),
    MigrationStep.REPLACING: ("MigrationHandedOver", False),
    MigrationStep.ROLLING_BACK: ("MigrationRolledBack", True),
    MigrationStep.COMPLETED: ("MigrationCompleted", False),
    MigrationStep.FAILED: ("MigrationFailed", True),
}
"""The steps that are logged and written as Events, and whether as a warning."""


class MigrationLog:
    def __init__(self, events: EventRecorder) -> None:
        self.on_step: StepObserver | None = None
        self._events = events
        self._since: dict[str, dict[tuple[int, MigrationStep], datetime]] = {}
        self._left_alone: dict[str, str] = {}

    def record(self, observation: Observation, after: Migration) -> None:
        """Record that the migration reached the step of `after`, because of `observation`."""
        if self._was_recorded(after, observation.now):
            return
        if self.on_step is not None:
            self.on_step(observation.migration, after)
        step, status = step_of(after), after.status
        level = (
            logging.WARNING if step in {MigrationStep.ROLLING_BACK, MigrationStep.FAILED} else logging.INFO
        )
        log_event(
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
        if step in _EVENT_OF_STEP:
            self._write_events(observation, after, step)

    def intercepted(self, observation: Observation) -> None:
        """Report once that another client's eviction of the pod waits for this move."""
        migration = observation.migration
        if (
            not traits_of(migration.spec.strategy).on_eviction
            or migration.status.attempts
            or step_of(migration) is not MigrationStep.QUEUED
            or self._was_recorded(migration, observation.now)
        ):
            return
        pod, node = migration.spec.pod.name, migration.spec.source_node
        words = (
            f"PodMigration {migration.name} moves pod {pod} from {node} to another node before it may be "
            f"evicted; {migration.spec.reason}"
        )
        log_event(
            log, logging.INFO, "EvictionIntercepted", words, migration=migration.key, pod=migration.pod_key
        )
        for subject in [*_event_subjects(observation, migration), InvolvedObject.of_node(node)]:
            self._events.record(subject, "EvictionIntercepted", words)

    def left_alone(self, migration: Migration, why: str) -> None:
        """Log once that a migration can't continue."""
        if self._left_alone.get(migration.uid) == why:
            return
        self._left_alone[migration.uid] = why
        words = f"{why}. The PodMigration is ignored. Delete it to clean up the pods that it labelled"
        log_event(
            log, logging.WARNING, "MigrationIgnored", words, migration=migration.key, pod=migration.pod_key
        )

    def cleaned_up(self, migration: Migration, pod: PodRecord, what: str) -> None:
        """Report that a pod of a migration that was removed by force has been changed."""
        words = f"PodMigration {migration.key} was removed by force; pod {pod.key} was {what}"
        log_event(log, logging.WARNING, "MigrationRemoved", words, migration=migration.key, pod=pod.key)
        subject = InvolvedObject("v1", "Pod", pod.namespace, pod.name, pod.uid)
        self._events.record(subject, "MigrationRemoved", words, warning=True)

    def unexplained(self, pod: PodRecord) -> None:
        """Report a bare pod with the label of a migration that doesn't exist; nothing is changed."""
        name = lock_of(pod)
        words = (
            f"pod {pod.key} has the labels of PodMigration {name}, which does not exist. If the "
            f"PodMigration was removed by force and the pod is a copy that is not needed, delete the pod; "
            f"otherwise remove its label {MIGRATION_ID_LABEL}"
        )
        log_event(log, logging.WARNING, "UnknownMigrationLabel", words, migration=name, pod=pod.key)
        subject = InvolvedObject("v1", "Pod", pod.namespace, pod.name, pod.uid)
        self._events.record(subject, "UnknownMigrationLabel", words, warning=True)

    def since(self, migration: Migration, now: datetime) -> datetime:
        """Return when the migration was first seen at its step."""
        return self._since.get(migration.uid, {}).get(_attempt_and_step(migration), now)

    def forget(self, uid: str) -> None:
        self._since.pop(uid, None)
        self._left_alone.pop(uid, None)

    def _was_recorded(self, migration: Migration, now: datetime) -> bool:
        recorded = self._since.setdefault(migration.uid, {})
        if _attempt_and_step(migration) in recorded:
            return True
        recorded[_attempt_and_step(migration)] = now
        return False

    def _write_events(self, observation: Observation, after: Migration, step: MigrationStep) -> None:
        reason, warning = _EVENT_OF_STEP[step]
        spec, target = after.spec, after.target_node
        route = f"from {spec.source_node}" + (f" to {target}" if target else "")
        message = f"{after.name} ({spec.strategy}) moves {spec.pod.name} {route}"
        detail = after.status.message or spec.reason
        for subject in _event_subjects(observation, after):
            self._events.record(
                subject, reason, f"{message}: {detail}" if detail else message, warning=warning
            )


def _attempt_and_step(migration: Migration) -> tuple[int, MigrationStep]:
    return migration.status.attempts, step_of(migration)


def _event_subjects(observation: Observation, after: Migration) -> list[InvolvedObject]:
    """Return the migration, the pod and its workload; and the nodes when the migration begins and ends."""
    namespace, step = after.namespace, step_of(after)
    pod = after.status.target_pod if step is MigrationStep.COMPLETED else None
    itself = InvolvedObject(f"{GROUP}/{VERSION}", POD_MIGRATION_KIND, namespace, after.name, after.uid)
    found = [itself, _pod_subject(namespace, pod or after.spec.pod)]
    workload = observation.deployment or observation.owner
    if workload is not None:
        found.append(
            InvolvedObject(workload.api_version, workload.kind, namespace, workload.name, workload.uid)
        )
    if step in {MigrationStep.MARKING, MigrationStep.COMPLETED, MigrationStep.FAILED}:
        nodes = [name for name in (after.spec.source_node, after.target_node) if name]
        found += [InvolvedObject.of_node(name) for name in nodes]
    return found


def _pod_subject(namespace: str, pod: PodReference) -> InvolvedObject:
    return InvolvedObject("v1", "Pod", namespace, pod.name, pod.uid)
