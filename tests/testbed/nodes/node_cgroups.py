"""The control groups of a testbed: one for all of it, and one for each node below.

A group's name says which process answers for it, so that the next process can tell a group in use from one
that a killed run left behind. Version 1 has a tree per controller; version 2 has one tree for all.
"""

import contextlib
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from tests.testbed.processes import ProcessId

__all__ = ["Group", "group_of_owner", "hierarchies", "stale_groups"]

_ROOT = Path("/sys/fs/cgroup")
_CONTROLLERS = ("cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "blkio", "pids", "systemd")
_NEEDED = ("cpu", "memory", "pids")
_PREFIX = "rescheduler-testbed-"
_EMPTY_WITHIN_S = 15.0
_PERIOD_US = 100_000


def is_unified() -> bool:
    return (_ROOT / "cgroup.controllers").is_file()


def hierarchies() -> dict[str, Path]:
    """Each mounted tree by its controller; version 2 has the single tree ''."""
    if is_unified():
        return {"": _ROOT}
    found = {name: _ROOT / name for name in _CONTROLLERS if (_ROOT / name / "cgroup.procs").is_file()}
    return found if found.keys() >= set(_NEEDED) else {}


@dataclass(frozen=True)
class Group:
    """A group of the same name in every tree."""

    name: str

    def path(self, controller: str) -> Path:
        return hierarchies()["" if is_unified() else controller] / self.name

    def paths(self) -> list[Path]:
        return [tree / self.name for tree in hierarchies().values()]

    def create(self) -> None:
        for controller, tree in hierarchies().items():
            folder = tree / self.name
            if controller == "":
                # Children may use a controller only if every group above hands it on.
                (folder.parent / "cgroup.subtree_control").write_text("+cpu +cpuset +memory +pids +io")
            folder.mkdir(exist_ok=True)
            if controller == "cpuset":  # empty ones take no process
                for each in ("cpuset.cpus", "cpuset.mems"):
                    (folder / each).write_text((folder.parent / each).read_text())

    def limit_memory(self, limit_bytes: int) -> None:
        file = "memory.max" if is_unified() else "memory.limit_in_bytes"
        (self.path("memory") / file).write_text(str(limit_bytes))

    def memory_used_bytes(self) -> int:
        file = "memory.current" if is_unified() else "memory.usage_in_bytes"
        return int((self.path("memory") / file).read_text())

    def limit_cpu(self, cores: float | None) -> None:
        """Limit the CPU time of the whole group; None means no limit."""
        quota = None if cores is None else max(1000, int(cores * _PERIOD_US))
        if is_unified():
            (self.path("cpu") / "cpu.max").write_text(f"{quota or 'max'} {_PERIOD_US}")
        else:
            (self.path("cpu") / "cpu.cfs_quota_us").write_text(str(quota or -1))

    def freeze(self, *, frozen: bool) -> None:
        """Stops every process of the group where it is, or lets them go on."""
        if is_unified():
            (self.path("freezer") / "cgroup.freeze").write_text(str(int(frozen)))
        else:
            (self.path("freezer") / "freezer.state").write_text("FROZEN" if frozen else "THAWED")

    def processes(self) -> set[int]:
        """Return all processes in the group and below, seen from our PID namespace."""
        found: set[int] = set()
        for path in self.paths():
            for file in path.rglob("cgroup.procs"):
                with contextlib.suppress(OSError):
                    found |= {int(line) for line in file.read_text().split()}
        return found - {0}

    def remove(self) -> None:
        """Kills whatever is still inside and removes the group with all below it."""
        with contextlib.suppress(OSError):
            self.freeze(frozen=False)
        deadline = time.monotonic() + _EMPTY_WITHIN_S
        while not self._removed():
            if time.monotonic() > deadline:
                raise TimeoutError(f"control group {self.name} still has processes: {self.processes()}")
            for pid in self.processes() - {os.getpid()}:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)

    def _removed(self) -> bool:
        for path in self.paths():
            for folder, _, _ in os.walk(path, topdown=False):
                with contextlib.suppress(OSError):
                    Path(folder).rmdir()
        return not any(path.exists() for path in self.paths())


def group_of_owner(owner: ProcessId) -> Group:
    return Group(f"{_PREFIX}{owner.pid}-{owner.start_ticks}")


def stale_groups() -> list[Group]:
    """Groups of testbeds whose process is gone."""
    found = set()
    for tree in hierarchies().values():
        for path in tree.glob(f"{_PREFIX}*-*"):
            pid, _, start_ticks = path.name.removeprefix(_PREFIX).partition("-")
            owner = ProcessId.of(int(pid))
            if owner is None or owner.start_ticks != int(start_ticks):
                found.add(path.name)
    return [Group(name) for name in sorted(found)]
