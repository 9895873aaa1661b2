"""Run the reliability campaign: many seeds, with counts at the end; or replay and shorten one seed.

python -m tests.campaign --seeds 100 --first 1      # `make campaign N=100 SEED=1`
python -m tests.campaign --replay 42                # plays seed 42 twice; shortens it if it fails
"""

import argparse
import gc
import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from tests.campaign.campaign_run import FAULT_MINUTES, SeedResult, run_seed
from tests.campaign.schedule_shrinking import shortened

_MOST_SHOWN = 10


def main() -> int:
    options = _options()
    if os.environ.get("PYTHONHASHSEED") != "0":
        # The order of sets is part of a history.
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "tests.campaign", *sys.argv[1:]])
    if options.replay is not None:
        return _replay(options.replay, options.minutes, options.attempts)
    return _campaign(options)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.campaign", description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20, help="how many seeds to play")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--minutes", type=float, default=FAULT_MINUTES, help="minutes with faults per seed")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="seeds that are played at once")
    parser.add_argument("--replay", type=int, help="play only this seed, and shorten it if it fails")
    parser.add_argument("--attempts", type=int, default=60, help="how many shorter schedules to try")
    parser.add_argument("--to", type=Path, help="a file to which one line of JSON per seed is added")
    return parser.parse_args()


# -- many seeds


def _campaign(options: argparse.Namespace) -> int:
    total = CampaignTotal()
    for result in _results(options):
        total.add(result)
        _print_seed(result)
        if options.to is not None:
            with options.to.open("a") as file:
                file.write(json.dumps(_record(result)) + "\n")
    print(total)
    return 1 if total.failing else 0


def _results(options: argparse.Namespace) -> Iterator[SeedResult]:
    seeds = range(options.first, options.first + options.seeds)
    play = partial(run_seed, minutes=options.minutes)
    if options.processes == 1:
        _collect_rarely()
        yield from map(play, seeds)
        return
    with ProcessPoolExecutor(options.processes, initializer=_collect_rarely) as pool:
        yield from pool.map(play, seeds)


def _collect_rarely() -> None:
    """Let the garbage collector look at all objects less often: that takes a tenth of the time."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


def _print_seed(result: SeedResult) -> None:
    words = f"{result.migrations} migrations, {result.hours:.1f} h, {result.actions.total()} actions"
    print(
        f"seed {result.seed}: {words}, {len(result.violations)} violations, history {result.digest}",
        flush=True,
    )
    for violation in result.violations[:_MOST_SHOWN]:
        print(f"  {violation}", flush=True)
    if result.violations:
        print(f"  replay and shorten it: make campaign ARGS='--replay {result.seed}'", flush=True)


def _record(result: SeedResult) -> dict[str, object]:
    fields = ("seed", "cluster", "outcomes", "actions", "hours", "writes", "digest", "violations")
    return {name: getattr(result, name) for name in fields}


class CampaignTotal:
    """The counts over all seeds."""

    def __init__(self) -> None:
        self.seeds: list[int] = []
        self.failing: list[int] = []
        self.hours = 0.0
        self.violations = 0
        self.outcomes: Counter[str] = Counter()
        self.actions: Counter[str] = Counter()

    def add(self, result: SeedResult) -> None:
        self.seeds.append(result.seed)
        self.hours += result.hours
        self.outcomes += result.outcomes
        self.actions += result.actions
        self.violations += len(result.violations)
        if result.violations:
            self.failing.append(result.seed)

    def __str__(self) -> str:
        ends = Counter(f"{' '.join(each.split()[:2])}" for each in self.outcomes.elements())
        lines = [
            f"seeds            {len(self.seeds)} ({min(self.seeds)} to {max(self.seeds)})",
            f"migrations       {self.outcomes.total()}: {_counts(ends)}",
            f"cluster-hours    {self.hours:.1f}",
            f"faults, actions  {self.actions.total()}: {_counts(self.actions)}",
            f"violations       {self.violations}",
        ]
        if self.failing:
            lines.append(f"failing seeds    {', '.join(map(str, self.failing))}")
        return "\n".join(lines)


def _counts(counted: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counted.items()))


# -- one seed


def _replay(seed: int, minutes: float, attempts: int) -> int:
    result = run_seed(seed, minutes=minutes)
    again = run_seed(seed, minutes=minutes)
    _print_seed(result)
    same = "the same" if again.digest == result.digest else f"another: {again.digest}"
    print(f"played again, its history is {same}")
    if not result.violations:
        return 0
    shown = shortened(result, attempts=attempts)
    print(f"\nShortened from {len(result.schedule)} to {len(shown.schedule)} actions:")
    print(f"{shown.cluster}\n")
    print("\n".join([*shown.history, "", *shown.violations[:_MOST_SHOWN]]))
    return 1


if __name__ == "__main__":
    sys.exit(main())
