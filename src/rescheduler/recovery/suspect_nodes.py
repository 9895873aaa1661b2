"""Nodes on which several different workloads fail: it is hardly the fault of all of them.

What is the workloads' own fault is not blamed on nodes:

- One that fails on several nodes and runs well on no other says nothing about any of them. That is asked of
  each template by itself: the pods of the last rollout may run well while those of the next one fail.
- If more than half of all nodes would be suspect, none is: then something is wrong that they all need, such
  as a registry.
- A node is not the one that bore its name before: what happened before it was made does not count.

Nor can a tenant make a node suspect. What stands on a workload counts only if we have seen it: the pod fails
there now, or a migration of ours has moved it away from there. And the workloads that accuse a node must be
of several namespaces.
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
    node: str
    at_s: float
    revision: str = ""
    """Of the template that the pod was made from."""
    is_observed: bool = True
    """Whether we have seen it ourselves, and not only read of it on the workload."""


@dataclass(frozen=True, slots=True)
class WorkloadFailures:
    """A workload, where it fails and where it does well."""

    workload: str
    """`Deployment/shop/web`."""
    namespace: str
    failures: tuple[FailureOnNode, ...]
    """On record, and going on."""
    healthy_nodes: Mapping[str, frozenset[str]]
    """Nodes on which its pods run well, by template."""


def workload_failures_of(
    seen: WorkloadExamination, observed: Mapping[str, Collection[str]], now_s: float
) -> WorkloadFailures:
    """What goes on is as of now. Pods that nobody wants us to see to don't count.

    `observed` are the nodes from which migrations have moved failing pods, by the uid of the pod.
    """
    on_record = (
        FailureOnNode(each.node, each.at_s, line.revision, each.node in observed.get(each.pod, ()))
        for line in seen.ledger.lines.values()
        for each in line.failures
        if each.node
    )
    going_on = (
        FailureOnNode(case.pod.node, now_s, case.revision)
        for case in seen.cases
        if not isinstance(case.decision, NotRequested)
    )
    holder = seen.holder
    workload, namespace = f"{holder.kind}/{holder.key}", holder.key.partition("/")[0]
    return WorkloadFailures(workload, namespace, (*on_record, *going_on), seen.healthy_nodes)


def find_suspect_nodes(
    witnesses: Iterable[WorkloadFailures], made_s: Mapping[str, float], terms: FailedPodsPolicy, now_s: float
) -> Mapping[str, tuple[str, ...]]:
    """The workloads that failed there lately, by node; both sorted. `made_s`: when each node was made."""
    found: dict[str, set[tuple[str, str]]] = {}
    for witness in witnesses:
        for node in _implicated_nodes(witness, made_s, terms, now_s):
            found.setdefault(node, set()).add((witness.workload, witness.namespace))
    many = {node: accusers for node, accusers in found.items() if _is_suspect(accusers, terms)}
    if 2 * len(many) > len(made_s):
        return {}
    return {node: tuple(sorted(name for name, _ in accusers)) for node, accusers in sorted(many.items())}


def _is_suspect(accusers: Collection[tuple[str, str]], terms: FailedPodsPolicy) -> bool:
    """Who lets one workload be enough does not mean that there must be two namespaces."""
    namespaces = {namespace for _, namespace in accusers}
    fewest = min(_FEWEST_NAMESPACES, terms.suspect_after)
    return len(accusers) >= terms.suspect_after and len(namespaces) >= fewest


def next_expiry_s(
    witnesses: Iterable[WorkloadFailures], terms: FailedPodsPolicy, now_s: float
) -> float | None:
    """When the next failure is so long past that it does not count any more; None if there is none."""
    window_s = terms.suspect_window.total_seconds()
    ends = (failure.at_s + window_s for witness in witnesses for failure in witness.failures)
    return min((end for end in ends if end > now_s), default=None)


def _implicated_nodes(
    witness: WorkloadFailures, made_s: Mapping[str, float], terms: FailedPodsPolicy, now_s: float
) -> Iterator[str]:
    """The nodes that it speaks against, some of them perhaps more than once."""
    window_s = terms.suspect_window.total_seconds()
    by_template: dict[str, list[FailureOnNode]] = {}
    for each in witness.failures:
        by_template.setdefault(each.revision, []).append(each)
    for revision, failures in by_template.items():
        # However long ago: what was given up stays on record, and fails on where it is.
        nodes = {each.node for each in failures}
        if len(nodes) == 1 or witness.healthy_nodes.get(revision, frozenset()) - nodes:
            lately = (each for each in failures if each.is_observed and now_s - each.at_s < window_s)
            yield from (each.node for each in lately if each.at_s >= made_s.get(each.node, inf))
