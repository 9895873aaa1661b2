"""Two ways to fill a cluster: through the API, by several processes, or straight into etcd, by one.

Through the API a pod costs 13 ms of processor time (8 in the API server, 4 in ours, 1 in etcd), so two cores
make at most 150 a second.
"""

import asyncio
import multiprocessing
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path

from rescheduler.kube.access.cluster_config import load_cluster_access
from rescheduler.kube.client import Client
from rescheduler.kube.http_transport import HttpTransport
from tests.testbed.fake_kubelet import node_shapes
from tests.testbed.filler.contents import Workload, plan
from tests.testbed.filler.filling import fill, make_namespaces, make_nodes
from tests.testbed.filler.straight import fill_straight

__all__ = ["FillError", "Filling", "fill_nodes", "fill_pods"]

_LOOK_EVERY_S = 0.5


class FillError(Exception):
    """Not everything was made; the reason is on stderr, where the process that failed wrote it."""


@dataclass(frozen=True)
class Filling:
    """What to make, and where."""

    kubeconfig: Path | None
    nodes: int
    pods: int
    prefix: str = "filled"
    """Of the nodes' names."""
    kubelet: str = "fake"
    """Which fake kubelet plays the nodes."""
    owners: bool = False
    seed: int = 0
    processes: int = 3
    etcd: str = ""
    """The URL of the cluster's etcd, to write pods straight into it."""


async def fill_nodes(filling: Filling) -> None:
    client = _client(filling)
    try:
        await make_namespaces(client)
        shapes = node_shapes(filling.nodes, filling.prefix, cpu="16", memory="64Gi")
        await make_nodes(client, shapes, filling.kubelet, at_once=16)
    finally:
        await client.close()


def fill_pods(filling: Filling, reported: Callable[[int], None] = lambda _made: None) -> None:
    """Return when all are there; `reported` receives the number now and then. Raise `FillError`."""
    if filling.etcd:
        asyncio.run(_fill_straight(filling, reported))
    else:
        _fill_by_processes(filling, reported)


async def _fill_straight(filling: Filling, reported: Callable[[int], None]) -> None:
    made = 0

    def count(more: int) -> None:
        nonlocal made
        made += more
        reported(made)

    client = _client(filling)
    try:
        await fill_straight(client, filling.etcd, _planned(filling), owners=filling.owners, reported=count)
    finally:
        await client.close()


def _fill_by_processes(filling: Filling, reported: Callable[[int], None]) -> None:
    fresh = multiprocessing.get_context("spawn")  # forks and event loops don't go together
    made = fresh.Value("i", 0)
    shares = [
        fresh.Process(target=_fill_share, args=(filling, rank, made), daemon=True)
        for rank in range(filling.processes)
    ]
    for share in shares:
        share.start()
    while any(share.is_alive() for share in shares):
        time.sleep(_LOOK_EVERY_S)
        reported(made.value)
    if made.value != filling.pods:
        raise FillError(f"made {made.value} of {filling.pods} pods")


def _fill_share(filling: Filling, rank: int, made: "Synchronized[int]") -> None:
    asyncio.run(_fill_part(filling, rank, made))


async def _fill_part(filling: Filling, rank: int, made: "Synchronized[int]") -> None:
    part = list(_planned(filling))[rank :: filling.processes]

    def reported(count: int) -> None:
        with made.get_lock():
            made.value += count

    client = _client(filling)
    try:
        await fill(client, part, owners=filling.owners, reported=reported)
    finally:
        await client.close()


def _planned(filling: Filling) -> Iterator[Workload]:
    nodes = [shape.name for shape in node_shapes(filling.nodes, filling.prefix)]
    return plan(nodes, filling.pods, filling.seed)


def _client(filling: Filling) -> Client:
    return Client(HttpTransport(load_cluster_access(filling.kubeconfig)), field_manager="filler")
