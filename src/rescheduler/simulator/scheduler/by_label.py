"""Things found by the pods they select, without trying every selector on every pod.

Nearly all selectors ask for one certain value of some label; only pods with that label can match, so that
is where they are looked up. The others are always candidates.
"""

from collections.abc import Hashable, Iterator, Mapping
from typing import Generic, TypeVar

from rescheduler.model.selectors import Operator, Selector

__all__ = ["ByLabel"]

T = TypeVar("T", bound=Hashable)


class ByLabel(Generic[T]):
    def __init__(self) -> None:
        self._found: dict[tuple[str, str] | None, dict[T, None]] = {}

    def add(self, item: T, selector: Selector) -> None:
        self._found.setdefault(_telling(selector), {})[item] = None

    def remove(self, item: T, selector: Selector) -> None:
        label = _telling(selector)
        items = self._found[label]
        del items[item]
        if not items:
            del self._found[label]

    def candidates(self, labels: Mapping[str, str]) -> Iterator[T]:
        """All whose selector may match these labels, and few others."""
        yield from self._found.get(None, ())
        for label in labels.items():
            yield from self._found.get(label, ())


def _telling(selector: Selector) -> tuple[str, str] | None:
    for requirement in selector.requirements:
        if requirement.operator is Operator.IN and len(requirement.values) == 1:
            return requirement.key, requirement.values[0]
    return None
