"""Run a command in its own process, with or without a terminal, and interrupt it."""

import asyncio
import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

__all__ = ["PrintingProcess", "Spawned", "spawned"]

_PATIENCE_S = 60.0
_BETWEEN_S = 0.7
_WIDTH, _HEIGHT = 120, 30
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")


class PrintingProcess:
    """A command in its own process, read line by line; its standard output must be a pipe."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.printed: list[str] = []

    async def line_with(self, text: str) -> str:
        """Return the next line that contains this; fail if the process ends before."""
        assert self.process.stdout is not None
        while line := (await asyncio.wait_for(self.process.stdout.readline(), _PATIENCE_S)).decode():
            self.printed.append(line)
            if text in line:
                return line
        raise AssertionError(f"{text!r} was never printed: {''.join(self.printed)}{await self.errors()}")

    async def kubeconfig(self) -> Path:
        return Path((await self.line_with("export KUBECONFIG=")).strip().partition("=")[2])

    async def errors(self) -> str:
        """Return what it wrote to standard error, if that is a pipe."""
        if self.process.stderr is None:
            return ""
        return (await asyncio.wait_for(self.process.stderr.read(), _PATIENCE_S)).decode()

    async def ends(self) -> int:
        return await asyncio.wait_for(self.process.wait(), _PATIENCE_S)


class Spawned:
    def __init__(self, process: subprocess.Popen[bytes], reading: int) -> None:
        self.process = process
        self._reading = reading
        self._read = b""

    @property
    def text(self) -> str:
        """All that it has written, without what steers a terminal."""
        return _CONTROL.sub("", self._read.decode(errors="replace"))

    def until(self, words: str) -> str:
        """Reads until it has written them."""
        ends_s = time.monotonic() + _PATIENCE_S
        while words not in self.text:
            assert time.monotonic() < ends_s, f"it never said {words!r}, but:\n{self.text}"
            assert self._more(), f"it ended without saying {words!r}:\n{self.text}"
        return self.text

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def until_end(self) -> int:
        """Its exit code."""
        ends_s = time.monotonic() + _PATIENCE_S
        while self._more():
            assert time.monotonic() < ends_s, f"it does not end:\n{self.text}"
        return self.process.wait(_PATIENCE_S)

    def interrupt_again(self) -> None:
        """Interrupt so much later that it is another request, not an echo of the first."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_BETWEEN_S)
        self.interrupt()

    def _more(self, wait_s: float = 1.0) -> bool:
        """Whether it may write more."""
        if not select.select([self._reading], [], [], wait_s)[0]:
            return True
        try:
            found = os.read(self._reading, 1 << 16)
        except OSError:  # what a terminal says when its last writer is gone
            return False
        self._read += found
        return bool(found)


@contextlib.contextmanager
def spawned(*arguments: object, terminal: bool = False) -> Iterator[Spawned]:
    """`rescheduler` with these arguments; both its streams are read as one."""
    reading, writing = pty.openpty() if terminal else os.pipe()
    if terminal:
        fcntl.ioctl(writing, termios.TIOCSWINSZ, struct.pack("HHHH", _HEIGHT, _WIDTH, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8"}
    environment.pop("NO_COLOR", None)
    process = subprocess.Popen(
        [Path(sys.executable).with_name("rescheduler"), *map(str, arguments)],
        stdin=writing if terminal else subprocess.DEVNULL,
        stdout=writing,
        stderr=writing,
        env=environment,
    )
    os.close(writing)
    try:
        yield Spawned(process, reading)
    finally:
        process.kill()
        process.wait()
        os.close(reading)
