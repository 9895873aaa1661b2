"""A quiet server is not taken for a dead one, and a dead one is noticed within seconds."""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import AsyncIterator, Callable

import pytest

from rescheduler.cluster.codecs.record_resources import NODES, PODS
from rescheduler.kube.access.cluster_config import load_cluster_access
from rescheduler.kube.api_resources import NAMESPACES, STATEFUL_SETS, ApiResource, Object
from rescheduler.kube.client import Client
from rescheduler.kube.http_transport import HttpTransport
from rescheduler.kube.informer import Informer, ReflectorTiming
from tests.e2e.client_truth.tcp_relay import TcpRelay
from tests.testbed import ControlPlane, Part

QUIET: tuple[ApiResource[Object], ...] = (NAMESPACES, STATEFUL_SETS)
QUIET_S = 20.0
HURRIED = ReflectorTiming(silence_s=3.0, lost_after_s=2.0, stale_after_s=5.0)
"""Thirty times as impatient as usual: many silences in a short time."""
NOTICED_S = 15.0
"""The default pace is to notice within about eight."""
BACK_S = 60.0


@contextlib.asynccontextmanager
async def following(
    client: Client,
    pace: ReflectorTiming = ReflectorTiming(),  # noqa: B008
) -> AsyncIterator[list[Informer[object]]]:
    informers = [Informer(client, each, timing=pace) for each in (PODS, NODES, *QUIET)]
    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(client.probing())
        for informer in informers:
            await stack.enter_async_context(informer.running())
            await informer.synced()
        yield informers  # type: ignore[misc]  # of whatever they are, only their state is looked at


@pytest.fixture
async def relay(bare: ControlPlane) -> AsyncIterator[TcpRelay]:
    async with TcpRelay(load_cluster_access(bare.kubeconfig)).running() as relay:
        yield relay


@pytest.fixture
async def far(relay: TcpRelay) -> AsyncIterator[Client]:
    """A client at the other end of the cable."""
    client = Client(HttpTransport(relay.access))
    yield client
    await client.close()


@pytest.mark.full
async def test_kinds_of_which_nothing_is_received_stay_fresh(truth: Client) -> None:
    async with following(truth, HURRIED) as informers:
        await asyncio.sleep(2)
        until = time.monotonic() + QUIET_S
        while time.monotonic() < until:
            stale = {each.resource.label: each.failure for each in informers if not each.is_fresh}
            assert not stale
            await asyncio.sleep(0.05)
        for informer in informers:
            assert informer.counts.watches >= 5, "silent watches were opened again"
            assert informer.counts.relists == informer.counts.failures == 0


@contextlib.asynccontextmanager
async def held_back(plane: ControlPlane, relay: TcpRelay) -> AsyncIterator[None]:
    """Connections stay open; no byte comes through."""
    relay.hold()
    try:
        yield
    finally:
        relay.release()


@contextlib.asynccontextmanager
async def stopped(plane: ControlPlane, relay: TcpRelay) -> AsyncIterator[None]:
    """The kernel still answers for the process, the process does not."""
    pid = plane.process(Part.API_SERVER).pid
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize(
    "disturbed",
    [
        pytest.param(held_back, id="a proxy that forwards nothing"),
        pytest.param(stopped, id="an API server that is stopped"),
    ],
)
async def test_a_connection_that_is_open_and_dead_is_noticed_within_seconds(
    bare: ControlPlane,
    relay: TcpRelay,
    far: Client,
    disturbed: Callable[[ControlPlane, TcpRelay], contextlib.AbstractAsyncContextManager[None]],
) -> None:
    async with following(far) as informers:
        await until(lambda: all(each.is_fresh for each in informers), 10)
        async with disturbed(bare, relay):
            began = time.monotonic()
            await until(lambda: not any(each.is_fresh for each in informers), NOTICED_S)
            print(f"noticed after {time.monotonic() - began:.1f} s")
        await until(lambda: all(each.is_fresh for each in informers), BACK_S)


async def until(holds: Callable[[], bool], within_s: float) -> None:
    async with asyncio.timeout(within_s):
        while not holds():  # noqa: ASYNC110 - only looking tells
            await asyncio.sleep(0.05)
