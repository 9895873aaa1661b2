"""What happens in a scenario, one thing after the other, each at its time."""

import asyncio
import heapq
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from kubesim.scenario.event_execution import EventExecutor
from kubesim.scenario.scenario_events import ScenarioEvent
from kubesim.scenario.scenario_file import Scenario
from kubesim.virtual_time import Clock, pause

__all__ = ["ScenarioTimeline", "TimelineEntry", "in_words"]


class TimelineEntry(NamedTuple):
    at: timedelta
    """Since the scenario's start."""
    what: str
    refusals: list[str]
    """What the API server said against it."""


Tell = Callable[[TimelineEntry], object]


class ScenarioTimeline:
    """Runs by itself, as soon as the event loop does."""

    def __init__(
        self,
        scenario: Scenario,
        actor: EventExecutor,
        clock: Clock,
        *,
        began: datetime,
        tell: Tell | None = None,
    ) -> None:
        troubles = [ScenarioEvent(at=trouble.at, fault=trouble) for trouble in scenario.faults]
        self._events = [*troubles, *scenario.events]
        self._actor = actor
        self._clock = clock
        self._began = began
        self._tell = tell
        self._task: asyncio.Task[None] | None = None
        if self._events:
            clock.call_later(0, self._begin)

    def _begin(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())
        self._task.add_done_callback(_report)

    async def _run(self) -> None:
        """By one hand: what is due at the same moment is done in the file's order."""
        upcoming: list[tuple[timedelta, int, Iterator[timedelta]]] = []
        for place, event in enumerate(self._events):
            _schedule(upcoming, place, event.times())
        while upcoming:
            due, place, times = heapq.heappop(upcoming)
            wait_s = (self._began + due - self._clock.now()).total_seconds()
            if wait_s > 0:
                await pause(self._clock, wait_s)
            await self._do(self._events[place])
            _schedule(upcoming, place, times)

    async def _do(self, event: ScenarioEvent) -> None:
        action, given = event.action
        refusals = await self._actor.do(action, given)
        if self._tell is not None:
            self._tell(TimelineEntry(self._clock.now() - self._began, in_words(action, given), refusals))


def _schedule(
    upcoming: list[tuple[timedelta, int, Iterator[timedelta]]], place: int, times: Iterator[timedelta]
) -> None:
    if (moment := next(times, None)) is not None:
        heapq.heappush(upcoming, (moment, place, times))


def in_words(action: str, given: Any) -> str:
    """Short enough for a line."""
    verb = action.replace("_", " ")
    if isinstance(given, tuple):
        return f"{verb} {', '.join(given)}"
    if isinstance(given, dict):
        return f"{verb} {given['kind']}/{given['metadata']['name']}"
    if (what := getattr(given, "what", None)) is not None:
        return f"{verb} {what}"
    return f"{verb} {getattr(given, 'kind', '')}".strip()


def _report(task: asyncio.Task[None]) -> None:
    """A mistake of ours must not stay silent because nobody waits for the task."""
    if not task.cancelled() and (error := task.exception()) is not None:
        context = {"message": "the scenario's events failed", "exception": error, "task": task}
        task.get_loop().call_exception_handler(context)
