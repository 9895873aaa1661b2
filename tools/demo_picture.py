"""Draw docs/images/demo.svg: the demo when its first pods have moved. `make generate` runs it."""

import asyncio
import contextlib
import io
import sys
from pathlib import Path

from rich.console import Console

from kubesim.running_cluster import EPOCH, simulated_server
from kubesim.scenario import initial_objects
from kubesim.virtual_time import run_virtual
from rescheduler.api.podmigration import Migration
from rescheduler.cli.demo.demo_scenario import (
    CHAPTERS,
    ClusterMonitor,
    demo_scenario,
    install_prerequisites,
    running_daemon,
)
from rescheduler.cli.demo.demo_screen import LiveDemoScreen
from rescheduler.kube.client import Client
from rescheduler.kube.transport import InProcessTransport

_EXTRA_S = 0.1
"""The other moves of the first wave finish at about the same time."""

# No web font, so that the picture is self-contained.
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
    scenario = demo_scenario()
    server = simulated_server(_SETTLED, scenario, start=EPOCH)
    transport = InProcessTransport(server.handle)
    client = Client(transport)
    await install_prerequisites(client)
    screen = LiveDemoScreen(console, asyncio.get_running_loop().time)
    has_moved = asyncio.Event()

    def on_change(before: Migration | None, now: Migration) -> None:
        screen.migration(before, now)
        if now.is_finished:
            has_moved.set()

    monitor = ClusterMonitor(client, on_change, server.clock.now)
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(transport.close)
        await stack.enter_async_context(monitor.watching())
        await stack.enter_async_context(running_daemon(client, server.clock.now))
        screen.begin(monitor)
        screen.chapter(CHAPTERS[0])
        await has_moved.wait()
        await asyncio.sleep(_EXTRA_S)
        console.print(screen.frame())


_SETTLED = initial_objects(demo_scenario(), EPOCH)


def main(path: Path) -> None:
    console = Console(record=True, width=120, height=40, file=io.StringIO(), force_terminal=True)
    run_virtual(_play(console))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(console.export_svg(title="rescheduler demo", code_format=_FRAME, unique_id="demo"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
