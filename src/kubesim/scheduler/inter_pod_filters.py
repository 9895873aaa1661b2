"""The filters InterPodAffinity, in both directions, and PodTopologySpread (`DoNotSchedule`)."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from kubesim.apiserver.api_messages import Object
from kubesim.scheduler.fit_errors import Check, FilterRejection
from kubesim.scheduler.node_filters import WantedNodes, has_untolerated_taint
from kubesim.scheduler.node_info import InterPodTerm, NodeInfo, PodInfo
from kubesim.scheduler.scheduler_cache import SchedulerCache
from kubevalues import NOTHING, Selector, SelectorError, selector_from_labels, selector_from_object

__all__ = ["pod_affinity", "topology_spread"]

_POD_AFFINITY = "InterPodAffinity"
_AFFINITY_MISMATCH = FilterRejection(_POD_AFFINITY, ("node(s) didn't match pod affinity rules",))
_ANTI_AFFINITY_MISMATCH = FilterRejection(
    _POD_AFFINITY, ("node(s) didn't match pod anti-affinity rules",), final=False
)
_EXISTING_ANTI_AFFINITY = FilterRejection(
    _POD_AFFINITY, ("node(s) didn't satisfy existing pods anti-affinity rules",), final=False
)

_Places = Counter[tuple[str, str]]
"""The number of pods by topology key and value."""


def pod_affinity(pod: PodInfo, cluster: SchedulerCache) -> Check | None:
    refusing = _places_that_refuse(pod, cluster)
    if not refusing and not pod.affinity and not pod.anti_affinity:
        return None
    matching = _places_of_matches(pod.affinity, cluster)
    # The first pod of a group with affinity to itself may run anywhere.
    is_first = not matching and _matches_all(pod, pod.affinity, cluster)
    conflicting: _Places = Counter()
    for term in pod.anti_affinity:
        conflicting += _places_of_matches((term,), cluster)

    required_keys = {term.topology_key for term in pod.affinity}

    def check(node: NodeInfo) -> FilterRejection | None:
        places = node.labels.items()
        if not required_keys <= node.labels.keys():
            return _AFFINITY_MISMATCH
        if not is_first and not all((key, node.labels[key]) in matching for key in required_keys):
            return _AFFINITY_MISMATCH
        if conflicting and not conflicting.keys().isdisjoint(places):
            return _ANTI_AFFINITY_MISMATCH
        return _EXISTING_ANTI_AFFINITY if refusing and not refusing.keys().isdisjoint(places) else None

    return check


def _places_that_refuse(pod: PodInfo, cluster: SchedulerCache) -> _Places:
    places: _Places = Counter()
    for term, holders in cluster.terms_against(pod):
        if _matches(pod, term, cluster):
            _add(places, term.topology_key, holders.items(), cluster)
    return places


def _places_of_matches(terms: tuple[InterPodTerm, ...], cluster: SchedulerCache) -> _Places:
    """Count the pods that match all terms, by topology."""
    places: _Places = Counter()
    if not terms:
        return places
    tally = cluster.tally(terms, terms[0].selector, lambda other: _matches_all(other, terms, cluster))
    for term in terms:
        _add(places, term.topology_key, tally.items(), cluster)
    return places


def _add(places: _Places, key: str, counts: Iterable[tuple[str, int]], cluster: SchedulerCache) -> None:
    for name, count in counts:
        value = cluster.nodes[name].labels.get(key)
        if value is not None:
            places[(key, value)] += count


def _matches_all(pod: PodInfo, terms: tuple[InterPodTerm, ...], cluster: SchedulerCache) -> bool:
    return bool(terms) and all(_matches(pod, term, cluster) for term in terms)


def _matches(pod: PodInfo, term: InterPodTerm, cluster: SchedulerCache) -> bool:
    if not term.includes_namespace(pod.namespace, cluster.namespace_labels(pod.namespace)):
        return False
    return term.selector.matches(pod.labels)


_TOPOLOGY_SPREAD = "PodTopologySpread"
_TOO_UNEVEN = FilterRejection(
    _TOPOLOGY_SPREAD, ("node(s) didn't match pod topology spread constraints",), final=False
)
_NO_DOMAIN = FilterRejection(
    _TOPOLOGY_SPREAD, ("node(s) didn't match pod topology spread constraints (missing required label)",)
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
    def of(cls, constraint: Object, pod: PodInfo) -> "_Constraint":
        return cls(
            key=constraint["topologyKey"],
            most_uneven=constraint["maxSkew"],
            least_domains=constraint.get("minDomains") or 1,
            selector=_selector(constraint, pod),
            honors_affinity=(constraint.get("nodeAffinityPolicy") or "Honor") == "Honor",
            honors_taints=constraint.get("nodeTaintsPolicy") == "Honor",
        )

    def includes(self, node: NodeInfo, pod: PodInfo, wanted: WantedNodes) -> bool:
        if self.honors_affinity and not wanted.include(node):
            return False
        return not self.honors_taints or not has_untolerated_taint(pod, node)


def topology_spread(pod: PodInfo, cluster: SchedulerCache) -> Check | None:
    constraints = [
        _Constraint.of(constraint, pod)
        for constraint in pod.spec.get("topologySpreadConstraints") or ()
        if constraint.get("whenUnsatisfiable") == "DoNotSchedule"
    ]
    if not constraints:
        return None
    limits = [_limit(constraint, constraints, pod, cluster) for constraint in constraints]

    def check(node: NodeInfo) -> FilterRejection | None:
        for key, counts, most in limits:
            domain = node.labels.get(key)
            if domain is None:
                return _NO_DOMAIN
            if counts.get(domain, 0) > most:
                return _TOO_UNEVEN
        return None

    return check


def _limit(
    constraint: _Constraint, together: list[_Constraint], pod: PodInfo, cluster: SchedulerCache
) -> tuple[str, dict[str, int], int]:
    """Return the key, the number of pods in each domain, and the maximum for the pod's domain."""
    counts = _domains(constraint, together, pod, cluster)
    emptiest = min(counts.values()) if len(counts) >= constraint.least_domains else 0
    itself = 1 if constraint.selector.matches(pod.labels) else 0
    return constraint.key, counts, emptiest + constraint.most_uneven - itself


def _domains(
    constraint: _Constraint, together: list[_Constraint], pod: PodInfo, cluster: SchedulerCache
) -> dict[str, int]:
    """Count pods by domain; only nodes with the labels of all constraints take part."""
    selector, namespace = constraint.selector, pod.namespace

    def counted(other: PodInfo) -> bool:
        return not other.terminating and other.namespace == namespace and selector.matches(other.labels)

    # An empty selector matches the pod itself, but counts no pod.
    empty = selector.selects_everything
    tally = {} if empty else cluster.tally(("spread", namespace, selector), selector, counted)
    wanted = WantedNodes(pod)
    domains: dict[str, int] = {}
    for node in cluster.nodes.values():
        if all(other.key in node.labels for other in together) and constraint.includes(node, pod, wanted):
            domain = node.labels[constraint.key]
            domains[domain] = domains.get(domain, 0) + tally.get(node.name, 0)
    return domains


def _selector(constraint: Object, pod: PodInfo) -> Selector:
    """Return the selector with `matchLabelKeys`, which newer API servers have already merged."""
    try:
        selector = selector_from_object(constraint.get("labelSelector"))
    except SelectorError:  # admission rejects it; an invalid selector selects nothing
        return NOTHING
    keys = constraint.get("matchLabelKeys") or ()
    return selector & selector_from_labels({key: pod.labels[key] for key in keys if key in pod.labels})
