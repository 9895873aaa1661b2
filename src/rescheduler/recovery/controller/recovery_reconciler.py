"""One family: look at all its pods together, put on record what is new, then do what is to be done.

    look ─▶ failures that nobody else records ─┐
         ─▶ copies that failed, too ───────────┼─▶ one write of the ledger ─▶ restart, remove, tell
         ─▶ lines that have recovered ─────────┘

First on record, then acted upon: whoever takes over after a crash finds the try counted, and does what was
still to be done. Moves are not made here: the strategy FailedPods proposes them, and `recording` counts them.

New pods that find no place because we keep them off the nodes that were tried.

Better where it failed before than nowhere: the nodes are forgotten, and the pod, which never ran, is made
anew by its controller, without our exclusions.

Pods that are never touched, however badly they do: asked before anything that is not a planned move.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from rescheduler.api.strategy_traits import traits_of
from rescheduler.api.well_known_names import STEERED_BY_ANNOTATION
from rescheduler.cluster.node_exclusions import avoided_nodes
from rescheduler.cluster.pod_record import PodRecord
from rescheduler.cluster.sources.watched_cluster import WatchedCluster
from rescheduler.cluster.sources.watched_objects import WatchedObjects
from rescheduler.config.policy import Policy
from rescheduler.kube.client import Client
from rescheduler.planner.protections.eligibility import Eligibility
from rescheduler.planner.reasons import Reason
from rescheduler.recovery.attempt_ledger import AttemptLedger
from rescheduler.recovery.controller.attempt_recorder import LedgerWriter, with_failed_copies
from rescheduler.recovery.controller.owner_trees import OwnerTrees
from rescheduler.recovery.controller.pod_removal import PodRemover
from rescheduler.recovery.controller.recovery_events import RecoveryEvents
from rescheduler.recovery.recovery_decision import ForceDelete, RecordOnly, RestartInPlace, RetriesExhausted
from rescheduler.recovery.replica_lineage import has_identity, revision_of
from rescheduler.recovery.workload_examination import FailingReplica, WorkloadExamination

__all__ = [
    "RecoveryReconciler",
    "is_handled_by_migration",
    "is_stuck_pending",
    "protected_because",
    "stuck_pending_at_s",
    "with_nodes_forgotten",
]


def stuck_pending_at_s(pod: PodRecord, patience: timedelta) -> float | None:
    """When it counts as stuck if it finds no place until then; None for pods that we keep off no node."""
    scheduled = pod.condition("PodScheduled")
    if pod.node or pod.is_terminating or scheduled is None or scheduled.reason != "Unschedulable":
        return None
    return scheduled.since_s + patience.total_seconds() if avoided_nodes(pod.marks) else None


def is_stuck_pending(pod: PodRecord, patience: timedelta, now_s: float) -> bool:
    at_s = stuck_pending_at_s(pod, patience)
    return at_s is not None and now_s >= at_s


def is_handled_by_migration(pod: PodRecord, seen: WatchedObjects) -> bool:
    """A move that is under way has it made anew itself; and what other strategies steer is none of ours."""
    if STEERED_BY_ANNOTATION not in pod.marks:
        return False
    item = seen.migrations.get(f"{pod.namespace}/{pod.marks[STEERED_BY_ANNOTATION]}")
    migration = None if item is None else seen.records.migration(item)
    return migration is None or not traits_of(migration.spec.strategy).recovers or not migration.is_finished


def with_nodes_forgotten(ledger: AttemptLedger, pod: PodRecord) -> AttemptLedger:
    """Of every line because of which it is kept off."""
    nodes = set(avoided_nodes(pod.marks))
    for name, line in ledger.lines.items():
        if nodes.intersection(line.nodes):
            ledger = ledger.forgiving(name, last_too=True)
    return ledger


_ALWAYS_PROTECTED: Final = frozenset(
    {
        Reason.MIRROR_POD,
        Reason.NOT_SAFE_TO_EVICT,
        Reason.DO_NOT_DISRUPT,
        Reason.EXCLUDED_NAMESPACE,
        Reason.SYSTEM_POD,
        Reason.PRIORITY_TOO_HIGH,
        Reason.OPTED_OUT,
        Reason.EXCLUDED_BY_SELECTOR,
    }
)
"""What does not depend on how a pod would leave its node, nor on where it would go."""


def protected_because(cluster: WatchedCluster, policy: Policy, pod: PodRecord) -> str:
    """Why it stays as it is, in words; empty if nothing protects it."""
    snapshot = cluster.snapshot()
    row = snapshot.pods.row.get(pod.key)
    if row is None or snapshot.pods.records[row].uid != pod.uid:
        return "it is not known any more"
    refusals = Eligibility(snapshot, policy, urgent=True, recovering=True).refusals(row)
    return next((each.detail for each in refusals if each.reason in _ALWAYS_PROTECTED), "")


_BY_US: Final = (RestartInPlace, ForceDelete)
"""What is done here, and not by a migration or by the pod's own controller."""
_ON_RECORD: Final = (*_BY_US, RecordOnly, RetriesExhausted)
_ASK_AGAIN_S: Final = 30.0
"""While nothing may be begun."""


class RecoveryReconciler:
    def __init__(
        self,
        client: Client,
        cluster: WatchedCluster,
        policy: Callable[[], Policy],
        telling: RecoveryEvents,
        now: Callable[[], datetime],
        *,
        may_act: Callable[[], bool] = lambda: True,
    ) -> None:
        """`may_act` is False while nothing is to be begun."""
        self._cluster = cluster
        self._policy = policy
        self._recovery_events = telling
        self._now = now
        self._may_act = may_act
        self._trees = OwnerTrees(cluster)
        self._ledgers = LedgerWriter(client, cluster)
        self._remover = PodRemover(client, cluster.followed)

    async def reconcile(self, key: str) -> tuple[WorkloadExamination | None, float | None]:
        """What was seen, and when to look again if nothing changes before. Raises `KubeError`."""
        if self._policy().dry_run or not self._may_act():
            # Nobody tells us when that is over.
            seen = self._look(key)
            return seen, None if seen is None else self._now().timestamp() + _ASK_AGAIN_S
        seen = await self._ledgers.change(lambda: self._look(key), self._wanted)
        if seen is None:
            return None, None
        self._recovery_events.tell(seen)
        for case in seen.cases:
            if isinstance(case.decision, _BY_US) and self._is_ours(case):
                await self._act(case)
        for pod in self._stuck(seen):
            if not is_handled_by_migration(pod, self._cluster.followed):
                await self._remover.remove_unplaced(pod, self._trees)
        return seen, self._check_again_at_s(seen)

    def _look(self, key: str) -> WorkloadExamination | None:
        return self._trees.examine(key, self._policy().failed_pods, self._now().timestamp())

    # -- what is to be on record

    def _wanted(self, seen: WorkloadExamination) -> AttemptLedger:
        now_s = self._now().timestamp()
        # First what is over: a line that fails anew begins anew.
        ledger = with_failed_copies(seen.ledger.without(seen.recovered), seen.cases, self._cluster.followed)
        for case in seen.cases:
            if _is_to_be_recorded(case) and self._is_ours(case):
                failure = case.failure(now_s)
                ledger = ledger.with_failure(case.name, failure, case.retries, revision_of(case.pod))
        for pod in self._stuck(seen):
            ledger = with_nodes_forgotten(ledger, pod)
        return ledger

    def _is_ours(self, case: FailingReplica) -> bool:
        return not protected_because(self._cluster, self._policy(), case.pod)

    # -- what is to be done

    async def _act(self, case: FailingReplica) -> None:
        match case.decision:
            case RestartInPlace() if not case.pod.is_terminating:
                if await self._remover.restart(case.pod):
                    self._recovery_events.restarted(case)
            case ForceDelete() if await self._remover.remove_from_lost_node(case.pod):
                self._recovery_events.removed(case)

    def _stuck(self, seen: WorkloadExamination) -> list[PodRecord]:
        patience, now_s = self._policy().steer_timeout, self._now().timestamp()
        return [
            pod
            for pod in self._trees.pods_of(seen.holder)
            if is_stuck_pending(pod, patience, now_s) and not self._trees.excludes_nodes_itself(pod)
        ]

    def _check_again_at_s(self, seen: WorkloadExamination) -> float | None:
        patience, now_s = self._policy().steer_timeout, self._now().timestamp()
        times = [stuck_pending_at_s(pod, patience) for pod in self._trees.pods_of(seen.holder)]
        ahead = [each for each in (*times, seen.check_again_at_s) if each is not None and each > now_s]
        return min(ahead, default=None)


def _is_to_be_recorded(case: FailingReplica) -> bool:
    if isinstance(case.decision, ForceDelete) and not has_identity(case.pod):
        # It is on its way out, and its place is taken: to clean up after it is no rescheduling.
        return False
    return isinstance(case.decision, _ON_RECORD) and not case.is_on_record
