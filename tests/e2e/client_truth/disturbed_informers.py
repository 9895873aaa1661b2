"""Informers that follow a cluster through churn and failures, and what must hold in the end."""

import asyncio
import contextlib
from collections.abc import Callable, Iterable

from rescheduler.kube.access.cluster_config import load_cluster_access
from rescheduler.kube.client import Client
from rescheduler.kube.http_transport import HttpTransport
from rescheduler.kube.informer import ReflectorTiming
from tests.e2e.client_truth.churn import Churn, define_widgets
from tests.e2e.client_truth.disturbances import Disturbance
from tests.e2e.client_truth.followers import Follower, following, following_all
from tests.e2e.client_truth.tcp_relay import TcpRelay
from tests.testbed import ControlPlane

__all__ = ["run_disturbances"]

PACE = ReflectorTiming(
    watch_s=(5.0, 9.0), silence_s=3.0, stale_after_s=2.0, first_delay_s=0.1, longest_delay_s=1.0
)
"""In a hurry: what takes minutes in a cluster has to happen here in seconds."""
CALM_S = 2.0
"""Between two disturbances."""
CATCH_UP_S = 60.0
LONGEST_REQUEST_S = 120.0
"""A large list on a busy machine."""


async def run_disturbances(plane: ControlPlane, disturbances: Iterable[Disturbance]) -> list[Follower]:
    """Fail unless every cache equals a fresh list in the end, and always reported its staleness."""
    tasks_before = asyncio.all_tasks()
    async with contextlib.AsyncExitStack() as stack:
        access = load_cluster_access(plane.kubeconfig)
        direct = Client(HttpTransport(access), timeout_s=LONGEST_REQUEST_S)
        stack.push_async_callback(direct.close)
        await define_widgets(direct)
        relay = await stack.enter_async_context(TcpRelay(access).running())
        client = Client(HttpTransport(relay.access), timeout_s=LONGEST_REQUEST_S)
        stack.push_async_callback(client.close)
        followers = following_all(client, PACE)
        async with following(followers):
            async with Churn(direct).running() as churn:
                for disturb in disturbances:
                    await asyncio.sleep(CALM_S)
                    await disturb(plane, relay)
                await _none_left(lambda: [str(each) for each in followers if not each.informer.is_fresh])
            assert min(churn.done[verb] for verb in ("create", "patch", "delete")) > 50, churn.done
            listed = {follower: await follower.listed() for follower in followers}
            await _none_left(lambda: [key for each in followers for key in each.differing(listed[each])])
        for follower in followers:
            _check_reports(follower)
    assert asyncio.all_tasks() == tasks_before, "no task is left"
    return followers


async def _none_left(look: Callable[[], list[str]]) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(CATCH_UP_S):
            while look():  # noqa: ASYNC110 - only looking tells
                await asyncio.sleep(0.2)
    assert look() == []


def _check_reports(follower: Follower) -> None:
    counts = follower.informer.counts
    about = f"{follower}: {counts}"
    assert follower.replica == follower.held, about
    assert follower.faults == [], about
    assert follower.was_stale, f"never said that it was out of touch: {about}"
    assert follower.gave_failure, f"never said why: {about}"
    assert counts.relists >= 1, f"a compaction should have cost a new list: {about}"
    assert counts.watches > counts.lists, f"a broken watch should have been resumed: {about}"
    assert counts.rewinds == counts.handler_failures == 0, about
