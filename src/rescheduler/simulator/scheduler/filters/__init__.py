"""All that can keep a pod off a node: one file per rule, in the order of the real scheduler."""

from collections.abc import Iterator
from typing import NamedTuple

from rescheduler.simulator.scheduler.filters.declared_features import declared_features
from rescheduler.simulator.scheduler.filters.host_ports import host_ports
from rescheduler.simulator.scheduler.filters.node_affinity import node_affinity
from rescheduler.simulator.scheduler.filters.node_name import node_name
from rescheduler.simulator.scheduler.filters.pod_affinity import pod_affinity
from rescheduler.simulator.scheduler.filters.resources import resources
from rescheduler.simulator.scheduler.filters.taints import taints, unschedulable
from rescheduler.simulator.scheduler.filters.topology_spread import topology_spread
from rescheduler.simulator.scheduler.filters.volume_binding import volume_binding
from rescheduler.simulator.scheduler.filters.volume_limits import volume_limits
from rescheduler.simulator.scheduler.filters.volume_restrictions import volume_restrictions
from rescheduler.simulator.scheduler.filters.volume_zone import volume_zone
from rescheduler.simulator.scheduler.nodes import NodeView
from rescheduler.simulator.scheduler.pods import PodView
from rescheduler.simulator.scheduler.refusals import Check, Filter, Refusal
from rescheduler.simulator.scheduler.view import ClusterView

__all__ = ["FILTERS", "Prepared", "prepare"]

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


class Prepared(NamedTuple):
    """Ready to be asked about nodes, as long as nothing changes in the cluster."""

    refused: Refusal | None
    """The pod can't go anywhere, whatever the node."""
    checks: tuple[Check, ...]

    def refusal(self, node: NodeView) -> Refusal | None:
        """The first one, as the real scheduler tells it: it doesn't ask further."""
        if self.refused is not None:
            return self.refused
        for check in self.checks:
            if (refusal := check(node)) is not None:
                return refusal
        return None

    def refusals(self, node: NodeView) -> Iterator[Refusal]:
        """All of them, for those who want to know more."""
        if self.refused is not None:
            yield self.refused
        for check in self.checks:
            if (refusal := check(node)) is not None:
                yield refusal


def prepare(pod: PodView, cluster: ClusterView) -> Prepared:
    refused: Refusal | None = None
    checks: list[Check] = []
    for looks_at in FILTERS:
        found = looks_at(pod, cluster)
        if isinstance(found, Refusal):
            refused = refused or found
        elif found is not None:
            checks.append(found)
    return Prepared(refused, tuple(checks))
