"""Numbers and lists in words."""

from collections.abc import Sequence

__all__ = ["counted", "several"]


def counted(number: int, noun: str) -> str:
    """`1 pod`, `3 pods`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def several(names: Sequence[str], count: int | None = None, *, most: int = 3) -> str:
    """`a, b, c and 4 more`; `count` is how many there are, if not all are named."""
    count = len(names) if count is None else count
    shown = list(names[:most])
    more = count - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")
