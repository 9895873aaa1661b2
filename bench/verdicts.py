"""Figures with their peers and targets: printed with a verdict, and saved for the charts of the docs.

A figure is compared with a peer of the same run, because machines and moments differ. `save` keeps the last
run of each benchmark and size in bench/results, from which `python -m bench.charts` draws.
"""

import json
import os
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

__all__ = ["RESULTS", "Figure", "Usage", "print_figures", "processor_s", "run_measured", "save"]

RESULTS: Final = Path(__file__).with_name("results")
_LOOK_EVERY_S: Final = 0.02


@dataclass(frozen=True)
class Figure:
    """One measured value beside that of a peer."""

    name: str
    ours: float
    peer_name: str
    peer: float
    unit: str
    target: float | None = None
    """The largest ratio that is good enough; None if there is no target."""

    @property
    def ratio(self) -> float:
        return self.ours / self.peer if self.peer else float("inf")

    @property
    def verdict(self) -> str:
        if self.target is None:
            return ""
        return f"target {self.target:g} times: {'reached' if self.ratio <= self.target else 'missed'}"


def print_figures(figures: Sequence[Figure]) -> bool:
    """Print each figure with its peer; return whether all targets are reached."""
    for each in figures:
        peer = f"{each.peer_name} {each.peer:,.2f} {each.unit}"
        ours = f"{each.name:34}{each.ours:10,.2f} {each.unit:4}"
        print(f"{ours}{peer:>34}{each.ratio:8.2f} times  {each.verdict}")
    return all(each.target is None or each.ratio <= each.target for each in figures)


def save(benchmark: str, size: str, figures: Sequence[Figure], **facts: Any) -> None:
    """Keep the figures of this run, instead of those of an earlier run of the same size."""
    file = RESULTS / f"{benchmark}.json"
    kept: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    kept[size] = {
        "measured": datetime.now(UTC).strftime("%Y-%m-%d"),
        "load": round(os.getloadavg()[0], 1),
        "processors": os.cpu_count(),
        **facts,
        "figures": [asdict(each) | {"ratio": round(each.ratio, 3)} for each in figures],
    }
    RESULTS.mkdir(exist_ok=True)
    file.write_text(json.dumps(dict(sorted(kept.items())), indent=1, ensure_ascii=False) + "\n")


@dataclass(frozen=True, order=True)
class Usage:
    """What a process took, from its start to its end."""

    wall_s: float
    processor_s: float
    peak_mb: float


def run_measured(
    command: Sequence[str],
    log: Path,
    *,
    accepted: Sequence[int] = (0,),
    environment: Mapping[str, str] | None = None,
) -> Usage:
    """Run a program to its end; its output goes to the log. Raises `RuntimeError` for another exit code."""
    with log.open("wb") as output:
        began = time.monotonic()
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environment)
        peak = _PeakMemory(process.pid)
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = time.monotonic() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in accepted:
        raise RuntimeError(f"{command[0]} ended with {process.returncode}: {log.read_text()[-2000:]}")
    return Usage(wall_s, usage.ru_utime + usage.ru_stime, peak.stop())


class _PeakMemory:
    """Reads the peak of a process until it ends: `wait4` reports that of its parent, if that is larger."""

    def __init__(self, pid: int) -> None:
        self._pid, self._peak_kb, self._is_over = pid, 0, threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while not self._is_over.wait(_LOOK_EVERY_S):
            self._peak_kb = max(self._peak_kb, _status_kb(self._pid, "VmHWM"))

    def stop(self) -> float:
        self._is_over.set()
        self._thread.join()
        return self._peak_kb / 1024


def _status_kb(pid: int, field: str) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(field)), 0)


def processor_s(pid: int) -> float:
    """Return the processor time that a running process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
