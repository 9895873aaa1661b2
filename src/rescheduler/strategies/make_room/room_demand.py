"""Demands for room on one node (a pending pod, a pod that moves to make room, a block of one resource), and
the sets of pods whose resources cover what is lacking."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from kubevalues import SelectorError
from rescheduler.cluster.snapshot import NO_ROW, Flags, Ints, Rows
from rescheduler.rules.node_affinity import NodeLabels
from rescheduler.rules.pod_class_index import PodClassIndex, UnparsedAffinityTerm, parse_selector
from rescheduler.rules.rule_check import SchedulerRule
from rescheduler.strategies.strategy import View
from rescheduler.strategies.target_search import PodUnit

__all__ = ["ArrivingPod", "CoveringSets", "FreeBlock", "PodDemand", "RoomDemand", "lacking_on"]


class RoomDemand(Protocol):
    """Something that needs room on one node."""

    @property
    def asks(self) -> Ints:
        """Return [resource]: the requested amounts."""
        ...

    @property
    def max_priority(self) -> int:
        """Return the highest priority of pods that may be moved for it."""
        ...

    def nodes(self) -> Flags:
        """Return [node]: it could be there if there were room."""
        ...

    def fits(self) -> Flags:
        """Return [node]: it fits there now."""
        ...

    def fits_on(self, node: int) -> bool:
        """Return `fits()[node]`, which is cheaper."""
        ...

    def is_kept_off(self, node: int) -> bool:
        """Return whether a rule about other pods forbids the node, apart from their requests."""
        ...

    def related(self, node: int) -> Iterable[int]:
        """Return pods on other nodes that may keep it off this one."""
        ...


@dataclass(slots=True)
class PodDemand:
    """A pod that needs a node, by every rule of the scheduler."""

    view: View
    pod: int
    max_priority: int
    index: PodClassIndex
    asks: Ints = field(init=False)
    depends_on_others: bool = field(init=False)
    """Whether any rule depends on this pod and other pods, apart from their requests."""
    _relatives: list[tuple[Rows, Rows]] | None = None

    def __post_init__(self) -> None:
        number = int(self.view.snapshot.pods.pod_class[self.pod])
        pod_class = self.view.snapshot.classes[number]
        self.asks = pod_class.asks
        constraints, affinity = pod_class.constraints, pod_class.affinity
        self.depends_on_others = bool(
            constraints.spread
            or constraints.host_ports
            or affinity.pod_affinity.required
            or affinity.pod_anti_affinity.required
            or pod_class.volumes
            or self.index.against(number)
        )

    def nodes(self) -> Flags:
        found: Flags = self.view.placement.static_fits(self.pod) & self.view.open & self.view.nodes
        return found

    def fits(self) -> Flags:
        return self.view.placement.fits(self.pod, source_stays=False) & self.nodes()

    def fits_on(self, node: int) -> bool:
        return self.view.placement.fits_on(self.pod, node, source_stays=False)

    def is_kept_off(self, node: int) -> bool:
        if not self.depends_on_others:
            return False
        refusals = self.view.placement.refusals(self.pod, node, source_stays=False)
        return any(refusal.rule is not SchedulerRule.NODE_RESOURCES for refusal in refusals)

    def related(self, node: int) -> Iterable[int]:
        """Return the pods of the node's domains that its anti-affinity or spread constraints select, or whose
        anti-affinity selects it."""
        if self._relatives is None:
            labels = NodeLabels(self.view.snapshot.nodes)
            found = _relatives(self.view, self.pod, self.index)
            self._relatives = [(labels.domains(key).of, rows) for key, rows in found.items()]
        position = self.view.placement.position
        around: set[int] = set()
        for domain_of, rows in self._relatives:
            if domain_of[node] != NO_ROW:
                there = rows[position[rows] != NO_ROW]
                around.update(there[domain_of[position[there]] == domain_of[node]].tolist())
        return sorted(pod for pod in around if position[pod] != node)


@dataclass(slots=True)
class FreeBlock:
    """An amount of one resource that is kept free on one node, for any later pod."""

    view: View
    asks: Ints
    max_priority: int = 2**31 - 1

    def nodes(self) -> Flags:
        return self.view.open & self.view.nodes

    def fits(self) -> Flags:
        asked = self.asks > 0
        enough = self.view.placement.free[asked] >= self.asks[asked, None]
        found: Flags = np.logical_and.reduce(enough, axis=0) & self.nodes()
        return found

    def fits_on(self, node: int) -> bool:
        return bool((self.view.placement.free[:, node] >= self.asks)[self.asks > 0].all())

    def is_kept_off(self, node: int) -> bool:  # noqa: ARG002 - no rule is about a block
        return False

    def related(self, node: int) -> Iterable[int]:  # noqa: ARG002
        return ()


def _relatives(view: View, pod: int, index: PodClassIndex) -> dict[str, Rows]:
    """Return the pods that may keep this one away from a domain, by topology key."""
    snapshot = view.snapshot
    number = int(snapshot.pods.pod_class[pod])
    pod_class = index.classes[number]
    classes: dict[str, set[int]] = {}
    try:
        for written in pod_class.affinity.pod_anti_affinity.required:
            term = UnparsedAffinityTerm.by(pod_class, written).read()
            classes.setdefault(term.topology_key, set()).update(index.matching(term))
        for constraint in pod_class.constraints.spread:
            if constraint.when_unsatisfiable == "DoNotSchedule":
                selector = parse_selector(constraint.label_selector)
                meant = index.selected(pod_class.namespace, selector)
                classes.setdefault(constraint.topology_key, set()).update(meant)
    except SelectorError:  # no scheduler could read it either
        return {}
    for term, holders in index.against(number).items():
        classes.setdefault(term.topology_key, set()).update(holders)
    return {
        key: np.flatnonzero(np.isin(snapshot.pods.pod_class, sorted(numbers))).astype(np.int32)
        for key, numbers in classes.items()
    }


@dataclass(slots=True)
class ArrivingPod:
    """A pod that moves to make room; its handover decides where it fits."""

    demand: PodDemand

    @property
    def asks(self) -> Ints:
        return self.demand.asks

    @property
    def max_priority(self) -> int:
        return self.demand.max_priority

    def nodes(self) -> Flags:
        return self.demand.nodes()

    def fits(self) -> Flags:
        return self.demand.view.targets(self.demand.pod)

    def fits_on(self, node: int) -> bool:
        return self.demand.view.may_go(self.demand.pod, node)

    def is_kept_off(self, node: int) -> bool:
        return self.demand.is_kept_off(node)

    def related(self, node: int) -> Iterable[int]:
        return self.demand.related(node)


def lacking_on(view: View, demand: RoomDemand) -> Ints:
    """Return [node, resource]: what the demand lacks on each node."""
    lacking: Ints = np.where(demand.asks > 0, np.maximum(demand.asks - view.placement.free.T, 0), 0)
    return lacking


class CoveringSets:
    """Finds sets of units whose resources cover what is lacking."""

    def __init__(
        self,
        units: Sequence[PodUnit],
        given: Ints,
        lacking: Ints,
        must_leave: frozenset[PodUnit],
        alike: Sequence[object],
    ) -> None:
        """`given` is [unit, resource], and `lacking` is [resource]."""
        self._units = units
        self._given = given
        self._lacking = lacking
        self._must_leave = must_leave
        self._alike = alike
        self._largest: dict[int, Ints] = {}

    def sets(self, size: int) -> Iterator[tuple[PodUnit, ...]]:
        """Yield the sets with this number of pods; among equal units, only the first ones are used."""
        yield from self._sets(0, size, self._lacking, ())

    def _sets(
        self, start: int, size: int, lacking: Ints, chosen: tuple[int, ...]
    ) -> Iterator[tuple[PodUnit, ...]]:
        if size == 0:
            if (lacking <= 0).all() and self._must_leave <= {self._units[each] for each in chosen}:
                yield tuple(self._units[each] for each in chosen)
            return
        if start == len(self._units) or (lacking > self._most(start, size)).any():
            return
        skipped: set[object] = set()
        for place in range(start, len(self._units)):
            unit = self._units[place]
            if len(unit) > size or self._alike[place] in skipped:
                continue
            left = lacking - self._given[place]
            yield from self._sets(place + 1, size - len(unit), left, (*chosen, place))
            skipped.add(self._alike[place])
            if unit in self._must_leave:
                return  # every further set lacks it

    def _most(self, start: int, size: int) -> Ints:
        """Return the most that `size` units from `start` on give, for each resource separately."""
        found = self._largest.get(start)
        if found is None:
            found = self._largest[start] = -np.sort(-self._given[start:], axis=0)
        most: Ints = found[:size].sum(axis=0)
        return most
