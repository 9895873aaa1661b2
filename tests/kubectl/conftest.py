"""A simulated API server per test, on a port of its own, and the real kubectl pointed at it."""

import asyncio
import json
import os
import shlex
import shutil
import subprocess
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kubesim import ApiServer
from kubesim.apiserver.metrics_server import MeasuredUsage
from kubesim.behaviour import load_behaviour
from kubesim.kubelets import Kubelets
from kubesim.sockets.loopback_server import serve
from tests.testbed.cache import NotBuiltError, located

HOW_TO_GET_ONE = (
    "no kubectl found: name one in RESCHEDULER_KUBECTL, build one with `python3 tests/testbed/build.py`, "
    "or install one on the PATH"
)
LONGEST_S = 30


@pytest.fixture(scope="session")
def kubectl_path() -> Path:
    if named := os.environ.get("RESCHEDULER_KUBECTL"):
        assert Path(named).is_file(), f"RESCHEDULER_KUBECTL={named}: no such file"
        return Path(named)
    if built := _built():
        return built
    if on_path := shutil.which("kubectl"):
        return Path(on_path)
    pytest.skip(HOW_TO_GET_ONE)


def _built() -> Path | None:
    try:
        return located().kubectl
    except NotBuiltError:
        return None


class Cluster:
    """The simulator in a thread of its own, so that kubectl can be waited for."""

    def __init__(self, loop: asyncio.AbstractEventLoop, server: ApiServer, kubeconfig: str) -> None:
        self.kubeconfig = kubeconfig
        self._loop = loop
        self._server = server

    def load(self, *objects: dict) -> None:
        """Puts objects in as they are, status and all."""

        async def load() -> None:
            assert not self._server.load(objects)

        _on(self._loop, load())

    def measure(self, name: str, usage: MeasuredUsage) -> None:
        """Set the usage of a node, and of the pod of the same name."""

        async def measure() -> None:
            self._server.usage.set_node(name, usage, now=self._server.clock.now())
            self._server.usage.set_pod("default", name, {"app": usage}, now=self._server.clock.now())

        _on(self._loop, measure())


@pytest.fixture
def stop_s() -> float:
    """How long pods take to end."""
    return 0.01


@pytest.fixture
def cluster(kubectl_path: Path, stop_s: float) -> Iterator[Cluster]:
    with _loop_in_a_thread() as loop:
        server = _on(loop, _make(stop_s))
        running = _on(loop, serve(server))
        try:
            yield Cluster(loop, server, running.kubeconfig)
        finally:
            _on(loop, running.stop())


async def _make(stop_s: float) -> ApiServer:
    server = ApiServer(seed=1)
    Kubelets(server.cluster, load_behaviour({"pods": [{"termination": f"{stop_s}s"}]}))
    return server


def _on(loop, coroutine):
    return asyncio.run_coroutine_threadsafe(coroutine, loop).result(LONGEST_S)


@contextmanager
def _loop_in_a_thread() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(LONGEST_S)
        loop.close()


class Kubectl:
    """`kubectl("get pods -o wide")` is what one would type, and what comes back is what one would see."""

    def __init__(self, path: Path, home: Path, kubeconfig: str) -> None:
        self.path = path
        config = home / "kubeconfig"
        config.write_text(kubeconfig)
        # It lives for a moment: collecting its garbage costs more time than it saves memory.
        go = {"GOGC": "off"}
        self.environment = {"HOME": str(home), "KUBECONFIG": str(config), "PATH": os.environ["PATH"], **go}

    def __call__(self, line: str, *, stdin: str | None = None, warns: bool = False) -> str:
        done = self.run(line, stdin=stdin)
        assert done.returncode == 0, f"kubectl {line}: {done.stderr}"
        assert warns or "warning" not in done.stderr.lower(), done.stderr
        return done.stdout

    def refused(self, line: str, *, stdin: str | None = None) -> str:
        """Run a command that must fail, and return its message."""
        done = self.run(line, stdin=stdin)
        assert done.returncode != 0, f"kubectl {line} did it: {done.stdout}"
        return done.stderr

    def json(self, line: str) -> dict:
        return json.loads(self(f"{line} -o json"))

    def rows(self, line: str) -> list[list[str]]:
        """A printed table without its header, split at white space."""
        return [row.split() for row in self(line).splitlines()[1:]]

    def create(self, *objects: dict) -> str:
        return self("create -f -", stdin=as_list(objects))

    def start(self, line: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [self.path, *shlex.split(line)],
            env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def run(self, line: str, *, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.path, *shlex.split(line)],
            env=self.environment, input=stdin, capture_output=True, text=True, timeout=LONGEST_S, check=False,
        )  # fmt: skip


@pytest.fixture
def kubectl(cluster: Cluster, kubectl_path: Path, tmp_path: Path) -> Kubectl:
    return Kubectl(kubectl_path, tmp_path, cluster.kubeconfig)


def as_list(objects: Iterable[dict]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
