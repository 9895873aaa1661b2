"""Run all filters in the order of the real scheduler, and collect the reasons why nodes don't fit.

A pod must fit with and without the nominated pods of at least its priority.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from kubesim.scheduler.fit_errors import Check, Filter, FilterRejection
from kubesim.scheduler.inter_pod_filters import pod_affinity, topology_spread
from kubesim.scheduler.node_filters import (
    declared_features,
    host_ports,
    node_affinity,
    node_name,
    resources,
    taints,
    unschedulable,
)
from kubesim.scheduler.node_info import NodeInfo, PodInfo
from kubesim.scheduler.scheduler_cache import SchedulerCache
from kubesim.scheduler.volume_binding_filter import volume_binding
from kubesim.scheduler.volume_filters import volume_limits, volume_restrictions, volume_zone

__all__ = ["FILTERS", "FeasibleNodes", "Nominations", "PreparedFilters", "fitting", "prepare", "refusal_on"]

FILTERS: tuple[Filter, ...] = (
    node_name,
    unschedulable,
    taints,
    node_affinity,
    host_ports,
    resources,
    volume_restrictions,
    volume_limits,
    volume_binding,
    volume_zone,
    topology_spread,
    pod_affinity,
    declared_features,
)


class PreparedFilters(NamedTuple):
    """Filters that are prepared for one pod and one state of the cluster."""

    refused: FilterRejection | None
    """Why the pod fits on no node, if a filter says so for all of them."""
    checks: tuple[Check, ...]

    def refusal(self, node: NodeInfo) -> FilterRejection | None:
        """Return the error of the first failing filter, as the real scheduler does."""
        if self.refused is not None:
            return self.refused
        for check in self.checks:
            if (refusal := check(node)) is not None:
                return refusal
        return None

    def refusals(self, node: NodeInfo) -> Iterator[FilterRejection]:
        """Yield the errors of all filters."""
        if self.refused is not None:
            yield self.refused
        for check in self.checks:
            if (refusal := check(node)) is not None:
                yield refusal


def prepare(pod: PodInfo, cluster: SchedulerCache) -> PreparedFilters:
    refused: FilterRejection | None = None
    checks: list[Check] = []
    for looks_at in FILTERS:
        found = looks_at(pod, cluster)
        if isinstance(found, FilterRejection):
            refused = refused or found
        elif found is not None:
            checks.append(found)
    return PreparedFilters(refused, tuple(checks))


Nominations = Mapping[str, Mapping[str, PodInfo]]
"""The nominated pods of each node, by key."""


class FeasibleNodes(NamedTuple):
    nodes: list[NodeInfo]
    refused: FilterRejection | None
    """Why the pod fits on no node."""
    refusals: dict[str, FilterRejection]


def fitting(
    pod: PodInfo, cluster: SchedulerCache, nominations: Nominations, among: Iterable[str]
) -> FeasibleNodes:
    """Return the nodes that fit, among those named in `among`."""
    prepared = prepare(pod, cluster)
    if prepared.refused is not None:
        return FeasibleNodes([], prepared.refused, {})
    nodes: list[NodeInfo] = []
    refusals: dict[str, FilterRejection] = {}
    for name in among:
        node = cluster.nodes[name]
        refusal = refusal_on(node, pod, cluster, nominations, prepared)
        if refusal is None:
            nodes.append(node)
        else:
            refusals[name] = refusal
    return FeasibleNodes(nodes, None, refusals)


def refusal_on(
    node: NodeInfo, pod: PodInfo, cluster: SchedulerCache, nominations: Nominations, prepared: PreparedFilters
) -> FilterRejection | None:
    if promised := nominations.get(node.name):
        expected = [
            other for other in promised.values() if other.priority >= pod.priority and other.uid != pod.uid
        ]
        with cluster.with_also(expected, node):
            if (refusal := prepare(pod, cluster).refusal(node)) is not None:
                return refusal
    return prepared.refusal(node)
