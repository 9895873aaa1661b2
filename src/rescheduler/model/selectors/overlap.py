"""Can two selectors select the same object? Decided exactly, without looking at any object.

Requirements on different labels never exclude each other, so a conjunction can be met if, label by label,
there is a value (or an absence) that meets all requirements on that label.
"""

from collections import defaultdict
from collections.abc import Iterator
from itertools import count

from rescheduler.model.selectors.labels import Operator, Requirement, Selector, integer

__all__ = ["can_match", "can_overlap"]

_LONGEST_VALUE = 63
_LARGEST = 2**63 - 1


def can_overlap(one: Selector, other: Selector) -> bool:
    """True unless no labels at all could match both."""
    return can_match(one & other)


def can_match(selector: Selector) -> bool:
    """True unless no labels at all could match: `a=x,a=y` can't."""
    if selector.selects_nothing:
        return False
    by_key: defaultdict[str, list[Requirement]] = defaultdict(list)
    for requirement in selector.requirements:
        by_key[requirement.key].append(requirement)
    return all(_can_all_be_met(key, found) for key, found in by_key.items())


def _can_all_be_met(key: str, requirements: list[Requirement]) -> bool:
    if all(requirement.matches({}) for requirement in requirements):
        return True
    return any(
        all(requirement.matches({key: value}) for requirement in requirements)
        for value in _candidates(requirements)
    )


def _candidates(requirements: list[Requirement]) -> Iterator[str]:
    """Values among which one meets all requirements, if there is one at all."""
    for requirement in requirements:
        if requirement.operator is Operator.IN:
            yield from requirement.values
            return
    excluded = sum(len(r.values) for r in requirements if r.operator is Operator.NOT_IN)
    # One value more than are excluded is enough.
    for number, _ in zip(_numbers(requirements), range(excluded + 1), strict=False):
        yield number


def _numbers(requirements: list[Requirement]) -> Iterator[str]:
    """Whole numbers within all bounds, each in all its spellings: `7` and `07` are different values."""
    lowest, highest = 0, _LARGEST  # a label's value can't begin with a minus sign
    for requirement in requirements:
        bound = integer(requirement.values[0]) if requirement.values else None
        if requirement.operator is Operator.GREATER and bound is not None:
            lowest = max(lowest, bound + 1)
        elif requirement.operator is Operator.LESS and bound is not None:
            highest = min(highest, bound - 1)
    for number in count(lowest):
        if number > highest:
            return
        for width in range(len(str(number)), _LONGEST_VALUE + 1):
            yield str(number).zfill(width)
