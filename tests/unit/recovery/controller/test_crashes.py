"""The controller crashes at any step; the next one continues: no attempt too many, and no pod lost.

The first program ends at each of its API calls in turn: before it, or after it and before its answer. What it
has put on record before that counts, and is not counted again.
"""

import asyncio
import contextlib
from datetime import timedelta

import pytest

from kubesim.virtual_time import run_virtual
from rescheduler.config.policy import FailedPodsPolicy
from tests.stories.recovery.program import Pace, recovering
from tests.stories.recovery.recovery_sandbox import RecoverySandbox
from tests.stories.recovery.simulated_recovery import steering
from tests.unit.migrations.controller.crashing_controller import Cluster, Crash, Faulty, at_every_call

SECOND = timedelta(seconds=1)
PACE = Pace(
    FailedPodsPolicy(recovery_window=20 * SECOND, restart_threshold=1, stuck_after=20 * SECOND),
    check_every=5 * SECOND,
    timeout_s=600.0,
)
FEWEST_CALLS, MOST_CALLS = 4, 80


class AtItsTask(Faulty):
    """Calls for its own upkeep don't count."""

    def _counts(self, method, target):
        return super()._counts(method, target) and "/configmaps/" not in target and "/leases/" not in target


class Deployment:
    """Fails wherever it is: two reschedulings, and no third."""

    kind, retries, replicas = "Deployment", "2", 1
    tries = 2

    def broken(self, nodes):
        return nodes

    async def ended(self, recovery):
        await recovery.until_ledger(
            self.kind, lambda ledger: any(line.end for line in ledger.lineages.values())
        )

    def has_begun(self, migration):
        return migration.status.target_pod is not None

    async def check(self, recovery, here):
        (line,) = (await recovery.ledger(self.kind)).lineages.values()
        assert line.count == self.tries, here
        assert len(line.nodes) == 1 + self.tries, f"each time another node; {here}"
        assert len(list(filter(self.has_begun, await recovery.migrations()))) == self.tries, here
        assert len(await recovery.pods()) == 1, here


class StatefulSet(Deployment):
    kind = "StatefulSet"

    def has_begun(self, migration):
        return migration.status.handed_over_at is not None


class DaemonSet(Deployment):
    kind = "DaemonSet"

    def broken(self, nodes):
        return nodes[:1]

    async def check(self, recovery, here):
        (line,) = (await recovery.ledger(self.kind)).lineages.values()
        assert line.count == self.tries, here
        pods = {*(each.pod for each in line.tries), line.end.pod}
        assert len(pods) == 1 + self.tries, f"each time another pod; {here}"


class Recovered(Deployment):
    """Runs well elsewhere: one rescheduling, and then nothing on record."""

    tries = 1

    def broken(self, nodes):
        return nodes[:1]

    async def ended(self, recovery):
        await recovery.until_well()
        await recovery.until_forgotten(self.kind)

    async def check(self, recovery, here):
        assert len(list(filter(self.has_begun, await recovery.migrations()))) == self.tries, here


@contextlib.asynccontextmanager
async def recovery_sandbox(cluster, nodes=3):
    sandbox = await cluster.sandbox(nodes)
    async with steering(cluster.server, sandbox.client, cluster.connect()):
        yield RecoverySandbox(
            sandbox, cluster.server.clock.now, PACE, cluster.connect, PACE.policy(max_retries=0)
        )


async def crashed_and_taken_over(story, crash, at):
    """How many calls the first program made: fewer than `at` if it never came so far."""
    cluster = Cluster()
    try:
        async with recovery_sandbox(cluster) as recovery:
            recovery.breaks(*story.broken(recovery.sandbox.nodes))
            if story.kind == "DaemonSet":
                await recovery.workload(story.kind, retries=story.retries)
            else:
                await recovery.workload_on(recovery.sandbox.nodes[0], story.kind, retries=story.retries)
            faulty = AtItsTask(cluster.server, at, crash)
            await until_crashed(recovery, story, cluster, faulty)
            async with recovering(
                cluster.connect(), recovery.policy, "moves", recovery.now, leader_elect=False
            ):
                await story.ended(recovery)
                await recovery.until_nothing_is_under_way()
            await story.check(recovery, f"{crash.value}: {faulty.calls[-1:]}")
            return len(faulty.calls)
    finally:
        await cluster.close()


async def until_crashed(recovery, story, cluster, faulty):
    """Wait until the program has crashed, or everything is over."""
    client = cluster.connect(faulty.handle)
    running = recovering(client, recovery.policy, "moves", recovery.now, leader_elect=False, is_killed=True)
    async with running:
        crashed = asyncio.create_task(faulty.crashed.wait())
        over = asyncio.create_task(story.ended(recovery))
        await asyncio.wait({crashed, over}, return_when=asyncio.FIRST_COMPLETED)
        for task in (crashed, over):
            task.cancel()
        await asyncio.gather(crashed, over, return_exceptions=True)


@at_every_call(12)
@pytest.mark.parametrize(
    ("story", "crash"),
    [
        pytest.param(story, crash, id=f"{story.__name__}: it ends {crash.value}")
        for story, crash in (
            (Deployment, Crash.AFTER),
            (Recovered, Crash.BEFORE),
            (StatefulSet, Crash.AFTER),
            (DaemonSet, Crash.BEFORE),
            (DaemonSet, Crash.AFTER),
        )
    ],
)
def test_as_many_tries_as_are_allowed_wherever_the_program(story, crash, first, apart):
    for at in range(first, MOST_CALLS, apart):
        calls = run_virtual(crashed_and_taken_over(story(), crash, at))
        if calls < at:
            assert at > FEWEST_CALLS, "it ended before it came to anything"
            return
    pytest.fail("it never came to an end without a crash")
