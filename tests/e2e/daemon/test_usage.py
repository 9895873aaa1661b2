"""Consecutive checks with randomly varying usage: the cluster settles and stays settled.

It is part of every run, because it alone uses the daemon's permission to list usage.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from rescheduler.kube.client import Client
from tests.e2e.daemon.conftest import Lopsided, Run
from tests.e2e.daemon.processes import Cluster, write_config
from tests.e2e.daemon.test_daemon import is_settled, migrations_of
from tests.testbed.usage.api import UsageApi

SETTLED_CHECKS = 15
MOST_MOVES = 8
"""Four of 26 pods make the nodes even; the noise may mislead about one or the other."""


async def test_noise_in_the_usage_moves_nothing_once_the_nodes_are_even(
    cluster: Cluster, run: Run, lopsided: Lopsided, client: Client, eventually: Callable[..., Awaitable[Any]]
) -> None:
    moves = await lopsided()
    usage = {"cpu": {"level": "95%", "noise": 0.3}, "memory": "50%"}
    moves.sandbox.behave({"startup": "1s", "termination": "0s", "usage": usage})
    write_config(cluster.config, usageSource="metrics", hotChecks=2, podCooldown="0s")
    async with UsageApi(client, moves.sandbox.kubelet).running():
        replica = await run()
        await replica.until_said("MovePlanned")
        await eventually(is_settled(moves, replica, SETTLED_CHECKS), timeout_s=120.0)
        checks = replica.said("CheckDone")
        assert checks[0]["moves"] == 0, "one hot moment moves nothing"
        assert checks[-1]["usage"] == "metrics"
        assert len(await migrations_of(moves)) <= MOST_MOVES, "no to and fro on the way"
        await replica.end()
