"""The programs under test as processes: two daemons and a webhook, which can be killed and frozen."""

import asyncio
import contextlib
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Program"]

_PATIENCE_S = 60.0


@dataclass
class Program:
    name: str
    arguments: tuple[str, ...]
    kubeconfig: Path
    log: Path
    command: tuple[str, ...] = (str(Path(sys.executable).with_name("rescheduler")),)
    environment: dict[str, str] = field(default_factory=dict)
    ended_by_itself: list[int] = field(default_factory=list)
    """Exit codes of processes that were not killed."""
    _process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        if self._process is not None and self._process.returncode is None:
            return
        if self._process is not None and self._process.returncode not in (-signal.SIGKILL, None):
            self.ended_by_itself.append(self._process.returncode)
        with self.log.open("a") as log:
            self._process = await asyncio.create_subprocess_exec(
                *("setpriv", "--pdeathsig", "KILL"),  # else it outlives a test run that is killed
                *self.command,
                *self.arguments,
                env={"KUBECONFIG": str(self.kubeconfig), "PATH": "/usr/bin", **self.environment},
                stdout=log,
                stderr=log,
            )

    async def until_logged(self, text: str) -> None:
        async with asyncio.timeout(_PATIENCE_S):
            while text not in self.log.read_text():  # noqa: ASYNC110 - a file can't notify
                await asyncio.sleep(0.1)

    async def kill(self) -> None:
        await self._end(lambda process: process.kill())

    async def stop(self) -> None:
        self.send(signal.SIGCONT)
        await self._end(lambda process: process.terminate())

    def send(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(number)

    async def _end(self, ask: Callable[[asyncio.subprocess.Process], None]) -> None:
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            ask(self._process)
        try:
            await asyncio.wait_for(self._process.wait(), _PATIENCE_S)
        finally:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
