"""A cluster with version 0.1 is upgraded while moves run.

0.1 is its own code, run from the history of this repository. The observer of the chaos rounds watches both
versions: no removal leaves too few ready pods, nothing else is written, and nothing is left.
"""

from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.e2e.upgrade.previous_version import export_previous_version
from tests.e2e.upgrade.stopping_proxy import StoppingProxy
from tests.e2e.upgrade.upgraded_cluster import HANDOVERS, UpgradedCluster, upgraded_cluster
from tests.testbed import ControlPlane
from tests.testbed.options import QUICK

pytestmark = pytest.mark.full

MOST_WRITES = 16
"""More than 0.1 needs for one move."""


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[UpgradedCluster]:
    previous = export_previous_version(tmp_path / "previous")
    with ControlPlane(tmp_path / "control-plane", QUICK) as plane:
        async with upgraded_cluster(plane, previous, tmp_path) as made:
            yield made


async def test_moves_at_every_step_are_finished_or_rolled_back_by_a_daemon(
    cluster: UpgradedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    limits = {f"{each}-{writes}": writes for each in HANDOVERS for writes in range(MOST_WRITES)}
    await cluster.create_workloads(list(limits))
    async with StoppingProxy(cluster.plane, limits).running() as proxy:
        previous = cluster.previous_daemon(proxy.url)
        await previous.start()
        await cluster.begin_maintenance()
        await cluster.until(lambda: proxy.stopped | finished(cluster) == set(limits))
        await previous.kill()
    with capsys.disabled():
        print("\nleft by 0.1:", dict(steps(cluster)))
    assert {each.partition("-")[0] for each in finished(cluster)} == set(HANDOVERS), "raise MOST_WRITES"
    cluster.upgrade("--execute")
    daemon = cluster.daemon()
    await daemon.start()
    try:
        await cluster.until(lambda: not open_migrations(cluster) and not cluster.pods_left())
        await cluster.begin_maintenance(on=False)
        await cluster.until_clean()
    finally:
        await daemon.stop()
    assert cluster.verdict() == []


async def test_the_previous_leader_still_runs_when_the_new_version_is_installed(
    cluster: UpgradedCluster,
) -> None:
    """A rollout replaces replicas one by one: the old leader releases its Lease when it ends."""
    await cluster.create_workloads([f"{each}-{number}" for each in HANDOVERS for number in range(8)])
    previous = cluster.previous_daemon()
    await previous.start()
    await cluster.begin_maintenance()
    await cluster.until(lambda: {"Starting", "Evicting"} & set(steps(cluster)))
    cluster.upgrade("--execute")
    daemon = cluster.daemon()
    await daemon.start()
    try:
        await daemon.until_logged("another process leads")
        await previous.stop()
        await cluster.until(lambda: not open_migrations(cluster) and not cluster.pods_left())
        await cluster.begin_maintenance(on=False)
        await cluster.until_clean()
    finally:
        await daemon.stop()
    assert cluster.verdict() == []


def finished(cluster: UpgradedCluster) -> set[str]:
    return {each.namespace for each in cluster.migrations() if each.is_finished and not each.has_finalizer}


def open_migrations(cluster: UpgradedCluster) -> list[str]:
    return [each.key for each in cluster.migrations() if not each.is_finished or each.has_finalizer]


def steps(cluster: UpgradedCluster) -> Counter[str]:
    return Counter(each.step or "not begun" for each in cluster.migrations())
