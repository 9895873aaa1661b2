"""Draw boxes, arrows and text as SVG, for the pictures of the documentation.

The pictures need no program to show them: they look the same on a repository host and in the offline site.
"""

from html import escape
from typing import Final

__all__ = ["Picture"]

_INK: Final = "#37474f"
_FILLS: Final = {
    "plain": "#eceff1",
    "good": "#c8e6c9",
    "bad": "#ffcdd2",
    "blue": "#bbdefb",
    "warm": "#ffe0b2",
}


class Picture:
    """One picture. Coordinates are pixels from the top left."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self._head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            f'role="img" font-family="sans-serif" font-size="13">\n<title>{escape(title)}</title>\n'
            '<defs><marker id="end" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
            f'orient="auto"><path d="M0 0L8 4L0 8z" fill="{_INK}"/></marker></defs>\n'
            f'<rect width="{width}" height="{height}" rx="6" fill="white"/>\n'
        )
        self._parts: list[str] = []

    def box(self, x: float, y: float, width: float, height: float, text: str, *, fill: str = "plain") -> None:
        """Draw a box; each line of the text is centered in it."""
        self._parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="5" fill="{_FILLS[fill]}" '
            f'stroke="{_INK}"/>'
        )
        lines = text.split("\n")
        for number, line in enumerate(lines):
            middle = y + height / 2 + 4.5 + (number - (len(lines) - 1) / 2) * 16
            self.text(x + width / 2, middle, line, anchor="middle", bold=number == 0 and len(lines) > 1)

    def arrow(self, *points: tuple[float, float], dashed: bool = False) -> None:
        """Draw a line through the points with a head at its end."""
        path = " ".join(f"{x:g},{y:g}" for x, y in points)
        dashes = ' stroke-dasharray="5 4"' if dashed else ""
        self._parts.append(
            f'<polyline points="{path}" fill="none" stroke="{_INK}" marker-end="url(#end)"{dashes}/>'
        )

    def line(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        self._parts.append(
            f'<line x1="{start[0]:g}" y1="{start[1]:g}" x2="{end[0]:g}" y2="{end[1]:g}" stroke="{_INK}" '
            'stroke-dasharray="2 4"/>'
        )

    def text(self, x: float, y: float, text: str, *, anchor: str = "start", bold: bool = False) -> None:
        weight = ' font-weight="bold"' if bold else ""
        self._parts.append(
            f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}"{weight} fill="{_INK}">{escape(text)}</text>'
        )

    def describe(self, text: str) -> None:
        """Add a sentence for readers who don't see the picture."""
        self._parts.append(f"<desc>{escape(text)}</desc>")

    def svg(self) -> str:
        return self._head + "\n".join(self._parts) + "\n</svg>\n"
