"""Write attempt ledgers: every attempt is recorded before it is made.

If the process ends between the two, the next process makes the recorded attempt. The uid of the pod
identifies the failure, so it is not counted twice.

The ledger is one annotation. Every write has the resourceVersion that it was computed from; after a conflict,
the object is read and the ledger computed again. Nothing else of the object is changed.

A copy that fails like its source is one more attempt. Copies are found through migrations, which exist
longer. Only migrations that started after the failure of their source was recorded count.
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
    traits_of,
)
from rescheduler.api.well_known_names import FAILED_ATTEMPTS_ANNOTATION
from rescheduler.cluster.pod_record import PodRecord
from rescheduler.cluster.sources.watched_cluster import WatchedCluster
from rescheduler.cluster.sources.watched_objects import WatchedObjects
from rescheduler.kube import errors
from rescheduler.kube.api_resources import Patch, merge_patch, split_key
from rescheduler.kube.client import Client
from rescheduler.kube.informer import ReadYourWrites
from rescheduler.migrations.runtime_state import RuntimeStateHolder
from rescheduler.planner.plan import Move
from rescheduler.recovery import recovery_decision
from rescheduler.recovery.attempt_ledger import AttemptLedger, FailedAttempt, ReplicaLineage
from rescheduler.recovery.controller.owner_trees import POD, OwnerTrees, job_forbids_eviction
from rescheduler.recovery.recovery_decision import RetryAllowance
from rescheduler.recovery.replica_lineage import KSE_ANNOTATIONS, revision_of
from rescheduler.recovery.workload_examination import (
    FailingReplica,
    LedgerHolder,
    WorkloadExamination,
    next_action_message,
)

__all__ = ["AttemptRecorder", "LedgerWriter", "failed_copies", "with_failed_copies"]

_MAX_CONFLICTS: Final = 8
"""Controllers write the status of a busy workload several times a second, but not all the time."""


class LedgerWriter:
    def __init__(self, client: Client, cluster: WatchedCluster) -> None:
        self._client = client
        self._cluster = cluster

    async def update(
        self,
        examine: Callable[[], WorkloadExamination | None],
        desired_ledger: Callable[[WorkloadExamination], AttemptLedger],
    ) -> WorkloadExamination | None:
        """Write the desired ledger if it differs, and return the examination that it follows from.

        `examine` is called again after each conflict; None means that the holder does not exist any more.
        Raises `KubeError`, also the last `Conflict`.
        """
        for left in reversed(range(_MAX_CONFLICTS)):
            seen = examine()
            if seen is None:
                return None
            ledger = desired_ledger(seen)
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
        assert item is not None, "it was examined a moment ago"
        resource = known.informer.resource
        patch = _patch(holder, resource.identify(item).version, ledger)
        known.observe(await self._client.patch(resource, holder.key, patch))

    async def _read(self, holder: LedgerHolder) -> None:
        """Read the holder with a list request, so that the role needs no `get` on workloads."""
        known, (namespace, name) = self._known(holder), split_key(holder.key)
        page = await self._client.list(
            known.informer.resource, namespace=namespace, fields=f"metadata.name={name}"
        )
        for item in page.items:
            known.observe(item)
        if not page.items:
            known.observe_deleted(holder.key, holder.uid)

    def _known(self, holder: LedgerHolder) -> ReadYourWrites[Any]:
        return self._cluster.watched.pods if holder.kind == POD else self._cluster.workloads[holder.kind]


def _patch(holder: LedgerHolder, version: str, ledger: AttemptLedger) -> Patch:
    annotations: dict[str, str | None] = {FAILED_ATTEMPTS_ANNOTATION: ledger.written(holder.uid) or None}
    older = KSE_ANNOTATIONS.get(holder.kind, "")
    if older in holder.annotations:
        annotations[older] = None
    metadata = {"resourceVersion": version, "uid": holder.uid, "annotations": annotations}
    return merge_patch({"metadata": metadata})


_TIMED_OUT: Final = "TimedOut"


def with_failed_copies(
    ledger: AttemptLedger, failing: Iterable[FailingReplica], watched: WatchedObjects
) -> AttemptLedger:
    for replica in failing:
        ledger = _with_failed_copies_of(ledger, replica, watched)
    return ledger


def _with_failed_copies_of(
    ledger: AttemptLedger, replica: FailingReplica, watched: WatchedObjects
) -> AttemptLedger:
    if not isinstance(replica.allowance, RetryAllowance):
        return ledger
    known_since_s = _known_since_s(replica)
    if known_since_s is None:
        return ledger
    revision = revision_of(replica.pod)
    for migration in failed_copies(replica.pod, watched):
        status = migration.status
        assert status.target_pod is not None
        assert status.finished_at is not None
        assert status.started_at is not None
        if int(status.started_at.timestamp()) >= known_since_s:
            failure = FailedAttempt(
                int(status.finished_at.timestamp()), status.target_node, status.target_pod.uid
            )
            ledger = ledger.with_failure(replica.name, failure, replica.retries, revision)
    return ledger


def failed_copies(source: PodRecord, watched: WatchedObjects) -> Iterator[Migration]:
    """Yield the migrations of this pod whose copy could not run, the oldest first."""
    items = watched.migrations.find("pod", (source.namespace, source.name))
    found = [each for item in items if (each := watched.records.migration(item)) is not None]
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
    """Return whether the copy was ready: then another step timed out, such as the eviction."""
    ready = migration.status.condition(ConditionType.COPY_READY)
    return ready is not None and ready.status == "True"


def _known_since_s(replica: FailingReplica) -> int | None:
    return min((each.at_s for each in replica.lineage.tries if each.pod == replica.pod.uid), default=None)


class _Refused(Exception):  # noqa: N818 - says what happened to the move
    """Says why the move must not be made."""


class AttemptRecorder:
    def __init__(
        self,
        client: Client,
        cluster: WatchedCluster,
        runtime: RuntimeStateHolder,
        now: Callable[[], datetime],
    ) -> None:
        self._cluster = cluster
        self._runtime = runtime
        self._now = now
        self._trees = OwnerTrees(cluster)
        self._ledgers = LedgerWriter(client, cluster)

    async def record(self, move: Move, planned_s: float) -> str:
        """Record the attempt, and return an empty string; or return why the move must not be made.

        Moves of other strategies need no record. Raises `KubeError`.
        """
        if not traits_of(move.strategy).recovers:
            return ""
        pod = self._cluster.watched.pods.get(move.pod)
        if pod is None or pod.uid != move.uid:
            return "the pod no longer exists"
        if move.handover is Handover.EVICT and (why := self._job_forbids(pod)):
            return why
        key = self._trees.key_of(pod)
        if not key:
            return "its workload is not known"
        try:
            seen = await self._ledgers.update(
                lambda: self._examine(key), lambda seen: self._with_attempt(seen, move, planned_s)
            )
        except _Refused as refused:
            return str(refused)
        return "" if seen is not None else "its workload no longer exists"

    def _examine(self, key: str) -> WorkloadExamination | None:
        return self._trees.examine(key, self._runtime.current.policy.failed_pods, self._now().timestamp())

    def _with_attempt(self, seen: WorkloadExamination, move: Move, planned_s: float) -> AttemptLedger:
        replica = next((replica for replica in seen.failing if replica.pod.uid == move.uid), None)
        if replica is None:
            raise _Refused("the pod no longer fails")
        if not isinstance(replica.decision, recovery_decision.Reschedule):
            raise _Refused(f"the pod must not be moved: {_decision_message(replica)}")
        ledger = with_failed_copies(seen.ledger, seen.failing, self._cluster.watched)
        revision = revision_of(replica.pod)
        lineage = ledger.lineage(replica.name, revision)
        if lineage.end is not None and lineage.count >= replica.retries:
            raise _Refused("it has no attempts left: its last copy failed, too")
        if move.target in lineage.nodes:
            if _failed_since(lineage, move.target, planned_s):
                raise _Refused(f"it failed on {move.target} after the plan was made")
            # The plan was made with this ledger, so there was no other node.
            ledger = ledger.forgiving(replica.name)
        return replica.recorded_in(ledger, self._now().timestamp())

    def _job_forbids(self, pod: PodRecord) -> str:
        if pod.owner is None or pod.owner.kind != "Job":
            return ""
        job = self._trees.item("Job", f"{pod.namespace}/{pod.owner.name}")
        return "" if job is None else job_forbids_eviction(job)


def _failed_since(lineage: ReplicaLineage, node: str | None, moment_s: float) -> bool:
    return any(each.node == node and each.at_s >= moment_s for each in lineage.tries)


def _decision_message(replica: FailingReplica) -> str:
    match replica.decision:
        case recovery_decision.NoAction(why=why) | recovery_decision.NotRequested(why=why):
            return why
        case recovery_decision.RetriesExhausted():
            return "it has no attempts left"
        case _:
            return next_action_message(replica)
