"""Shorten the schedule of a failing seed: leave out actions as long as the same invariant is violated."""

from collections.abc import Callable
from typing import TypeVar

from tests.campaign.campaign_run import SeedResult, run_seed
from tests.campaign.fault_schedule import ScheduledAction

__all__ = ["shortened", "shortest"]

T = TypeVar("T")


def shortened(result: SeedResult, *, attempts: int = 60) -> SeedResult:
    """Return the result of the shortest schedule found that violates the same invariant."""
    wanted = _kind(result.violations[0])
    best = result

    def fails(schedule: list[ScheduledAction]) -> bool:
        nonlocal best
        tried = run_seed(result.seed, schedule=schedule)
        has_failed = any(_kind(each) == wanted for each in tried.violations)
        if has_failed:
            best = tried
        return has_failed

    shortest(result.schedule, fails, attempts=attempts)
    return best


def _kind(violation: str) -> str:
    """Return the invariant that a violation is about, without what differs from run to run."""
    return violation.partition(":")[0]


def shortest(items: list[T], fails: Callable[[list[T]], bool], *, attempts: int = 100) -> list[T]:
    """Return a part of the items that still fails, after at most so many attempts.

    As delta debugging does it: leave out halves, then quarters, and so on down to single items.
    """
    size = max(1, len(items) // 2)
    while items and attempts > 0:
        start, has_shrunk = 0, False
        while start < len(items) and attempts > 0:
            fewer = items[:start] + items[start + size :]
            attempts -= 1
            if fails(fewer):
                items, has_shrunk = fewer, True
            else:
                start += size
        if size == 1 and not has_shrunk:
            break
        size = max(1, size // 2)
    return items
