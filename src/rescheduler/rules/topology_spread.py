"""Topology spread constraints that must hold (`DoNotSchedule`): no domain much fuller than the emptiest."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from rescheduler.model.constraints import SpreadConstraint
from rescheduler.model.selectors import Selector, SelectorError, selector_from_labels
from rescheduler.rules.affinity_terms import read_selector
from rescheduler.rules.check import Check, InTurn, nowhere
from rescheduler.rules.class_index import ClassIndex
from rescheduler.rules.ground import Ground
from rescheduler.rules.refusal import Refusal, Rule
from rescheduler.rules.tallies import Tallies, Tally
from rescheduler.rules.terrain import Domains
from rescheduler.snapshot.snapshot import NOWHERE, Flags, PodClass

__all__ = ["Spreading", "spreadings", "topology_spread"]


_TOO_UNEVEN: Final = "node(s) didn't match pod topology spread constraints"
_NO_DOMAIN: Final = f"{_TOO_UNEVEN} (missing required label)"


@dataclass(frozen=True, slots=True)
class Spreading:
    """One constraint: how many pods count in each of its domains."""

    key: str
    domains: Domains
    tally: Tally
    eligible: int
    """How many domains there are to spread over."""
    fewest_domains: int
    """With less than these, the emptiest counts as empty."""
    itself: int
    """1 if the pod matches its own constraint, else 0."""
    most_uneven: int

    def emptiest(self) -> int:
        counts = self.tally.counts
        if self.eligible < self.fewest_domains or len(counts) < self.eligible:
            return 0
        return min(counts.values())

    def most(self) -> int:
        """How many may already be in a domain that one more is put into."""
        return self.emptiest() + self.most_uneven - self.itself

    def fits(self) -> Flags:
        most = self.most()
        if most < 0:
            return np.zeros(self.domains.of.size, np.bool_)
        too_full = [domain for domain, count in self.tally.counts.items() if count > most]
        found: Flags = (self.domains.of != NOWHERE) & ~self.domains.spread(too_full)
        return found

    def even_without(self, source: int) -> Flags | None:
        """[node]: where a pod of that node can go without leaving it too empty; None if anywhere.

        The scheduler doesn't ask that, because it only knows pods that come. The emptiest domain gets
        emptier only if the pod leaves it.
        """
        counts, domain = self.tally.counts, int(self.tally.domain_of[source])
        emptiest = self.emptiest()
        is_counted = self.itself and domain != NOWHERE and self.eligible >= self.fewest_domains
        if not is_counted or counts.get(domain, 0) > emptiest:
            return None
        most = emptiest - 1 + self.most_uneven
        if max(counts.values()) <= most:
            too_full = [other for other, count in counts.items() if count + 1 > most and other != domain]
            return ~self.domains.spread(too_full)
        found: Flags = self.domains.of == domain
        return found

    def refusal(self, node: int) -> Refusal | None:
        domain = int(self.domains.of[node])
        if domain == NOWHERE:
            return Refusal(Rule.TOPOLOGY_SPREAD, (_NO_DOMAIN,), f"the node has no label {self.key}")
        count, emptiest = self.tally.counts.get(domain, 0), self.emptiest()
        if count <= self.most():
            return None
        place = f"{self.key}={self.domains.names[domain]}"
        crowd = f"{count + self.itself} pods in {place} with this one, {emptiest} in the emptiest"
        detail = f"{crowd}, maxSkew is {self.most_uneven}"
        return Refusal(Rule.TOPOLOGY_SPREAD, (_TOO_UNEVEN,), detail)


def topology_spread(number: int, index: ClassIndex, ground: Ground, tallies: Tallies) -> Check | None:
    """For the pods of the class of that number."""
    try:
        found = spreadings(number, index, ground, tallies)
    except SelectorError as error:
        refusal = Refusal(Rule.TOPOLOGY_SPREAD, (f"get constraints from pod: {error}",))
        return nowhere(len(ground.terrain), refusal)
    return InTurn(found) if found else None


def spreadings(number: int, index: ClassIndex, ground: Ground, tallies: Tallies) -> list[Spreading]:
    """The constraints that pods of that class must keep. Raises `SelectorError`."""
    pod_class = index.classes[number]
    must_hold = [c for c in pod_class.constraints.spread if c.when_unsatisfiable == "DoNotSchedule"]
    keys = tuple(constraint.topology_key for constraint in must_hold)
    found = []
    for constraint in must_hold:
        selector = _selector(constraint, pod_class)
        counted = ground.counted_domains(constraint, keys, pod_class)
        # An empty selector matches the pod itself, but no other pod is ever counted by it.
        meant = () if selector.selects_everything else index.selected(pod_class.namespace, selector)
        found.append(
            Spreading(
                key=constraint.topology_key,
                domains=ground.terrain.domains(constraint.topology_key),
                tally=tallies.of(meant, counted.of, ending=False),
                eligible=counted.number,
                fewest_domains=constraint.min_domains or 1,
                itself=int(selector.matches(pod_class.labels)),
                most_uneven=constraint.max_skew,
            )
        )
    return found


def _selector(constraint: SpreadConstraint, pod_class: PodClass) -> Selector:
    """With the values of the labels to match, which a newer API server has already merged in."""
    keys = constraint.match_label_keys
    wanted = {key: pod_class.labels[key] for key in keys if key in pod_class.labels}
    return read_selector(constraint.label_selector) & selector_from_labels(wanted)
