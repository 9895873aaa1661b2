"""Label selectors as values, the syntax of labels, and whether two selectors can match the same object.

Requirements have one canonical form (sorted, without duplicates, `==` and single-valued `in` as `=`), so
that equivalent selectors compare equal and hash alike.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import count
from typing import Final

__all__ = [
    "EVERYTHING",
    "NOTHING",
    "Requirement",
    "Selector",
    "SelectorError",
    "SelectorOperator",
    "can_match",
    "can_overlap",
    "label_integer",
    "label_key_error",
    "label_value_error",
    "subdomain_error",
]

_NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_LONGEST_NAME = 63
_LONGEST_SUBDOMAIN = 253

_NAME_RULE = "letters, digits, '-', '_' and '.', with a letter or digit at both ends"
_SUBDOMAIN_RULE = "lower-case letters, digits, '-' and '.', with a letter or digit at both ends of each part"


def label_key_error(key: str) -> str | None:
    """Return what is wrong with a label key, or None. A key is a name, or a DNS prefix, a slash and a name:
    `app`, `example.com/app`."""
    prefix, slash, name = key.rpartition("/")
    if slash:
        if not prefix:
            return "has an empty prefix before '/'"
        if fault := subdomain_error(prefix):
            return f"has a prefix that {fault}"
    if not name:
        return "has an empty name"
    if len(name) > _LONGEST_NAME:
        return f"has a name of {len(name)} characters; at most {_LONGEST_NAME} are allowed"
    if not _NAME.fullmatch(name):
        return f"has a name with invalid characters; use {_NAME_RULE}"
    return None


def label_value_error(value: str) -> str | None:
    """Return what is wrong with a label value, or None. A value is empty, or looks like a key's name."""
    if len(value) > _LONGEST_NAME:
        return f"has {len(value)} characters; at most {_LONGEST_NAME} are allowed"
    if value and not _NAME.fullmatch(value):
        return f"has invalid characters; use {_NAME_RULE}"
    return None


def subdomain_error(name: str) -> str | None:
    if len(name) > _LONGEST_SUBDOMAIN:
        return f"has {len(name)} characters; at most {_LONGEST_SUBDOMAIN} are allowed"
    if not _SUBDOMAIN.fullmatch(name):
        return f"has invalid characters; use {_SUBDOMAIN_RULE}"
    return None


class SelectorError(ValueError):
    """A selector that can't be read; the message says where and what is allowed."""

    def __init__(self, message: str, *, position: int | None = None, path: str = "") -> None:
        self.position = position
        """The position in the text, counted from 0; None for the object form."""
        self.path = path
        """The field of the object form, such as `matchExpressions[0].values`."""
        self.reason = message
        place = path if position is None else f"at character {position + 1}"
        super().__init__(f"{place}: {message}" if place else message)


class SelectorOperator(StrEnum):
    """An operator of a requirement, named as in the object form."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GREATER = "Gt"
    LESS = "Lt"


_NEGATED = {
    SelectorOperator.IN: SelectorOperator.NOT_IN,
    SelectorOperator.NOT_IN: SelectorOperator.IN,
    SelectorOperator.EXISTS: SelectorOperator.DOES_NOT_EXIST,
    SelectorOperator.DOES_NOT_EXIST: SelectorOperator.EXISTS,
}

_INTEGER = re.compile(r"[+-]?[0-9]{1,63}")


def label_integer(value: str) -> int | None:
    """Return a label's value as Gt and Lt read it: a decimal int64, or None."""
    if not _INTEGER.fullmatch(value):
        return None
    number = int(value)
    return number if -(2**63) <= number < 2**63 else None


@dataclass(frozen=True, slots=True, order=True)
class Requirement:
    """One condition on one label. `Requirement.checked` refuses what Kubernetes refuses."""

    key: str
    operator: SelectorOperator
    values: tuple[str, ...] = ()
    """Sorted, without duplicates."""

    @classmethod
    def checked(cls, key: str, operator: SelectorOperator, values: Iterable[str] = ()) -> "Requirement":
        """Return a valid requirement; raise `SelectorError` with the reason alone, because only the caller
        knows the place."""
        found = tuple(sorted(set(values)))
        if fault := label_key_error(key):
            raise SelectorError(f"the label key {key!r} {fault}")
        if fault := _values_error(operator, found):
            raise SelectorError(fault)
        return cls(key, operator, found)

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        if value is None:
            return (
                self.operator is SelectorOperator.NOT_IN or self.operator is SelectorOperator.DOES_NOT_EXIST
            )
        if self.operator is SelectorOperator.IN:
            return value in self.values
        if self.operator is SelectorOperator.NOT_IN:
            return value not in self.values
        if self.operator is SelectorOperator.EXISTS or self.operator is SelectorOperator.DOES_NOT_EXIST:
            return self.operator is SelectorOperator.EXISTS
        return self._compares(value)

    @property
    def negation(self) -> "Requirement | None":
        """Return the requirement that all other labels meet; None for comparisons, which have none."""
        negated = _NEGATED.get(self.operator)
        return None if negated is None else Requirement(self.key, negated, self.values)

    def _compares(self, value: str) -> bool:
        number, bound = label_integer(value), label_integer(self.values[0])
        if number is None or bound is None:
            return False
        return number > bound if self.operator is SelectorOperator.GREATER else number < bound

    def __str__(self) -> str:
        values = ",".join(self.values)
        match self.operator:
            case SelectorOperator.IN:
                return f"{self.key}={values}" if len(self.values) == 1 else f"{self.key} in ({values})"
            case SelectorOperator.NOT_IN:
                return f"{self.key}!={values}" if len(self.values) == 1 else f"{self.key} notin ({values})"
            case SelectorOperator.EXISTS:
                return self.key
            case SelectorOperator.DOES_NOT_EXIST:
                return f"!{self.key}"
            case SelectorOperator.GREATER:
                return f"{self.key}>{values}"
            case SelectorOperator.LESS:
                return f"{self.key}<{values}"


def _values_error(operator: SelectorOperator, values: tuple[str, ...]) -> str | None:
    match operator:
        case SelectorOperator.IN | SelectorOperator.NOT_IN if not values:
            return f"{operator} needs at least one value"
        case SelectorOperator.EXISTS | SelectorOperator.DOES_NOT_EXIST if values:
            return f"{operator} takes no values"
        case SelectorOperator.GREATER | SelectorOperator.LESS:
            if len(values) != 1 or label_integer(values[0]) is None:
                return f"{operator} needs exactly one value, an integer"
        case _:
            pass
    for value in values:
        if fault := label_value_error(value):
            return f"the label value {value!r} {fault}"
    return None


@dataclass(frozen=True, slots=True)
class Selector:
    """A selector matches labels that meet every requirement. Parsers create it; `EVERYTHING` and `NOTHING`
    are constants."""

    requirements: tuple[Requirement, ...] = ()
    """Sorted, without duplicates."""
    selects_nothing: bool = False
    """Whether this is `NOTHING`, the selector of a field that is not set."""

    @classmethod
    def of(cls, requirements: Iterable[Requirement]) -> "Selector":
        return cls(tuple(sorted(set(requirements))))

    @property
    def selects_everything(self) -> bool:
        return not self.requirements and not self.selects_nothing

    def matches(self, labels: Mapping[str, str]) -> bool:
        if self.selects_nothing:
            return False
        # A plain loop: this runs once per pod and selector, where a generator costs twice as much.
        for requirement in self.requirements:  # noqa: SIM110
            if not requirement.matches(labels):
                return False
        return True

    def __and__(self, other: "Selector") -> "Selector":
        """Return a selector for the labels that both match."""
        if self.selects_nothing or other.selects_nothing:
            return NOTHING
        return Selector.of((*self.requirements, *other.requirements))

    def __str__(self) -> str:
        """Return the canonical text form; it is empty for `EVERYTHING` and, because it has none, for
        `NOTHING`."""
        return ",".join(map(str, self.requirements))


EVERYTHING: Final = Selector()
NOTHING: Final = Selector(selects_nothing=True)

_LONGEST_VALUE = 63
_LARGEST = 2**63 - 1


def can_overlap(one: Selector, other: Selector) -> bool:
    """Return whether some labels could match both selectors."""
    return can_match(one & other)


def can_match(selector: Selector) -> bool:
    """Return whether some labels could match: `a=x,a=y` matches none."""
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
    """Yield values of which at least one meets all requirements, if any value does."""
    for requirement in requirements:
        if requirement.operator is SelectorOperator.IN:
            yield from requirement.values
            return
    excluded = sum(len(r.values) for r in requirements if r.operator is SelectorOperator.NOT_IN)
    # One more value than is excluded is enough.
    for number, _ in zip(_numbers(requirements), range(excluded + 1), strict=False):
        yield number


def _numbers(requirements: list[Requirement]) -> Iterator[str]:
    """Yield whole numbers within all bounds, each in all its spellings: `7` and `07` are different values."""
    lowest, highest = 0, _LARGEST  # a label value can't start with a minus sign
    for requirement in requirements:
        bound = label_integer(requirement.values[0]) if requirement.values else None
        if requirement.operator is SelectorOperator.GREATER and bound is not None:
            lowest = max(lowest, bound + 1)
        elif requirement.operator is SelectorOperator.LESS and bound is not None:
            highest = min(highest, bound - 1)
    for number in count(lowest):
        if number > highest:
            return
        for width in range(len(str(number)), _LONGEST_VALUE + 1):
            yield str(number).zfill(width)
