"""A rich console that shows text from the cluster and never interprets it."""

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from rescheduler.cli.safe_output import printable

__all__ = ["SafeConsole"]


class SafeConsole(Console):
    """Plain strings are no markup, and what a terminal would act upon is written as an escape."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, markup=False, highlight=False, emoji=False)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(printable(segment.text, keep_newlines=True), segment.style)
