"""Draws the picture in the README: the demo when its first pods have moved. `make generate` runs it."""

import asyncio
import contextlib
import io
import sys
from pathlib import Path

from rich.console import Console

from rescheduler.cli.demo.playing import daemon_at_work, prepare
from rescheduler.cli.demo.screen import LiveScreen
from rescheduler.cli.demo.story import CHAPTERS, story
from rescheduler.cli.demo.witness import Witness
from rescheduler.kube import Client
from rescheduler.kube.in_process import InProcess
from rescheduler.model.migrations import Migration
from rescheduler.simulator.life import EPOCH, simulated
from rescheduler.simulator.scenario import settled
from rescheduler.simulator.virtual_time import run_virtual

_AND_THEN_S = 0.1
"""The others of the first wave are there at about the same time."""

# Without a font from the web: a picture should need nothing but itself.
_FRAME = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: {char_height}px; line-height: {line_height}px; }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: sans-serif; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


async def _play(console: Console) -> None:
    scenario = story()
    server = simulated(_SETTLED, scenario, start=EPOCH)
    transport = InProcess(server.handle)
    client = Client(transport)
    await prepare(client)
    screen = LiveScreen(console, asyncio.get_running_loop().time)
    has_moved = asyncio.Event()

    def hear(before: Migration | None, now: Migration) -> None:
        screen.migration(before, now)
        if now.is_finished:
            has_moved.set()

    witness = Witness(client, hear)
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(transport.close)
        await stack.enter_async_context(witness.watching())
        await stack.enter_async_context(daemon_at_work(client, server.clock.now))
        screen.begin(witness)
        screen.chapter(CHAPTERS[0])
        await has_moved.wait()
        await asyncio.sleep(_AND_THEN_S)
        console.print(screen.frame())


_SETTLED = settled(story(), EPOCH)


def main(path: Path) -> None:
    console = Console(record=True, width=120, height=40, file=io.StringIO(), force_terminal=True)
    run_virtual(_play(console))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(console.export_svg(title="rescheduler demo", code_format=_FRAME, unique_id="demo"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
