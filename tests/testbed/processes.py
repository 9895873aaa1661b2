"""Processes that are identified safely and always ended.

A pid alone means nothing once its process is gone: the kernel gives it to the next one. So a process is
known by its pid, the tick it started at and the boot it belongs to, and signals go through a pidfd, which
never reaches another process. Who belongs to which testbed is written in the processes' own environment:
that can't get lost in a crash.
"""

import contextlib
import os
import select
import signal
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

__all__ = ["ProcessId", "end", "environment_of", "reap", "send", "spawn", "wait_gone"]

# The kernel ends a child when the *thread* that started it ends, so all are started by one that lives as
# long as we do: a test may well start its control plane in a worker thread of an event loop.
_starter = ThreadPoolExecutor(max_workers=1, thread_name_prefix="testbed-starter")
_TERM_PATIENCE_S = 15.0
_KILL_PATIENCE_S = 10.0


@dataclass(frozen=True)
class ProcessId:
    pid: int
    start_ticks: int
    boot: str

    @staticmethod
    def of(pid: int) -> "ProcessId | None":
        """Which process has this pid now; None if there is none (a zombie has ended too)."""
        try:
            # The name, in brackets, may hold anything; the fields after it can't be mistaken.
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            return None
        state, start_ticks = fields[0], int(fields[19])
        return None if state in ("Z", "X") else ProcessId(pid, start_ticks, _boot())

    @staticmethod
    def ours() -> "ProcessId":
        found = ProcessId.of(os.getpid())
        assert found is not None
        return found

    def alive(self) -> bool:
        return ProcessId.of(self.pid) == self


def spawn(command: list[str], log: Path, marks: Mapping[str, str], *, dies_with_us: bool) -> ProcessId:
    """Starts a program in a session and process group of its own, its output appended to a log."""
    if dies_with_us:
        command = ["setpriv", "--pdeathsig", "KILL", *command]
    append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    files = [
        (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, str(log), append, 0o644),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    environment = {**os.environ, **marks}

    def start() -> int:
        return os.posix_spawnp(command[0], command, environment, file_actions=files, setsid=True)

    pid = _starter.submit(start).result()
    if dies_with_us:
        _wait_bound_to_us(pid)
    # If it has ended already, a start tick that no process has stands for it.
    return ProcessId.of(pid) or ProcessId(pid, 0, _boot())


def _wait_bound_to_us(pid: int) -> None:
    """Until then, a child would survive its parent: the kernel doesn't know of it yet."""
    deadline = time.monotonic() + _TERM_PATIENCE_S
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended already
        while Path(f"/proc/{pid}/comm").read_text().strip() == "setpriv" and time.monotonic() < deadline:
            time.sleep(0.001)


def send(process: ProcessId, number: signal.Signals) -> bool:
    """Signals exactly this process; False if it is gone."""
    descriptor = _pidfd(process)
    if descriptor is None:
        return False
    try:
        signal.pidfd_send_signal(descriptor, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(descriptor)
    return True


def wait_gone(process: ProcessId, timeout_s: float) -> bool:
    """Waits until the process has ended; False if it still runs after that time."""
    descriptor = _pidfd(process)
    if descriptor is None:
        reap(process)
        return True
    try:
        gone = bool(select.select([descriptor], [], [], timeout_s)[0])
    finally:
        os.close(descriptor)
    if gone:
        reap(process)
    return gone


def reap(process: ProcessId) -> None:
    """Takes the end of a child of ours off the kernel's hands; nothing to do for others."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(process.pid, os.WNOHANG)


def end(*processes: ProcessId) -> None:
    """Asks all to stop and waits until they have; those that take too long are killed."""
    for process in processes:
        send(process, signal.SIGTERM)
    deadline = time.monotonic() + _TERM_PATIENCE_S
    for process in processes:
        if wait_gone(process, max(0.0, deadline - time.monotonic())):
            continue
        send(process, signal.SIGKILL)
        if not wait_gone(process, _KILL_PATIENCE_S):
            raise TimeoutError(f"process {process.pid} is still there {_KILL_PATIENCE_S:.0f} s after SIGKILL")


def environment_of(pid: int) -> dict[str, str]:
    """A process's environment as it was started; empty if it is gone or not ours to read."""
    try:
        content = Path(f"/proc/{pid}/environ").read_bytes()
    except (FileNotFoundError, PermissionError, ProcessLookupError):
        return {}
    pairs = (entry.partition(b"=") for entry in content.split(b"\0") if entry)
    return {name.decode(errors="replace"): value.decode(errors="replace") for name, _, value in pairs}


def _pidfd(process: ProcessId) -> int | None:
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return None
    # Opened first and compared then: from here on it can't become another process's.
    if process.alive():
        return descriptor
    os.close(descriptor)
    return None


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
