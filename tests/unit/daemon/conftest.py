# ruff: noqa: F811 - fixtures that are imported and asked for by name
"""Daemons on a simulated cluster in virtual time; tests stop, disconnect and kill them."""

import asyncio
import contextlib
from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest

from rescheduler.api.podmigration import decode_migration
from rescheduler.cluster.node_record import in_maintenance
from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS
from rescheduler.config.policy import Configuration, LeaderElection, Policy, UsageSource
from rescheduler.daemon.components import Rescheduler
from rescheduler.daemon.daemon_process import Daemon, DaemonOptions
from rescheduler.daemon.listeners import DaemonListener
from rescheduler.daemon.node_drain import NodeDrain, start_maintenance
from rescheduler.daemon.own_objects import read_state
from rescheduler.kube.client import Client
from tests.unit.cli.simulated_server import forbidding
from tests.unit.migrations.controller.conftest import (  # noqa: F401
    client,
    cluster,
    connect,
    custom_resource_definitions,
    life,
    make_moves,
    pytest_asyncio_loop_factories,
    serve_usage,
    server,
    simulated_client,
    simulated_cluster,
)
from tests.unit.recovery.controller.conftest import make_recovery, make_simulated_recovery, steered  # noqa: F401

HOME = "default"
INTERVAL_S = 30
POLICY = Policy(
    settle_time=timedelta(seconds=1),
    min_pod_age=timedelta(),
    usage_source=UsageSource.REQUESTS,
    rescheduling_interval=timedelta(seconds=INTERVAL_S),
)


class ReceivedEvents(DaemonListener):
    """Everything that is reported, in order."""

    def __init__(self):
        self.checks, self.skipped, self.halts, self.led, self.refused = [], [], [], [], []

    def checked(self, check):
        self.checks.append(check)

    def checks_skipped(self, count, why):
        self.skipped.append((count, why))

    def halted(self, halts):
        self.halts.append(halts)

    def leads(self, leads):
        self.led.append(leads)

    def configuration_refused(self, why):
        self.refused.append(why)

    @property
    def moves(self):
        return [len(check.plan.moves) for check in self.checks]


@dataclass
class Line:
    """A daemon's connection: what went over it, and whether it is cut."""

    handle: object
    writes: list = field(default_factory=list)
    is_cut: bool = False

    async def send(self, method, target, headers, body):
        if self.is_cut:
            raise ConnectionError("the line is cut")
        if method != "GET":
            self.writes.append((method, target))
        return await self.handle(method, target, headers, body)


@dataclass
class Running:
    daemon: Daemon
    received: ReceivedEvents
    line: Line
    ended: asyncio.Event
    task: asyncio.Task | None = None

    async def end(self):
        """Stop it as on SIGTERM."""
        self.ended.set()
        await self.task

    async def kill(self):
        """It does nothing any more, and gives nothing back."""
        self.line.is_cut = True
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    async def until(self, holds, timeout_s=600):
        async with asyncio.timeout(timeout_s):
            while not (found := holds()):
                assert not self.task.done(), self.task.result()
                await asyncio.sleep(0.1)
        return found

    async def until_checked(self, count):
        await self.until(lambda: len(self.received.checks) >= count)


@pytest.fixture
async def start(connect, server):
    """await start(name, file=…, **policy): a daemon that runs until the test is over."""
    started = []

    async def begin(
        name="me",
        *,
        file=None,
        elect=True,
        usage=None,
        forbidden="",
        read_only=False,
        listener=None,
        **policy,
    ):
        handle = forbidding(forbidden)(server.handle) if forbidden else server.handle
        line, received, ended = Line(handle), ReceivedEvents(), asyncio.Event()
        configuration = Configuration(
            policy=replace(POLICY, **policy), leader_election=LeaderElection(leader_elect=elect)
        )
        options = DaemonOptions(
            lease_at=f"{HOME}/rescheduler", file=file, me=name, now=server.clock.now, usage=usage,
            listeners=(received, *filter(None, [listener])), read_only=read_only,
        )  # fmt: skip

        def connected(observer):
            return Client(connect(line.send).transport, observer=observer)

        daemon = Daemon(connected, configuration, options)
        running = Running(daemon, received, line, ended)
        running.task = asyncio.create_task(daemon.run_until(ended))
        started.append(running)
        return running

    yield begin
    for each in started:
        if not each.task.done():
            each.line.is_cut = False
            await each.end()


@pytest.fixture
def crowd(make_moves):
    """await crowd(pods): all of them on the first of some nodes, which has a load of 85 % at least."""

    async def make(pods=6, nodes=3, **policy):
        moves = await make_moves(nodes, **policy)
        _, *others = moves.sandbox.nodes
        await moves.sandbox.cordon(*others)
        container = {"name": "web", "image": "web:1", "resources": {"requests": {"cpu": "1"}}}
        await moves.sandbox.deployment(pods, pod={"containers": [container]})
        await moves.sandbox.cordon(*others, on=False)
        return moves

    return make


@pytest.fixture
def migrations(client):
    async def found():
        return [decode_migration(item) for item in (await client.list(POD_MIGRATIONS)).items]

    return found


@pytest.fixture
def status(client):
    async def written():
        return (await read_state(client, HOME))[1]

    return written


@pytest.fixture
def eventually():
    async def wait(look, timeout_s=600):
        async with asyncio.timeout(timeout_s):
            while not (found := await look()):  # noqa: ASYNC110 - only asking tells
                await asyncio.sleep(0.2)
        return found

    return wait


@contextlib.contextmanager
def logged(caplog, level="INFO"):
    with caplog.at_level(level, "rescheduler"):
        yield caplog


@pytest.fixture
async def draining(connect, server):
    """async with draining(*nodes, **policy) as it: what `rescheduler drain` does, as a process of its own."""

    @contextlib.asynccontextmanager
    async def begun(*nodes, me="drainer", **policy):
        client = connect()
        configuration = Configuration(policy=replace(POLICY, **policy))
        rescheduler = Rescheduler(
            client, configuration, lease_at=f"{HOME}/rescheduler", now=server.clock.now, me=me
        )
        async with rescheduler.watching(), rescheduler.executing():
            await start_maintenance(client, nodes)
            await _labels_seen(rescheduler, nodes)
            moves = []
            it = NodeDrain(
                client, rescheduler.cluster, nodes, runtime=rescheduler.runtime, on_progress=moves.append,
                requested_by="ann",
            )  # fmt: skip
            it.moves = moves
            it.rescheduler = rescheduler
            yield it

    return begun


async def _labels_seen(rescheduler, nodes):
    while not all(in_maintenance(rescheduler.watched.nodes.get(name)) for name in nodes):  # noqa: ASYNC110
        await asyncio.sleep(0.05)
