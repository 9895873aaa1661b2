"""Suspect nodes: nodes on which several workloads fail, so that the node is the likely cause.

Failures that are the workload's own fault don't count against a node:

- A workload that fails on several nodes and runs on no other says nothing about any of them. Each template
  counts by itself: pods of the last rollout may run while those of the next one fail.
- If more than half of all nodes would be suspect, none is: the cause is something that they share, such as a
  registry.
- A failure from before a node was created belongs to another node of the same name.

A tenant can't make a node suspect. What a ledger says counts only if rescheduler has observed it: the pod
fails there now, or a migration has moved it away from there. And the workloads must be of several namespaces.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import inf
from typing import Final

from rescheduler.config.policy import FailedPodsPolicy
from rescheduler.recovery.recovery_decision import NotRequested
from rescheduler.recovery.workload_examination import WorkloadExamination

__all__ = ["FailureOnNode", "WorkloadFailures", "find_suspect_nodes", "next_expiry_s", "workload_failures_of"]

_FEWEST_NAMESPACES: Final = 2


@dataclass(frozen=True, slots=True)
class FailureOnNode:
    """One failure of a workload on a node."""

    node: str
    at_s: float
    revision: str = ""
    """The revision of the pod template."""
    is_observed: bool = True
    """Whether rescheduler has observed it, and not only read it on the workload."""


@dataclass(frozen=True, slots=True)
class WorkloadFailures:
    """Where a workload fails, and where it runs."""

    workload: str
    """`Deployment/shop/web`."""
    namespace: str
    failures: tuple[FailureOnNode, ...]
    """The recorded failures and the present ones."""
    healthy_nodes: Mapping[str, frozenset[str]]
    """Nodes on which its pods are ready, by template."""


def workload_failures_of(
    seen: WorkloadExamination, observed: Mapping[str, Collection[str]], now_s: float
) -> WorkloadFailures:
    """Return where a workload fails. Pods whose owners don't ask for recovery don't count.

    `observed` are the nodes from which migrations have moved failing pods, by the uid of the pod.
    """
    on_record = (
        FailureOnNode(each.node, each.at_s, lineage.revision, each.node in observed.get(each.pod, ()))
        for lineage in seen.ledger.lineages.values()
        for each in lineage.failures
        if each.node
    )
    going_on = (
        FailureOnNode(replica.pod.node, now_s, replica.revision)
        for replica in seen.failing
        if not isinstance(replica.decision, NotRequested)
    )
    holder = seen.holder
    workload, namespace = f"{holder.kind}/{holder.key}", holder.key.partition("/")[0]
    return WorkloadFailures(workload, namespace, (*on_record, *going_on), seen.healthy_nodes)


def find_suspect_nodes(
    witnesses: Iterable[WorkloadFailures], made_s: Mapping[str, float], terms: FailedPodsPolicy, now_s: float
) -> Mapping[str, tuple[str, ...]]:
    """Return the suspect nodes, each with the workloads that failed there recently; both sorted.

    `made_s` says when each node was created.
    """
    found: dict[str, set[tuple[str, str]]] = {}
    for witness in witnesses:
        for node in _implicated_nodes(witness, made_s, terms, now_s):
            found.setdefault(node, set()).add((witness.workload, witness.namespace))
    many = {node: workloads for node, workloads in found.items() if _is_suspect(workloads, terms)}
    if 2 * len(many) > len(made_s):
        return {}
    return {node: tuple(sorted(name for name, _ in workloads)) for node, workloads in sorted(many.items())}


def _is_suspect(workloads: Collection[tuple[str, str]], terms: FailedPodsPolicy) -> bool:
    """Return whether enough workloads of enough namespaces fail; `suspectAfter: 1` needs only one
    namespace."""
    namespaces = {namespace for _, namespace in workloads}
    fewest = min(_FEWEST_NAMESPACES, terms.suspect_after)
    return len(workloads) >= terms.suspect_after and len(namespaces) >= fewest


def next_expiry_s(
    witnesses: Iterable[WorkloadFailures], terms: FailedPodsPolicy, now_s: float
) -> float | None:
    """Return when the next failure is too old to count; None if there is none."""
    window_s = terms.suspect_window.total_seconds()
    ends = (failure.at_s + window_s for witness in witnesses for failure in witness.failures)
    return min((end for end in ends if end > now_s), default=None)


def _implicated_nodes(
    witness: WorkloadFailures, made_s: Mapping[str, float], terms: FailedPodsPolicy, now_s: float
) -> Iterator[str]:
    """Yield the nodes that this workload counts against, perhaps repeatedly."""
    window_s = terms.suspect_window.total_seconds()
    by_template: dict[str, list[FailureOnNode]] = {}
    for each in witness.failures:
        by_template.setdefault(each.revision, []).append(each)
    for revision, failures in by_template.items():
        # Of any age: a replica without attempts left stays in the ledger, and fails where it is.
        nodes = {each.node for each in failures}
        if len(nodes) == 1 or witness.healthy_nodes.get(revision, frozenset()) - nodes:
            lately = (each for each in failures if each.is_observed and now_s - each.at_s < window_s)
            yield from (each.node for each in lately if each.at_s >= made_s.get(each.node, inf))
