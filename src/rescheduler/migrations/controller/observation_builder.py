"""Build the observation of a migration from the caches, without any request.

`DeletedPods` keeps the last state of source pods that were deleted: it shows whether they were deleted or
evicted. It is only a hint, because another process may have watched the deletion.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from rescheduler.api.podmigration import ControllerReference, Handover, Migration, MigrationPhase
from rescheduler.api.well_known_names import FINALIZER
from rescheduler.cluster.budget_record import BudgetRecord
from rescheduler.cluster.node_record import NodeRecord
from rescheduler.cluster.object_meta import OwnerReference, owner_key
from rescheduler.cluster.pod_record import PodRecord
from rescheduler.cluster.sources.watched_objects import (
    ALL_NAMESPACES,
    BudgetWithSelector,
    WatchedObjects,
    is_watched,
)
from rescheduler.cluster.workload_record import WorkloadRecord
from rescheduler.config.policy import Policy
from rescheduler.kube.api_resources import Object
from rescheduler.migrations.interruptions import is_superseded
from rescheduler.migrations.labels_and_names import (
    copy_of,
    is_temporary_budget,
    keeps_names,
    labels_of_template,
    lock_of,
    recorded_target,
    replacement_of,
)
from rescheduler.migrations.observation import Observation
from rescheduler.migrations.state_machine import invalid_status
from rescheduler.migrations.transition_table import MigrationStep

__all__ = [
    "DeletedPods",
    "budgets_covering",
    "migration_at",
    "migrations_to_finish",
    "observe",
    "running_migrations",
    "source_of",
    "target_of",
    "unfinished_migrations",
    "workload_key",
]

_ORPHAN_FINALIZER: Final = "orphan"
"""The finalizer of an object that is being deleted without the objects that it owns."""


def migration_at(key: str, watched: WatchedObjects) -> Migration | None:
    item = watched.migrations.get(key)
    return None if item is None else watched.records.migration(item)


def unfinished_migrations(watched: WatchedObjects) -> list[Migration]:
    """Return the migrations that wait or run, in a fixed order."""
    items = watched.migrations.find("unfinished", True)
    return [found for item in items if (found := watched.records.migration(item)) is not None]


def running_migrations(watched: WatchedObjects) -> list[Migration]:
    """Return the running migrations, in a fixed order."""
    items = watched.migrations.find("running", ALL_NAMESPACES)
    return [found for item in items if (found := watched.records.migration(item)) is not None]


def migrations_to_finish(watched: WatchedObjects) -> list[Migration]:
    """Return the migrations that must continue before they can be deleted; one with an invalid status only
    if it is cancelled."""
    items = (*watched.migrations.find("unfinished", True), *watched.migrations.informer)
    known = [found for item in items if (found := watched.records.migration(item)) is not None]
    return [
        each
        for each in known
        if (FINALIZER in each.finalizers or each.status.phase is MigrationPhase.IN_PROGRESS)
        and (each.is_cancelled or not invalid_status(each))
    ]


def workload_key(migration: Migration, watched: WatchedObjects) -> str:
    """Return which workload the pod belongs to, by its topmost controller; empty if it has none."""
    source = source_of(migration, watched)
    chain = _OwnerChain(migration, source, watched)
    if chain.deployment is not None:
        return "/".join(owner_key(migration.namespace, chain.deployment))
    owner = migration.status.owner or (source.owner if source is not None else None)
    return "" if owner is None else "/".join(owner_key(migration.namespace, owner))


def source_of(migration: Migration, watched: WatchedObjects) -> PodRecord | None:
    pod = watched.pods.get(migration.pod_key)
    return pod if pod is not None and pod.uid == migration.spec.pod.uid else None


def observe(migration: Migration, watched: WatchedObjects, policy: Policy, now: datetime) -> Observation:
    """Return the observation of a migration, without its group, which the dispatcher adds."""
    source, target = source_of(migration, watched), target_of(migration, watched)
    chain = _OwnerChain(migration, source, watched)
    return Observation(
        migration=migration,
        now=now,
        policy=policy,
        source=source,
        target=target,
        siblings=_siblings(migration, watched),
        owner=chain.owner,
        owner_is_watched=chain.is_watched,
        deployment=chain.deployment,
        pods_are_orphaned=chain.is_orphaning or _are_orphaned(chain, source, target, watched),
        workload_is_gone=chain.workload_is_gone,
        is_superseded=chain.is_superseded,
        locked_by=_locked_by(migration, source, watched),
        budgets=_budgets(migration, source, watched),
        nodes=_nodes(migration, target, watched),
    )


# -- the controllers above


class _OwnerChain:
    """The controllers above the source that exist and are still the same."""

    def __init__(self, migration: Migration, source: PodRecord | None, watched: WatchedObjects) -> None:
        reference: ControllerReference | OwnerReference | None = migration.status.owner
        if reference is None and source is not None:
            reference = source.owner
        self.is_watched = reference is not None and is_watched(reference)
        self.owner, of_owner = _controller_and_object(migration.namespace, reference, watched)
        above: ControllerReference | OwnerReference | None = migration.status.workload
        if above is None and self.owner is not None:
            above = self.owner.owner
        self.deployment, of_deployment = _controller_and_object(migration.namespace, above, watched)
        self.workload_is_gone = migration.status.workload is not None and (
            self.deployment is None or self.deployment.deleted_s is not None
        )
        self.is_orphaning = of_owner is not None and _ORPHAN_FINALIZER in (
            of_owner["metadata"].get("finalizers") or ()
        )
        self.is_superseded = bool(of_deployment and of_owner and is_superseded(of_deployment, of_owner))


def _controller_and_object(
    namespace: str, reference: ControllerReference | OwnerReference | None, watched: WatchedObjects
) -> tuple[WorkloadRecord | None, Object | None]:
    if reference is None or not is_watched(reference):
        return None, None
    item = watched.workloads[reference.kind].get(f"{namespace}/{reference.name}")
    if item is None or item["metadata"]["uid"] != reference.uid:
        return None, None
    return watched.records.workload(item, reference.kind), item


def _are_orphaned(
    chain: _OwnerChain, source: PodRecord | None, copy: PodRecord | None, watched: WatchedObjects
) -> bool:
    """Return whether a deleted controller was removed from the owner references of its pods first.

    A pod without a controller and with the same labels was its pod: a controller that exists would have
    adopted such a pod.
    """
    if chain.owner is not None or copy is None:
        return False
    if source is not None and source.owner is None:
        return True
    wanted = labels_of_template(copy).items()
    return any(
        wanted <= pod.labels.items() and pod.uid != copy.uid and not pod.is_terminating
        for pod in watched.pods.find("bare", copy.namespace)
    )


# -- the successor


def target_of(migration: Migration, watched: WatchedObjects) -> PodRecord | None:
    """Return the copy, or the replacement of an evicted pod, if it exists."""
    if migration.status.handover is Handover.EVICT:
        return _replacement(migration, watched)
    return copy_of(migration, watched.pods.get)


def _locked_by(migration: Migration, source: PodRecord | None, watched: WatchedObjects) -> str:
    """Return the other migration that holds the lock on the source: it must be running and name this pod.

    A label that names any other migration locks nothing.
    """
    lock = "" if source is None else lock_of(source)
    for item in watched.migrations.find("mark", (migration.namespace, lock)) if lock else ():
        other = watched.records.migration(item)
        if (
            other is not None
            and other.uid != migration.uid
            and other.status.phase is MigrationPhase.IN_PROGRESS
            and other.spec.pod.uid == migration.spec.pod.uid
        ):
            return other.name
    return ""


def _siblings(migration: Migration, watched: WatchedObjects) -> tuple[PodRecord, ...]:
    owner = migration.status.owner
    if migration.status.handover is not Handover.EVICT or owner is None or keeps_names(owner):
        return ()
    found = watched.pods.find("owner", owner_key(migration.namespace, owner))
    return tuple(pod for pod in found if pod.uid != migration.spec.pod.uid)


def _replacement(migration: Migration, watched: WatchedObjects) -> PodRecord | None:
    owner = migration.status.owner
    if migration.status.target_pod is not None:
        recorded = recorded_target(migration, watched.pods.get)
        if recorded is not None or migration.status.step != MigrationStep.REPLACING:
            return recorded
        # The recorded replacement was deleted without success, and another one may exist.
    if owner is None or migration.status.handed_over_at is None:
        return None
    of_owner = owner_key(migration.namespace, owner)
    others = (watched.records.migration(item) for item in watched.migrations.find("owner", of_owner))
    other_targets = {
        other.status.target_pod.uid
        for other in others
        if other is not None and other.key != migration.key and other.status.target_pod is not None
    }
    return replacement_of(migration, watched.pods.find("owner", of_owner), other_targets)


# -- what is around


def budgets_covering(pod: PodRecord, watched: WatchedObjects) -> list[BudgetRecord]:
    """Return the budgets that protect this pod."""
    return [
        each.budget
        for each in _budgets_with_selectors(pod.namespace, watched)
        if each.pods.matches(pod.labels)
    ]


def _budgets(
    migration: Migration, source: PodRecord | None, watched: WatchedObjects
) -> tuple[BudgetRecord, ...]:
    """Return the budgets that cover the source, and the temporary one even after the source is gone."""
    return tuple(
        each.budget
        for each in _budgets_with_selectors(migration.namespace, watched)
        if (source is not None and each.pods.matches(source.labels))
        # Most budgets have no owner, and a namespace may have hundreds.
        or (each.budget.owners and is_temporary_budget(each.budget, migration))
    )


def _budgets_with_selectors(namespace: str, watched: WatchedObjects) -> list[BudgetWithSelector]:
    found = (watched.records.protection(item) for item in watched.budgets.find("namespace", namespace))
    return [each for each in found if each is not None]


def _nodes(
    migration: Migration, target: PodRecord | None, watched: WatchedObjects
) -> Mapping[str, NodeRecord]:
    names = {migration.spec.source_node, migration.target_node, target.node if target is not None else ""}
    return {name: node for name in names if (node := watched.nodes.get(name)) is not None}


_MAX_DELETED_PODS: Final = 10_000


class DeletedPods:
    def __init__(self, watched: WatchedObjects) -> None:
        self._watched = watched
        self._last: dict[str, PodRecord] = {}
        watched.pods.informer.subscribe(self._on_change)

    def get(self, uid: str) -> PodRecord | None:
        """Return the last state of the pod with that uid; None if its deletion was not observed."""
        return self._last.get(uid)

    def _on_change(self, old: PodRecord | None, new: PodRecord | None) -> None:
        if old is None or (new is not None and new.uid == old.uid):
            return
        if not self._watched.migrations.find("pod", (old.namespace, old.name)):
            return
        while len(self._last) >= _MAX_DELETED_PODS:
            del self._last[next(iter(self._last))]
        self._last[old.uid] = old
