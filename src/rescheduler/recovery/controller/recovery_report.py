"""How all families do: who fails, who is given up, and which nodes are suspect. Kept from look to look.

On which nodes pods have failed, as far as our migrations have shown it: kept current by their events.

What is written on workloads about failures is the text of their owners. This is what it is compared with.
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
    node: str
    workloads: tuple[str, ...]
    """`Deployment/shop/web`: those that have failed there of late."""


@dataclass(frozen=True, slots=True)
class RecoveryReport:
    failing: tuple[FailingPod, ...] = ()
    """Those that somebody asked to recover, by name; those that are given up included."""
    exhausted: tuple[str, ...] = ()
    """Pods that have had all their tries: `namespace/name`."""
    suspects: tuple[SuspectNodeReport, ...] = ()
    changes_s: float | None = None
    """When time alone may make a difference to the suspects; None if it won't."""

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
    """What was last seen of each family that is not well."""

    def __init__(self) -> None:
        self._seen: dict[str, WorkloadExamination] = {}

    def learn(self, key: str, seen: WorkloadExamination | None) -> bool:
        """Whether that changes anything for a report."""
        before = self._seen.pop(key, None)
        if seen is not None and (seen.cases or seen.ledger.lines):
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
        """`made_s`: when each node was made. `observed`: as for `witness_of`."""
        cases = [case for _, seen in sorted(self._seen.items()) for case in seen.cases if _is_requested(case)]
        witnesses = [workload_failures_of(seen, observed, now_s) for seen in self._seen.values()]
        found = find_suspect_nodes(witnesses, made_s, terms, now_s)
        return RecoveryReport(
            failing=tuple(_failing_pod_status(case) for case in cases),
            exhausted=tuple(case.pod.key for case in cases if isinstance(case.decision, RetriesExhausted)),
            suspects=tuple(SuspectNodeReport(node, workloads) for node, workloads in found.items()),
            changes_s=next_expiry_s(witnesses, terms, now_s),
        )


def _reported_part(seen: WorkloadExamination) -> tuple[object, ...]:
    return seen.cases, seen.ledger, seen.healthy_nodes


def _is_requested(case: FailingReplica) -> bool:
    return not isinstance(case.decision, NotRequested)


def _failing_pod_status(case: FailingReplica) -> FailingPod:
    match case.decision:
        case RetriesExhausted():
            message = "no try is left"
        case NoAction(why=why):
            message = why
        case _:
            message = ""
    return FailingPod(
        pod=case.pod.key,
        node=case.pod.node,
        why=case.trouble.words,
        tries=case.line.count,
        allowed=case.retries,
        message=message,
    )


class ObservedFailures(Mapping[str, Collection[str]]):
    """Nodes by the uid of the pod. `changed` handles the events of the informer of migrations."""

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
