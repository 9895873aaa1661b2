"""What a migration sees, put together from what is followed. Reads nothing itself."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from rescheduler.config.policy import Policy
from rescheduler.controller.followed import ALL, Followed, is_followed
from rescheduler.controller.records import Protection
from rescheduler.kube.resources import Object
from rescheduler.migrations.advance import senseless
from rescheduler.migrations.identity import copy_of, is_temporary_budget, recorded_target
from rescheduler.migrations.interference import is_superseded
from rescheduler.migrations.marks import lock_of, unmarked_labels
from rescheduler.migrations.replacement import keeps_names, replacement_of
from rescheduler.migrations.scene import Scene
from rescheduler.migrations.steps import Step
from rescheduler.model.budgets import BudgetRecord
from rescheduler.model.metadata import Owner, owner_key
from rescheduler.model.migrations import FINALIZER, Migration, OwnerReference, Phase
from rescheduler.model.nodes import NodeRecord
from rescheduler.model.plan import Handover
from rescheduler.model.pods import PodRecord
from rescheduler.model.workloads import WorkloadRecord

__all__ = [
    "covering",
    "held",
    "migration_at",
    "running",
    "scene_of",
    "source_of",
    "target_of",
    "unfinished",
    "workload_key",
]

_ORPHANS: Final = "orphan"
"""The finalizer of an object whose deletion leaves behind what it owns, while that is being done."""


def migration_at(key: str, seen: Followed) -> Migration | None:
    item = seen.migrations.get(key)
    return None if item is None else seen.records.migration(item)


def unfinished(seen: Followed) -> list[Migration]:
    """Those that wait or are under way, in a fixed order."""
    items = seen.migrations.find("unfinished", True)
    return [found for item in items if (found := seen.records.migration(item)) is not None]


def running(seen: Followed) -> list[Migration]:
    """Those that are under way, in a fixed order."""
    items = seen.migrations.find("running", ALL)
    return [found for item in items if (found := seen.records.migration(item)) is not None]


def held(seen: Followed) -> list[Migration]:
    """Those that somebody has to go on with, or else they can't even be deleted. Who makes no sense is not
    gone on with anyway, unless it is cancelled."""
    items = (*seen.migrations.find("unfinished", True), *seen.migrations.informer)
    known = [found for item in items if (found := seen.records.migration(item)) is not None]
    return [
        each
        for each in known
        if (FINALIZER in each.finalizers or each.status.phase is Phase.IN_PROGRESS)
        and (each.is_cancelled or not senseless(each))
    ]


def workload_key(migration: Migration, seen: Followed) -> str:
    """Return which workload the pod belongs to, by its topmost controller; empty if it has none."""
    source = source_of(migration, seen)
    line = _Line(migration, source, seen)
    if line.deployment is not None:
        return "/".join(owner_key(migration.namespace, line.deployment))
    owner = migration.status.owner or (source.owner if source is not None else None)
    return "" if owner is None else "/".join(owner_key(migration.namespace, owner))


def source_of(migration: Migration, seen: Followed) -> PodRecord | None:
    pod = seen.pods.get(migration.pod_key)
    return pod if pod is not None and pod.uid == migration.spec.pod.uid else None


def scene_of(migration: Migration, seen: Followed, policy: Policy, now: datetime) -> Scene:
    """Without its group: that is for whoever keeps count of groups."""
    source, target = source_of(migration, seen), target_of(migration, seen)
    line = _Line(migration, source, seen)
    return Scene(
        migration=migration,
        now=now,
        policy=policy,
        source=source,
        target=target,
        siblings=_siblings(migration, seen),
        owner=line.owner,
        owner_is_followed=line.is_followed,
        deployment=line.deployment,
        pods_are_orphaned=line.is_orphaning or _are_orphaned(line, source, target, seen),
        workload_is_gone=line.workload_is_gone,
        is_superseded=line.is_superseded,
        locked_by=_locked_by(migration, source, seen),
        budgets=_budgets(migration, source, seen),
        nodes=_nodes(migration, target, seen),
    )


# -- the controllers above


class _Line:
    """The controllers above the source, as far as they are there and are still the same."""

    def __init__(self, migration: Migration, source: PodRecord | None, seen: Followed) -> None:
        reference: OwnerReference | Owner | None = migration.status.owner
        if reference is None and source is not None:
            reference = source.owner
        self.is_followed = reference is not None and is_followed(reference)
        self.owner, of_owner = _found(migration.namespace, reference, seen)
        above: OwnerReference | Owner | None = migration.status.workload
        if above is None and self.owner is not None:
            above = self.owner.owner
        self.deployment, of_deployment = _found(migration.namespace, above, seen)
        self.workload_is_gone = migration.status.workload is not None and (
            self.deployment is None or self.deployment.deleted_s is not None
        )
        self.is_orphaning = of_owner is not None and _ORPHANS in (
            of_owner["metadata"].get("finalizers") or ()
        )
        self.is_superseded = bool(of_deployment and of_owner and is_superseded(of_deployment, of_owner))


def _found(
    namespace: str, reference: OwnerReference | Owner | None, seen: Followed
) -> tuple[WorkloadRecord | None, Object | None]:
    if reference is None or not is_followed(reference):
        return None, None
    item = seen.workloads[reference.kind].get(f"{namespace}/{reference.name}")
    if item is None or item["metadata"]["uid"] != reference.uid:
        return None, None
    return seen.records.workload(item, reference.kind), item


def _are_orphaned(line: _Line, source: PodRecord | None, copy: PodRecord | None, seen: Followed) -> bool:
    """Of a controller that is gone: whether it was taken off its pods first. Any of them tells.

    A pod of nobody with the same labels was one of them: the controller would have adopted any other.
    """
    if line.owner is not None or copy is None:
        return False
    if source is not None and source.owner is None:
        return True
    wanted = unmarked_labels(copy).items()
    return any(
        wanted <= pod.labels.items() and pod.uid != copy.uid and not pod.is_terminating
        for pod in seen.pods.find("bare", copy.namespace)
    )


# -- the successor


def target_of(migration: Migration, seen: Followed) -> PodRecord | None:
    """Return the copy, or the replacement of an evicted pod, as far as it is there."""
    if migration.status.handover is Handover.EVICT:
        return _replacement(migration, seen)
    return copy_of(migration, seen.pods.get)


def _locked_by(migration: Migration, source: PodRecord | None, seen: Followed) -> str:
    """Return the other migration that holds the lock on the source: one of that very pod, and under way.

    A label that names any other locks nothing.
    """
    lock = "" if source is None else lock_of(source)
    for item in seen.migrations.find("mark", (migration.namespace, lock)) if lock else ():
        other = seen.records.migration(item)
        if (
            other is not None
            and other.uid != migration.uid
            and other.status.phase is Phase.IN_PROGRESS
            and other.spec.pod.uid == migration.spec.pod.uid
        ):
            return other.name
    return ""


def _siblings(migration: Migration, seen: Followed) -> tuple[PodRecord, ...]:
    owner = migration.status.owner
    if migration.status.handover is not Handover.EVICT or owner is None or keeps_names(owner):
        return ()
    found = seen.pods.find("owner", owner_key(migration.namespace, owner))
    return tuple(pod for pod in found if pod.uid != migration.spec.pod.uid)


def _replacement(migration: Migration, seen: Followed) -> PodRecord | None:
    owner = migration.status.owner
    if migration.status.target_pod is not None:
        recorded = recorded_target(migration, seen.pods.get)
        if recorded is not None or migration.status.step != Step.REPLACING:
            return recorded
        # It was steered in vain, and has made way for another.
    if owner is None or migration.status.handed_over_at is None:
        return None
    of_owner = owner_key(migration.namespace, owner)
    others = (seen.records.migration(item) for item in seen.migrations.find("owner", of_owner))
    spoken_for = {
        other.status.target_pod.uid
        for other in others
        if other is not None and other.key != migration.key and other.status.target_pod is not None
    }
    return replacement_of(migration, seen.pods.find("owner", of_owner), spoken_for)


# -- what is around


def covering(pod: PodRecord, seen: Followed) -> list[BudgetRecord]:
    """The budgets that protect this pod."""
    return [each.budget for each in _protections(pod.namespace, seen) if each.pods.matches(pod.labels)]


def _budgets(migration: Migration, source: PodRecord | None, seen: Followed) -> tuple[BudgetRecord, ...]:
    """Those that cover the source, and ours even after it has gone."""
    return tuple(
        each.budget
        for each in _protections(migration.namespace, seen)
        if (source is not None and each.pods.matches(source.labels))
        or is_temporary_budget(each.budget, migration)
    )


def _protections(namespace: str, seen: Followed) -> list[Protection]:
    found = (seen.records.protection(item) for item in seen.budgets.find("namespace", namespace))
    return [each for each in found if each is not None]


def _nodes(migration: Migration, target: PodRecord | None, seen: Followed) -> Mapping[str, NodeRecord]:
    names = {migration.spec.source_node, migration.target_node, target.node if target is not None else ""}
    return {name: node for name in names if (node := seen.nodes.get(name)) is not None}
