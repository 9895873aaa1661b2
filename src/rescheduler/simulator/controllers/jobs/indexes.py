"""Completion indexes of an Indexed Job, as its status writes them: `0-2,4,5`. Pure."""

from collections.abc import Iterable

__all__ = ["parse_indexes", "show_indexes"]


def parse_indexes(text: str) -> set[int]:
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def show_indexes(indexes: Iterable[int]) -> str:
    parts: list[tuple[int, int]] = []
    for index in sorted(indexes):
        if parts and parts[-1][1] == index - 1:
            parts[-1] = (parts[-1][0], index)
        else:
            parts.append((index, index))
    return ",".join(_show(first, last) for first, last in parts)


def _show(first: int, last: int) -> str:
    """Two are no range yet."""
    if last - first < 2:
        return str(first) if first == last else f"{first},{last}"
    return f"{first}-{last}"
