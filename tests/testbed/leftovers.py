"""Which testbed processes run on this machine, found by the marks in their environment.

Works without any state file: also after a crash, a removed run folder, or by a process that doesn't know
of the testbed that was left behind.
"""

from dataclasses import dataclass
from pathlib import Path

from tests.testbed.parts import Part
from tests.testbed.processes import ProcessId, environment_of

__all__ = ["LeftoverProcess", "leftovers", "marks", "running"]

_RUN_DIR, _PART, _OWNER = _MARKS = (
    "RESCHEDULER_TESTBED_RUN_DIR",
    "RESCHEDULER_TESTBED_PART",
    "RESCHEDULER_TESTBED_OWNER",
)
_NO_OWNER = "nobody"


@dataclass(frozen=True)
class LeftoverProcess:
    """A running part. Without an owner it was meant to stay (`up`)."""

    process: ProcessId
    part: Part
    run_dir: Path
    owner: ProcessId | None

    def is_left_over(self) -> bool:
        """Whether it should have ended: its owner is gone, or is us (at the end of a run)."""
        return self.owner is not None and (self.owner == ProcessId.ours() or not self.owner.alive())

    def __str__(self) -> str:
        return f"{self.part} (pid {self.process.pid}) of the testbed in {self.run_dir}"


def marks(run_dir: Path, part: Part, owner: ProcessId | None) -> dict[str, str]:
    """The environment variables by which a part is found again."""
    reported = f"{owner.pid} {owner.start_ticks} {owner.boot}" if owner else _NO_OWNER
    return {_RUN_DIR: str(run_dir), _PART: part, _OWNER: reported}


def running() -> list[LeftoverProcess]:
    """Every part of every testbed on this machine that we may see."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (process := ProcessId.of(int(entry.name))):
            environment = environment_of(process.pid)
            if environment.keys() >= set(_MARKS) and environment[_PART] in set(Part):
                found.append(_leftover(process, environment))
    return sorted(
        found,
        key=lambda leftover: (
            leftover.run_dir,
            leftover.part,
            leftover.process.pid,
        ),
    )


def leftovers() -> list[LeftoverProcess]:
    """What should not run any more: parts that we own, and parts whose owner is gone.

    For the end of a test run. Other runs at the same time, and what `up` started, are none of its business.
    """
    return [leftover for leftover in running() if leftover.is_left_over()]


def _leftover(process: ProcessId, environment: dict[str, str]) -> LeftoverProcess:
    owner = None
    if environment[_OWNER] != _NO_OWNER:
        pid, start_ticks, boot = environment[_OWNER].split()
        owner = ProcessId(int(pid), int(start_ticks), boot)
    return LeftoverProcess(process, Part(environment[_PART]), Path(environment[_RUN_DIR]), owner)
