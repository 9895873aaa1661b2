"""Writes what was measured into the documentation: tables and a graph.

python -m tests.e2e_nodes.traffic.traffic_report FILE docs/zero-downtime.md docs/images/drain-and-move.svg
"""

import json
import statistics
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.e2e_nodes.traffic.traffic_cases import CORE, VARIANTS, App, Case, Load
from tools.generated_section import GeneratedSection

__all__ = ["graph", "main", "tables"]

Run = dict[str, Any]


def case_of(run: Run) -> Case:
    return Case(run["row"], App(**run["app"]), Load(**run["load"]))


def tables(runs: Sequence[Run]) -> str:
    """Return the tables: each way to remove a pod, with and without a delay, then everything else."""
    ours = [
        run for run in runs if case_of(run).is_ours and run["app"]["delay_s"] and not run["app"]["stateful"]
    ]
    kept = [run for run in ours if "killed" not in run["row"]]
    total, failed = sum(run["requests"] for run in kept), sum(run["failed"] for run in kept)
    lost = f"**{failed} of {total:,} requests failed**"
    lines = [f"Deployments with a shutdown delay, moved by rescheduler: {lost} in {len(kept)} runs.", ""]
    for delay, title in ((5, "With a shutdown delay of 5 s"), (0, "Without a shutdown delay")):
        lines += [f"**{title}** (1 replica, start 10 s, HTTP/1.1, a new connection per request, 1,000/s)", ""]
        lines += _table((case for case in CORE if case.app.delay_s == delay), runs, lambda case: case.row)
        lines.append("")
    lines += ["**One thing changed at a time** (the rest as in the first table)", ""]
    lines += _table(VARIANTS, runs, _variant)
    return "\n".join(lines) + "\n"


def _table(cases: Iterable[Case], runs: Sequence[Run], name: Any) -> Iterator[str]:
    yield "| | runs | requests | failed | per run | p99 | longest gap | time |"
    yield "|---|--:|--:|--:|--:|--:|--:|--:|"
    for case in cases:
        found = [run for run in runs if case_of(run) == case]
        if found:
            yield f"| {name(case)} | {_row(found)} |"


def _row(found: Sequence[Run]) -> str:
    failed = [run["failed"] for run in found]
    spread = f"{min(failed)} to {max(failed)}" if min(failed) != max(failed) else f"{failed[0]}"
    outcomes = {run["outcome"] for run in found} - {"done"}
    took = f"{statistics.median(run['tookS'] for run in found):.0f} s"
    return " | ".join(
        (
            str(len(found)),
            f"{sum(run['requests'] for run in found):,}",
            f"**{sum(failed):,}**",
            spread,
            f"{statistics.median(run['p99Ms'] for run in found):.0f} ms",
            f"{max(run['longestGapMs'] for run in found) / 1000:.2f} s",
            "; ".join([took, *sorted(outcomes)]),
        )
    )


def _variant(case: Case) -> str:
    usual_app, usual_load = App(), Load()
    parts = [] if case.load == usual_load else [str(case.load)]
    parts += [] if case.app == usual_app else [str(case.app)]
    return f"{case.row}: {'; '.join(parts) or 'as above'}"


# -- the graph

_WIDTH, _HEIGHT, _LEFT, _GAP = 760, 150, 60, 70
_ANSWERED, _FAILED = "#2e7d32", "#c62828"


def graph(runs: Sequence[Run]) -> str:
    """Return an SVG: requests per second, answered and failed, of a drain and of a move of the same pod."""
    panels = [
        (row, next((run for run in runs if case_of(run) == Case(row, App(delay_s=delay), Load())), None))
        for row, delay in (("kubectl drain", 5), ("rescheduler move", 5))
    ]
    shown = [(row, run) for row, run in panels if run is not None]
    seconds = max((len(run["seconds"]) for _, run in shown), default=1)
    height = len(shown) * (_HEIGHT + _GAP) + 30
    text = 'font-family="sans-serif" font-size="13"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" {text}>',
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
    ]
    for number, (row, run) in enumerate(shown):
        parts += _panel(row, run, 40 + number * (_HEIGHT + _GAP), seconds)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(row: str, run: Run, top: int, seconds: int) -> Iterator[str]:
    rate, bottom = run["load"]["rate"], top + _HEIGHT
    step = (_WIDTH - _LEFT - 20) / seconds
    lost = f"{run['failed']:,} of {run['requests']:,} requests failed"
    lost += f", longest gap {run['longestGapMs'] / 1000:.1f} s"
    yield f'<text x="{_LEFT}" y="{top - 12}"><tspan font-weight="bold">{row}</tspan>: {lost}</text>'
    for second, each in enumerate(run["seconds"][:-1]):  # the last one is not a whole second
        x, bad = _LEFT + second * step, min(1.0, each["failed"] / rate) * _HEIGHT
        good = min(1.0, (each["sent"] - each["failed"]) / rate) * _HEIGHT
        for color, y, tall in ((_ANSWERED, bottom - good, good), (_FAILED, bottom - good - bad, bad)):
            if tall > 0:
                size = f'width="{step - 1:.1f}" height="{tall:.1f}"'
                yield f'<rect x="{x:.1f}" y="{y:.1f}" {size} fill="{color}"/>'
    yield f'<line x1="{_LEFT}" y1="{bottom}" x2="{_WIDTH - 20}" y2="{bottom}" stroke="#555"/>'
    yield f'<text x="{_LEFT - 8}" y="{top + 10}" text-anchor="end">{rate:,}/s</text>'
    yield f'<text x="{_LEFT - 8}" y="{bottom}" text-anchor="end">0</text>'
    for second in range(0, seconds + 1, 5):
        x = _LEFT + second * step
        yield f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{second} s</text>'


def main(arguments: Sequence[str]) -> int:
    results, document, picture = map(Path, arguments)
    runs = [json.loads(line) for line in results.read_text().splitlines()]
    picture.write_text(graph(runs))
    section = GeneratedSection(lambda: tables(runs))
    document.write_text(section.renewed(document.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
