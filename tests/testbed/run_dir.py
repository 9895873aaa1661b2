"""The folder of one running control plane: its files, its processes, and how to stop them.

The state file is written after every start and stop, so that any later process can find and end what a
crashed one left behind. The lock file stays for good: it marks the folder as a testbed's, and nothing is
ever removed from a folder that is not.
"""

import contextlib
import fcntl
import json
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.testbed.leftovers import LeftoverProcess, running
from tests.testbed.parts import Part
from tests.testbed.processes import ProcessId, end

__all__ = ["ForeignFolderError", "PartRecord", "RunDir", "down"]


class ForeignFolderError(Exception):
    """The folder holds files that no testbed made: they are left alone."""


@dataclass(frozen=True)
class PartRecord:
    """A part that was started: its process and the ports it was given, the one for clients first."""

    process: ProcessId
    ports: tuple[int, ...]


@dataclass(frozen=True)
class RunDir:
    path: Path

    @property
    def data(self) -> Path:
        """Everything a cluster consists of; gone after `down`."""
        return self.path / "data"

    @property
    def etcd(self) -> Path:
        return self.data / "etcd"

    @property
    def certificates(self) -> Path:
        return self.data / "certificates"

    @property
    def ca_certificate(self) -> Path:
        return self.data / "ca.crt"

    @property
    def audit_policy(self) -> Path:
        return self.data / "audit-policy.json"

    @property
    def scheduler_configuration(self) -> Path:
        return self.data / "scheduler.json"

    @property
    def tokens(self) -> Path:
        return self.data / "tokens.csv"

    @property
    def service_account_key(self) -> Path:
        return self.data / "service-account.key"

    @property
    def service_account_public_key(self) -> Path:
        return self.data / "service-account.pub"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's."""
        return self.path / "kubeconfig"

    @property
    def logs(self) -> Path:
        """Kept after `down`, until the next start: they tell why a test failed."""
        return self.path / "logs"

    @property
    def audit_log(self) -> Path:
        return self.logs / "audit.log"

    def audited(self) -> Iterator[dict[str, Any]]:
        """Read the audit log: an event per finished request, in the order they finished."""
        with self.audit_log.open() as lines:
            yield from (json.loads(line) for line in lines if line.endswith("\n"))

    @property
    def state(self) -> Path:
        return self.path / "state.json"

    def kubeconfig_of(self, part: Part) -> Path:
        return self.data / f"{part}.kubeconfig"

    def log(self, part: Part) -> Path:
        return self.logs / f"{part}.log"

    def prepare(self) -> None:
        """Makes the folder ready for a new cluster, without what an earlier one left."""
        self._own()
        self.clear()
        shutil.rmtree(self.logs, ignore_errors=True)
        self.data.mkdir(mode=0o700)
        self.logs.mkdir()

    def clear(self) -> None:
        shutil.rmtree(self.data, ignore_errors=True)
        self.kubeconfig.unlink(missing_ok=True)
        self.state.unlink(missing_ok=True)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Starts and stops of the same cluster wait for each other."""
        self._own()
        with self._lock.open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    @property
    def _lock(self) -> Path:
        return self.path / "testbed.lock"

    def is_testbed(self) -> bool:
        return self._lock.exists()

    def _own(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        if not self.is_testbed() and any(self.path.iterdir()):
            raise ForeignFolderError(
                f"{self.path} is not empty and not a testbed's: choose an empty or a new folder"
            )

    def remember(self, parts: dict[Part, PartRecord]) -> None:
        text = json.dumps({part: asdict(record) for part, record in parts.items()}, indent=2)
        partial = self.state.with_suffix(".partial")
        partial.write_text(text + "\n")
        partial.replace(self.state)

    def remembered(self) -> dict[Part, PartRecord]:
        """The parts as last written, whether they still run or not."""
        try:
            entries = json.loads(self.state.read_text())
        except FileNotFoundError:
            return {}
        return {
            Part(name): PartRecord(ProcessId(**entry["process"]), tuple(entry["ports"]))
            for name, entry in entries.items()
        }

    def in_use(self) -> list[LeftoverProcess]:
        """Parts that run here and should: kept ones, and those of another owner that is alive."""
        return [
            leftover
            for leftover in running()
            if leftover.run_dir == self.path and not leftover.is_left_over()
        ]

    def end_all(self) -> list[Part]:
        """Ends whatever runs for this folder. To be called with the lock held."""
        alive = {record.process: part for part, record in self.remembered().items() if record.process.alive()}
        # A part whose owner died between starting it and writing that down is known by its own mark.
        alive |= {leftover.process: leftover.part for leftover in running() if leftover.run_dir == self.path}
        end(*(process for process, part in alive.items() if part is not Part.ETCD))
        end(
            *(process for process, part in alive.items() if part is Part.ETCD)
        )  # the API server needs it till then
        return sorted(alive.values())


def down(path: Path) -> list[Part]:
    """Ends whatever runs for this folder and removes its data, but not the logs; the parts that it ended.

    May be called by any process, at any time, as often as one likes.
    """
    run_dir = RunDir(path.absolute())
    if not run_dir.is_testbed():
        return []
    with run_dir.locked():
        ended = run_dir.end_all()
        run_dir.clear()
    return ended
