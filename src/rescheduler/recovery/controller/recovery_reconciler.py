"""Reconcile one owner tree: examine its pods, record what is new, then act.

    examination ─▶ failures that need no move ─┐
                ─▶ failed copies ──────────────┼─▶ one write of the ledger ─▶ restart, remove, report
                ─▶ recovered lineages ─────────┘

Attempts are recorded before they are made, so that the next process continues after a crash. Moves are not
made here: the strategy FailedPods proposes them, and `attempt_recorder` counts them.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from rescheduler.api.podmigration import traits_of
from rescheduler.api.well_known_names import STEERED_BY_ANNOTATION
from rescheduler.cluster.codecs.record_resources import NODES, PODS
from rescheduler.cluster.pod_constraints import avoided_nodes
from rescheduler.cluster.pod_record import PodRecord
from rescheduler.cluster.snapshot import profile_of
from rescheduler.cluster.sources.watched_cluster import WatchedCluster
from rescheduler.cluster.sources.watched_objects import WatchedObjects
from rescheduler.config.policy import Policy
from rescheduler.kube import errors
from rescheduler.kube.client import Client
from rescheduler.migrations.runtime_state import RuntimeStateHolder
from rescheduler.planner.protections.eligibility import Eligibility
from rescheduler.planner.reasons import ALWAYS_PROTECTED
from rescheduler.recovery.attempt_ledger import AttemptLedger
from rescheduler.recovery.controller.attempt_recorder import LedgerWriter, with_failed_copies
from rescheduler.recovery.controller.owner_trees import OwnerTrees, job_forbids_eviction
from rescheduler.recovery.controller.recovery_report import RecoveryEvents
from rescheduler.recovery.recovery_decision import (
    ForceDelete,
    RecordOnly,
    RestartInPlace,
    RetriesExhausted,
    is_confirmed_down,
)
from rescheduler.recovery.replica_lineage import has_identity
from rescheduler.recovery.workload_examination import FailingReplica, WorkloadExamination

__all__ = [
    "PodRemover",
    "RecoveryReconciler",
    "is_handled_by_migration",
    "is_stuck_pending",
    "protected_because",
    "stuck_pending_at_s",
    "with_nodes_forgotten",
]


def stuck_pending_at_s(pod: PodRecord, patience: timedelta) -> float | None:
    """Return when a pending pod counts as stuck; None unless rescheduler excludes nodes for it."""
    scheduled = pod.condition("PodScheduled")
    if pod.node or pod.is_terminating or scheduled is None or scheduled.reason != "Unschedulable":
        return None
    return scheduled.since_s + patience.total_seconds() if avoided_nodes(pod.annotations) else None


def is_stuck_pending(pod: PodRecord, patience: timedelta, now_s: float) -> bool:
    at_s = stuck_pending_at_s(pod, patience)
    return at_s is not None and now_s >= at_s


def is_handled_by_migration(pod: PodRecord, seen: WatchedObjects) -> bool:
    """Return whether a migration handles the pending pod: a running one, or one of another strategy."""
    if STEERED_BY_ANNOTATION not in pod.annotations:
        return False
    item = seen.migrations.get(f"{pod.namespace}/{pod.annotations[STEERED_BY_ANNOTATION]}")
    migration = None if item is None else seen.records.migration(item)
    return migration is None or not traits_of(migration.spec.strategy).recovers or not migration.is_finished


def with_nodes_forgotten(ledger: AttemptLedger, pod: PodRecord) -> AttemptLedger:
    """Return the ledger without the nodes that are excluded for this pod: a node on which it failed is better
    than none."""
    nodes = set(avoided_nodes(pod.annotations))
    for name, lineage in ledger.lineages.items():
        if nodes.intersection(lineage.nodes):
            ledger = ledger.forgiving(name, last_too=True)
    return ledger


def protected_because(cluster: WatchedCluster, policy: Policy, pod: PodRecord) -> str:
    """Return why a pod must not be touched; empty if nothing protects it."""
    snapshot = cluster.snapshot()
    row = snapshot.pods.row.get(pod.key)
    if row is None or snapshot.pods.records[row].uid != pod.uid:
        return "it no longer exists"
    policy = profile_of(snapshot, policy, pod.namespace, pod.node)
    refusals = Eligibility(snapshot, policy, urgent=True, recovering=True).refusals(row)
    return next((each.detail for each in refusals if each.reason in ALWAYS_PROTECTED), "")


class PodRemover:
    """Removes pods without a migration, each after a live read, by its uid and resourceVersion."""

    def __init__(self, client: Client, seen: WatchedObjects) -> None:
        self._client = client
        self._seen = seen

    async def restart(self, pod: PodRecord) -> bool:
        """Evict a pod within its budget, and return whether it was evicted. Raises `BudgetRefused`, to be
        retried."""
        live = await self._live(pod)
        if live is None or live.is_terminating or live.resource_version != pod.resource_version:
            return False  # It has changed: examine it first.
        try:
            await self._client.evict(pod.key, uid=pod.uid, version=pod.resource_version)
        except (errors.NotFound, errors.Conflict):
            await self._seen.read_pod(pod.key, pod.uid)
            return False
        await self._seen.read_pod(pod.key, pod.uid)
        return True

    async def remove_from_lost_node(self, pod: PodRecord) -> bool:
        """Force-delete a pod unless its node is ready again, and return whether it was deleted.

        A pod with an identity must never run twice, so the confirmation on its node is read live, too.
        """
        live = await self._live(pod)
        if live is None or live.node != pod.node:
            return False
        node = await self._client.get_or_none(NODES, pod.node)
        if node is not None and (node.is_ready or (has_identity(live) and not is_confirmed_down(node))):
            return False
        return await self._delete(live, grace_s=0)

    async def remove_unplaced(self, pod: PodRecord, trees: OwnerTrees) -> bool:
        """Delete a pod that can't be scheduled, and return whether it was deleted. Its controller creates
        another."""
        live = await self._live(pod)
        if live is None or live.node or live.is_terminating or pod.owner is None:
            return False
        job = trees.item("Job", f"{pod.namespace}/{pod.owner.name}") if pod.owner.kind == "Job" else None
        if job is not None and job_forbids_eviction(job):
            return False
        return await self._delete(live)

    async def _live(self, pod: PodRecord) -> PodRecord | None:
        await self._seen.read_pod(pod.key, pod.uid)
        live = self._seen.pods.get(pod.key)
        return live if live is not None and live.uid == pod.uid else None

    async def _delete(self, pod: PodRecord, *, grace_s: int | None = None) -> bool:
        try:
            await self._client.delete(
                PODS, pod.key, uid=pod.uid, version=pod.resource_version, grace_s=grace_s
            )
        except (errors.NotFound, errors.Conflict):
            await self._seen.read_pod(pod.key, pod.uid)
            return False
        await self._seen.read_pod(pod.key, pod.uid)
        return True


_PERFORMED_HERE: Final = (RestartInPlace, ForceDelete)
"""Decisions that the reconciler performs itself, and not a migration or the controller of the pod."""
_RECORDED_HERE: Final = (*_PERFORMED_HERE, RecordOnly, RetriesExhausted)
_ASK_AGAIN_S: Final = 30.0
"""Seconds between two attempts while recovery is paused."""


class RecoveryReconciler:
    def __init__(
        self,
        client: Client,
        cluster: WatchedCluster,
        runtime: RuntimeStateHolder,
        recovery_events: RecoveryEvents,
        now: Callable[[], datetime],
    ) -> None:
        self._cluster = cluster
        self._runtime = runtime
        self._recovery_events = recovery_events
        self._now = now
        self._trees = OwnerTrees(cluster)
        self._ledgers = LedgerWriter(client, cluster)
        self._remover = PodRemover(client, cluster.watched)

    async def reconcile(self, key: str) -> tuple[WorkloadExamination | None, float | None]:
        """Return the examination, and when to repeat it if nothing changes. Raises `KubeError`."""
        if not self._runtime.current.may_act:
            # No event reports when acting is allowed again.
            seen = self._examine(key)
            return seen, None if seen is None else self._now().timestamp() + _ASK_AGAIN_S
        seen = await self._ledgers.update(lambda: self._examine(key), self._desired_ledger)
        if seen is None:
            return None, None
        self._recovery_events.record(seen)
        for replica in seen.failing:
            if isinstance(replica.decision, _PERFORMED_HERE) and self._may_touch(replica):
                await self._act(replica)
        for pod in self._stuck(seen):
            if not is_handled_by_migration(pod, self._cluster.watched):
                await self._remover.remove_unplaced(pod, self._trees)
        return seen, self._check_again_at_s(seen)

    def _examine(self, key: str) -> WorkloadExamination | None:
        return self._trees.examine(key, self._runtime.current.policy.failed_pods, self._now().timestamp())

    def _desired_ledger(self, seen: WorkloadExamination) -> AttemptLedger:
        now_s = self._now().timestamp()
        # Remove recovered lineages first, so that a lineage that fails again starts from zero.
        ledger = with_failed_copies(seen.ledger.without(seen.recovered), seen.failing, self._cluster.watched)
        for replica in seen.failing:
            if _is_to_be_recorded(replica) and self._may_touch(replica):
                ledger = replica.recorded_in(ledger, now_s)
        for pod in self._stuck(seen):
            ledger = with_nodes_forgotten(ledger, pod)
        return ledger

    def _may_touch(self, replica: FailingReplica) -> bool:
        return not protected_because(self._cluster, self._runtime.current.policy, replica.pod)

    async def _act(self, replica: FailingReplica) -> None:
        match replica.decision:
            case RestartInPlace() if not replica.pod.is_terminating:
                if await self._remover.restart(replica.pod):
                    self._recovery_events.restarted(replica)
            case ForceDelete() if await self._remover.remove_from_lost_node(replica.pod):
                self._recovery_events.removed(replica)

    def _stuck(self, seen: WorkloadExamination) -> list[PodRecord]:
        patience, now_s = self._runtime.current.policy.steer_timeout, self._now().timestamp()
        return [
            pod
            for pod in self._trees.pods_of(seen.holder)
            if is_stuck_pending(pod, patience, now_s) and not self._trees.excludes_nodes_itself(pod)
        ]

    def _check_again_at_s(self, seen: WorkloadExamination) -> float | None:
        patience, now_s = self._runtime.current.policy.steer_timeout, self._now().timestamp()
        times = [stuck_pending_at_s(pod, patience) for pod in self._trees.pods_of(seen.holder)]
        ahead = [each for each in (*times, seen.check_again_at_s) if each is not None and each > now_s]
        return min(ahead, default=None)


def _is_to_be_recorded(replica: FailingReplica) -> bool:
    if isinstance(replica.decision, ForceDelete) and not has_identity(replica.pod):
        # It is terminating and already replaced: removing it is no rescheduling.
        return False
    return isinstance(replica.decision, _RECORDED_HERE) and not replica.is_on_record
