"""A cordon belongs to the client that made it: rescheduler removes only its own."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from rescheduler.api.well_known_names import CORDONED_BY_ANNOTATION, MAINTENANCE_LABEL
from rescheduler.cluster.codecs.record_resources import NODES
from rescheduler.kube.client import Client
from tests.e2e.daemon.conftest import Run
from tests.e2e.daemon.processes import Cluster, Replica, write_config
from tests.testbed import ControlPlane

Eventually = Callable[..., Awaitable[Any]]
ENOUGH_CHECKS = 3


class Operator:
    """What a user does to one node with kubectl, and the node's state."""

    def __init__(
        self, control_plane: ControlPlane, client: Client, node: str, eventually: Eventually
    ) -> None:
        self._control_plane = control_plane
        self._client = client
        self._eventually = eventually
        self.node = node

    def cordon(self) -> None:
        self._control_plane.kubectl("cordon", self.node)

    def uncordon(self) -> None:
        self._control_plane.kubectl("uncordon", self.node)

    def begin_maintenance(self) -> None:
        self._control_plane.kubectl("label", "node", self.node, f"{MAINTENANCE_LABEL}=true")

    def end_maintenance(self) -> None:
        self._control_plane.kubectl("label", "node", self.node, f"{MAINTENANCE_LABEL}-")

    async def is_cordoned(self) -> bool:
        return (await self._client.get(NODES, self.node)).unschedulable

    async def has_mark(self) -> bool:
        return CORDONED_BY_ANNOTATION in (await self._client.get(NODES, self.node)).annotations

    async def until_cordoned(self) -> None:
        await self._eventually(self.is_cordoned)

    async def until_schedulable(self) -> None:
        async def look() -> bool:
            return not await self.is_cordoned()

        await self._eventually(look)

    async def until_unmarked(self) -> None:
        async def look() -> bool:
            return not await self.has_mark()

        await self._eventually(look)


async def command(cluster: Cluster, *arguments: str) -> str:
    """What it prints to people; it must succeed."""
    process = await asyncio.create_subprocess_exec(
        Path(sys.executable).with_name("rescheduler"),
        *arguments,
        env={"KUBECONFIG": str(cluster.admin), "PATH": "/usr/bin"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return " ".join((out + err).decode().split())


async def checks_pass(replica: Replica) -> None:
    await replica.until_said("CheckDone", len(replica.said("CheckDone")) + ENOUGH_CHECKS)


@pytest.fixture
async def operator(
    control_plane: ControlPlane,
    client: Client,
    cluster: Cluster,
    start_kubelet: Callable[..., Awaitable[Any]],
    eventually: Eventually,
) -> Operator:
    write_config(cluster.config, enabledStrategies=["NodeMaintenance"])
    kubelet = await start_kubelet(nodes=2)
    return Operator(control_plane, client, min(kubelet.played), eventually)


@pytest.mark.full
async def test_what_rescheduler_cordoned_it_uncordons_also_after_a_restart(
    operator: Operator, run: Run
) -> None:
    operator.begin_maintenance()
    first = await run()
    await operator.until_cordoned()
    await first.end()
    operator.end_maintenance()
    await run()
    await operator.until_schedulable()
    assert not await operator.has_mark()


@pytest.mark.full
async def test_a_later_cordon_stays_after_the_operator_has_uncordoned_by_hand(
    operator: Operator, run: Run
) -> None:
    """The order in which it was found: label, `kubectl uncordon`, no label, and later `kubectl cordon`."""
    replica = await run()
    operator.begin_maintenance()
    await operator.until_cordoned()
    operator.end_maintenance()
    operator.uncordon()
    await operator.until_unmarked()
    operator.cordon()
    await checks_pass(replica)
    assert await operator.is_cordoned()


@pytest.mark.full
async def test_a_cordon_stays_if_uncordon_and_cordon_happen_between_two_checks(
    operator: Operator, run: Run
) -> None:
    replica = await run()
    operator.begin_maintenance()
    await operator.until_cordoned()
    operator.uncordon()
    operator.cordon()
    operator.end_maintenance()
    await checks_pass(replica)
    assert await operator.is_cordoned()
    assert not await operator.has_mark(), "the node no longer claims that rescheduler cordoned it"


async def test_a_cordon_stays_if_the_daemon_saw_nothing_of_what_happened(
    operator: Operator, run: Run
) -> None:
    first = await run()
    operator.begin_maintenance()
    await operator.until_cordoned()
    await first.end()
    operator.end_maintenance()
    operator.uncordon()
    operator.cordon()
    second = await run()
    (kept,) = await second.until_said("CordonKept")
    assert kept["node"] == operator.node
    await checks_pass(second)
    assert await operator.is_cordoned()
    assert not await operator.has_mark()


async def test_a_mark_on_a_schedulable_node_is_removed(operator: Operator, run: Run) -> None:
    first = await run()
    operator.begin_maintenance()
    await operator.until_cordoned()
    await first.end()
    operator.end_maintenance()
    operator.uncordon()
    assert await operator.has_mark()
    await run()
    await operator.until_unmarked()


async def test_undrain_leaves_the_cordon_of_another_client(operator: Operator, cluster: Cluster) -> None:
    await command(cluster, "drain", operator.node)
    assert await operator.is_cordoned()
    operator.uncordon()
    operator.cordon()
    assert "kubectl uncordon" in await command(cluster, "undrain", operator.node)
    assert await operator.is_cordoned()
    operator.uncordon()

    await command(cluster, "drain", operator.node)
    await command(cluster, "undrain", operator.node)
    assert not await operator.is_cordoned(), "its own cordon is removed"
