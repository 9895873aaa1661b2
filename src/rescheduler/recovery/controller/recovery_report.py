"""The state of all owner trees: which pods fail, which have no attempts left, and which nodes are suspect.

`ObservedFailures` are the nodes on which migrations have seen pods fail. Ledgers are text of their owners, so
they are compared with it.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rescheduler.api.daemon_status import FailingPod, SuspectNode
from rescheduler.cluster.cluster_state import observed_pod_failures
from rescheduler.cluster.sources.watched_objects import WatchedObjects, object_key
from rescheduler.config.policy import FailedPodsPolicy
from rescheduler.kube.api_resources import Object
from rescheduler.recovery.recovery_decision import NoAction, NotRequested, RetriesExhausted
from rescheduler.recovery.suspect_nodes import find_suspect_nodes, next_expiry_s, workload_failures_of
from rescheduler.recovery.workload_examination import FailingReplica, WorkloadExamination

__all__ = ["ExaminationCache", "FailureListener", "ObservedFailures", "RecoveryReport", "SuspectNodeReport"]


@dataclass(frozen=True, slots=True)
class SuspectNodeReport:
    """A suspect node and why."""

    node: str
    workloads: tuple[str, ...]
    """`Deployment/shop/web`: the workloads that failed there recently."""


@dataclass(frozen=True, slots=True)
class RecoveryReport:
    """What fails in the whole cluster."""

    failing: tuple[FailingPod, ...] = ()
    """Failing pods whose owners ask for recovery, by name; also those without attempts left."""
    exhausted: tuple[str, ...] = ()
    """Pods without attempts left: `namespace/name`."""
    suspects: tuple[SuspectNodeReport, ...] = ()
    changes_s: float | None = None
    """When the suspect nodes may change although nothing happens; None if they won't."""

    @property
    def suspect_nodes(self) -> tuple[SuspectNode, ...]:
        return tuple(
            SuspectNode(each.node, len(each.workloads), ", ".join(each.workloads)) for each in self.suspects
        )


class FailureListener:
    """Receives what a report says. Override the methods that you need."""

    def failing(self, pods: Sequence[FailingPod]) -> None:
        """Receive all pods that fail now."""

    def suspects(self, nodes: Sequence[SuspectNode]) -> None:
        """Receive all nodes that are suspect now."""


class ExaminationCache:
    """The last examination of each owner tree with failures."""

    def __init__(self) -> None:
        self._seen: dict[str, WorkloadExamination] = {}

    def learn(self, key: str, seen: WorkloadExamination | None) -> bool:
        """Store an examination, and return whether it changes the report."""
        before = self._seen.pop(key, None)
        if seen is not None and (seen.failing or seen.ledger.lineages):
            self._seen[key] = seen
        after = self._seen.get(key)
        if before is None or after is None:
            return before is not after
        return _reported_part(before) != _reported_part(after)

    def report(
        self,
        terms: FailedPodsPolicy,
        made_s: Mapping[str, float],
        observed: Mapping[str, Collection[str]],
        now_s: float,
    ) -> RecoveryReport:
        """Summarise all trees. `made_s` says when each node was created; `observed` as in
        `workload_failures_of`."""
        failing = [
            replica
            for _, seen in sorted(self._seen.items())
            for replica in seen.failing
            if _is_requested(replica)
        ]
        witnesses = [workload_failures_of(seen, observed, now_s) for seen in self._seen.values()]
        found = find_suspect_nodes(witnesses, made_s, terms, now_s)
        return RecoveryReport(
            failing=tuple(_failing_pod_status(replica) for replica in failing),
            exhausted=tuple(
                replica.pod.key for replica in failing if isinstance(replica.decision, RetriesExhausted)
            ),
            suspects=tuple(SuspectNodeReport(node, workloads) for node, workloads in found.items()),
            changes_s=next_expiry_s(witnesses, terms, now_s),
        )


def _reported_part(seen: WorkloadExamination) -> tuple[object, ...]:
    return seen.failing, seen.ledger, seen.healthy_nodes


def _is_requested(replica: FailingReplica) -> bool:
    return not isinstance(replica.decision, NotRequested)


def _failing_pod_status(replica: FailingReplica) -> FailingPod:
    match replica.decision:
        case RetriesExhausted():
            message = "no attempts left"
        case NoAction(why=why):
            message = why
        case _:
            message = ""
    return FailingPod(
        pod=replica.pod.key,
        node=replica.pod.node,
        why=replica.failure.message,
        tries=replica.lineage.count,
        allowed=replica.retries,
        message=message,
    )


class ObservedFailures(Mapping[str, Collection[str]]):
    """Nodes on which migrations have seen a pod fail, by its uid. `changed` is a handler for their
    informer."""

    def __init__(self, followed: WatchedObjects) -> None:
        self._records = followed.records
        self._of_migration: dict[str, tuple[tuple[str, str], ...]] = {}
        self._nodes: dict[str, Counter[str]] = {}

    def changed(self, old: Object | None, new: Object | None) -> None:
        item = new or old
        assert item is not None
        key = object_key(item)
        migration = None if new is None else self._records.migration(new)
        found = () if migration is None else tuple(observed_pod_failures(migration))
        before = self._of_migration.pop(key, ())
        if found:
            self._of_migration[key] = found
        for uid, node in found:
            self._nodes.setdefault(uid, Counter())[node] += 1
        for uid, node in before:
            self._nodes[uid][node] -= 1
            self._nodes[uid] = +self._nodes[uid]
            if not self._nodes[uid]:
                del self._nodes[uid]

    def __getitem__(self, uid: str) -> Collection[str]:
        return self._nodes[uid].keys()

    def __iter__(self) -> Iterator[str]:
        return iter(self._nodes)

    def __len__(self) -> int:
        return len(self._nodes)
