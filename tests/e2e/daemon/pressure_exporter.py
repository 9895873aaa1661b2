"""What a node exporter and the kubelets expose of fake nodes: pressure of nodes and pods, cpu and memory.

Pods of one app wait for the CPU, each for a part of the time; the pressure of a node is the sum over its
pods. So a pod that moves takes its pressure along.
"""

import contextlib
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Self

from aiohttp import web

from tests.testbed.fake_kubelet import FakeKubelet

__all__ = ["PressureExporter"]

_CORES = 0.4
_MEMORY_BYTES = 100 * 2**20


class PressureExporter:
    def __init__(self, kubelet: FakeKubelet, waiting: Mapping[str, float]) -> None:
        """`waiting` is the share of time for which a pod of each app waits."""
        self._kubelet, self._waiting = kubelet, waiting
        self._counters: dict[str, float] = {}
        self._at_s = time.monotonic()
        self.address = ""

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        app = web.Application()
        app.router.add_get("/metrics", self._expose)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.address = f"127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield self
        finally:
            await runner.cleanup()

    async def _expose(self, _request: web.Request) -> web.Response:
        now_s = time.monotonic()
        passed_s, self._at_s = now_s - self._at_s, now_s
        present = dict(self._rates())
        self._counters = {
            series: self._counters.get(series, 0.0) + rate * passed_s for series, rate in present.items()
        }
        lines = [f"{series} {value}" for series, value in self._counters.items()]
        memory = [
            f"container_memory_working_set_bytes{_labels(held.key)} {_MEMORY_BYTES}"
            for held in self._kubelet.pods
        ]
        return web.Response(text="\n".join([*lines, *memory, ""]))

    def _rates(self) -> Iterator[tuple[str, float]]:
        """Yield each counter with the rate at which it grows now."""
        for node in self._kubelet.played:
            pods = list(self._kubelet.pods.find("node", node))
            waits = {pod.key: self._waiting[pod.whole()["metadata"]["labels"]["app"]] for pod in pods}
            yield f'node_pressure_cpu_waiting_seconds_total{{node="{node}"}}', sum(waits.values())
            for key, share in waits.items():
                yield f"container_pressure_cpu_waiting_seconds_total{_labels(key)}", share
                yield f"container_cpu_usage_seconds_total{_labels(key)}", _CORES


def _labels(key: str) -> str:
    namespace, _, pod = key.partition("/")
    return f'{{namespace="{namespace}",pod="{pod}",container="main"}}'
