"""The number that a pod of a StatefulSet has in its name."""

from typing import Final

__all__ = ["ordinal_in"]

_LONGEST: Final = 10
"""No StatefulSet has more pods; and a name is somebody else's to choose."""


def ordinal_in(name: str, stateful_set: str) -> int | None:
    """None if it is not the name of a pod of that StatefulSet."""
    stem, _, number = name.rpartition("-")
    is_number = number.isascii() and number.isdecimal() and len(number) <= _LONGEST
    return int(number) if stem == stateful_set and is_number else None
