"""Counts a try before it is made: what PlanRun asks before it creates the migration of a failing pod.

A process that ends between the two has counted a try which another process then makes: the failure is known
by the pod's uid, so it is not counted twice.

The record of failed tries, on the object that holds it: one annotation, compared and then exchanged.

Every write names the version that it was worked out from; whoever was slower reads anew and works it out
again. Nothing else of the object is touched.

Copies that failed like the pod that they were made from: each is one more try of its line.

Read off the migrations, which outlive their copies. Only those count that began after the failure of their
source was put on record: what lies before that was forgiven when the pod had recovered.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Any, Final

from rescheduler.api.podmigration import (
    COPY_FAILING,
    ConditionType,
    Handover,
    Migration,
    MigrationPhase,
)
from rescheduler.api.strategy_traits import traits_of
from rescheduler.api.well_known_names import FAILED_ATTEMPTS_ANNOTATION
from rescheduler.cluster.pod_record import PodRecord
from rescheduler.cluster.sources.watched_cluster import WatchedCluster
from rescheduler.cluster.sources.watched_objects import WatchedObjects
from rescheduler.config.policy import Policy
from rescheduler.kube import errors
from rescheduler.kube.api_resources import split_key
from rescheduler.kube.client import Client
from rescheduler.kube.patches import Patch, merge_patch
from rescheduler.kube.read_your_writes import ReadYourWrites
from rescheduler.planner.plan import Move
from rescheduler.recovery import recovery_decision
from rescheduler.recovery.attempt_ledger import AttemptLedger, FailedAttempt, ReplicaLineage
from rescheduler.recovery.controller.owner_trees import POD, OwnerTrees
from rescheduler.recovery.controller.pod_removal import job_forbids_eviction
from rescheduler.recovery.recovery_decision import RetryAllowance
from rescheduler.recovery.replica_lineage import KSE_ANNOTATIONS, revision_of
from rescheduler.recovery.workload_examination import FailingReplica, LedgerHolder, WorkloadExamination

__all__ = ["AttemptRecorder", "LedgerWriter", "failed_copies", "with_failed_copies"]

_MAX_CONFLICTS: Final = 8
"""Controllers write the status of a busy workload several times a second, but not for ever."""

Examine = Callable[[], WorkloadExamination | None]
DesiredLedger = Callable[[WorkloadExamination], AttemptLedger]


class LedgerWriter:
    def __init__(self, client: Client, cluster: WatchedCluster) -> None:
        self._client = client
        self._cluster = cluster

    async def change(self, look: Examine, wanted: DesiredLedger) -> WorkloadExamination | None:
        """What was seen when it was written, or found to be as wanted; None if the holder is gone.

        `look` is asked again after each conflict. Raises `KubeError`, the last `Conflict` among them.
        """
        for left in reversed(range(_MAX_CONFLICTS)):
            seen = look()
            if seen is None:
                return None
            ledger = wanted(seen)
            if ledger == seen.ledger and not seen.is_carried_over and not seen.ledger.is_damaged:
                return seen
            try:
                await self._write(seen.holder, ledger)
            except errors.NotFound:
                return None
            except errors.Conflict:
                if not left:
                    raise
                await self._read(seen.holder)
            else:
                return seen
        return None

    async def _write(self, holder: LedgerHolder, ledger: AttemptLedger) -> None:
        known = self._known(holder)
        item = known.get(holder.key)
        assert item is not None, "it was looked at a moment ago"
        resource = known.informer.resource
        patch = _patch(holder, resource.identify(item).version, ledger)
        known.learn(await self._client.patch(resource, holder.key, patch))

    async def _read(self, holder: LedgerHolder) -> None:
        """By a list of one: whoever follows workloads may do that, and needs no right to get them."""
        known, (namespace, name) = self._known(holder), split_key(holder.key)
        page = await self._client.list(
            known.informer.resource, namespace=namespace, fields=f"metadata.name={name}"
        )
        for item in page.items:
            known.learn(item)
        if not page.items:
            known.learn_gone(holder.key, holder.uid)

    def _known(self, holder: LedgerHolder) -> ReadYourWrites[Any]:
        return self._cluster.followed.pods if holder.kind == POD else self._cluster.workloads[holder.kind]


def _patch(holder: LedgerHolder, version: str, ledger: AttemptLedger) -> Patch:
    annotations: dict[str, str | None] = {FAILED_ATTEMPTS_ANNOTATION: ledger.written(holder.uid) or None}
    older = KSE_ANNOTATIONS.get(holder.kind, "")
    if older in holder.marks:
        annotations[older] = None
    metadata = {"resourceVersion": version, "uid": holder.uid, "annotations": annotations}
    return merge_patch({"metadata": metadata})


_TIMED_OUT: Final = "TimedOut"


def with_failed_copies(
    ledger: AttemptLedger, cases: Iterable[FailingReplica], followed: WatchedObjects
) -> AttemptLedger:
    for case in cases:
        ledger = _with_failed_copies_of(ledger, case, followed)
    return ledger


def _with_failed_copies_of(
    ledger: AttemptLedger, case: FailingReplica, followed: WatchedObjects
) -> AttemptLedger:
    if not isinstance(case.allowance, RetryAllowance):
        return ledger
    known_since_s = _known_since_s(case)
    if known_since_s is None:
        return ledger
    revision = revision_of(case.pod)
    for migration in failed_copies(case.pod, followed):
        status = migration.status
        assert status.target_pod is not None
        assert status.finished_at is not None
        assert status.started_at is not None
        if int(status.started_at.timestamp()) >= known_since_s:
            failure = FailedAttempt(
                int(status.finished_at.timestamp()), status.target_node, status.target_pod.uid
            )
            ledger = ledger.with_failure(case.name, failure, case.retries, revision)
    return ledger


def failed_copies(source: PodRecord, followed: WatchedObjects) -> Iterator[Migration]:
    """The migrations of this pod whose copy could not run, the oldest first."""
    items = followed.migrations.find("pod", (source.namespace, source.name))
    found = [each for item in items if (each := followed.records.migration(item)) is not None]
    for migration in sorted(found, key=lambda each: (each.created, each.name)):
        if migration.spec.pod.uid == source.uid and _copy_failed(migration):
            yield migration


def _copy_failed(migration: Migration) -> bool:
    status = migration.status
    if not traits_of(migration.spec.strategy).recovers or status.phase is not MigrationPhase.FAILED:
        return False
    if status.target_pod is None or status.started_at is None or status.finished_at is None:
        return False
    return status.failure == COPY_FAILING or (status.failure == _TIMED_OUT and not _was_ready(migration))


def _was_ready(migration: Migration) -> bool:
    """Then it was something else that took too long, such as a budget."""
    ready = migration.status.condition(ConditionType.COPY_READY)
    return ready is not None and ready.status == "True"


def _known_since_s(case: FailingReplica) -> int | None:
    return min((each.at_s for each in case.line.tries if each.pod == case.pod.uid), default=None)


class _Refused(Exception):  # noqa: N818 - says what happened to the move
    """Why the move must not be made, in words."""


class AttemptRecorder:
    def __init__(
        self,
        client: Client,
        cluster: WatchedCluster,
        policy: Callable[[], Policy],
        now: Callable[[], datetime],
    ) -> None:
        self._cluster = cluster
        self._policy = policy
        self._now = now
        self._trees = OwnerTrees(cluster)
        self._ledgers = LedgerWriter(client, cluster)

    async def record(self, move: Move, planned_s: float) -> str:
        """Empty if the move may be made, and is on record; else why not. Raises `KubeError`.

        Moves of other strategies are none of its business.
        """
        if not traits_of(move.strategy).recovers:
            return ""
        pod = self._cluster.followed.pods.get(move.pod)
        if pod is None or pod.uid != move.uid:
            return "the pod is gone"
        if move.handover is Handover.EVICT and (why := self._job_forbids(pod)):
            return why
        key = self._trees.key_of(pod)
        if not key:
            return "its workload is not known"
        try:
            seen = await self._ledgers.change(
                lambda: self._look(key), lambda seen: self._with_try(seen, move, planned_s)
            )
        except _Refused as refused:
            return str(refused)
        return "" if seen is not None else "its workload is gone"

    def _look(self, key: str) -> WorkloadExamination | None:
        return self._trees.examine(key, self._policy().failed_pods, self._now().timestamp())

    def _with_try(self, seen: WorkloadExamination, move: Move, planned_s: float) -> AttemptLedger:
        case = next((case for case in seen.cases if case.pod.uid == move.uid), None)
        if case is None:
            raise _Refused("the pod is not failing any more")
        if not isinstance(case.decision, recovery_decision.Reschedule):
            raise _Refused(f"it is not to be moved: {_decision_message(case)}")
        ledger = with_failed_copies(seen.ledger, seen.cases, self._cluster.followed)
        revision = revision_of(case.pod)
        line = ledger.line(case.name, revision)
        if line.end is not None and line.count >= case.retries:
            raise _Refused("its tries are used up: its last copy has failed, too")
        if move.target in line.nodes:
            if _failed_since(line, move.target, planned_s):
                raise _Refused(f"it has failed on {move.target} since the plan was made")
            # Whoever plans knows: there is no other node left for it.
            ledger = ledger.forgiving(case.name)
        failure = case.failure(self._now().timestamp())
        return ledger.with_failure(case.name, failure, case.retries, revision)

    def _job_forbids(self, pod: PodRecord) -> str:
        if pod.owner is None or pod.owner.kind != "Job":
            return ""
        job = self._trees.item("Job", f"{pod.namespace}/{pod.owner.name}")
        return "" if job is None else job_forbids_eviction(job)


def _failed_since(line: ReplicaLineage, node: str | None, moment_s: float) -> bool:
    return any(each.node == node and each.at_s >= moment_s for each in line.tries)


def _decision_message(case: FailingReplica) -> str:
    match case.decision:
        case recovery_decision.NoAction(why=why) | recovery_decision.NotRequested(why=why):
            return why
        case recovery_decision.RetriesExhausted():
            return "its tries are used up"
        case other:
            return type(other).__name__
