"""How many moves it takes until pods are spread evenly enough over domains.

Spread is even enough when no domain has more than `skew` pods more than the emptiest. Let the emptiest have
`low` pods in the end: then every domain above `low + skew` gives what is too many, and every domain below
`low` takes what it lacks. A move serves one giver and one taker, so it takes as many moves as the longer of
the two lists has pods; the best `low` is looked for.
"""

from collections.abc import Iterable
from functools import lru_cache

__all__ = ["Crowd", "crowd_of", "moves_needed", "moves_saved"]

Crowd = tuple[tuple[int, bool, int], ...]
"""(pods, open, domains): how many domains have so many pods, and whether they can take more. Sorted."""


def crowd_of(domains: Iterable[tuple[int, bool, int]]) -> Crowd:
    """Equal ones put together."""
    found: dict[tuple[int, bool], int] = {}
    for pods, is_open, number in domains:
        found[pods, is_open] = found.get((pods, is_open), 0) + number
    return tuple((pods, is_open, number) for (pods, is_open), number in sorted(found.items()) if number)


@lru_cache(maxsize=20_000)
def moves_needed(crowd: Crowd, skew: int, *, from_zero: bool = False) -> int:
    """With `from_zero` the emptiest counts as empty: there are fewer domains than the constraint asks for.

    Where the domains that are open can't take enough, as many as there are too many.
    """
    if not crowd:
        return 0
    lows = range(1) if from_zero else range(crowd[0][0], _highest_low(crowd) + 1)
    possible = (_moves(crowd, low, skew) for low in lows)
    return min((moves for moves in possible if moves is not None), default=_too_many(crowd, lows[-1] + skew))


def moves_saved(
    crowd: Crowd, skew: int, source: tuple[int, bool], target: int | None, *, from_zero: bool = False
) -> int:
    """How many fewer it takes once a pod has left a domain (pods, open) for an open one with `target` pods.

    None: for somewhere where it does not count.
    """
    pods, is_open = source
    changes = [(pods, is_open, -1), (pods - 1, is_open, 1)]
    if target is not None:
        changes += [(target, True, -1), (target + 1, True, 1)]
    after = crowd_of((*crowd, *changes))
    return moves_needed(crowd, skew, from_zero=from_zero) - moves_needed(after, skew, from_zero=from_zero)


def _highest_low(crowd: Crowd) -> int:
    """At most the average, and at most what a domain that takes no more has already."""
    average = sum(pods * number for pods, _, number in crowd) // sum(number for _, _, number in crowd)
    return min([average, *(pods for pods, is_open, _ in crowd if not is_open)])


def _moves(crowd: Crowd, low: int, skew: int) -> int | None:
    high = low + skew
    too_many, too_few = _too_many(crowd, high), sum(max(low - pods, 0) * number for pods, _, number in crowd)
    can_take = sum(max(high - pods, 0) * number for pods, is_open, number in crowd if is_open)
    can_give = sum(max(pods - low, 0) * number for pods, _, number in crowd)
    return max(too_many, too_few) if too_many <= can_take and too_few <= can_give else None


def _too_many(crowd: Crowd, high: int) -> int:
    return sum(max(pods - high, 0) * number for pods, _, number in crowd)
