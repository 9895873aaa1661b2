"""How many pods must leave a domain until none is left there that keeps another away.

Pods of one class are alike, so a domain is a few classes, each with so many pods, and pairs of classes that
don't go together; a class may be at odds with itself.
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import combinations

__all__ = ["Lodgers", "leavers_needed"]

_TRIED_EXHAUSTIVELY = 10
"""Classes of which all combinations are tried; a node with more of them that are at odds is a rare sight."""


@dataclass(frozen=True, slots=True)
class Lodgers:
    """The pods of one class in a domain."""

    movable: int
    fixed: int = 0


def leavers_needed(lodgers: Mapping[int, Lodgers], at_odds: Set[tuple[int, int]]) -> int:
    """`at_odds` has pairs of classes, the smaller first, or the same twice.

    Pods that can't move stay, at odds or not.
    """
    staying = {each for each, pods in lodgers.items() if pods.fixed}
    driven_out = {each for each in lodgers if _clash({each}, staying, at_odds)}
    undecided = sorted(each for each in lodgers.keys() - driven_out if lodgers[each].movable)
    return sum(lodgers[each].movable for each in driven_out) + min(
        sum(_leaving(lodgers[each].movable, each, chosen, at_odds) for each in undecided)
        for chosen in _independent(undecided, lodgers, at_odds)
    )


def _leaving(pods: int, lodger: int, chosen: Set[int], at_odds: Set[tuple[int, int]]) -> int:
    """One of a class that is at odds with itself may stay, if the class is chosen."""
    if lodger not in chosen:
        return pods
    return pods - 1 if (lodger, lodger) in at_odds else 0


def _independent(
    classes: Sequence[int], lodgers: Mapping[int, Lodgers], at_odds: Set[tuple[int, int]]
) -> Iterator[Set[int]]:
    """Choices of classes that go together: all of them, or one good one where there are very many."""
    if len(classes) > _TRIED_EXHAUSTIVELY:
        chosen: set[int] = set()
        for each in sorted(classes, key=lambda each: (-lodgers[each].movable, each)):
            if not _clash({each}, chosen, at_odds):
                chosen.add(each)
        yield chosen
        return
    for size in range(len(classes) + 1):
        for some in combinations(classes, size):
            if not any(pair in at_odds for pair in combinations(some, 2)):
                yield set(some)


def _clash(some: Set[int], others: Set[int], at_odds: Set[tuple[int, int]]) -> bool:
    return any((min(a, b), max(a, b)) in at_odds for a in some for b in others)
