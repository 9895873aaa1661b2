"""Five minutes of churn and failures at 30,000 pods."""

import asyncio
import itertools
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.client_truth.disturbances import EVERY_KIND, Disturbance
from tests.e2e.client_truth.disturbed_informers import run_disturbances
from tests.testbed import ControlPlane, Options
from tests.testbed.filler.processes import Filling, fill_nodes, fill_pods

pytestmark = pytest.mark.full

NODES, PODS = 1_000, 30_000
LASTS_S = 300.0


async def test_caches_of_30000_pods_equal_a_fresh_list_after_five_minutes(tmp_path: Path) -> None:
    options = Options(controller_manager=False, scheduler=False, audit=False)
    with ControlPlane(tmp_path, options) as plane:
        filling = Filling(plane.kubeconfig, nodes=NODES, pods=PODS, etcd=plane.etcd_url)
        await fill_nodes(filling)
        await asyncio.to_thread(fill_pods, filling)
        followers = await run_disturbances(plane, _for(LASTS_S))
    for follower in followers:
        print(f"{follower}: worst staleness {follower.worst_staleness_s:.1f} s, {follower.informer.counts}")
    assert len(followers[0].held) >= PODS


def _for(seconds: float) -> Iterator[Disturbance]:
    end = time.monotonic() + seconds
    return itertools.takewhile(lambda _: time.monotonic() < end, itertools.cycle(EVERY_KIND))
