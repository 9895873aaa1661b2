"""Runs the scenarios on a real control plane: `python -m tests.conformance record | check`.

`record` writes down what the real server shows, `check` says where it or the simulator shows something else
than what was written down. `report --write FILE` makes docs/conformance.md from the record and the
simulator, `report --check FILE` says whether it is current.
"""

import argparse
import asyncio
import re
import sys
import tempfile
from pathlib import Path

from tests.conformance import recorded
from tests.conformance.report import report
from tests.conformance.scenario import Scenario, all_scenarios
from tests.conformance.servers import API_ONLY, Outcome, all_on_real_server, all_on_simulator
from tests.testbed.control_plane import ControlPlane
from tests.testbed.options import QUICK


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb in ("record", "check"):
        verbs.add_parser(verb).add_argument(
            "-k", default="", metavar="PATTERN", help="only scenarios whose id matches this pattern"
        )
    page = verbs.add_parser("report").add_mutually_exclusive_group(required=True)
    page.add_argument("--write", type=Path, metavar="FILE")
    page.add_argument("--check", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    if arguments.verb == "report":
        return _report(write=arguments.write, check=arguments.check)
    return _on_real_server(
        [found for found in all_scenarios() if re.search(arguments.k, found.id)], arguments.verb
    )


def _on_real_server(chosen: list[Scenario], verb: str) -> int:
    seen: dict[str, Outcome] = {}
    for options, mine in (
        (API_ONLY, [found for found in chosen if found.components is None]),
        (QUICK, [found for found in chosen if found.components is not None]),
    ):
        if mine:
            with tempfile.TemporaryDirectory() as folder, ControlPlane(Path(folder), options) as cluster:
                seen |= asyncio.run(all_on_real_server(mine, cluster))
    if verb == "record":
        _record(seen)
    return _compare(chosen, {"real server": seen, "simulator": all_on_simulator(chosen)})


def _record(seen: dict[str, Outcome]) -> None:
    for group in {name.partition("/")[0] for name in seen}:
        mine = {
            name: notes
            for name, notes in seen.items()
            if name.startswith(f"{group}/") and not isinstance(notes, Exception)
        }
        known = {found.id for found in all_scenarios()}
        kept = {name: notes for name, notes in recorded.load(group).items() if name in known}
        recorded.save(group, kept | mine)


def _compare(chosen: list[Scenario], seen: dict[str, dict[str, Outcome]]) -> int:
    differences = 0
    for found in chosen:
        known = recorded.load(found.group).get(found.id)
        for server, outcomes in seen.items():
            outcome = outcomes[found.id]
            if outcome != known:
                differences += 1
                print(f"{found.id}: the {server} shows something else than was recorded")
                for line in recorded.difference(known, outcome):
                    print(f"    {line}")
    print(f"{len(chosen)} scenarios, {differences} differences")
    return 1 if differences else 0


def _report(*, write: Path | None, check: Path | None) -> int:
    chosen = all_scenarios()
    text = report(chosen, all_on_simulator(chosen))
    if write:
        write.write_text(text)
    elif check and (not check.exists() or check.read_text() != text):
        print(f"{check} is not current: python -m tests.conformance report --write {check}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
