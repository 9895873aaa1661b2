"""A cluster with real nodes that stays: what `python -m tests.testbed up --nodes 3` starts.

Three processes take part: the sandbox, which stays outside and cleans up at the end; one inside that runs
the cluster until it is asked to stop; and the command that started it, which waits until it is ready. Only
the inside reaches the API server directly; a socket that was opened outside is served inside, so that
kubectl works as usual.
"""

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from urllib.parse import urlsplit

from rescheduler.kube.access.cluster_config import load_cluster_access
from rescheduler.kube.client import Client
from rescheduler.kube.http_transport import HttpTransport
from tests.testbed.control_plane import ControlPlane, PartError
from tests.testbed.kubeconfig import kubeconfig
from tests.testbed.nodes.kernel_features import missing_features
from tests.testbed.nodes.kubelet_usage import KubeletUsage
from tests.testbed.nodes.real_nodes import Nodes, with_nodes
from tests.testbed.nodes.sandbox import LISTENER, Sandbox
from tests.testbed.options import Options
from tests.testbed.processes import ProcessId, end
from tests.testbed.readiness import until
from tests.testbed.usage import UsageApi

__all__ = ["end_kept_cluster", "outside_kubeconfig", "start_kept_cluster"]

_READY_WITHIN_S = 300.0
_OUR_IMAGE = Path(__file__).resolve().parents[3] / "dist" / "rescheduler-image.tar"
"""What `make image` wrote, if it was asked to."""
_SCRAPE_EVERY_S = 5.0


def outside_kubeconfig(folder: Path) -> Path:
    """The administrator's, for use from outside of the sandbox."""
    return folder / "kubeconfig.outside"


def start_kept_cluster(folder: Path, count: int) -> None:
    """Return when it is ready; it outlives us."""
    if lacking := missing_features(folder.parent):
        raise PartError(
            "real nodes can't run here. Missing:\n" + "\n".join(f"  - {each}" for each in lacking)
        )
    log = folder.with_name(f"{folder.name}-nodes.log")
    with log.open("wb") as output:
        command = [sys.executable, "-m", "tests.testbed.nodes.kept_cluster", str(folder), str(count)]
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    ready = until(lambda: outside_kubeconfig(folder).exists() or process.poll() is not None, _READY_WITHIN_S)
    if not ready or process.poll() is not None:
        process.terminate()
        raise PartError(f"the cluster did not start; the end of {log}:\n{log.read_text()[-2000:]}")
    process.returncode = 0  # it stays running: no warning about that


def end_kept_cluster(folder: Path) -> None:
    """End the cluster that stays in this folder."""
    file = _owner_file(folder)
    end(ProcessId(**json.loads(file.read_text())))
    for path in (file, outside_kubeconfig(folder)):
        path.unlink(missing_ok=True)


def _owner_file(folder: Path) -> Path:
    return folder / "sandbox.json"


async def _stay(cluster: ControlPlane, nodes: Nodes, listener: socket.socket) -> None:
    """Serve usage and the connections from outside until SIGTERM."""
    asked = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, asked.set)
    port = urlsplit(cluster.server).port

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            to_reader, to_writer = await asyncio.open_connection(cluster.options.address, port)
            await asyncio.gather(_pump(reader, to_writer), _pump(to_reader, writer))

    usage = KubeletUsage(nodes)
    client = Client(HttpTransport(load_cluster_access(cluster.kubeconfig)))
    try:
        async with UsageApi(client, usage).running(), await asyncio.start_server(forward, sock=listener):
            _announce(cluster, listener.getsockname()[1])
            while not asked.is_set():
                await asyncio.to_thread(usage.scrape)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(asked.wait(), _SCRAPE_EVERY_S)
    finally:
        await client.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
    finally:
        writer.close()


def _announce(cluster: ControlPlane, port: int) -> None:
    """Write the kubeconfig for outside, in one step: it says that the cluster is ready."""
    text = kubeconfig(
        server=f"https://127.0.0.1:{port}",
        ca_certificate=cluster.ca_certificate,
        user="admin",
        token=cluster.admin_token,
        tls_server_name=cluster.options.address,
    )
    path = outside_kubeconfig(cluster.run_dir.path)
    partial = path.with_suffix(".partial")
    partial.touch(mode=0o600)
    partial.write_text(text)
    partial.replace(path)


def _inside(folder: Path, count: int) -> None:
    owner = ProcessId.of(os.getppid())
    assert owner is not None
    listener = socket.socket(fileno=int(os.environ[LISTENER]))
    with ControlPlane(folder, with_nodes(Options(), count)) as cluster, Nodes(cluster) as nodes:
        _owner_file(folder).write_text(json.dumps(asdict(owner)))
        for program in ("webapp", "loadgen"):
            nodes.import_image(nodes.image(program))
        if _OUR_IMAGE.exists():
            nodes.import_image(_OUR_IMAGE)
        asyncio.run(_stay(cluster, nodes, listener))


def _outside(folder: Path, count: int) -> int:
    listener = socket.create_server(("127.0.0.1", 0))
    command = [sys.executable, "-m", "tests.testbed.nodes.kept_cluster", str(folder), str(count)]
    return Sandbox(command, listener).run()


if __name__ == "__main__":
    _folder, _count = Path(sys.argv[1]), int(sys.argv[2])
    if LISTENER in os.environ:
        _inside(_folder, _count)
    else:
        sys.exit(_outside(_folder, _count))
