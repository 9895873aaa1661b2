"""A real Prometheus on loopback: Debian's, unpacked into the cache on first use."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.testbed.cache import cache_root
from tests.testbed.debian import unpack_prometheus, unpack_promtool
from tests.testbed.ports import free_ports, listens
from tests.testbed.processes import ProcessId, end, spawn
from tests.testbed.readiness import get, until

__all__ = ["Prometheus", "program", "promtool"]

_READY_WITHIN_S = 60.0
_STARTS = 3


def program() -> Path:
    return _unpacked("prometheus", unpack_prometheus)


def promtool() -> Path:
    return _unpacked("promtool", unpack_promtool)


def _unpacked(name: str, unpack: Callable[[Path], None]) -> Path:
    path = cache_root().parent / "prometheus" / name
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        unpack(path)
    return path


class Prometheus:
    """Scrapes as its configuration says; ends with `stop`, or with us. Its data and log are in `folder`."""

    def __init__(self, folder: Path, configuration: dict[str, Any]) -> None:
        self._folder = folder
        self._configuration = configuration
        self._port = 0
        self._process: ProcessId | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Returns when it answers; at the same address if it ran before."""
        binary = program()
        # JSON is YAML, too.
        (self._folder / "prometheus.yml").write_text(json.dumps(self._configuration))
        for _ in range(_STARTS):  # another process may have been quicker to take the port
            self._port = self._port or free_ports(1)[0]
            self._process = spawn(self._command(binary), self._log, {}, dies_with_us=True)
            if until(lambda: self._has_ended() or self._is_ready(), _READY_WITHIN_S) and self._is_ready():
                return
            self.stop()
            self._port = 0
        raise RuntimeError(f"Prometheus did not start:\n{self._log.read_text()[-2000:]}")

    def stop(self) -> None:
        if self._process:
            end(self._process)
            self._process = None

    @property
    def _log(self) -> Path:
        return self._folder / "prometheus.log"

    def _command(self, binary: Path) -> list[str]:
        return [
            str(binary),
            f"--config.file={self._folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={self._folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{self._port}",
        ]

    def _has_ended(self) -> bool:
        return self._process is None or not self._process.alive()

    def _is_ready(self) -> bool:
        if self._process is None or not listens(self._process.pid, self._port):
            return False
        return get(f"{self.url}/-/ready") is not None
