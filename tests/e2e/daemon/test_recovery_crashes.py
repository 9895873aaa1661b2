"""A daemon is killed at one step after the other, and the next one continues."""

from collections.abc import Awaitable, Callable
from typing import Any

from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS
from rescheduler.kube.access.cluster_config import load_cluster_access
from rescheduler.kube.client import Client
from rescheduler.kube.http_transport import HttpTransport
from tests.stories.recovery.concurrent_stories import PACE
from tests.stories.recovery.program import recovering
from tests.stories.recovery.recovery_sandbox import RecoverySandbox
from tests.stories.sandbox import AT_ONCE, Sandbox, until_usable
from tests.stories.waiting import until, wall_clock
from tests.testbed import ControlPlane


async def test_tries_are_neither_lost_nor_counted_twice(
    control_plane: ControlPlane, client: Client, namespace: str, start_kubelet: Callable[..., Awaitable[Any]]
) -> None:
    kubelet = await start_kubelet({"pods": [AT_ONCE]}, nodes=4)
    sandbox = Sandbox(client, namespace, kubelet, await until_usable(client, kubelet, 4))

    def connect() -> Client:
        return Client(HttpTransport(load_cluster_access(control_plane.kubeconfig)))

    recovery = RecoverySandbox(sandbox, wall_clock, PACE, connect, PACE.policy())
    recovery.breaks(*sandbox.nodes)
    await recovery.workload_on(sandbox.nodes[0], "Deployment", retries="2")
    steps: list[Callable[[], Awaitable[object]]] = [
        lambda: recovery.until_ledger("Deployment", lambda ledger: ledger.lineages),
        lambda: until(client, POD_MIGRATIONS, namespace, bool),
        lambda: until(client, POD_MIGRATIONS, namespace, lambda found: any(map(_has_copy, found.values()))),
        lambda: recovery.until_ledger(
            "Deployment", lambda ledger: any(line.count == 2 for line in ledger.lineages.values())
        ),
    ]
    for reached in steps:
        alone = connect()
        async with recovering(
            alone, recovery.policy, namespace, wall_clock, leader_elect=False, is_killed=True
        ):
            await reached()
        await alone.close()
    last = connect()
    async with recovering(last, recovery.policy, namespace, wall_clock, leader_elect=False):
        ledger = await recovery.until_ledger(
            "Deployment", lambda ledger: any(line.end for line in ledger.lineages.values())
        )
        await recovery.until_nothing_is_under_way()
    await last.close()
    (line,) = ledger.lineages.values()
    assert line.count == 2
    assert len([each for each in await recovery.migrations() if each.status.target_pod is not None]) == 2
    assert len(await recovery.pods()) == 1


def _has_copy(item: Any) -> bool:
    return (
        "targetPod" in (item.get("status") or {}) or (item.get("status") or {}).get("step") == "RollingBack"
    )
