"""Where the cluster has drifted from what its pods ask for: spread over domains, distance from each other.

A drift knows how many moves it is away from being set right, and how many of them a single move would save.
Positions are always those of the board.
"""

from collections.abc import Collection, Set
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from rescheduler.rules.topology_spread import Spreading
from rescheduler.snapshot.snapshot import NOWHERE
from rescheduler.strategies.evenness import Crowd, crowd_of, moves_needed, moves_saved
from rescheduler.strategies.separation import Lodgers, leavers_needed
from rescheduler.strategies.strategy import View

__all__ = ["Crowding", "Drift", "Unevenness"]

Flags = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.int32]


class Drift(Protocol):
    def moves_needed(self) -> int: ...

    def moves_saved(self, pod: int) -> Ints:
        """[node]: how many moves fewer it would take with that pod there."""
        ...

    def pods(self) -> list[int]:
        """Those whose leaving may help."""
        ...

    def give_up(self, pods: Collection[int], nodes: Flags) -> bool:
        """That any of these pods goes to any of these nodes. False if nothing new follows from that."""
        ...

    def start_over(self) -> None:
        """Forgets what was given up: other moves may have changed it."""
        ...

    def in_words(self) -> str: ...


@dataclass(slots=True, eq=False)
class Unevenness:
    """A topology spread constraint, for all pods that count by it."""

    view: View
    spreading: Spreading
    subjects: Rows
    """Pods that ask for it."""
    counted: Rows
    """Pods that count by it: usually the same."""
    closed: Flags = field(init=False)
    """[domain]: whether it takes no more pods."""
    eligible: Rows = field(init=False)
    """Domains that pods are to be spread over."""

    def __post_init__(self) -> None:
        domain_of = self.spreading.tally.domain_of
        self.eligible = np.unique(domain_of[domain_of != NOWHERE])
        self.start_over()

    def start_over(self) -> None:
        self.closed = np.ones(len(self.spreading.domains.names), np.bool_)
        reachable = self.spreading.tally.domain_of[self.view.open]
        self.closed[reachable[reachable != NOWHERE]] = False

    def moves_needed(self) -> int:
        counts = self._counts()
        if not self._is_violated(counts):
            return 0
        return moves_needed(self._crowd(counts), self.spreading.most_uneven, from_zero=self._from_zero)

    def moves_saved(self, pod: int) -> Ints:
        counts, domain_of = self._counts(), self.spreading.tally.domain_of
        # One place more than there are domains: index -1, where pods don't count, finds it.
        by_domain = np.zeros(counts.size + 1, np.int64)
        source = int(domain_of[self.view.board.position[pod]])
        if source != NOWHERE:
            crowd, leaves = self._crowd(counts), (int(counts[source]), not self.closed[source])
            skew, from_zero = self.spreading.most_uneven, self._from_zero
            for pods in np.unique(counts[self.eligible]).tolist():
                by_domain[:-1][counts == pods] = moves_saved(crowd, skew, leaves, pods, from_zero=from_zero)
            by_domain[:-1][self.closed] = 0
            by_domain[source] = 0
            by_domain[NOWHERE] = moves_saved(crowd, skew, leaves, None, from_zero=from_zero)
        return by_domain[domain_of]

    def pods(self) -> list[int]:
        domains = self.spreading.tally.domain_of[self.view.board.position[self.counted]]
        found: list[int] = self.counted[domains != NOWHERE].tolist()
        return found

    def give_up(self, pods: Collection[int], nodes: Flags) -> bool:  # noqa: ARG002 - others are no better off
        domains = self.spreading.tally.domain_of[nodes]
        domains = domains[domains != NOWHERE]
        changes = not bool(self.closed[domains].all())
        self.closed[domains] = True
        return changes

    def in_words(self) -> str:
        counts = self._counts()[self.eligible]
        names = self.spreading.domains.names
        fullest, emptiest = self.eligible[counts.argmax()], self.eligible[counts.argmin()]
        skew = f"maxSkew {self.spreading.most_uneven}"
        return (
            f"{self.spreading.key}: {counts.max()} pods in {names[fullest]},"
            f" {counts.min()} in {names[emptiest]}, {skew}"
        )

    @property
    def _from_zero(self) -> bool:
        return self.spreading.eligible < self.spreading.fewest_domains

    def _is_violated(self, counts: Ints) -> bool:
        """Only those who ask for it can be in the wrong place."""
        emptiest = 0 if self._from_zero or not self.eligible.size else counts[self.eligible].min()
        domains = self.spreading.tally.domain_of[self.view.board.position[self.subjects]]
        crowded = counts[domains[domains != NOWHERE]] - emptiest > self.spreading.most_uneven
        return bool(crowded.any())

    def _counts(self) -> Ints:
        """[domain]"""
        domains = self.spreading.tally.domain_of[self.view.board.position[self.counted]]
        return np.bincount(domains[domains != NOWHERE], minlength=self.closed.size).astype(np.int64)

    def _crowd(self, counts: Ints) -> Crowd:
        pods, is_closed = counts[self.eligible], self.closed[self.eligible]
        kinds, numbers = np.unique(2 * pods + is_closed, return_counts=True)
        return crowd_of(
            (int(kind) // 2, kind % 2 == 0, int(number)) for kind, number in zip(kinds, numbers, strict=True)
        )


@dataclass(slots=True, eq=False)
class Crowding:
    """Pods in one domain that don't go together, by required anti-affinity."""

    view: View
    key: str
    name: str
    """Of the domain."""
    domain: Flags
    """[node]: those in it."""
    crowd: list[int]
    """The pods, as they were at first."""
    at_odds: Set[tuple[int, int]]
    """Pairs of classes, the smaller first."""
    kept: set[int] = field(default_factory=set)
    """Pods that found no place elsewhere."""

    def moves_needed(self) -> int:
        return leavers_needed(self._lodgers(self.pods()), self.at_odds)

    def moves_saved(self, pod: int) -> Ints:
        pods = self.pods()
        saved = np.zeros(self.domain.size, np.int64)
        if pod in pods:
            others = [each for each in pods if each != pod]
            fewer = leavers_needed(self._lodgers(others), self.at_odds)
            saved[~self.domain] = leavers_needed(self._lodgers(pods), self.at_odds) - fewer
        return saved

    def pods(self) -> list[int]:
        position = self.view.board.position
        return [pod for pod in self.crowd if self.domain[position[pod]]]

    def give_up(self, pods: Collection[int], nodes: Flags) -> bool:  # noqa: ARG002 - they may go anywhere
        before = len(self.kept)
        self.kept.update(pods)
        return len(self.kept) > before

    def start_over(self) -> None:
        self.kept.clear()

    def in_words(self) -> str:
        pods = self.pods()
        return f"{self.key}: {len(pods)} pods in {self.name} that keep away from each other"

    def _lodgers(self, pods: list[int]) -> dict[int, Lodgers]:
        found: dict[int, Lodgers] = {}
        for pod in pods:
            pod_class = int(self.view.snapshot.pods.pod_class[pod])
            before = found.get(pod_class, Lodgers(0))
            may_move = pod not in self.kept and self.view.may_move(pod)
            found[pod_class] = Lodgers(before.movable + may_move, before.fixed + (not may_move))
        return found
