"""The stage of the facts on a simulated cluster, with a real kubectl: in real time, over HTTP."""

import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import pytest

from kubesim import ApiServer
from kubesim.kubelets import Kubelets
from kubesim.running_cluster import start_cluster
from kubesim.sockets.loopback_server import serve
from rescheduler.cluster.codecs.record_resources import NODES
from rescheduler.kube.access.cluster_config import load_cluster_access
from rescheduler.kube.api_resources import NAMESPACES
from rescheduler.kube.client import Client
from rescheduler.kube.http_transport import HttpTransport
from tests.e2e.facts.stage import SetStage, Stage, until_usable
from tests.testbed import located
from tests.testbed.fake_kubelet.nodes import node_object, node_shapes


class SimulatedControlPlane(NamedTuple):
    server: ApiServer
    kubelets: Kubelets
    kubeconfig: Path

    def kubectl(self, *arguments: str) -> str:
        command = [str(located().kubectl), f"--kubeconfig={self.kubeconfig}", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip())
        return done.stdout


class PlayedBySimulator:
    """What a stage asks of a kubelet."""

    name = "simulated"

    def __init__(self, kubelets: Kubelets) -> None:
        self.behave = kubelets.behave


@pytest.fixture
async def control_plane(tmp_path: Path) -> AsyncIterator[SimulatedControlPlane]:
    server = ApiServer(seed=7)
    async with await serve(server) as running:
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(running.kubeconfig)
        life = start_cluster(server)
        yield SimulatedControlPlane(server, life.kubelets, kubeconfig)
        life.controllers.stop()


@pytest.fixture
async def client(control_plane: SimulatedControlPlane) -> AsyncIterator[Client]:
    made = Client(HttpTransport(load_cluster_access(control_plane.kubeconfig)))
    yield made
    await made.close()


@pytest.fixture
async def namespace(client: Client) -> str:
    await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "facts"}})
    return "facts"


@pytest.fixture
def set_stage(client: Client, namespace: str, control_plane: SimulatedControlPlane) -> SetStage:
    async def set_it(nodes: int = 4) -> Stage:
        kubelet = PlayedBySimulator(control_plane.kubelets)
        for shape in node_shapes(nodes, kubelet.name):
            now = control_plane.server.clock.now()
            await client.create(NODES.as_json, node_object(shape, kubelet.name, now))
        usable = await until_usable(client, kubelet, nodes)  # type: ignore[arg-type]
        stage = Stage(client, namespace, kubelet, usable)  # type: ignore[arg-type]
        stage.behave()
        return stage

    return set_it
