"""Numbers that may be written as a part of a whole: `2`, or `25%`."""

import re

__all__ = ["IntOrString", "IntOrStringError", "scaled_rounding_down", "scaled_rounding_up"]

IntOrString = int | str
"""As API objects have it."""

_PERCENTAGE = re.compile(r"(?P<percent>-?[0-9]{1,9})%")


class IntOrStringError(ValueError):
    """It is neither an integer nor a percentage; the message says what is allowed."""


def scaled_rounding_up(share: IntOrString, whole: int) -> int:
    """Raises `ShareError`."""
    return share if isinstance(share, int) else -(-_percent(share) * whole // 100)


def scaled_rounding_down(share: IntOrString, whole: int) -> int:
    """Raises `ShareError`."""
    return share if isinstance(share, int) else _percent(share) * whole // 100


def _percent(share: str) -> int:
    found = _PERCENTAGE.fullmatch(share)
    if found is None:
        raise IntOrStringError(f"{share!r} is neither an integer nor a percentage such as 25%")
    return int(found["percent"])
