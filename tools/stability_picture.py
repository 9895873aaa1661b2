"""Draw the spread of load over time beside the descheduler, from the results of `bench.stability_peers`.

python -m tools.stability_picture bench/results docs/images/stability.svg
"""

import json
import sys
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import Any, Final

__all__ = ["stability_picture"]

_WIDTH, _HEIGHT = 760, 320
_LEFT, _TOP, _BOTTOM = 50, 20, 260
_INK: Final = "#37474f"
_COLORS: Final = ("#2e7d32", "#ef6c00", "#c62828")
_STEP: Final = 10
_THRESHOLD: Final = 20.0


def stability_picture(results: Iterable[dict[str, Any]]) -> str:
    """Return the picture: a line per tool, spread in percentage points over minutes."""
    shown = list(results)
    minutes: float = max(minute for each in shown for minute, _ in each["series"])
    highest: float = max(spread for each in shown for _, spread in each["series"])
    top = (int(highest / _STEP) + 1) * _STEP

    def x(minute: float) -> float:
        return _LEFT + minute / minutes * (_WIDTH - _LEFT - 20)

    def y(spread: float) -> float:
        return _BOTTOM - spread / top * (_BOTTOM - _TOP)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}"',
        'role="img" font-family="sans-serif" font-size="13">',
        "<title>Spread of the cpu load of nodes over time, with rescheduler and with the descheduler</title>",
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" rx="6" fill="white"/>',
    ]
    for spread in range(0, top + 1, _STEP):
        dashes = "" if spread in {0, _THRESHOLD} else ' stroke-dasharray="2 4"'
        parts.append(
            f'<line x1="{_LEFT}" x2="{_WIDTH - 20}" y1="{y(spread):.1f}" y2="{y(spread):.1f}" '
            f'stroke="#90a4ae"{dashes}/>'
        )
        parts.append(_text(_LEFT - 8, y(spread) + 4, str(spread), "end"))
    parts += [_text(x(minute), _BOTTOM + 18, f"{minute} min") for minute in range(0, int(minutes) + 1, 5)]
    for number, (each, color) in enumerate(zip(shown, _COLORS, strict=False)):
        points = " ".join(f"{x(minute):.1f},{y(spread):.1f}" for minute, spread in each["series"])
        parts.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="2"/>')
        left = _LEFT + number * 235
        parts.append(f'<rect x="{left}" y="{_BOTTOM + 34}" width="14" height="4" fill="{color}"/>')
        parts.append(_text(left + 20, _BOTTOM + 41, _label(each), "start"))
    return "\n".join([*parts, "</svg>", ""])


def _label(result: dict[str, Any]) -> str:
    if result["tool"] == "rescheduler":
        return f"rescheduler: {result['moves']} moves"
    return f"descheduler, ±{result['deviation']}: {result['evictions']} evictions"


def _text(x: float, y: float, text: str, anchor: str = "middle") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{_INK}">{escape(text)}</text>'


def main() -> None:
    folder, target = map(Path, sys.argv[1:3])
    files = sorted(
        folder.glob("stability-*.json"), key=lambda path: (path.stem != "stability-rescheduler", path)
    )
    target.write_text(stability_picture(json.loads(path.read_text()) for path in files))


if __name__ == "__main__":
    main()
