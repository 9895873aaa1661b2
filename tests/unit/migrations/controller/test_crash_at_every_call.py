"""A controller crashes at any call; the next one finishes the migration: moved, or exactly as before.

For each handover, and for the ways back, the first controller ends at each of its API calls in turn: before
it, after it, with the call still on its way, or it lives on and only the answer is lost. Then nothing may be
left: no copy, mark, budget, finalizer or owner reference; and with Adopt no moment was below the count.
"""

import asyncio
from datetime import timedelta

import pytest

from kubesim.virtual_time import run_virtual
from rescheduler.api.podmigration import EVICTION
from rescheduler.api.well_known_names import KARPENTER_NODE_POOL_LABEL
from rescheduler.cluster.codecs.record_resources import NODES
from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS
from rescheduler.config.policy import SafeEvictions
from rescheduler.kube.api_resources import merge_patch
from rescheduler.migrations import labels_and_names
from tests.stories.migrations.moves import Moves
from tests.stories.migrations.workloads import stateful_set
from tests.stories.observer import observing
from tests.unit.migrations.controller.crashing_controller import Cluster, Crash, Faulty, at_every_call

FEWEST_CALLS, MOST_CALLS = 5, 60


class Adopt:
    replicas = 2
    startup = "0s"
    """Of pods that start once the move begins."""

    async def set_up(self, moves: Moves):
        await moves.sandbox.deployment(self.replicas)
        await moves.sandbox.budget(maxUnavailable=0)
        return (await moves.sandbox.pods())[0]

    async def request(self, moves: Moves, source):
        """Create the migration; return its key."""
        return await moves.create_migration(source, await moves.sandbox.free_node())

    async def meanwhile(self, moves: Moves, key: str):
        """After the first controller has ended, and before the second begins."""


class Copy(Adopt):
    replicas = 1

    async def set_up(self, moves: Moves):
        pod = await moves.sandbox.pod("web")
        return await moves.sandbox.until_pod_ready(pod)


class Evict(Adopt):
    replicas = 3

    async def set_up(self, moves: Moves):
        await stateful_set(moves.sandbox, self.replicas)
        return (await moves.sandbox.pods())[-1]


class OnEviction:
    """Another client wants to evict the pod, from a node of Karpenter that is about to go."""

    async def set_up(self, moves: Moves):
        source = await super().set_up(moves)
        node = source["spec"]["nodeName"]
        await moves.sandbox.cordon(node)
        labels = {KARPENTER_NODE_POOL_LABEL: "default"}
        await moves.client.patch(NODES, node, merge_patch({"metadata": {"labels": labels}}))
        return source

    async def request(self, moves: Moves, source):
        return await moves.create_migration(
            source, await moves.sandbox.free_node(), held=False, strategy=EVICTION
        )


class WithoutRoom(OnEviction):
    """No node has room at first: the copy is Pending, and goes where the scheduler puts it."""

    async def request(self, moves: Moves, source):
        return await moves.create_migration(source, "", held=False, strategy=EVICTION)


class NeverReady:
    startup = "2h"


class Cancelled:
    async def meanwhile(self, moves: Moves, key: str):
        await moves.client.delete(POD_MIGRATIONS, key)


class AdoptNeverReady(NeverReady, Adopt): ...


class AdoptCancelled(Cancelled, Adopt): ...


class CopyNeverReady(NeverReady, Copy): ...


class CopyCancelled(Cancelled, Copy): ...


class EvictRefused(Evict):
    """Its budget allows nothing, ever."""

    async def set_up(self, moves: Moves):
        source = await super().set_up(moves)
        await moves.sandbox.budget(maxUnavailable=0)
        return source


class EvictCancelled(Cancelled, Evict): ...


class AdoptOnEviction(OnEviction, Adopt):
    startup = "5s"


class CopyOnEviction(OnEviction, Copy):
    startup = "5s"


class AdoptWithoutRoom(WithoutRoom, Adopt):
    startup = "5s"


class OnEvictionNeverReady(NeverReady, AdoptOnEviction): ...


class OnEvictionCancelled(Cancelled, AdoptOnEviction): ...


MOVED = (Adopt, Copy, Evict)
UNDONE = (AdoptNeverReady, AdoptCancelled, CopyNeverReady, CopyCancelled, EvictRefused, EvictCancelled)
MOVED_ON_EVICTION = (AdoptOnEviction, CopyOnEviction, AdoptWithoutRoom)
UNDONE_ON_EVICTION = (OnEvictionNeverReady, OnEvictionCancelled)
WHERE_WRITES_MATTER = (Crash.AFTER, Crash.LATE)
POINTS = [
    *((play, crash) for play in MOVED + MOVED_ON_EVICTION for crash in Crash),
    *((play, crash) for play in UNDONE + UNDONE_ON_EVICTION for crash in WHERE_WRITES_MATTER),
]
EVERY_DAY = {
    *((play, crash) for play, crash in POINTS if not issubclass(play, OnEviction)),
    *((play, Crash.LATE) for play in (AdoptOnEviction, AdoptWithoutRoom, OnEvictionCancelled)),
}


async def crashed_and_taken_over(play, crash, at):
    """How many calls the first controller made: fewer than `at` if it never came so far."""
    cluster = Cluster(
        migration_timeout=timedelta(seconds=60),
        max_retries=0,
        safe_evictions=SafeEvictions(deadline=timedelta(seconds=90)),
    )
    try:
        moves = await cluster.moves(nodes=4)
        source = await play.set_up(moves)
        before = described(source)
        moves.sandbox.behave({"startup": play.startup, "termination": "0s"})
        faulty = Faulty(cluster.server, at, crash)
        async with observing(moves.client, moves.sandbox.namespace) as seen:
            key = await play.request(moves, source)
            await until_crashed(moves, cluster, faulty, key)
            await play.meanwhile(moves, key)
            async with moves.executing(cluster.connect()):
                faulty.taken_over.set()
                await moves.until_over(key, timeout_s=900)
                if faulty.late is not None:
                    await faulty.late
                await moves.until_nothing_left()
                pods = await moves.sandbox.until_ready(play.replicas)
        here = f"{crash.value}: {faulty.calls[-1:]}"
        assert isinstance(play, Evict) or min(seen.ready) >= play.replicas, f"below the count; {here}"
        by_uid = {pod["metadata"]["uid"]: pod for pod in pods}
        stayed = by_uid.pop(source["metadata"]["uid"], None)
        if stayed is None:
            assert any(
                pod["metadata"]["labels"].get(labels_and_names.STATUS_LABEL) == "completed" for pod in pods
            ), here
        else:
            assert described(stayed) == before, here
        return len(faulty.calls)
    finally:
        await cluster.close()


async def until_crashed(moves, cluster, faulty, key):
    """Wait until the controller has crashed, or the migration is over."""
    async with moves.executing(cluster.connect(faulty.handle)):
        crashed = asyncio.create_task(faulty.crashed.wait())
        finished = asyncio.create_task(moves.until_over(key, timeout_s=900))
        await asyncio.wait({crashed, finished}, return_when=asyncio.FIRST_COMPLETED)
        for task in (crashed, finished):
            task.cancel()
        await asyncio.gather(crashed, finished, return_exceptions=True)


def described(pod):
    """All that a migration might change of a pod."""
    metadata = pod["metadata"]
    return {
        "labels": metadata.get("labels"),
        "annotations": metadata.get("annotations"),
        "owners": metadata.get("ownerReferences"),
        "finalizers": metadata.get("finalizers"),
        "spec": pod["spec"],
    }


@at_every_call(8)
@pytest.mark.parametrize(
    ("play", "crash"),
    [
        pytest.param(
            *point,
            id=f"{point[0].__name__}: it ends {point[1].value}",
            marks=() if point in EVERY_DAY else pytest.mark.size,
        )
        for point in POINTS
    ],
)
def test_the_end_is_moved_or_as_before_wherever_a_controller(play, crash, first, apart):
    for at in range(first, MOST_CALLS, apart):
        calls = run_virtual(crashed_and_taken_over(play(), crash, at))
        if calls < at:
            assert at > FEWEST_CALLS, "it ended before it came to anything"
            return
    pytest.fail("the migration never came to an end without a crash")
