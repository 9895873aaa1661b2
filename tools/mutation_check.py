"""Change the code at random places and see whether the tests notice.

    python -m tools.mutation_check [--mutants 100] [--seed 1] [--packages NAME ...] [--only NAME ...]

Takes a random sample of the mutants of each package. Each runs in a fork of a process that has collected all
tests, with those that reach the changed lines, fastest first, until one fails. The lines that a test
reaches are measured once and kept in dist/mutation-tests.json; remove that file after large changes.
"""

import argparse
import contextlib
import itertools
import math
import os
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import coverage
import msgspec
import pytest

from tools.mutants import MutableModule, Mutant, imported_functions
from tools.reaching_tests import ReachingTests

__all__ = ["main", "wilson"]

_PACKAGES: Final = ("migrations", "planner", "rules", "steering")
_SOURCE: Final = Path("src/rescheduler").resolve()
_TESTS: Final = tuple(f"tests/unit/{package}" for package in (*_PACKAGES, "strategies"))
_MEASURED: Final = Path("dist/mutation-tests.json")
_TARGET: Final = 0.9
_MEMORY: Final = 6 << 30
_PASSED, _FAILED, _BROKEN = range(3)


def _sources(package: str) -> list[Path]:
    return sorted((_SOURCE / package).rglob("*.py"))


def wilson(hits: int, total: int, z: float = 1.96) -> tuple[float, float]:
    """Return the interval that contains the true rate in 95 of 100 samples."""
    rate, square = hits / total, z * z / total
    middle = (rate + square / 2) / (1 + square)
    half = z * math.sqrt(rate * (1 - rate) / total + square / total / 4) / (1 + square)
    return middle - half, middle + half


class _MutationRun:
    """A pytest plugin that replaces the loop over the collected tests."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.below_target = False
        self._options = options
        self._items: dict[str, pytest.Item] = {}
        self._functions = imported_functions()
        self._reaching = ReachingTests()
        self._on_failure: Callable[[str], None] = self._reaching.failing.append

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._on_failure(report.nodeid)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self._items = {item.nodeid: item for item in session.items}
        with tempfile.TemporaryDirectory() as folder:
            os.environ["PYTEST_DEBUG_TEMPROOT"] = folder
            self._measure_new_tests(Path(folder))
            self._functions = imported_functions()
            for package in self._options.packages:
                self._check(package, Path(folder))
        return True

    def _measure_new_tests(self, folder: Path) -> None:
        if _MEASURED.exists():
            self._reaching = msgspec.json.decode(_MEASURED.read_bytes(), type=ReachingTests)
        new = [name for name in self._items if name not in self._reaching.seconds]
        at_once = self._options.processes
        parts = [new[start : start + 50] for start in range(0, len(new), 50)]
        files = [folder / f"part-{number}" for number in range(len(parts))]
        jobs = [lambda p=part, f=file: self._measure(p, f) for part, file in zip(parts, files, strict=True)]
        for number, _ in _in_forks(jobs, at_once):
            self._reaching.add(msgspec.json.decode(files[number].read_bytes(), type=ReachingTests))
            _MEASURED.parent.mkdir(exist_ok=True)
            _MEASURED.write_bytes(msgspec.json.encode(self._reaching))
        for name in self._reaching.failing:
            print(f"left out, because it fails without a mutant: {name}")

    def _measure(self, tests: Sequence[str], file: Path) -> None:
        found = ReachingTests()
        self._on_failure = found.failing.append
        sources = [path for package in _PACKAGES for path in _sources(package)]
        measuring = coverage.Coverage(data_file=None, include=[str(path) for path in sources])
        measuring.start()
        for item, following in self._in_order(tests):
            measuring.switch_context(item.nodeid)
            before = time.process_time()
            item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
            found.seconds[item.nodeid] = round(time.process_time() - before, 3)
        measuring.stop()
        found.add_lines(measuring.get_data(), sources)
        file.write_bytes(msgspec.json.encode(found))

    def _in_order(self, tests: Sequence[str]) -> Iterator[tuple[pytest.Item, pytest.Item | None]]:
        """Yield each test with the next, for which pytest keeps fixtures."""
        items = [self._items[test] for test in tests]
        yield from itertools.zip_longest(items, items[1:])

    def _check(self, package: str, folder: Path) -> None:
        """Run a sample of the mutants of one package and print what survives."""
        mutants = self._sample(package)
        files = [folder / f"{package}-{number}" for number in range(len(mutants))]
        jobs = [
            lambda m=each, f=file: self._try(m[0], m[1], f) for each, file in zip(mutants, files, strict=True)
        ]
        survived = 0
        for number, status in _in_forks(jobs, self._options.processes):
            module, mutant = mutants[number]
            if status == _PASSED:
                survived += 1
                count = len(self._reaching.of(mutant, self._options.budget))
                print(f"survived {count} tests: {mutant.name}\n{module.difference(mutant)}", flush=True)
            elif self._options.verbose:
                by = files[number].read_text() if files[number].exists() else f"status {status}"
                print(f"killed: {mutant.name}, by {by}\n{module.difference(mutant)}", flush=True)
        if mutants:
            killed, total = len(mutants) - survived, len(mutants)
            low, high = wilson(killed, total)
            self.below_target |= high < _TARGET
            print(
                f"{package}: {killed} of {total} killed ({killed / total:.1%}; 95 %: {low:.1%} to {high:.1%})"
            )

    def _sample(self, package: str) -> list[tuple[MutableModule, Mutant]]:
        only = self._options.only or ()
        paths = {path.relative_to(_SOURCE).with_suffix("").as_posix(): path for path in _sources(package)}
        names = {name.split(":")[0] for name in only} or set(paths)
        modules = [MutableModule(path, name) for name, path in paths.items() if name in names]
        found = [(module, mutant) for module in modules for mutant in module.mutants]
        if only:
            return [each for each in found if each[1].name in only]
        random.Random(f"{self._options.seed} {package}").shuffle(found)  # noqa: S311
        usable = (each for each in found if each[0].code_of(each[1]))
        return [each for each, _ in zip(usable, range(self._options.mutants), strict=False)]

    def _try(self, module: MutableModule, mutant: Mutant, file: Path) -> None:
        """Run the tests of one mutant; a test that takes far too long ends the process."""

        def end(test: str) -> None:
            file.write_text(test)
            os._exit(_FAILED)

        self._on_failure = end
        code = module.code_of(mutant)
        assert code is not None
        for function in self._functions[mutant.key]:
            function.__code__ = code
        tests = self._reaching.of(mutant, self._options.budget)
        for item, following in self._in_order(tests):
            seconds = self._reaching.seconds[item.nodeid]
            signal.setitimer(signal.ITIMER_PROF, 3 + 5 * seconds)
            signal.alarm(60 + int(20 * seconds))
            item.ihook.pytest_runtest_protocol(item=item, nextitem=following)


def _in_forks(jobs: Sequence[Callable[[], None]], at_once: int) -> Iterator[tuple[int, int]]:
    """Run each job in a process of its own; yield its number and exit status when it ends."""
    todo, running = list(enumerate(jobs)), dict[int, int]()
    try:
        while todo or running:
            while todo and len(running) < at_once:
                number, job = todo.pop(0)
                running[_fork(job)] = number
            pid, status = os.wait()
            _kill(pid)  # what it has started
            if (code := os.waitstatus_to_exitcode(status)) == _BROKEN:
                raise RuntimeError("the check itself failed; its traceback is above")
            yield running.pop(pid), code
    finally:
        for pid in running:
            _kill(pid)


def _fork(job: Callable[[], None]) -> int:
    sys.stdout.flush()
    if pid := os.fork():
        return pid
    status = _BROKEN
    try:
        os.setpgid(0, 0)
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        job()
        status = _PASSED
    except BaseException:  # noqa: BLE001  # a fork must never return
        traceback.print_exc()
    finally:
        os._exit(status)


def _kill(group: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def main() -> int:
    """Return the exit code of pytest, or 1 if the 95 % interval of a package is below the target."""
    parser = argparse.ArgumentParser(prog="mutation_check")
    parser.add_argument("--mutants", type=int, default=100, help="how many per package")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--packages", nargs="+", default=_PACKAGES, choices=_PACKAGES)
    parser.add_argument(
        "--only", nargs="+", metavar="NAME", help="these mutants, by the names that a run prints"
    )
    parser.add_argument("--budget", type=float, default=20, help="CPU seconds of tests per mutant")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--verbose", action="store_true", help="print killed mutants, too")
    parser.add_argument("--tests", nargs="+", default=_TESTS, metavar="PATH")
    options = parser.parse_args()
    run = _MutationRun(options)
    arguments = ["-q", "-s", "-p", "no:cacheprovider", "-m", "not size and not control_plane"]
    status = pytest.main([*arguments, "--hypothesis-profile=mutation", *options.tests], plugins=[run])
    return status or int(run.below_target)


if __name__ == "__main__":
    sys.exit(main())
