"""Exact Kubernetes quantities (`250m`, `1.5Gi`, `12e6`), and the type IntOrString (`2`, `25%`).

A quantity is an integer number of nano-units, the finest step of Kubernetes, so sums and comparisons never
round. Finer values are rounded away from zero when they are parsed, as in the API server. Two limits follow
the documentation, not the API server:

- No quantity is larger than 2⁶³ - 1; larger ones are capped. (The API server caps only `Ki`, `Mi`, …; from
  `10E` on its numbers overflow.)
- At least one digit is required. (The API server reads `Mi`, `.` and `-` as zero, and writes `0`.)

All pods repeat the same few strings, so each is parsed once and cached.
"""

import re
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache

__all__ = [
    "IntOrString",
    "IntOrStringError",
    "Notation",
    "Quantity",
    "QuantityError",
    "cpu_millis",
    "parse_quantity",
    "quantity_of",
    "scaled_rounding_down",
    "scaled_rounding_up",
    "whole",
]

IntOrString = int | str
"""An integer, or a percentage as a string, as in API objects."""

_PERCENTAGE = re.compile(r"(?P<percent>-?[0-9]{1,9})%")


class IntOrStringError(ValueError):
    """The value is neither an integer nor a percentage; the message says what is allowed."""


def scaled_rounding_up(share: IntOrString, whole: int) -> int:
    """Return the number, or that percentage of `whole`, rounded up. Raises `IntOrStringError`."""
    return share if isinstance(share, int) else -(-_percent(share) * whole // 100)


def scaled_rounding_down(share: IntOrString, whole: int) -> int:
    """Return the number, or that percentage of `whole`, rounded down. Raises `IntOrStringError`."""
    return share if isinstance(share, int) else _percent(share) * whole // 100


def _percent(share: str) -> int:
    found = _PERCENTAGE.fullmatch(share)
    if found is None:
        raise IntOrStringError(f"{share!r} is neither an integer nor a percentage such as 25%")
    return int(found["percent"])


ALLOWED = "a number with one of the suffixes n u m k M G T P E, Ki Mi Gi Ti Pi Ei or an exponent such as e3"

_SHAPE = re.compile(
    r"""(?P<sign>[+-]?)
        (?P<integer>[0-9]*) (?:\.(?P<fraction>[0-9]*))?
        (?: [eE](?P<exponent>[+-]?[0-9]+) | (?P<binary>[KMGTPE]i) | (?P<decimal>[numkMGTPE]) )?""",
    re.VERBOSE,
)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIX = {exponent: suffix for suffix, exponent in _DECIMAL.items()}

_NANOS = 10**9
_LIMIT = (2**63 - 1) * _NANOS
_DIGITS_THAT_MATTER = 128  # 19 before the point, 9 after it and 60 for the division by 2⁶⁰, generously
_CACHED = 65_536


class QuantityError(ValueError):
    """The text is not a quantity; the message says what is allowed."""


class Notation(Enum):
    """The notation in which a quantity was written, and in which it is written again."""

    DECIMAL = "DecimalSI"
    BINARY = "BinarySI"
    EXPONENT = "DecimalExponent"


@dataclass(frozen=True, slots=True, order=True)
class Quantity:
    """A quantity, compared and hashed by amount: `1Gi` equals `1024Mi`."""

    nanos: int
    notation: Notation = field(default=Notation.DECIMAL, compare=False)

    @property
    def whole(self) -> int:
        """Return the amount in whole units (bytes, pods, devices), rounded away from zero."""
        return _divide_away_from_zero(self.nanos, _NANOS)

    @property
    def millis(self) -> int:
        """Return the amount in thousandths, rounded away from zero."""
        return _divide_away_from_zero(self.nanos, _NANOS // 1000)

    def __add__(self, other: "Quantity") -> "Quantity":
        return Quantity(self.nanos + other.nanos, self.notation if self.nanos else other.notation)

    def __sub__(self, other: "Quantity") -> "Quantity":
        return self + -other

    def __neg__(self) -> "Quantity":
        return Quantity(-self.nanos, self.notation)

    def __bool__(self) -> bool:
        return self.nanos != 0

    def __str__(self) -> str:
        """Return the canonical form: no fraction, no precision lost, the suffix as large as possible."""
        if self.notation is Notation.BINARY and self._reads_well_in_binary():
            return _binary_text(self.nanos // _NANOS)
        return _decimal_text(self.nanos, self.notation)

    def _reads_well_in_binary(self) -> bool:
        return abs(self.nanos) >= 1024 * _NANOS and self.nanos % _NANOS == 0


@lru_cache(maxsize=_CACHED)
def parse_quantity(text: str) -> Quantity:
    """Parse a quantity; raise `QuantityError`."""
    shape = _SHAPE.fullmatch(text)
    if shape is None or not (shape["integer"] or shape["fraction"]):
        raise QuantityError(f"{_shortened(text)} is not a quantity: {ALLOWED}")
    fraction = shape["fraction"] or ""
    if shape["binary"]:
        notation, power_of_ten, power_of_two = Notation.BINARY, 0, _BINARY[shape["binary"]]
    elif shape["exponent"]:
        notation, power_of_ten, power_of_two = Notation.EXPONENT, _bounded(shape["exponent"]), 0
    else:
        notation, power_of_ten, power_of_two = Notation.DECIMAL, _DECIMAL[shape["decimal"] or ""], 0
    nanos = _nanos(shape["integer"] + fraction, power_of_ten - len(fraction) + 9, power_of_two)
    return Quantity(-nanos if shape["sign"] == "-" else nanos, notation)


def quantity_of(value: object) -> Quantity:
    """Parse a field of a JSON object: a text or a bare number. Raise `QuantityError`."""
    if isinstance(value, str):
        return parse_quantity(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return parse_quantity(repr(value))
    raise QuantityError(f"{value!r} is not a quantity: {ALLOWED}")


@lru_cache(maxsize=_CACHED)
def cpu_millis(text: str) -> int:
    """Return thousandths of a core, rounded up: `0.1` is 100, `100u` is 1. Raise `QuantityError`."""
    return parse_quantity(text).millis


@lru_cache(maxsize=_CACHED)
def whole(text: str) -> int:
    """Return whole units such as bytes, rounded up: `1Ki` is 1024, `0.5` is 1. Raise `QuantityError`."""
    return parse_quantity(text).whole


def _nanos(digits: str, power_of_ten: int, power_of_two: int) -> int:
    """Return the digits times 10^p times 2^q, rounded up and capped. Even very long numbers cost little."""
    digits = digits.lstrip("0")
    if not digits:
        return 0
    kept, rest = digits[:_DIGITS_THAT_MATTER], digits[_DIGITS_THAT_MATTER:]
    mantissa = int(kept) + (1 if rest.strip("0") else 0)
    power_of_ten += len(rest)
    if power_of_ten > len(str(_LIMIT)):
        return _LIMIT
    if power_of_ten >= 0:
        return min((mantissa << power_of_two) * _power_of_ten(power_of_ten), _LIMIT)
    if power_of_ten < -2 * _DIGITS_THAT_MATTER:
        return 1
    return min(_divide_away_from_zero(mantissa << power_of_two, _power_of_ten(-power_of_ten)), _LIMIT)


def _power_of_ten(exponent: int) -> int:
    power: int = 10**exponent
    return power


def _bounded(exponent: str) -> int:
    """Return at most 9 digits of the exponent; with more, the result is the cap or one nano anyway."""
    sign, digits = ("-", exponent[1:]) if exponent[0] == "-" else ("", exponent.lstrip("+"))
    return int(sign + (digits.lstrip("0")[:9] or "0"))


def _divide_away_from_zero(amount: int, step: int) -> int:
    return -(-amount // step) if amount >= 0 else amount // step


def _binary_text(amount: int) -> str:
    suffix = ""
    for larger in _BINARY:
        if amount % 1024:
            break
        amount //= 1024
        suffix = larger
    return f"{amount}{suffix}"


def _decimal_text(nanos: int, notation: Notation) -> str:
    if nanos == 0:
        return "0"
    exponent = -9
    while nanos % 1000 == 0 and exponent < 18:
        nanos //= 1000
        exponent += 3
    if notation is Notation.EXPONENT:
        return f"{nanos}e{exponent}" if exponent else str(nanos)
    return f"{nanos}{_DECIMAL_SUFFIX[exponent]}"


def _shortened(text: str) -> str:
    return repr(text) if len(text) <= 60 else f"{text[:57]!r}…"
