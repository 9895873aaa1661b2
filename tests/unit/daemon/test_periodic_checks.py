"""The daemon's checks: on time, aware of unfinished migrations, and until the cluster has settled."""

import asyncio
import random
import sys
import threading
from collections import Counter
from datetime import timedelta
from importlib.metadata import EntryPoint, EntryPoints

from rescheduler.api.podmigration import STRATEGY_ENTRY_POINTS
from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.cluster.usage_readings import UsageReading, UsageReadings
from rescheduler.config.policy import UsageSource
from rescheduler.strategies import strategy_registry
from tests.stories.sandbox import node_of
from tests.unit.daemon.conftest import INTERVAL_S


async def spread(moves):
    return sorted(Counter(node_of(pod) for pod in await moves.sandbox.pods()).values())


async def test_a_crowded_node_is_relieved_and_then_nothing_is_left_to_do(crowd, start, status):
    moves = await crowd(pods=6)
    running = await start(max_concurrent_per_workload=2)
    await running.until_checked(4)
    assert running.received.moves[0] > 0
    assert running.received.moves[-1] == 0
    assert await spread(moves) == [2, 2, 2]
    assert await moves.leftovers() == []
    written = await status()
    assert written.leader == "me"
    assert written.last_check.moves == 0
    (cpu, _) = written.balance
    assert cpu.spread < 20


async def test_the_next_check_reckons_with_moves_that_are_still_under_way(crowd, start):
    """Pods start so slowly that several checks pass before the first of them has arrived."""
    moves = await crowd(pods=6)
    moves.sandbox.behave({"startup": "75s"})
    running = await start(max_concurrent_per_workload=6, max_concurrent_per_node=6)
    await running.until_checked(3)
    first, *later = running.received.moves
    assert first == 4
    assert later == [0, 0], "what is on its way is not relieved twice"
    await running.until_checked(8)
    assert await spread(moves) == [2, 2, 2]
    assert sum(running.received.moves) == 4


async def test_what_a_plan_has_not_begun_is_left_to_the_next_one(crowd, start, migrations, eventually):
    moves = await crowd(pods=6)
    moves.sandbox.behave({"startup": "40s"})
    running = await start(max_concurrent_per_workload=1)
    await running.until_checked(1)
    await asyncio.sleep(INTERVAL_S / 2)
    assert len(await migrations()) == 1, "the first wave"
    await running.until_checked(2)
    assert running.received.moves[:2] == [4, 3], "the rest is planned again, not twice"

    async def are_all_over():
        return all(each.is_finished for each in await migrations()) and not sum(running.received.moves[-2:])

    await eventually(are_all_over)
    assert await spread(moves) == [2, 2, 2]
    assert len(await migrations()) == 4


class SlowUsage:
    """A source of usage that takes its time."""

    def __init__(self, seconds):
        self.seconds = seconds

    async def read(self):
        await asyncio.sleep(self.seconds)
        return UsageReadings(UsageSource.REQUESTS)

    async def close(self):
        pass


async def test_checks_that_are_due_while_another_one_lasts_are_skipped_and_not_made_up_for(
    crowd, start, server
):
    await crowd(pods=1)
    running = await start(usage=SlowUsage(2.5 * INTERVAL_S))
    await running.until_checked(3)
    assert running.received.skipped == [(2, "the previous check took too long")] * len(
        running.received.skipped
    )
    first, second, third = [check.at for check in running.received.checks[:3]]
    assert abs((second - first).total_seconds() - 3 * INTERVAL_S) < 1
    assert abs((third - second).total_seconds() - 3 * INTERVAL_S) < 1


class BrokenOnce(SlowUsage):
    async def read(self):
        self.seconds -= 1
        if not self.seconds:
            raise RuntimeError("out of order")
        return UsageReadings(UsageSource.REQUESTS)


async def test_a_check_that_fails_is_followed_by_the_next_one(crowd, start, caplog):
    await crowd(pods=1)
    running = await start(usage=BrokenOnce(2))
    await running.until_checked(3)
    assert "a bug in rescheduler; the next check tries again" in caplog.text
    first, second, third = (check.at for check in running.received.checks)
    assert (second - first).total_seconds() == 2 * INTERVAL_S
    assert (third - second).total_seconds() == INTERVAL_S


class RandomUsage:
    """Every pod uses now more, now less of what it asks for."""

    def __init__(self, client, server, seed):
        self._client, self._server = client, server
        self._rng = random.Random(seed)

    async def read(self):
        now_s = self._server.clock.now().timestamp()
        pods = (await self._client.list(PODS)).items
        return UsageReadings(
            UsageSource.METRICS,
            {
                pod.key: UsageReading(
                    int(pod.requests.cpu_millis * self._rng.uniform(0.4, 1.2)),
                    int(pod.requests.memory_bytes * self._rng.uniform(0.4, 1.2)),
                    now_s,
                )
                for pod in sorted(pods, key=lambda pod: pod.key)
                if pod.node
            },
        )

    async def close(self):
        pass


async def test_fifty_checks_with_random_usage_settle_and_stay_settled(
    crowd, start, server, client, migrations
):
    """No cooldown after a move: it is not the cooldown that keeps pods from going to and fro."""
    await crowd(pods=6, nodes=4)
    running = await start(
        usage=RandomUsage(client, server, seed=3),
        pod_cooldown=timedelta(),
        max_concurrent_per_workload=2,
    )
    await running.until(lambda: len(running.received.checks) >= 50, timeout_s=60 * INTERVAL_S)
    moves = running.received.moves
    assert moves[:2] == [0, 0], "nothing moves by usage before it was hot for some checks"
    assert sum(moves) > 0
    assert sum(moves[25:]) == 0, f"it does not come to rest: {moves}"
    made = await migrations()
    assert {each.status.phase for each in made} == {"Completed"}
    been = {}
    for each in sorted(made, key=lambda each: each.created):
        nodes_visited = been.pop(each.spec.pod.uid, [each.spec.source_node])
        assert each.target_node not in nodes_visited, f"{each.pod_key} comes back: {nodes_visited}"
        been[each.status.target_pod.uid] = [*nodes_visited, each.target_node]


class Endless:
    """A strategy of a plugin that waits for what never comes."""

    name = "Endless"

    def propose(self, view):
        threading.Event().wait()
        yield


async def test_a_plugin_that_does_not_return_holds_up_one_check_only(
    make_moves, start, monkeypatch, status, eventually
):
    monkeypatch.setitem(sys.modules, "endless_plugin", sys.modules[__name__])
    plugins = EntryPoints([EntryPoint("Endless", "endless_plugin:Endless", STRATEGY_ENTRY_POINTS)])
    monkeypatch.setattr(strategy_registry, "strategy_plugins", lambda: plugins)
    monkeypatch.setattr(strategy_registry, "PLUGIN_TIMEOUT_S", 0.5)
    monkeypatch.setattr(strategy_registry, "_hung", set())
    moves = await make_moves(3)
    await moves.sandbox.deployment(2)
    running = await start(enabled_strategies=("Endless", "LoadBalancing"))
    await running.until_checked(3)
    assert all(each.plan.refused_counts["StrategyFailed"] == 1 for each in running.received.checks)

    async def is_reported():
        found = await status()
        return found is not None and found.last_check and found.last_check.refused.get("StrategyFailed")

    await eventually(is_reported)
