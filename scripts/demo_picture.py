"""Draws the picture in the README: the demo's first view, as SVG. `make generate` runs it."""

import asyncio
import sys
from pathlib import Path

from rich.console import Console

from rescheduler.cli.cluster_view import cluster_view
from rescheduler.kube import Client
from rescheduler.kube.in_process import InProcess
from rescheduler.kube.resources import NODES, PODS
from rescheduler.simulator import ApiServer
from rescheduler.simulator.exchange import Object
from rescheduler.simulator.life import EPOCH
from rescheduler.simulator.scenario import settled
from rescheduler.simulator.scenario.gallery import lopsided_shop

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


async def _view(objects: list[Object]) -> object:
    server = ApiServer(seed=1)
    server.load(objects)
    client = Client(InProcess(server.handle))
    return cluster_view((await client.list(NODES)).items, (await client.list(PODS)).items)


def main(path: Path) -> None:
    console = Console(record=True, width=110, file=sys.stderr, force_terminal=True)
    console.print(asyncio.run(_view(settled(lopsided_shop(), EPOCH))))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(console.export_svg(title="rescheduler demo", code_format=_FRAME, unique_id="demo"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
