"""Numbers that may be written as a part of a whole: `2`, or `25%`."""

import re

__all__ = ["Share", "ShareError", "rounded_down", "rounded_up"]

Share = int | str
"""As API objects have it."""

_PERCENTAGE = re.compile(r"(?P<percent>-?[0-9]{1,9})%")


class ShareError(ValueError):
    """It is neither a whole number nor a percentage; the message says what is allowed."""


def rounded_up(share: Share, whole: int) -> int:
    """Raises `ShareError`."""
    return share if isinstance(share, int) else -(-_percent(share) * whole // 100)


def rounded_down(share: Share, whole: int) -> int:
    """Raises `ShareError`."""
    return share if isinstance(share, int) else _percent(share) * whole // 100


def _percent(share: str) -> int:
    found = _PERCENTAGE.fullmatch(share)
    if found is None:
        raise ShareError(f"{share!r} is neither a whole number nor a percentage such as 25%")
    return int(found["percent"])
