"""How long a kubelet waits before it tries again: 10 s, then twice as long each time, up to 5 minutes.

A kubelet remembers its waits; here they follow from what the API holds (restart counts and times), so that
they outlive whoever plays the kubelet.
"""

from datetime import datetime, timedelta
from typing import NamedTuple

from rescheduler.model.duration import format_duration

__all__ = ["LONGEST", "Pull", "pull_at", "restart_delay", "shown"]

FIRST = timedelta(seconds=10)
LONGEST = timedelta(minutes=5)
FORGIVEN_AFTER = 2 * LONGEST
"""A container that ran for so long is started again as if it had never failed."""
NOTICED_AFTER = timedelta(seconds=1)
"""How long an exit is seen before the kubelet acts on it."""
PULL_TAKES = timedelta(seconds=1)


def restart_delay(restarts: int, ran_for: timedelta) -> timedelta:
    """From an exit to the next start, for a container that was restarted so often before."""
    if restarts == 0 or ran_for >= FORGIVEN_AFTER:
        return NOTICED_AFTER
    return _wait(restarts)


class Pull(NamedTuple):
    """Where the attempts to pull an image stand: failing right now, or waiting for the next one."""

    failing: bool
    wait: timedelta
    until: datetime


def pull_at(began: datetime, now: datetime) -> Pull:
    attempt, wait = began, FIRST
    while now >= attempt + PULL_TAKES + wait:
        attempt += PULL_TAKES + wait
        wait = min(2 * wait, LONGEST)
    if now < attempt + PULL_TAKES:
        return Pull(failing=True, wait=wait, until=attempt + PULL_TAKES)
    return Pull(failing=False, wait=wait, until=attempt + PULL_TAKES + wait)


def _wait(failures: int) -> timedelta:
    doublings = min(failures - 1, 10)  # far beyond the longest
    return min(FIRST * (1 << doublings), LONGEST)


def shown(wait: timedelta) -> str:
    """As Go prints it: 10s, 1m20s, 5m0s."""
    return format_duration(wait)
