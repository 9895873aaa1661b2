"""Check that pods which rescheduler removed left as many ready pods as promised.

A removal is the revision at which a pod gets its deletionTimestamp, or is gone at once. It is checked by the
state of the cluster at exactly that revision. The removal of a ready pod is right if one of these holds:

- the workload still has as many ready pods as it asks for (replicas; one for a bare pod), on nodes that are
  there and Ready, or
- the other pod of the migration (the copy of a source, the source of a copy) is ready and stays, on a node
  that is there and Ready: then there are as many ready pods as there would be without the move, or
- the handover is Evict, and what its budget promises remains; without a budget, all replicas but one, or but
  as many as the configuration lets be evicted at once without a temporary budget.

In addition no eviction may leave fewer healthy pods than a budget demands, unless others have removed some
within the seconds before: budgets are computed with a delay.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from tests.e2e.chaos.api_observer import ApiObserver
from tests.e2e.chaos.audit_trail import AuditedRequest, removal_of
from tests.e2e.chaos.object_versions import MigrationState, PodState

__all__ = ["CheckedRemovals", "Removal", "check_preemptions", "check_removals", "removals"]

IN_FLIGHT = timedelta(seconds=1)
"""What is lost so shortly before an eviction can't be known to the client that has sent it."""
BUDGET_LAG = timedelta(seconds=5)
"""Within this time the disruption controller has computed a budget again."""
PREEMPTED_WITHIN = timedelta(seconds=10)


class Removal(NamedTuple):
    pod: PodState
    """As it was just before."""
    revision: int
    seen_at: datetime
    by: AuditedRequest | None
    was_evicted: bool
    was_preempted: bool


class CheckedRemovals(NamedTuple):
    removal: Removal
    migration: MigrationState | None
    left: int
    promised: int
    fault: str
    """Empty if it was right."""
    is_race: bool = False
    """What had to be there was lost while the request was on its way."""

    def __str__(self) -> str:
        pod, by = self.removal.pod, self.removal.by
        who = by.user.rpartition(":")[2] if by else "a request that is not in the audit log"
        move = self.migration
        about = f" for {move.key} ({move.handover}, {move.step}, copy {move.copy})" if move else ""
        return (
            f"{self.removal.seen_at:%H:%M:%S.%f} revision {self.removal.revision}: pod {pod.key} "
            f"on {pod.node}, removed by {who}{about}: "
            f"{self.left} ready left, promised {self.promised}: {self.fault}"
        )


def removals(seen: ApiObserver, requests: Iterable[AuditedRequest]) -> list[Removal]:
    by_pod: dict[str, list[AuditedRequest]] = defaultdict(list)
    for each in requests:
        if each.removes_pod:
            by_pod[each.key].append(each)
    found = []
    for before, after in seen.pods.ever():
        pod, then = before.state, after.state
        if pod is None or pod.is_leaving or (then is not None and not then.is_leaving):
            continue
        asked_at = (then.removal_asked_at if then else None) or after.seen_at
        was_evicted = then.was_evicted if then else pod.was_evicted
        candidates = by_pod[pod.key]
        by = removal_of(candidates, asked_at, was_evicted=was_evicted) or removal_of(
            candidates, asked_at, was_evicted=not was_evicted
        )
        preempted = then.was_preempted if then else pod.was_preempted
        found.append(Removal(pod, after.revision, after.seen_at, by, was_evicted, preempted))
    return sorted(found, key=lambda each: each.revision)


def check_removals(seen: ApiObserver, found: list[Removal], *, unbudgeted: int = 1) -> list[CheckedRemovals]:
    """Those that rescheduler has asked for, of pods that were ready.

    `unbudgeted` says how many pods of a workload without a budget may be evicted at once.
    """
    checks = _RemovalChecks(seen, found, unbudgeted)
    return [checks.check(each) for each in found if each.pod.serves and checks.is_reschedulers(each)]


def check_preemptions(found: list[Removal]) -> list[str]:
    """Pods that had to make room for the pod that a ReplicaSet creates during a handover."""
    faults = []
    for victim in (each for each in found if each.was_preempted):
        before = [each for each in found if each.revision < victim.revision]
        higher = [each for each in before if each.pod.priority > victim.pod.priority]
        recent = [each for each in higher if victim.seen_at - each.seen_at < PREEMPTED_WITHIN]
        if recent and all(each.by is not None and each.by.is_reschedulers for each in recent):
            faults.append(
                f"{victim.seen_at:%H:%M:%S.%f} pod {victim.pod.key} was preempted after the eviction of "
                f"{recent[-1].pod.key}"
            )
    return faults


@dataclass
class _RemovalChecks:
    seen: ApiObserver
    found: list[Removal]
    unbudgeted: int

    def is_reschedulers(self, removal: Removal) -> bool:
        if removal.by is not None and removal.by.user.endswith(":generic-garbage-collector"):
            return removal.pod.is_migrations  # which nothing but the end of its PodMigration explains
        if removal.by is not None:
            return removal.by.is_reschedulers
        # An API server that was killed has not always written down what it had done before.
        return removal.was_evicted and self._migration(removal) is not None

    def check(self, removal: Removal) -> CheckedRemovals:
        others = [each for each in self._siblings(removal) if each.serves]
        nodes = {each.name for each in self.seen.nodes.at(removal.revision) if each.is_ready}
        on_nodes = sum(each.node in nodes for each in others)
        migration = self._migration(removal)
        desired = self._desired(removal)
        budgets = self._desired_healthy(removal)
        if migration is not None and migration.handover == "Evict":
            promised = max(budgets, default=max(0, desired - self.unbudgeted))
            missing = promised - len(others)
            if missing > 0 and self._taken_by_others(removal) < missing:
                return CheckedRemovals(
                    removal, migration, len(others), promised, "fewer than the budget promises"
                )
            return CheckedRemovals(removal, migration, len(others), promised, "")
        fault, is_race = "", False
        if on_nodes < desired:
            fault, is_race = self._without_partner(removal, migration, nodes)
        # A copy that is deleted leaves a budget as it was before the move, met or not.
        missing = max(budgets, default=0) - len(others) if removal.was_evicted else 0
        if not fault and missing > 0 and self._taken_by_others(removal) < missing:
            fault = f"a budget demands {max(budgets)} healthy pods"
        return CheckedRemovals(removal, migration, on_nodes, desired, fault, is_race)

    # -- what was there

    def _siblings(self, removal: Removal) -> Iterator[PodState]:
        for each in self.seen.pods.at(removal.revision):
            if each.workload == removal.pod.workload and each.uid != removal.pod.uid:
                yield each

    def _migration(self, removal: Removal) -> MigrationState | None:
        """The one that names the pod, and was not finished then; of several the one that was under way."""
        uid = removal.pod.uid
        named = [
            each
            for each in self.seen.migrations.at(removal.revision)
            if uid in (each.pod_uid, each.copy_uid) and not each.is_finished
        ]
        return max(named, key=lambda each: (each.phase == "InProgress", each.copy_uid != ""), default=None)

    def _desired(self, removal: Removal) -> int:
        """Return the replicas of exactly the pod's workload, not of a new one with the same name."""
        # The garbage collector takes references to owners that are gone off a pod that has another one.
        versions = [each.state for each in self.seen.pods.versions[removal.pod.uid] if each.state]
        uids = [uid for each in versions for kind, uid in each.owners if kind != "PodMigration"]
        if not uids:
            return 1
        owner = self.seen.workloads.get(uids[0], removal.revision)
        if owner is not None and owner.parent:
            owner = None if owner.is_leaving else self.seen.workloads.get(owner.parent, removal.revision)
        return 0 if owner is None or owner.is_leaving else owner.replicas

    def _desired_healthy(self, removal: Removal) -> list[int]:
        """Return the least that each budget demanded while the request was on its way."""
        pod, since = removal.pod, removal.seen_at - IN_FLIGHT
        demanded = []
        for each in self.seen.budgets.at(removal.revision):
            if (each.namespace, each.app) != (pod.namespace, pod.app) or not each.is_computed:
                continue
            recent = [
                version.state.desired_healthy
                for version in self.seen.budgets.versions[each.uid]
                if version.state is not None
                and since < version.seen_at
                and version.revision <= removal.revision
            ]
            demanded.append(min([each.desired_healthy, *recent]))
        return demanded

    def _taken_by_others(self, removal: Removal) -> int:
        """Pods of this workload that stopped serving within the seconds before, but not by rescheduler."""
        since = removal.seen_at - BUDGET_LAG
        ours = {each.revision for each in self.found if self.is_reschedulers(each)}
        return sum(
            before.state is not None
            and before.state.workload == removal.pod.workload
            and before.state.serves
            and (after.state is None or not after.state.serves)
            and since < after.seen_at
            and after.revision < removal.revision
            and after.revision not in ours
            for before, after in self.seen.pods.ever()
        )

    # -- the other pod of a migration

    def _without_partner(
        self, removal: Removal, migration: MigrationState | None, nodes: set[str]
    ) -> tuple[str, bool]:
        """Why the other pod does not stand in for this one; empty if it does."""
        if migration is None:
            return "no unfinished migration names it", False
        is_source = migration.pod_uid == removal.pod.uid
        uid, role = (migration.copy_uid, "copy") if is_source else (migration.pod_uid, "source")
        if not uid:
            return f"the migration has no {role}", False
        partner = self.seen.pods.get(uid, removal.revision)
        if partner is None or not partner.serves:
            return f"its {role} is not ready", self._was_just_lost(uid, removal)
        if partner.node in nodes:
            return "", False
        return f"node {partner.node} of its {role} is lost", self._node_was_just_lost(partner.node, removal)

    def _was_just_lost(self, uid: str, removal: Removal) -> bool:
        since = self._sent_at(removal)
        known = [each for each in self.seen.pods.versions.get(uid, ()) if each.revision <= removal.revision]
        return any(each.state is not None and each.state.serves for each in known) and any(
            each.seen_at > since for each in known if each.state is None or not each.state.serves
        )

    def _node_was_just_lost(self, name: str, removal: Removal) -> bool:
        since = self._sent_at(removal)
        return any(
            before.state is not None
            and before.state.name == name
            and before.state.is_ready
            and (after.state is None or not after.state.is_ready)
            and since < after.seen_at
            and after.revision <= removal.revision
            for before, after in self.seen.nodes.ever()
        )

    @staticmethod
    def _sent_at(removal: Removal) -> datetime:
        return (removal.by.received if removal.by else removal.seen_at) - IN_FLIGHT
