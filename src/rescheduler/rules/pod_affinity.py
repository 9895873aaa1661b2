"""Affinity and anti-affinity between pods, in both directions: pods that are there have a say as well."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from rescheduler.model.constraints import PodAffinityTerm
from rescheduler.model.selectors import SelectorError
from rescheduler.rules.affinity_terms import Term, WrittenTerm
from rescheduler.rules.check import Check, nowhere
from rescheduler.rules.class_index import ClassIndex
from rescheduler.rules.refusal import Refusal, Rule
from rescheduler.rules.tallies import Tallies, Tally
from rescheduler.rules.terrain import Domains, Terrain
from rescheduler.snapshot.snapshot import NOWHERE, Flags, PodClass

__all__ = ["pod_affinity"]


_TOO_FAR: Final = "node(s) didn't match pod affinity rules"
_TOO_NEAR: Final = "node(s) didn't match pod anti-affinity rules"
_UNWELCOME: Final = "node(s) didn't satisfy existing pods anti-affinity rules"


@dataclass(frozen=True, slots=True)
class _Place:
    """A term, the domains that it speaks of, and how many pods in each of them count."""

    term: Term
    domains: Domains
    tally: Tally

    def has_some(self) -> Flags:
        """[node]: whether there are any in its domain."""
        return self.domains.spread([*self.tally.counts])

    def shown(self, node: int) -> str:
        domain = self.domains.of[node]
        value = self.domains.names[domain] if domain != NOWHERE else "(no such label)"
        return f"{self.tally.at(node)} pods in {self.term.topology_key}={value}"


def pod_affinity(number: int, index: ClassIndex, terrain: Terrain, tallies: Tallies) -> Check | None:
    """For the pods of the class of that number."""
    pod_class = index.classes[number]
    try:
        near = _read(pod_class, pod_class.affinity.pod_affinity.required)
        apart = _read(pod_class, pod_class.affinity.pod_anti_affinity.required)
    except SelectorError as error:
        return nowhere(len(terrain), Refusal(Rule.POD_AFFINITY, (f"parsing pod: {error}",)))
    unwelcome = index.against(number)
    if not near and not apart and not unwelcome:
        return None

    def place(term: Term, classes: Iterable[int]) -> _Place:
        domains = terrain.domains(term.topology_key)
        return _Place(term, domains, tallies.of(classes, domains.of))

    # One pod that matches all terms at once is looked for, not one for each.
    friends = set.intersection(*(set(index.matching(term)) for term in near)) if near else set()
    return _PodAffinity(
        near=tuple(place(term, friends) for term in near),
        matches_itself=number in friends,
        apart=tuple(place(term, index.matching(term)) for term in apart),
        unwelcome=tuple(place(term, holders) for term, holders in unwelcome.items()),
        nodes=len(terrain),
    )


def _read(pod_class: PodClass, terms: Iterable[PodAffinityTerm]) -> list[Term]:
    return [WrittenTerm.by(pod_class, term).read() for term in terms]


@dataclass(frozen=True, slots=True)
class _PodAffinity:
    near: tuple[_Place, ...]
    """Pods to be together with: the same for every term, in the domains of each."""
    matches_itself: bool
    apart: tuple[_Place, ...]
    """Pods to be away from."""
    unwelcome: tuple[_Place, ...]
    """Pods that want to be away from this one."""
    nodes: int

    def fits(self) -> Flags:
        found = np.ones(self.nodes, np.bool_)
        is_first = self._is_first()
        for place in self.near:
            found &= place.domains.of != NOWHERE if is_first else place.has_some()
        for place in (*self.apart, *self.unwelcome):
            if place.tally.counts:
                found &= ~place.has_some()
        return found

    def refusal(self, node: int) -> Refusal | None:
        is_first = self._is_first()
        for place in self.near:
            if place.domains.of[node] == NOWHERE or (not is_first and not place.tally.at(node)):
                return _refusal(_TOO_FAR, f"wants to be near {place.term}", place, node)
        for place in self.apart:
            if place.tally.at(node):
                return _refusal(_TOO_NEAR, f"wants to be away from {place.term}", place, node)
        for place in self.unwelcome:
            if place.tally.at(node):
                return _refusal(_UNWELCOME, f"others want to be away from {place.term}", place, node)
        return None

    def _is_first(self) -> bool:
        """Of pods that want to be together, one must be the first: nobody it could be near to exists."""
        return self.matches_itself and not any(place.tally.counts for place in self.near)


def _refusal(reason: str, wish: str, place: _Place, node: int) -> Refusal:
    return Refusal(Rule.POD_AFFINITY, (reason,), f"{wish}: {place.shown(node)}")
