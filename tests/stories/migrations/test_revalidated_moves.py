"""Moves as the program makes them: each is judged by the planner's rules when its turn comes."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from rescheduler.api.podmigration import Handover, MigrationPhase
from rescheduler.config.policy import Configuration, LeaderElection, UsageSource
from rescheduler.daemon.components import Rescheduler
from rescheduler.kube.api_resources import Object
from tests.stories.migrations.moving import Moves, SetMoves
from tests.stories.migrations.workloads import CLAIMS, claim_spec, provided_volumes, stateful_set
from tests.stories.objects import ready_since
from tests.stories.observer import observing
from tests.stories.stage import Stage, node_of


@contextlib.asynccontextmanager
async def executing(moves: Moves, **policy: Any) -> AsyncIterator[Rescheduler]:
    """Everything as it is put together for the commands."""
    policy = {"min_pod_age": timedelta(), "usage_source": UsageSource.REQUESTS, **policy}
    configuration = Configuration(
        policy=replace(moves.policy, **policy), leader_election=LeaderElection(leader_elect=False)
    )
    rescheduler = Rescheduler(moves.client, configuration, lease_at="default/rescheduler", now=moves.now)
    async with rescheduler.watching(), rescheduler.executing():
        yield rescheduler


NO_SURGE = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}


@pytest.mark.parametrize(
    ("strategy", "has_claim"),
    [
        pytest.param({"type": "Recreate"}, False, id="it recreates its pods"),
        pytest.param(NO_SURGE, False, id="its maxSurge is 0"),
        pytest.param({"type": "RollingUpdate"}, True, id="its claim is for one node only"),
    ],
)
async def test_a_workload_that_wants_no_pod_more_never_has_one(
    set_moves: SetMoves, strategy: Object, has_claim: bool
) -> None:
    moves = await set_moves(nodes=3)
    stage = moves.stage
    replicas = 1 if has_claim else 2
    await stage.deployment(replicas, strategy=strategy, pod=await claimed(stage) if has_claim else {})
    await stage.budget(maxUnavailable=1)
    source = (await stage.pods())[0]
    target = await stage.free_node()
    await stage.cordon(*(node for node in stage.nodes if node != target))
    async with observing(moves.client, stage.namespace) as seen, executing(moves):
        key = await moves.wish(source, target)
        migration = await moves.until_finished(key)
        pods = await stage.until_ready(replicas)
        await moves.until_nothing_left()
    assert migration.status.phase is MigrationPhase.COMPLETED, migration.status
    assert migration.status.handover is Handover.EVICT
    assert max(seen.ready) == replicas
    assert target in {node_of(pod) for pod in pods}


async def claimed(stage: Stage) -> Object:
    """What a pod says that has a claim, for a volume that one node at a time can use."""
    await provided_volumes(stage, 1)
    metadata = {"namespace": stage.namespace, "name": "data"}
    await stage.client.create(CLAIMS, {"metadata": metadata, "spec": claim_spec(stage)})
    return {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}


async def test_pods_of_a_stateful_set_move_one_after_another(set_moves: SetMoves) -> None:
    moves = await set_moves()
    stage = moves.stage
    await stateful_set(stage, 3)
    sources, target = await stage.pods(), await stage.free_node()
    await stage.cordon(*(node for node in stage.nodes if node != target))
    async with observing(moves.client, stage.namespace) as seen, executing(moves):
        keys = [await moves.wish(source, target) for source in sources]
        ends = [await moves.until_finished(key) for key in keys]
        pods = await stage.until_ready(3)
        await moves.until_nothing_left()
    assert {end.status.phase for end in ends} == {MigrationPhase.COMPLETED}, ends
    assert min(seen.ready) == 2, "one at a time"
    assert {node_of(pod) for pod in pods} == {target}
    assert sorted(seen.deleted) == ["web-0", "web-1", "web-2"]


async def test_next_pod_of_the_same_workload(set_moves: SetMoves) -> None:
    """It moves as soon as the one before has arrived."""
    moves = await set_moves()
    await moves.stage.deployment(2)
    await moves.stage.budget(maxUnavailable=0)
    first, second = await moves.stage.pods()
    target = await moves.stage.free_node()
    async with executing(moves):
        keys = [await moves.wish(pod, target) for pod in (first, second)]
        one, other = [await moves.until_finished(key) for key in keys]
    assert one.status.phase is other.status.phase is MigrationPhase.COMPLETED, (one.status, other.status)
    assert one.status.finished_at is not None
    assert other.status.started_at is not None
    assert other.status.started_at - one.status.finished_at < timedelta(seconds=3)


async def test_a_stateful_set_pod_waits_for_those_before_it(set_moves: SetMoves) -> None:
    """Its successor would not be made before they are ready: it would be missing for as long."""
    moves = await set_moves()
    stage = moves.stage
    await stateful_set(stage, 3)
    first, _, last = await stage.pods()
    target = await stage.free_node()
    stage.behave({"match": {"node": node_of(first)}, "readiness": "never", "startup": "0s"})
    await moves.until_pods(lambda pods: not ready_since(pods["web-0"]))
    await stage.cordon(*(node for node in stage.nodes if node != target))
    async with executing(moves):
        key = await moves.wish(last, target)
        waiting = await moves.until(key, lambda migration: migration.status.retry_at)
        assert waiting.status.phase is MigrationPhase.PENDING
        assert "web-0" in waiting.status.message
        stage.behave()
        assert (await moves.until_finished(key)).status.phase is MigrationPhase.COMPLETED
