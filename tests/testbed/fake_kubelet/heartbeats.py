"""Heartbeats of many nodes: a few Leases are renewed each second, so that thousands cause no burst.

A test that blocks the event loop stops them, too. Those that were due meanwhile follow at once.
"""

import asyncio
import logging
import math
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from rescheduler.kube import errors
from rescheduler.kube.api_resources import LEASES, key_of, merge_patch
from rescheduler.kube.client import Client
from tests.testbed.fake_kubelet.nodes import LEASE_NAMESPACE, lease_object, renewal

__all__ = ["Heartbeats", "usual_period_s"]

log = logging.getLogger(__name__)


def usual_period_s(nodes: int) -> float:
    """Every 10 s like a kubelet, less often for thousands of nodes: at most 100 renewals a second.

    The controller manager gives a node up after 50 s (`--node-monitor-grace-period`); with more than 4,000
    nodes raise that, or name a period.
    """
    return max(10.0, nodes / 100)


class Heartbeats:
    def __init__(
        self, client: Client, alive: Callable[[], list[dict[str, Any]]], period_s: float | None = None
    ) -> None:
        """`alive` gives the nodes to speak for; it is asked again each second."""
        self._client = client
        self._alive = alive
        self._period_s = period_s
        self._beaten_s: dict[str, float] = {}
        """When each node was spoken for last."""

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        second = 0
        while True:
            began = loop.time()
            nodes = self._alive()
            groups = math.ceil(self._period_s or usual_period_s(len(nodes)))
            async with asyncio.TaskGroup() as group:
                for number, node in enumerate(nodes):
                    name = node["metadata"]["name"]
                    is_late = began - self._beaten_s.setdefault(name, began) > groups + 1
                    if number % groups == second % groups or is_late:
                        self._beaten_s[name] = began
                        group.create_task(self.beat(node))
            second += 1
            await asyncio.sleep(max(0.0, began + 1 - loop.time()))

    async def beat(self, node: dict[str, Any]) -> None:
        now = datetime.now(UTC)
        key = key_of(LEASE_NAMESPACE, node["metadata"]["name"])
        try:
            try:
                await self._client.patch(LEASES, key, merge_patch(renewal(now)))
            except errors.NotFound:
                await self._client.create(LEASES, lease_object(node, now))
        except errors.KubeError as failed:  # the next beat is the retry
            log.warning("no heartbeat of %s: %s", key, failed)
