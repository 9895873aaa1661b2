"""The whole program in this process: checks, migrations, recovery, and its reports."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from rescheduler.api.daemon_status import FailingPod, SuspectNode
from rescheduler.config.policy import Configuration, FailedPodsPolicy, LeaderElection, Policy, UsageSource
from rescheduler.daemon.daemon_process import Daemon, DaemonOptions
from rescheduler.daemon.listeners import DaemonListener
from rescheduler.kube.client import Client

__all__ = ["Pace", "ReceivedEvents", "recovering"]


@dataclass(frozen=True)
class Pace:
    """How long things take: as they are set by default in virtual time, short on a real control plane."""

    terms: FailedPodsPolicy
    check_every: timedelta
    timeout_s: float

    def policy(self, **more: Any) -> Policy:
        wanted: dict[str, Any] = {
            "enabled_strategies": (),
            "failed_pods": self.terms,
            "rescheduling_interval": self.check_every,
            "settle_time": timedelta(milliseconds=100),
            "steer_timeout": timedelta(seconds=5),
            "usage_source": UsageSource.REQUESTS,
            "max_concurrent_per_workload": 2,
        }
        return Policy(**(wanted | more))


class ReceivedEvents(DaemonListener):
    """The latest report."""

    use: Callable[[Policy], None]
    """As if its configuration had changed."""

    def __init__(self) -> None:
        self.failing_pods: Sequence[FailingPod] = ()
        self.suspect_nodes: Sequence[SuspectNode] = ()

    def failing(self, pods: Sequence[FailingPod]) -> None:
        self.failing_pods = pods

    def suspects(self, nodes: Sequence[SuspectNode]) -> None:
        self.suspect_nodes = nodes


@contextlib.asynccontextmanager
async def recovering(
    client: Client,
    policy: Policy,
    namespace: str,
    now: Callable[[], datetime],
    *,
    is_killed: bool = False,
    **elects: Any,
) -> AsyncIterator[ReceivedEvents]:
    """The daemon. Its Lease and state are in that namespace. `is_killed`: it has no time to end in order."""
    received, ended = ReceivedEvents(), asyncio.Event()
    configuration = Configuration(policy=policy, leader_election=LeaderElection(**elects))
    options = DaemonOptions(lease_at=f"{namespace}/rescheduler", now=now, listeners=(received,))
    daemon = Daemon(lambda _: client, configuration, options)
    received.use = lambda policy: daemon.runtime.update(policy=policy)
    running = asyncio.create_task(daemon.run_until(ended))
    try:
        yield received
    finally:
        if is_killed:
            running.cancel()
        ended.set()
        await asyncio.gather(running, return_exceptions=is_killed)
