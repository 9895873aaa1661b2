"""What can happen to an API server and to the wire to it; each returns when it is over."""

import asyncio
from collections.abc import Awaitable, Callable

from tests.e2e.client_truth.cable import Cable
from tests.testbed import ControlPlane, Part

__all__ = ["EVERY_KIND", "Disturbance"]

Disturbance = Callable[[ControlPlane, Cable], Awaitable[None]]

SILENT_S = 5.0
AWAY_S = 2.0


async def watches_dropped(_: ControlPlane, cable: Cable) -> None:
    for _again in range(5):
        cable.cut()
        await asyncio.sleep(0.3)


async def server_restarted(plane: ControlPlane, _: Cable) -> None:
    await asyncio.to_thread(plane.restart, Part.API_SERVER)


async def silence(_: ControlPlane, cable: Cable) -> None:
    cable.hold()
    await asyncio.sleep(SILENT_S)
    cable.release()


async def history_compacted_and_server_killed(plane: ControlPlane, _: Cable) -> None:
    """What was missed can't be told any more: only a new list helps."""
    await asyncio.to_thread(plane.compact_etcd)
    await asyncio.to_thread(plane.stop_part, Part.API_SERVER, kill=True)
    await asyncio.sleep(AWAY_S)
    await asyncio.to_thread(plane.start_part, Part.API_SERVER)


async def history_compacted_while_cut_off(plane: ControlPlane, cable: Cable) -> None:
    cable.hold()
    await asyncio.sleep(1.0)
    await asyncio.to_thread(plane.compact_etcd)
    await asyncio.to_thread(plane.restart, Part.API_SERVER)
    cable.cut()
    cable.release()


async def store_restarted(plane: ControlPlane, _: Cable) -> None:
    await asyncio.to_thread(plane.restart, Part.ETCD)


EVERY_KIND: tuple[Disturbance, ...] = (
    watches_dropped,
    server_restarted,
    silence,
    history_compacted_and_server_killed,
    store_restarted,
    history_compacted_while_cut_off,
)
