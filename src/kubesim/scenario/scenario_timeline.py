"""Run the events of a scenario in order, each at its time."""

import asyncio
import heapq
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from kubesim.scenario.event_execution import EventExecutor
from kubesim.scenario.scenario_events import ScenarioEvent
from kubesim.scenario.scenario_file import Scenario
from kubesim.virtual_time import Clock, pause, report_failure

__all__ = ["ScenarioTimeline", "TimelineEntry", "in_words"]


class TimelineEntry(NamedTuple):
    at: timedelta
    """Time since the start of the scenario."""
    what: str
    refusals: list[str]
    """Errors that the API server returned."""


class ScenarioTimeline:
    """Runs the events of a scenario as soon as the event loop runs."""

    def __init__(
        self,
        scenario: Scenario,
        executor: EventExecutor,
        clock: Clock,
        *,
        began: datetime,
        on_event: Callable[[TimelineEntry], object] | None = None,
    ) -> None:
        faults = [ScenarioEvent(at=fault.at, fault=fault) for fault in scenario.faults]
        self._events = [*faults, *scenario.events]
        self._executor = executor
        self._clock = clock
        self._began = began
        self._on_event = on_event
        self._task: asyncio.Task[None] | None = None
        if self._events:
            clock.call_later(0, self._begin)

    def _begin(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())
        self._task.add_done_callback(lambda task: report_failure(task, "the scenario's events failed"))

    async def _run(self) -> None:
        """Run the events one after the other; those due at the same time run in the order of the file."""
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
        refusals = await self._executor.do(action, given)
        if self._on_event is not None:
            self._on_event(TimelineEntry(self._clock.now() - self._began, in_words(action, given), refusals))


def _schedule(
    upcoming: list[tuple[timedelta, int, Iterator[timedelta]]], place: int, times: Iterator[timedelta]
) -> None:
    if (moment := next(times, None)) is not None:
        heapq.heappush(upcoming, (moment, place, times))


def in_words(action: str, given: Any) -> str:
    """Describe an action in one short line."""
    verb = action.replace("_", " ")
    if isinstance(given, tuple):
        return f"{verb} {', '.join(given)}"
    if isinstance(given, dict):
        return f"{verb} {given['kind']}/{given['metadata']['name']}"
    if (what := getattr(given, "what", None)) is not None:
        return f"{verb} {what}"
    return f"{verb} {getattr(given, 'kind', '')}".strip()
