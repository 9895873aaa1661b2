"""Draw the charts of docs/benchmarks.md from the last results of the benchmarks.

    python -m bench.charts        # writes docs/images/benchmarks/*.svg

Each chart compares rescheduler with its peers in one unit, as bars. It has its own background, so that it is
readable on light and dark pages.
"""

import json
import sys
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench.verdicts import RESULTS

__all__ = ["Bar", "chart", "charts", "main"]

FOLDER: Final = Path(__file__).parents[1] / "docs" / "images" / "benchmarks"
WIDTH: Final = 720
_LEFT, _RIGHT, _TOP, _BAR, _GAP = 210, 110, 52, 22, 12
_OURS, _PEER, _INK, _PALE, _PAPER = "#1565c0", "#90a4ae", "#263238", "#607d8b", "#ffffff"


class Bar(NamedTuple):
    name: str
    value: float
    text: str
    is_ours: bool = False


def chart(title: str, note: str, bars: Sequence[Bar]) -> str:
    """Return a bar chart as SVG; the longest bar has the full width."""
    height = _TOP + len(bars) * (_BAR + _GAP) + 10
    room = WIDTH - _LEFT - _RIGHT
    longest = max(bar.value for bar in bars) or 1.0
    described = "; ".join(f"{bar.name}: {bar.text}" for bar in bars)
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
            'role="img" font-family="sans-serif" font-size="14">'
        ),
        f"<title>{escape(title)}</title>",
        f"<desc>{escape(described)}</desc>",
        f'<rect width="{WIDTH}" height="{height}" rx="8" fill="{_PAPER}" stroke="{_PEER}"/>',
        f'<text x="16" y="24" font-weight="bold" fill="{_INK}">{escape(title)}</text>',
        f'<text x="16" y="42" font-size="12" fill="{_PALE}">{escape(note)}</text>',
    ]
    for number, bar in enumerate(bars):
        y = _TOP + number * (_BAR + _GAP)
        width, middle = max(2.0, room * bar.value / longest), y + _BAR / 2 + 5
        weight, text = ' font-weight="bold"' if bar.is_ours else "", escape(bar.text)
        parts += [
            (
                f'<text x="{_LEFT - 10}" y="{middle:g}" text-anchor="end"{weight} fill="{_INK}">'
                f"{escape(bar.name)}</text>"
            ),
            (
                f'<rect x="{_LEFT}" y="{y}" width="{width:.1f}" height="{_BAR}" rx="3" '
                f'fill="{_OURS if bar.is_ours else _PEER}"/>'
            ),
            f'<text x="{_LEFT + width + 8:.1f}" y="{middle:g}"{weight} fill="{_INK}">{text}</text>',
        ]
    return "\n".join([*parts, "</svg>"]) + "\n"


def charts() -> dict[str, str]:
    """Return the charts by file name, as far as there are results."""
    found: dict[str, str] = {}
    for size, run in _runs("plan_command").items():
        where = f"{run['nodes']:,} nodes, {run['pods']:,} pods, real API server; {run.get('condition', '')}"
        time, memory = (_figure(run, each, "descheduler") for each in ("time to a plan", "peak memory"))
        curl = [each for each in run["figures"] if each["peer_name"] == "curl"][:1]
        found[f"plan-time-{size}.svg"] = chart(
            "From process start to a plan",
            where.rstrip("; "),
            [
                Bar("rescheduler plan", time["ours"], f"{time['ours']:.1f} s", is_ours=True),
                Bar("descheduler, dry run", time["peer"], f"{time['peer']:.1f} s"),
                *(Bar("curl, only the pods", each["peer"], f"{each['peer']:.1f} s") for each in curl),
            ],
        )
        found[f"plan-memory-{size}.svg"] = chart(
            "Peak memory of a plan",
            where.rstrip("; "),
            [
                Bar("rescheduler plan", memory["ours"], f"{memory['ours']:,.0f} MB", is_ours=True),
                Bar("descheduler, dry run", memory["peer"], f"{memory['peer']:,.0f} MB"),
            ],
        )
    for size, run in _runs("executed_moves").items():
        time = _figure(run, f"{size} moves", "descheduler")
        found["moves.svg"] = chart(
            f"{size} pods to other nodes",
            f"{run['nodes']} nodes, real control plane; rescheduler starts each copy first",
            [
                Bar("rescheduler, moved", time["ours"], f"{time['ours']:.0f} s", is_ours=True),
                Bar("descheduler, evicted", time["peer"], f"{time['peer']:.0f} s"),
            ],
        )
    return found


def _runs(benchmark: str) -> dict[str, Any]:
    file = RESULTS / f"{benchmark}.json"
    runs: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    return runs


def _figure(run: dict[str, Any], name: str, peer: str) -> dict[str, Any]:
    return next(
        each for each in run["figures"] if each["name"] == name and each["peer_name"].startswith(peer)
    )


def main() -> int:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, drawn in charts().items():
        (FOLDER / name).write_text(drawn, encoding="utf-8")
        print(FOLDER / name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
