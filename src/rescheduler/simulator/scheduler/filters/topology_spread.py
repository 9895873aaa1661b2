"""Topology spread constraints that must hold (`DoNotSchedule`): no domain much fuller than the emptiest."""

from dataclasses import dataclass

from rescheduler.model.selectors import (
    NOTHING,
    Selector,
    SelectorError,
    selector_from_labels,
    selector_from_object,
)
from rescheduler.simulator.exchange import Object
from rescheduler.simulator.scheduler.filters.node_affinity import WantedNodes
from rescheduler.simulator.scheduler.filters.taints import has_untolerated_taint
from rescheduler.simulator.scheduler.nodes import NodeView
from rescheduler.simulator.scheduler.pods import PodView
from rescheduler.simulator.scheduler.refusals import Check, Refusal
from rescheduler.simulator.scheduler.view import ClusterView

__all__ = ["topology_spread"]

_NAME = "PodTopologySpread"
_TOO_UNEVEN = Refusal(_NAME, ("node(s) didn't match pod topology spread constraints",), final=False)
_NO_DOMAIN = Refusal(
    _NAME, ("node(s) didn't match pod topology spread constraints (missing required label)",)
)


@dataclass(frozen=True)
class _Constraint:
    key: str
    most_uneven: int
    least_domains: int
    selector: Selector
    honors_affinity: bool
    honors_taints: bool

    @classmethod
    def of(cls, constraint: Object, pod: PodView) -> "_Constraint":
        return cls(
            key=constraint["topologyKey"],
            most_uneven=constraint["maxSkew"],
            least_domains=constraint.get("minDomains") or 1,
            selector=_selector(constraint, pod),
            honors_affinity=(constraint.get("nodeAffinityPolicy") or "Honor") == "Honor",
            honors_taints=constraint.get("nodeTaintsPolicy") == "Honor",
        )

    def takes_in(self, node: NodeView, pod: PodView, wanted: WantedNodes) -> bool:
        if self.honors_affinity and not wanted.include(node):
            return False
        return not self.honors_taints or not has_untolerated_taint(pod, node)


def topology_spread(pod: PodView, cluster: ClusterView) -> Check | None:
    constraints = [
        _Constraint.of(constraint, pod)
        for constraint in pod.spec.get("topologySpreadConstraints") or ()
        if constraint.get("whenUnsatisfiable") == "DoNotSchedule"
    ]
    if not constraints:
        return None
    limits = [_limit(constraint, constraints, pod, cluster) for constraint in constraints]

    def check(node: NodeView) -> Refusal | None:
        for key, counts, most in limits:
            domain = node.labels.get(key)
            if domain is None:
                return _NO_DOMAIN
            if counts.get(domain, 0) > most:
                return _TOO_UNEVEN
        return None

    return check


def _limit(
    constraint: _Constraint, together: list[_Constraint], pod: PodView, cluster: ClusterView
) -> tuple[str, dict[str, int], int]:
    """The key, how many pods are in each of its domains, and how many may be where the pod goes."""
    counts = _domains(constraint, together, pod, cluster)
    emptiest = min(counts.values()) if len(counts) >= constraint.least_domains else 0
    itself = 1 if constraint.selector.matches(pod.labels) else 0
    return constraint.key, counts, emptiest + constraint.most_uneven - itself


def _domains(
    constraint: _Constraint, together: list[_Constraint], pod: PodView, cluster: ClusterView
) -> dict[str, int]:
    """Domain → how many pods count there. Only nodes that have the labels of all constraints take part."""
    selector, namespace = constraint.selector, pod.namespace

    def counted(other: PodView) -> bool:
        return not other.terminating and other.namespace == namespace and selector.matches(other.labels)

    # An empty selector matches the pod itself, but no pod is ever counted by it.
    empty = selector.selects_everything
    tally = {} if empty else cluster.tally(("spread", namespace, selector), selector, counted)
    wanted = WantedNodes(pod)
    domains: dict[str, int] = {}
    for node in cluster.nodes.values():
        if all(other.key in node.labels for other in together) and constraint.takes_in(node, pod, wanted):
            domain = node.labels[constraint.key]
            domains[domain] = domains.get(domain, 0) + tally.get(node.name, 0)
    return domains


def _selector(constraint: Object, pod: PodView) -> Selector:
    """With the values of the labels to match, which a newer API server has already merged in."""
    try:
        selector = selector_from_object(constraint.get("labelSelector"))
    except SelectorError:  # nothing that was admitted; what can't be read selects nothing
        return NOTHING
    keys = constraint.get("matchLabelKeys") or ()
    return selector & selector_from_labels({key: pod.labels[key] for key in keys if key in pod.labels})
