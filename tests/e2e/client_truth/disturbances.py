"""Disturbances of an API server and of the connection to it; each returns when it is over."""

import asyncio
from collections.abc import Awaitable, Callable

from tests.e2e.client_truth.tcp_relay import TcpRelay
from tests.testbed import ControlPlane, Part

__all__ = ["EVERY_KIND", "Disturbance"]

Disturbance = Callable[[ControlPlane, TcpRelay], Awaitable[None]]

SILENT_S = 5.0
AWAY_S = 2.0


async def watches_dropped(_: ControlPlane, relay: TcpRelay) -> None:
    for _again in range(5):
        relay.cut()
        await asyncio.sleep(0.3)


async def server_restarted(plane: ControlPlane, _: TcpRelay) -> None:
    await asyncio.to_thread(plane.restart, Part.API_SERVER)


async def silence(_: ControlPlane, relay: TcpRelay) -> None:
    relay.hold()
    await asyncio.sleep(SILENT_S)
    relay.release()


async def history_compacted_and_server_killed(plane: ControlPlane, _: TcpRelay) -> None:
    """The missed events are compacted: only a new list helps."""
    await asyncio.to_thread(plane.compact_etcd)
    await asyncio.to_thread(plane.stop_part, Part.API_SERVER, kill=True)
    await asyncio.sleep(AWAY_S)
    await asyncio.to_thread(plane.start_part, Part.API_SERVER)


async def history_compacted_while_cut_off(plane: ControlPlane, relay: TcpRelay) -> None:
    relay.hold()
    await asyncio.sleep(1.0)
    await asyncio.to_thread(plane.compact_etcd)
    await asyncio.to_thread(plane.restart, Part.API_SERVER)
    relay.cut()
    relay.release()


async def store_restarted(plane: ControlPlane, _: TcpRelay) -> None:
    await asyncio.to_thread(plane.restart, Part.ETCD)


EVERY_KIND: tuple[Disturbance, ...] = (
    watches_dropped,
    server_restarted,
    silence,
    history_compacted_and_server_killed,
    store_restarted,
    history_compacted_while_cut_off,
)
