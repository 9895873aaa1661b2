"""Affinity and anti-affinity between pods, in both directions: running pods have a say as well."""

from collections import Counter
from collections.abc import Iterable

from rescheduler.simulator.scheduler.affinity_terms import AffinityTerm
from rescheduler.simulator.scheduler.nodes import NodeView
from rescheduler.simulator.scheduler.pods import PodView
from rescheduler.simulator.scheduler.refusals import Check, Refusal
from rescheduler.simulator.scheduler.view import ClusterView

__all__ = ["pod_affinity"]

_NAME = "InterPodAffinity"
_TOO_FAR = Refusal(_NAME, ("node(s) didn't match pod affinity rules",))
_TOO_NEAR = Refusal(_NAME, ("node(s) didn't match pod anti-affinity rules",), final=False)
_UNWELCOME = Refusal(_NAME, ("node(s) didn't satisfy existing pods anti-affinity rules",), final=False)

_Places = Counter[tuple[str, str]]
"""Topology key and value → how many pods are there."""


def pod_affinity(pod: PodView, cluster: ClusterView) -> Check | None:
    unwelcome = _places_that_refuse(pod, cluster)
    if not unwelcome and not pod.affinity and not pod.anti_affinity:
        return None
    friends = _places_of_matches(pod.affinity, cluster)
    # Of a group that wants to be together, one must be the first.
    is_first = not friends and _matches_all(pod, pod.affinity, cluster)
    foes: _Places = Counter()
    for term in pod.anti_affinity:
        foes += _places_of_matches((term,), cluster)

    affine = {term.topology_key for term in pod.affinity}

    def check(node: NodeView) -> Refusal | None:
        places = node.labels.items()
        if not affine <= node.labels.keys():
            return _TOO_FAR
        if not is_first and not all((key, node.labels[key]) in friends for key in affine):
            return _TOO_FAR
        if foes and not foes.keys().isdisjoint(places):
            return _TOO_NEAR
        return _UNWELCOME if unwelcome and not unwelcome.keys().isdisjoint(places) else None

    return check


def _places_that_refuse(pod: PodView, cluster: ClusterView) -> _Places:
    places: _Places = Counter()
    for term, holders in cluster.terms_against(pod):
        if _matches(pod, term, cluster):
            _add(places, term.topology_key, holders.items(), cluster)
    return places


def _places_of_matches(terms: tuple[AffinityTerm, ...], cluster: ClusterView) -> _Places:
    """Where pods are that match all of the terms at once."""
    places: _Places = Counter()
    if not terms:
        return places
    tally = cluster.tally(terms, terms[0].selector, lambda other: _matches_all(other, terms, cluster))
    for term in terms:
        _add(places, term.topology_key, tally.items(), cluster)
    return places


def _add(places: _Places, key: str, counts: Iterable[tuple[str, int]], cluster: ClusterView) -> None:
    for name, count in counts:
        value = cluster.nodes[name].labels.get(key)
        if value is not None:
            places[(key, value)] += count


def _matches_all(pod: PodView, terms: tuple[AffinityTerm, ...], cluster: ClusterView) -> bool:
    return bool(terms) and all(_matches(pod, term, cluster) for term in terms)


def _matches(pod: PodView, term: AffinityTerm, cluster: ClusterView) -> bool:
    if not term.includes_namespace(pod.namespace, cluster.namespace_labels(pod.namespace)):
        return False
    return term.selector.matches(pod.labels)
