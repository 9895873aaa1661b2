"""A controller that ends at one of its API calls, and a second one that finds what the first has left."""

import asyncio
import random
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum

import pytest

from kubesim import ApiServer
from kubesim.running_cluster import EPOCH, start_cluster
from kubesim.virtual_time import LoopClock
from rescheduler.api.podmigration_crd import podmigration_crd
from rescheduler.config.policy import Policy
from rescheduler.kube.api_resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES
from rescheduler.kube.client import Client
from rescheduler.kube.transport import InProcessTransport
from tests.stories.migrations.moves import Moves
from tests.stories.simulated_cluster import NAMESPACE, NETWORK_S, SimulatedCluster


def at_every_call(apart):
    """Parametrises a test with `first` and `apart`: neighbouring calls differ little, so every day only one
    in so many is looked at, and the others with the tests that take long."""
    everyday = [pytest.param(1, apart, id="every day")]
    rest = [
        pytest.param(first, apart, id=f"from call {first}", marks=pytest.mark.size)
        for first in range(2, apart + 1)
    ]
    return pytest.mark.parametrize(("first", "apart"), everyday + rest)


class Crash(Enum):
    BEFORE = "before the call"
    AFTER = "after the call, before its answer"
    LATE = "after sending the call, which arrives when another has taken over"
    LOST = "not at all, but the answer to the call is lost"
    UNSENT = "not at all, but the call is lost on its way"


@dataclass
class Faulty:
    """The transport of a controller that ends at its n-th call. Watches and lists don't count,
    and neither do Events."""

    server: ApiServer
    at: int
    crash: Crash
    calls: list[str] = field(default_factory=list)
    crashed: asyncio.Event = field(default_factory=asyncio.Event)
    taken_over: asyncio.Event = field(default_factory=asyncio.Event)
    rng: random.Random = field(default_factory=lambda: random.Random(3))
    late: "asyncio.Task | None" = None

    async def handle(self, method, target, headers, body):
        await asyncio.sleep(self.rng.uniform(*NETWORK_S))
        if not self._counts(method, target):
            return await self.server.handle(method, target, headers, body)
        self.calls.append(f"{method} {target.partition('?')[0]}")
        if len(self.calls) != self.at:
            return await self.server.handle(method, target, headers, body)
        if self.crash is Crash.UNSENT:
            raise ConnectionError("the call was lost")
        if self.crash is Crash.LATE:
            self.late = asyncio.create_task(self._arrive_late(method, target, headers, body))
        elif self.crash is not Crash.BEFORE:
            await self.server.handle(method, target, headers, body)
        if self.crash is Crash.LOST:
            raise ConnectionError("the answer was lost")
        self.crashed.set()
        return await asyncio.get_running_loop().create_future()

    def _counts(self, method, target):
        path = target.partition("?")[0]
        if method == "GET":
            # Of one object, not of all of a kind.
            return "/namespaces/" in path and len(path.rpartition("/namespaces/")[2].split("/")) > 2
        return not path.endswith("/events")

    async def _arrive_late(self, method, target, headers, body):
        await self.taken_over.wait()
        await asyncio.sleep(self.rng.uniform(0.0, 0.3))
        await self.server.handle(method, target, headers, body)


class Cluster:
    """A simulated cluster with a sandbox, in the running (virtual) loop."""

    def __init__(self, **policy):
        self.server = ApiServer(clock=LoopClock(EPOCH), seed=7)
        self.life = start_cluster(self.server)
        self.policy = Policy(**{"settle_time": timedelta(seconds=1), "allow_unsteered": True, **policy})
        self._transports = []

    def connect(self, handle=None):
        rng = random.Random(len(self._transports))

        async def delayed(*request):
            await asyncio.sleep(rng.uniform(*NETWORK_S))
            return await self.server.handle(*request)

        self._transports.append(InProcessTransport(handle or delayed))
        return Client(self._transports[-1])

    async def close(self):
        for transport in self._transports:
            await transport.close()

    async def sandbox(self, nodes=3):
        client = self.connect()
        await client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        await client.create(CUSTOM_RESOURCE_DEFINITIONS, podmigration_crd())
        return await SimulatedCluster(self.server, self.life, client, self.connect).sandbox(nodes)

    async def moves(self, nodes=3):
        return Moves(await self.sandbox(nodes), self.server.clock.now, self.policy)
