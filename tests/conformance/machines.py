"""What runs the nodes of a scenario: the testbed's fake kubelet on a real control plane, or the simulator."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable

from kubesim import ApiServer
from kubesim.behaviour import Behaviour
from kubesim.kubelets import Kubelets
from rescheduler.cluster.codecs.record_resources import NODES
from rescheduler.kube.client import Client
from tests.conformance.running_cluster import Machines
from tests.testbed.fake_kubelet import FakeKubelet
from tests.testbed.fake_kubelet.nodes import NodeShape, node_object
from tests.testbed.usage import UsageApi

__all__ = ["SimulatedMachines", "real_machines"]

BEAT_EVERY_S = 3.0
_metrics_are_served = asyncio.Semaphore(1)
"""The API of metrics can be served once per cluster."""


class SimulatedMachines:
    def __init__(self, server: ApiServer, kubelets: Kubelets, client: Client, name: str) -> None:
        self._server, self._kubelets, self._client, self._name = server, kubelets, client, name
        self.behave, self.kill, self.revive = kubelets.behave, kubelets.kill, kubelets.revive

    async def add(self, shapes: Iterable[NodeShape]) -> None:
        for shape in shapes:
            now = self._server.clock.now()
            await self._client.create(NODES.as_json, node_object(shape, self._name, now))


class _RealMachines:
    def __init__(self, kubelet: FakeKubelet) -> None:
        self.add = kubelet.register
        self.behave, self.kill, self.revive = kubelet.behave, kubelet.kill, kubelet.revive


@contextlib.asynccontextmanager
async def real_machines(client: Client, name: str, *, metrics: bool) -> AsyncIterator[Machines]:
    """Run nodes for the scenario in the namespace of that name; they are removed with it."""
    kubelet = FakeKubelet(
        client, Behaviour(), name=name, beat_every_s=BEAT_EVERY_S, workers=4, namespace=name
    )
    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(kubelet.running())
        stack.push_async_callback(kubelet.remove_registered)
        if metrics:
            await stack.enter_async_context(_metrics_are_served)
            await stack.enter_async_context(UsageApi(client, kubelet).running())
        yield _RealMachines(kubelet)
