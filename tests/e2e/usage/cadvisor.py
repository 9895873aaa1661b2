"""What the kubelets' cAdvisor exposes of a few containers, so that Prometheus has something to scrape.

A rate needs minutes of history, which no test should wait for. So every scrape is answered with the next
half minute, from ten minutes ago on, under its own time stamp, until the present is reached.
"""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from typing import Self

from aiohttp import web

__all__ = ["Cadvisor", "Series"]

HISTORY_S, STEP_S = 600, 30


@dataclass(frozen=True)
class Series:
    """One cgroup: how fast it burns cpu, and how much memory it holds."""

    cores: float
    memory_bytes: int
    namespace: str = ""
    pod: str = ""
    container: str = ""
    id: str = ""

    def exposed(self, elapsed_s: int, at_s: int) -> str:
        names = ("namespace", "pod", "container", "id")
        labels = ",".join(f'{name}="{getattr(self, name)}"' for name in names)
        cpu = f"container_cpu_usage_seconds_total{{{labels}}} {1000 + self.cores * elapsed_s} {at_s * 1000}\n"
        return cpu + f"container_memory_working_set_bytes{{{labels}}} {self.memory_bytes} {at_s * 1000}\n"


class Cadvisor:
    """Serves each node at `/NODE/JOB`, so that several jobs may scrape the same node."""

    def __init__(self, nodes: dict[str, Iterable[Series]]) -> None:
        self._nodes = nodes
        self._began_s = _last_step_s() - HISTORY_S
        self._scrapes: Counter[str] = Counter()
        self._progress = asyncio.Event()
        self.address = ""

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        app = web.Application()
        app.router.add_get("/{node}/{job}", self._expose)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.address = f"127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield self
        finally:
            await runner.cleanup()

    async def caught_up(self, jobs: int) -> None:
        """Wait until each was scraped up to the present and once more: then the present is stored."""
        wanted = HISTORY_S // STEP_S + 2
        while len(self._scrapes) < jobs or min(self._scrapes.values()) <= wanted:
            self._progress.clear()
            await self._progress.wait()

    async def _expose(self, request: web.Request) -> web.Response:
        elapsed_s = min(self._scrapes[request.path] * STEP_S, _last_step_s() - self._began_s)
        self._scrapes[request.path] += 1
        self._progress.set()
        lines = [
            each.exposed(elapsed_s, self._began_s + elapsed_s)
            for each in self._nodes[request.match_info["node"]]
        ]
        return web.Response(text="".join(lines))


def _last_step_s() -> int:
    return int(time.time()) // STEP_S * STEP_S
