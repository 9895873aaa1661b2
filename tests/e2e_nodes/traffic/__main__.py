"""`make traffic`: runs all cases on real nodes and writes the results, then the table and the graph.

    python -m tests.testbed.nodes python -m tests.e2e_nodes.traffic --to FILE --repetitions 10 --minutes 60

Results are added to the file after each run, so that a run that is interrupted loses nothing and another one
adds to it. Each round does all cases once.
"""

import argparse
import itertools
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.e2e_nodes.installation import Installation
from tests.e2e_nodes.traffic.traffic_cases import CORE, VARIANTS, Case, grouped
from tests.e2e_nodes.traffic.traffic_run import deployed, descheduler_program, run_case
from tests.testbed import ControlPlane
from tests.testbed.nodes import Nodes, with_nodes
from tests.testbed.options import QUICK

ARGS = {
    "reschedulingInterval": "5s",
    "enabledStrategies": ["LoadBalancing"],
    "settleTime": "1s",
    "usageSource": "requests",
    "minPodAge": "0s",
    "podCooldown": "1s",
    # The rows without safe evictions have none; the others ask for them by an annotation.
    "safeEvictions": {"mode": "annotated"},
}


_FAILURES = (RuntimeError, AssertionError, TimeoutError, subprocess.TimeoutExpired)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.e2e_nodes.traffic", description=__doc__)
    parser.add_argument("--to", type=Path, required=True, help="the file that results are added to")
    parser.add_argument("--repetitions", type=int, default=10, help="of the core cases (%(default)s)")
    parser.add_argument("--variants", type=int, default=3, help="repetitions of the others (%(default)s)")
    parser.add_argument("--minutes", type=float, default=120, help="start no run after this (%(default)s)")
    parser.add_argument("--row", action="append", default=[], help="only rows that contain this text")
    chosen = parser.parse_args(arguments)

    def is_chosen(case: Case) -> bool:
        if case.row == "descheduler" and descheduler_program() is None:
            return False
        return not chosen.row or any(text in case.row for text in chosen.row)

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that all is cleaned up
    chosen.to.parent.mkdir(parents=True, exist_ok=True)
    until_s = time.monotonic() + 60 * chosen.minutes
    with (
        tempfile.TemporaryDirectory(prefix="traffic-") as name,
        ControlPlane(Path(name) / "run", with_nodes(QUICK, 3)) as cluster,
        Nodes(cluster) as nodes,
    ):
        nodes.import_image(nodes.image("webapp"))
        installation = Installation(cluster, nodes, Path(name))
        installation.prepare()
        installation.apply_manifests(installation.values(ARGS))
        installation.wait_ready()
        rounds = _rounds(chosen.repetitions, chosen.variants, is_chosen)
        return _run_all(rounds, installation, chosen.to, until_s)


def _rounds(core: int, variants: int, is_chosen: Callable[[Case], bool]) -> Iterator[list[Case]]:
    """The core cases come first, so that there are some whenever the time is over."""
    for number in range(max(core, variants + 1)):
        cases = [*(CORE if number < core else ()), *(VARIANTS if 0 < number <= variants else ())]
        yield [case for case in cases if is_chosen(case)]


def _run_all(rounds: Iterator[list[Case]], installation: Installation, to: Path, until_s: float) -> int:
    failures = 0
    numbers = itertools.count(1)
    for number, cases in enumerate(rounds, start=1):
        for app, of_app in grouped(cases):
            if time.monotonic() > until_s:
                return int(failures > 0)
            with deployed(installation, app, f"test-traffic-{next(numbers)}") as on:
                for case in of_app:
                    if time.monotonic() > until_s:
                        break
                    try:
                        found = run_case(case, on)
                    except _FAILURES as error:
                        failures += 1
                        print(f"{number} {case.row} | {case.app} | {case.load}: {error}", file=sys.stderr)
                        continue
                    with to.open("a") as file:
                        file.write(json.dumps(found) + "\n")
                    shown = f"{found['requests']} requests, {found['failed']} failed {found['errors'] or ''}"
                    gap = f"longest gap {found['longestGapMs']:.0f} ms, late {found['latestStartMs']:.0f} ms"
                    print(f"{number} {case.row} | {case.app} | {case.load}: {found['outcome']}, "
                          f"{found['tookS']} s, {shown}, {gap}", flush=True)  # fmt: skip
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
