"""Describe violated constraints: topology spread, and required anti-affinity.

A violation knows how many moves fix it, and how many of them a single move saves. Positions are those of the
placement.

Spread is fixed when no domain has more than `skew` pods more than the emptiest. If the emptiest has `low`
pods then, every domain above `low + skew` gives up its excess, and every domain below `low` gets what it
lacks. A move helps one domain of each kind, so the larger of the two sums is the number of moves. The code
searches for the best `low`.

Anti-affinity is fixed when no two pods in a domain exclude each other. Pods of one class are equal, so a
domain is described by the number of pods per class, and by the pairs of classes that exclude each other.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations
from typing import Protocol

import numpy as np

from rescheduler.cluster.snapshot import NO_ROW, Flags, Ints, Rows
from rescheduler.rules.topology_rules import SpreadCheck
from rescheduler.strategies.strategy import View

__all__ = [
    "AntiAffinityViolation",
    "ClassPods",
    "ConstraintViolation",
    "DomainSizes",
    "SpreadViolation",
    "domain_sizes_of",
    "evictions_needed",
    "moves_needed",
    "moves_saved",
]

DomainSizes = tuple[tuple[int, bool, int], ...]
"""(pods, open, domains): the number of domains with this many pods, and whether they take more. Sorted."""


def domain_sizes_of(domains: Iterable[tuple[int, bool, int]]) -> DomainSizes:
    """Return the sizes of domains, with equal ones combined."""
    found: dict[tuple[int, bool], int] = {}
    for pods, is_open, number in domains:
        found[pods, is_open] = found.get((pods, is_open), 0) + number
    return tuple((pods, is_open, number) for (pods, is_open), number in sorted(found.items()) if number)


@lru_cache(maxsize=20_000)
def moves_needed(sizes: DomainSizes, skew: int, *, from_zero: bool = False) -> int:
    """Return how many moves fix the spread. If the open domains can't take enough, it is the number of excess
    pods.

    With `from_zero`, the emptiest domain counts as empty, because there are fewer domains than `minDomains`.
    """
    if not sizes:
        return 0
    lows = range(1) if from_zero else range(sizes[0][0], _highest_low(sizes) + 1)
    possible = (_moves(sizes, low, skew) for low in lows)
    return min((moves for moves in possible if moves is not None), default=_too_many(sizes, lows[-1] + skew))


def moves_saved(
    sizes: DomainSizes, skew: int, source: tuple[int, bool], target: int | None, *, from_zero: bool = False
) -> int:
    """Return how many moves it saves if a pod goes from a domain (pods, open) to an open one with `target`
    pods.

    If `target` is None, the pod goes to a node where it does not count.
    """
    pods, is_open = source
    changes = [(pods, is_open, -1), (pods - 1, is_open, 1)]
    if target is not None:
        changes += [(target, True, -1), (target + 1, True, 1)]
    after = domain_sizes_of((*sizes, *changes))
    return moves_needed(sizes, skew, from_zero=from_zero) - moves_needed(after, skew, from_zero=from_zero)


def _highest_low(sizes: DomainSizes) -> int:
    """Return the highest possible minimum: at most the average, and at most the size of a domain that takes
    no more."""
    average = sum(pods * number for pods, _, number in sizes) // sum(number for _, _, number in sizes)
    return min([average, *(pods for pods, is_open, _ in sizes if not is_open)])


def _moves(sizes: DomainSizes, low: int, skew: int) -> int | None:
    high = low + skew
    too_many, too_few = _too_many(sizes, high), sum(max(low - pods, 0) * number for pods, _, number in sizes)
    can_take = sum(max(high - pods, 0) * number for pods, is_open, number in sizes if is_open)
    can_give = sum(max(pods - low, 0) * number for pods, _, number in sizes)
    return max(too_many, too_few) if too_many <= can_take and too_few <= can_give else None


def _too_many(sizes: DomainSizes, high: int) -> int:
    return sum(max(pods - high, 0) * number for pods, _, number in sizes)


_TRIED_EXHAUSTIVELY = 10
"""Up to this many classes, all combinations are tried. Few nodes have more that exclude each other."""


@dataclass(frozen=True, slots=True)
class ClassPods:
    """The pods of one class in a domain."""

    movable: int
    fixed: int = 0


def evictions_needed(by_class: Mapping[int, ClassPods], conflicts: Set[tuple[int, int]]) -> int:
    """Return how many pods have to leave the domain. Pods that can't move stay, even in conflict.

    `conflicts` has pairs of classes, the smaller first; a class may conflict with itself.
    """
    staying = {each for each, pods in by_class.items() if pods.fixed}
    driven_out = {each for each in by_class if _conflict({each}, staying, conflicts)}
    undecided = sorted(each for each in by_class.keys() - driven_out if by_class[each].movable)
    return sum(by_class[each].movable for each in driven_out) + min(
        sum(_leaving(by_class[each].movable, each, chosen, conflicts) for each in undecided)
        for chosen in _independent(undecided, by_class, conflicts)
    )


def _leaving(pods: int, pod_class: int, chosen: Set[int], conflicts: Set[tuple[int, int]]) -> int:
    """Count the pods that leave. One pod of a class that conflicts with itself may stay, if the class is
    chosen."""
    if pod_class not in chosen:
        return pods
    return pods - 1 if (pod_class, pod_class) in conflicts else 0


def _independent(
    classes: Sequence[int], by_class: Mapping[int, ClassPods], conflicts: Set[tuple[int, int]]
) -> Iterator[Set[int]]:
    """Yield sets of classes without conflicts: all sets, or one good set if there are very many."""
    if len(classes) > _TRIED_EXHAUSTIVELY:
        chosen: set[int] = set()
        for each in sorted(classes, key=lambda each: (-by_class[each].movable, each)):
            if not _conflict({each}, chosen, conflicts):
                chosen.add(each)
        yield chosen
        return
    for size in range(len(classes) + 1):
        for some in combinations(classes, size):
            if not any(pair in conflicts for pair in combinations(some, 2)):
                yield set(some)


def _conflict(some: Set[int], others: Set[int], conflicts: Set[tuple[int, int]]) -> bool:
    return any((min(a, b), max(a, b)) in conflicts for a in some for b in others)


class ConstraintViolation(Protocol):
    def moves_needed(self) -> int: ...

    def moves_saved(self, pod: int) -> Ints:
        """Return [node]: how many moves it saves to have the pod there."""
        ...

    def pods(self) -> list[int]:
        """Return the pods whose move may help."""
        ...

    def rule_out(self, pods: Collection[int], nodes: Flags) -> bool:
        """Rule out that these pods go to these nodes; return False if that changes nothing."""
        ...

    def reset(self) -> None:
        """Forget what was ruled out, because other moves may have changed it."""
        ...

    def describe(self) -> str: ...


@dataclass(slots=True, eq=False)
class SpreadViolation:
    """A topology spread constraint, for all pods that it counts."""

    view: View
    spread_check: SpreadCheck
    subjects: Rows
    """The pods that have the constraint."""
    counted: Rows
    """The pods that the constraint counts: usually the same."""
    closed: Flags = field(init=False)
    """[domain]: takes no more pods."""
    eligible: Rows = field(init=False)
    """The domains over which pods are spread."""

    def __post_init__(self) -> None:
        domain_of = self.spread_check.domain_counts.domain_of
        self.eligible = np.unique(domain_of[domain_of != NO_ROW])
        self.reset()

    def reset(self) -> None:
        self.closed = np.ones(len(self.spread_check.domains.names), np.bool_)
        reachable = self.spread_check.domain_counts.domain_of[self.view.open]
        self.closed[reachable[reachable != NO_ROW]] = False

    def moves_needed(self) -> int:
        counts = self._counts()
        if not self._is_violated(counts):
            return 0
        return moves_needed(self._domain_sizes(counts), self.spread_check.max_skew, from_zero=self._from_zero)

    def moves_saved(self, pod: int) -> Ints:
        counts, domain_of = self._counts(), self.spread_check.domain_counts.domain_of
        # The extra last entry has index -1 (NO_ROW): nodes where pods don't count.
        by_domain = np.zeros(counts.size + 1, np.int64)
        source = int(domain_of[self.view.placement.position[pod]])
        if source != NO_ROW:
            sizes, leaves = self._domain_sizes(counts), (int(counts[source]), not self.closed[source])
            skew, from_zero = self.spread_check.max_skew, self._from_zero
            for pods in np.unique(counts[self.eligible]).tolist():
                by_domain[:-1][counts == pods] = moves_saved(sizes, skew, leaves, pods, from_zero=from_zero)
            by_domain[:-1][self.closed] = 0
            by_domain[source] = 0
            by_domain[NO_ROW] = moves_saved(sizes, skew, leaves, None, from_zero=from_zero)
        return by_domain[domain_of]

    def pods(self) -> list[int]:
        domains = self.spread_check.domain_counts.domain_of[self.view.placement.position[self.counted]]
        found: list[int] = self.counted[domains != NO_ROW].tolist()
        return found

    def rule_out(self, pods: Collection[int], nodes: Flags) -> bool:  # noqa: ARG002 - others are no better off
        domains = self.spread_check.domain_counts.domain_of[nodes]
        domains = domains[domains != NO_ROW]
        changes = not bool(self.closed[domains].all())
        self.closed[domains] = True
        return changes

    def describe(self) -> str:
        counts = self._counts()[self.eligible]
        names = self.spread_check.domains.names
        fullest, min_count = self.eligible[counts.argmax()], self.eligible[counts.argmin()]
        skew = f"maxSkew {self.spread_check.max_skew}"
        return (
            f"{self.spread_check.key}: {counts.max()} pods in {names[fullest]},"
            f" {counts.min()} in {names[min_count]}, {skew}"
        )

    @property
    def _from_zero(self) -> bool:
        return self.spread_check.eligible < self.spread_check.min_domains

    def _is_violated(self, counts: Ints) -> bool:
        """Return whether a pod that has the constraint violates it."""
        min_count = 0 if self._from_zero or not self.eligible.size else counts[self.eligible].min()
        domains = self.spread_check.domain_counts.domain_of[self.view.placement.position[self.subjects]]
        crowded = counts[domains[domains != NO_ROW]] - min_count > self.spread_check.max_skew
        return bool(crowded.any())

    def _counts(self) -> Ints:
        """Return [domain]: how many counted pods it has."""
        domains = self.spread_check.domain_counts.domain_of[self.view.placement.position[self.counted]]
        return np.bincount(domains[domains != NO_ROW], minlength=self.closed.size).astype(np.int64)

    def _domain_sizes(self, counts: Ints) -> DomainSizes:
        pods, is_closed = counts[self.eligible], self.closed[self.eligible]
        kinds, numbers = np.unique(2 * pods + is_closed, return_counts=True)
        return domain_sizes_of(
            (int(kind) // 2, kind % 2 == 0, int(number)) for kind, number in zip(kinds, numbers, strict=True)
        )


@dataclass(slots=True, eq=False)
class AntiAffinityViolation:
    """Pods in one domain that exclude each other by required anti-affinity."""

    view: View
    key: str
    name: str
    """The name of the domain."""
    domain: Flags
    """[node]: is in the domain."""
    initial_pods: list[int]
    """The pods that were in the domain when the violation was found."""
    conflicts: Set[tuple[int, int]]
    """Pairs of classes, the smaller first."""
    kept: set[int] = field(default_factory=set)
    """Pods without a target."""

    def moves_needed(self) -> int:
        return evictions_needed(self._by_class(self.pods()), self.conflicts)

    def moves_saved(self, pod: int) -> Ints:
        pods = self.pods()
        saved = np.zeros(self.domain.size, np.int64)
        if pod in pods:
            others = [each for each in pods if each != pod]
            fewer = evictions_needed(self._by_class(others), self.conflicts)
            saved[~self.domain] = evictions_needed(self._by_class(pods), self.conflicts) - fewer
        return saved

    def pods(self) -> list[int]:
        position = self.view.placement.position
        return [pod for pod in self.initial_pods if self.domain[position[pod]]]

    def rule_out(self, pods: Collection[int], nodes: Flags) -> bool:  # noqa: ARG002 - they may go anywhere
        before = len(self.kept)
        self.kept.update(pods)
        return len(self.kept) > before

    def reset(self) -> None:
        self.kept.clear()

    def describe(self) -> str:
        pods = self.pods()
        return f"{self.key}: {len(pods)} pods in {self.name} that exclude each other"

    def _by_class(self, pods: list[int]) -> dict[int, ClassPods]:
        found: dict[int, ClassPods] = {}
        for pod in pods:
            pod_class = int(self.view.snapshot.pods.pod_class[pod])
            before = found.get(pod_class, ClassPods(0))
            may_move = pod not in self.kept and self.view.may_move(pod)
            found[pod_class] = ClassPods(before.movable + may_move, before.fixed + (not may_move))
        return found
