"""The course of the story: chapter after chapter, and when each comes true."""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Final

from rescheduler.cli.demo.screen import Screen
from rescheduler.cli.demo.story import Chapter
from rescheduler.cli.demo.witness import Witness

__all__ = ["told"]

_LOOK_EVERY_S: Final = 0.5
_PATIENCE_S: Final = 40.0
"""For the last chapter, on a machine that has other things to do."""


async def told(
    screen: Screen, witness: Witness, chapters: Sequence[Chapter], length_s: float, ended: asyncio.Event
) -> dict[str, str]:
    """What did not come true, by chapter, when the story is over; or what was known when it was `ended`."""
    began_s = asyncio.get_running_loop().time()
    wrong: dict[str, str] = {}
    ends = [*(chapter.begins_s for chapter in chapters[1:]), length_s]
    for chapter, end_s in zip(chapters, ends, strict=True):
        screen.chapter(chapter)
        patience_s = _PATIENCE_S if chapter is chapters[-1] else 0.0
        why = await _until_true(chapter, witness, began_s + end_s + patience_s, ended)
        screen.came_true(chapter, why)
        if why:
            wrong[chapter.title] = why
        await _until(began_s + end_s, ended)
        if ended.is_set():
            break
    return wrong


async def _until_true(chapter: Chapter, witness: Witness, end_s: float, ended: asyncio.Event) -> str:
    """Empty as soon as it has come true, else what is missing at the end."""
    loop = asyncio.get_running_loop()
    while (why := chapter.came_true(witness)) and loop.time() < end_s and not ended.is_set():
        await _until(min(end_s, loop.time() + _LOOK_EVERY_S), ended)
    return why


async def _until(moment_s: float, ended: asyncio.Event) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout_at(moment_s):
            await ended.wait()
