"""Selectors over labels: a conjunction of requirements, as a plain value.

Requirements are kept in one canonical form (sorted, doubles removed, `==` and single-valued `in` written
as `=`), so selectors that were written differently but say the same compare equal and hash alike.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from rescheduler.model.selectors.names import label_key_fault, label_value_fault

__all__ = ["EVERYTHING", "NOTHING", "Operator", "Requirement", "Selector", "SelectorError", "integer"]


class SelectorError(ValueError):
    """A selector that can't be read; the message says where and what is allowed."""

    def __init__(self, message: str, *, position: int | None = None, path: str = "") -> None:
        self.position = position
        """Where in the text, counted from 0; None for the object form."""
        self.path = path
        """Which field of the object form, such as `matchExpressions[0].values`."""
        self.reason = message
        place = path if position is None else f"at character {position + 1}"
        super().__init__(f"{place}: {message}" if place else message)


class Operator(StrEnum):
    """Named as the object form names them."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GREATER = "Gt"
    LESS = "Lt"


_INTEGER = re.compile(r"[+-]?[0-9]{1,63}")


def integer(value: str) -> int | None:
    """A label's value as Gt and Lt see it: a decimal int64 or not a number at all."""
    if not _INTEGER.fullmatch(value):
        return None
    number = int(value)
    return number if -(2**63) <= number < 2**63 else None


@dataclass(frozen=True, slots=True, order=True)
class Requirement:
    """One condition on one label. `Requirement.checked` refuses what Kubernetes refuses."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()
    """Sorted, without doubles."""

    @classmethod
    def checked(cls, key: str, operator: Operator, values: Iterable[str] = ()) -> "Requirement":
        """Raises `SelectorError` with the reason alone: the caller knows the place."""
        found = tuple(sorted(set(values)))
        if fault := label_key_fault(key):
            raise SelectorError(f"the label key {key!r} {fault}")
        if fault := _values_fault(operator, found):
            raise SelectorError(fault)
        return cls(key, operator, found)

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        if value is None:
            return self.operator is Operator.NOT_IN or self.operator is Operator.DOES_NOT_EXIST
        if self.operator is Operator.IN:
            return value in self.values
        if self.operator is Operator.NOT_IN:
            return value not in self.values
        if self.operator is Operator.EXISTS or self.operator is Operator.DOES_NOT_EXIST:
            return self.operator is Operator.EXISTS
        return self._compares(value)

    def _compares(self, value: str) -> bool:
        number, bound = integer(value), integer(self.values[0])
        if number is None or bound is None:
            return False
        return number > bound if self.operator is Operator.GREATER else number < bound

    def __str__(self) -> str:
        values = ",".join(self.values)
        match self.operator:
            case Operator.IN:
                return f"{self.key}={values}" if len(self.values) == 1 else f"{self.key} in ({values})"
            case Operator.NOT_IN:
                return f"{self.key}!={values}" if len(self.values) == 1 else f"{self.key} notin ({values})"
            case Operator.EXISTS:
                return self.key
            case Operator.DOES_NOT_EXIST:
                return f"!{self.key}"
            case Operator.GREATER:
                return f"{self.key}>{values}"
            case Operator.LESS:
                return f"{self.key}<{values}"


def _values_fault(operator: Operator, values: tuple[str, ...]) -> str | None:
    match operator:
        case Operator.IN | Operator.NOT_IN if not values:
            return f"{operator} needs at least one value"
        case Operator.EXISTS | Operator.DOES_NOT_EXIST if values:
            return f"{operator} takes no values"
        case Operator.GREATER | Operator.LESS:
            if len(values) != 1 or integer(values[0]) is None:
                return f"{operator} needs one value, a whole number"
        case _:
            pass
    for value in values:
        if fault := label_value_fault(value):
            return f"the label value {value!r} {fault}"
    return None


@dataclass(frozen=True, slots=True)
class Selector:
    """Labels match when every requirement does. Made by the parsers, or `EVERYTHING`, or `NOTHING`."""

    requirements: tuple[Requirement, ...] = ()
    """Sorted, without doubles."""
    selects_nothing: bool = False
    """Only `NOTHING`: the selector that was never given."""

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
        """What both select."""
        if self.selects_nothing or other.selects_nothing:
            return NOTHING
        return Selector.of((*self.requirements, *other.requirements))

    def __str__(self) -> str:
        """The canonical text form; both `EVERYTHING` and `NOTHING` have none and give an empty text."""
        return ",".join(map(str, self.requirements))


EVERYTHING: Final = Selector()
NOTHING: Final = Selector(selects_nothing=True)
