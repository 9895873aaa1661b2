"""What was refused while a plan was made: each subject once per reason, in the same order every time."""

from collections import Counter
from collections.abc import Iterable

from rescheduler.model.plan import Rejection
from rescheduler.planner.reasons import Reason

__all__ = ["MOST_LISTED", "Notes"]

MOST_LISTED = 1000
"""Rejections that a plan lists: in a large cluster a balancing strategy may ask about very many pods."""


class Notes:
    def __init__(self) -> None:
        self._found: dict[tuple[str, str], Rejection] = {}

    def add(self, rejection: Rejection) -> None:
        """The first one counts: it comes from the strategy that has precedence."""
        self._found.setdefault((rejection.subject, rejection.reason), rejection)

    def without(self, moved: Iterable[str]) -> list[Rejection]:
        """All of them, by subject, except for pods that another strategy could move after all.

        That a pod fails, and is left to FailedPods, is not said where that has said more about it.
        """
        left_out = frozenset(moved)
        told = {subject for subject, reason in self._found if reason != Reason.FAILING}
        return [
            self._found[subject, reason]
            for subject, reason in sorted(self._found)
            if subject not in left_out and not (reason == Reason.FAILING and subject in told)
        ]

    @staticmethod
    def counts(rejections: Iterable[Rejection]) -> dict[str, int]:
        return dict(sorted(Counter(each.reason for each in rejections).items()))
