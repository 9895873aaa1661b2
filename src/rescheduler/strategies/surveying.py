"""Finds all drift in a cluster, by pod class: pods of one class ask for the same."""

from collections import defaultdict
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from rescheduler.model.selectors import SelectorError
from rescheduler.rules.affinity_terms import Term, WrittenTerm
from rescheduler.rules.class_index import ClassIndex
from rescheduler.rules.ground import Ground
from rescheduler.rules.positions import Positions
from rescheduler.rules.tallies import Tallies
from rescheduler.rules.terrain import Terrain
from rescheduler.rules.topology_spread import Spreading, spreadings
from rescheduler.snapshot.snapshot import NOWHERE
from rescheduler.strategies.drift import Crowding, Drift, Unevenness
from rescheduler.strategies.strategy import View

__all__ = ["Survey"]

Rows = npt.NDArray[np.int32]


class Survey:
    """What there is to set right, and what else each move touches."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._index = ClassIndex(view.snapshot)
        self._terrain = Terrain(view.snapshot.nodes)
        self._rows_of = _rows_by_class(view)
        self._by_class: defaultdict[int, list[Unevenness]] = defaultdict(list)
        """Constraints by the classes that count, drifted or not: a move must not spoil them."""
        self._by_pod: defaultdict[int, list[Crowding]] = defaultdict(list)
        self.drifts: list[Drift] = [*self._crowdings(), *self._unevennesses()]
        """Those that take moves to set right, in a fixed order."""

    def touched_by(self, pod: int) -> Iterable[Drift]:
        """All that may change if that pod moves."""
        return (
            *self._by_pod.get(pod, ()),
            *self._by_class.get(int(self._view.snapshot.pods.pod_class[pod]), ()),
        )

    def _unevennesses(self) -> list[Unevenness]:
        ground = Ground(self._terrain)
        tallies = Tallies(Positions(self._view.snapshot))
        found: dict[tuple[object, ...], tuple[Spreading, list[int]]] = {}
        for number in self._rows_of:
            if not self._index.classes[number].constraints.spread:
                continue
            for each in _to_be_kept(number, self._index, ground, tallies):
                if each.tally.classes:
                    same = (id(each.tally), each.most_uneven, each.fewest_domains)
                    found.setdefault(same, (each, []))[1].append(number)
        drifts: list[Unevenness] = []
        for spreading, classes in found.values():
            drift = Unevenness(
                self._view, spreading, self._rows(classes), self._rows(spreading.tally.classes)
            )
            for number in spreading.tally.classes:
                self._by_class[number].append(drift)
            if drift.moves_needed():
                drifts.append(drift)
        # Classes are numbered as they came; pods are in the same order every time.
        return sorted(drifts, key=lambda drift: (int(drift.counted[0]), drift.spreading.key))

    def _crowdings(self) -> list[Crowding]:
        holders: defaultdict[Term, list[int]] = defaultdict(list)
        for number in self._rows_of:
            if self._index.classes[number].affinity.pod_anti_affinity.required:
                for term in _kept_away(self._index, number):
                    holders[term].append(number)
        pairs: defaultdict[tuple[str, int], set[tuple[int, int]]] = defaultdict(set)
        crowds: defaultdict[tuple[str, int], set[int]] = defaultdict(set)
        for term, classes in holders.items():
            others = [number for number in self._index.matching(term) if number in self._rows_of]
            for domain, pods in self._meetings(term.topology_key, classes, others).items():
                here = set(self._view.snapshot.pods.pod_class[pods].tolist())
                crowds[term.topology_key, domain].update(pods)
                pairs[term.topology_key, domain].update(
                    (min(a, b), max(a, b))
                    for a in here.intersection(classes)
                    for b in here.intersection(others)
                )
        found = (self._crowding(*place, sorted(crowds[place]), pairs[place]) for place in sorted(crowds))
        return [crowding for crowding in found if crowding.moves_needed()]

    def _meetings(self, key: str, classes: list[int], others: list[int]) -> dict[int, list[int]]:
        """Pods of both by domain, where one meets another that it should not."""
        domain_of = self._terrain.domains(key).of
        position = self._view.board.position
        keeping, kept = self._rows(classes), self._rows(others)
        pods = np.union1d(keeping, kept)
        domains = domain_of[position[pods]]
        several, numbers = np.unique(domains[domains != NOWHERE], return_counts=True)
        shared = np.intersect1d(domain_of[position[keeping]], domain_of[position[kept]])
        return {
            domain: pods[domains == domain].tolist()
            for domain in np.intersect1d(several[numbers > 1], shared).tolist()
        }

    def _crowding(self, key: str, domain: int, crowd: list[int], pairs: set[tuple[int, int]]) -> Crowding:
        domains = self._terrain.domains(key)
        found = Crowding(self._view, key, domains.names[domain], domains.of == domain, crowd, pairs)
        for pod in crowd:
            self._by_pod[pod].append(found)
        return found

    def _rows(self, classes: Iterable[int]) -> Rows:
        parts = [self._rows_of[number] for number in classes if number in self._rows_of]
        return np.sort(np.concatenate(parts)) if parts else np.zeros(0, np.int32)


def _rows_by_class(view: View) -> dict[int, Rows]:
    """Pods that are on a node and not about to leave it."""
    pods = view.snapshot.pods
    staying = np.array([record.deleted_s is None for record in pods.records], np.bool_)
    order = np.argsort(pods.pod_class, kind="stable").astype(np.int32)
    order = order[(staying & (view.board.position != NOWHERE))[order]]
    classes, starts = np.unique(pods.pod_class[order], return_index=True)
    ends = [*starts[1:].tolist(), len(order)]
    return {
        number: order[start:end]
        for number, start, end in zip(classes.tolist(), starts.tolist(), ends, strict=False)
    }


def _to_be_kept(number: int, index: ClassIndex, ground: Ground, tallies: Tallies) -> list[Spreading]:
    try:
        return spreadings(number, index, ground, tallies)
    except SelectorError:  # no scheduler could read it either
        return []


def _kept_away(index: ClassIndex, number: int) -> list[Term]:
    pod_class = index.classes[number]
    try:
        return [
            WrittenTerm.by(pod_class, term).read() for term in pod_class.affinity.pod_anti_affinity.required
        ]
    except SelectorError:  # no scheduler could read it either
        return []
