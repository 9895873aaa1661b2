"""Real moves: each is revalidated with the planner's rules when its turn comes."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from kubevalues.quantity import cpu_millis
from rescheduler.api.podmigration import Handover, MigrationPhase, decode_migration
from rescheduler.cluster.codecs.record_resources import NODES
from rescheduler.config.policy import Configuration, LeaderElection, UsageSource
from rescheduler.daemon.components import Rescheduler
from rescheduler.kube.api_resources import DEPLOYMENTS, STATEFUL_SETS, Object, merge_patch, strategic_patch
from rescheduler.kube.client import Client
from rescheduler.migrations.observation import RevalidationOutcome, RevalidationResult
from rescheduler.migrations.transition_table import MigrationStep
from rescheduler.planner.reasons import Reason
from tests.stories.migrations.moves import MakeMoves, Moves
from tests.stories.migrations.workloads import CLAIMS, claim_spec, provided_volumes, stateful_set
from tests.stories.objects import RESOURCE_QUOTAS, ready_since
from tests.stories.observer import observing
from tests.stories.sandbox import Sandbox, node_of
from tests.stories.waiting import until_object


@contextlib.asynccontextmanager
async def executing(
    moves: Moves, *, client: Client | None = None, **policy: Any
) -> AsyncIterator[Rescheduler]:
    """Everything as it is put together for the commands; `client` works instead of the administrator."""
    policy = {"min_pod_age": timedelta(), "usage_source": UsageSource.REQUESTS, **policy}
    configuration = Configuration(
        policy=replace(moves.policy, **policy), leader_election=LeaderElection(leader_elect=False)
    )
    rescheduler = Rescheduler(
        client or moves.client, configuration, lease_at="default/rescheduler", now=moves.now
    )
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
    make_moves: MakeMoves, strategy: Object, has_claim: bool
) -> None:
    moves = await make_moves(nodes=3)
    sandbox = moves.sandbox
    replicas = 1 if has_claim else 2
    await sandbox.deployment(replicas, strategy=strategy, pod=await claimed(sandbox) if has_claim else {})
    await sandbox.budget(maxUnavailable=1)
    source = (await sandbox.pods())[0]
    target = await sandbox.free_node()
    await sandbox.cordon(*(node for node in sandbox.nodes if node != target))
    async with observing(moves.client, sandbox.namespace) as seen, executing(moves):
        key = await moves.create_migration(source, target)
        migration = await moves.until_finished(key)
        pods = await sandbox.until_ready(replicas)
        await moves.until_nothing_left()
    assert migration.status.phase is MigrationPhase.COMPLETED, migration.status
    assert migration.status.handover is Handover.EVICT
    assert max(seen.ready) == replicas
    assert target in {node_of(pod) for pod in pods}


async def claimed(sandbox: Sandbox) -> Object:
    """What a pod says that has a claim, for a volume that one node at a time can use."""
    await provided_volumes(sandbox, 1)
    metadata = {"namespace": sandbox.namespace, "name": "data"}
    await sandbox.client.create(CLAIMS, {"metadata": metadata, "spec": claim_spec(sandbox)})
    return {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}


async def test_pods_of_a_stateful_set_move_one_after_another(make_moves: MakeMoves) -> None:
    moves = await make_moves()
    sandbox = moves.sandbox
    await stateful_set(sandbox, 3)
    sources, target = await sandbox.pods(), await sandbox.free_node()
    await sandbox.cordon(*(node for node in sandbox.nodes if node != target))
    async with observing(moves.client, sandbox.namespace) as seen, executing(moves):
        keys = [await moves.create_migration(source, target) for source in sources]
        ends = [await moves.until_finished(key) for key in keys]
        pods = await sandbox.until_ready(3)
        await moves.until_nothing_left()
    assert {end.status.phase for end in ends} == {MigrationPhase.COMPLETED}, ends
    assert min(seen.ready) == 2, "one at a time"
    assert {node_of(pod) for pod in pods} == {target}
    assert sorted(seen.deleted) == ["web-0", "web-1", "web-2"]


async def test_next_pod_of_the_same_workload(make_moves: MakeMoves, at_once: timedelta) -> None:
    """It moves as soon as the one before has arrived."""
    moves = await make_moves()
    await moves.sandbox.deployment(2)
    await moves.sandbox.budget(maxUnavailable=0)
    first, second = await moves.sandbox.pods()
    target = await moves.sandbox.free_node()
    async with executing(moves):
        keys = [await moves.create_migration(pod, target) for pod in (first, second)]
        one, other = [await moves.until_finished(key) for key in keys]
    assert one.status.phase is other.status.phase is MigrationPhase.COMPLETED, (one.status, other.status)
    assert one.status.finished_at is not None
    assert other.status.started_at is not None
    assert other.status.started_at - one.status.finished_at < at_once


@pytest.mark.full
async def test_a_stateful_set_pod_waits_for_those_before_it(make_moves: MakeMoves) -> None:
    """Its successor would not be made before they are ready: it would be missing for as long."""
    moves = await make_moves()
    sandbox = moves.sandbox
    await stateful_set(sandbox, 3)
    first, _, last = await sandbox.pods()
    target = await sandbox.free_node()
    sandbox.behave({"match": {"node": node_of(first)}, "readiness": "never", "startup": "0s"})
    await moves.until_pods(lambda pods: not ready_since(pods["web-0"]))
    await sandbox.cordon(*(node for node in sandbox.nodes if node != target))
    async with executing(moves):
        key = await moves.create_migration(last, target)
        waiting = await moves.until(key, lambda migration: migration.status.retry_at)
        assert waiting.status.phase is MigrationPhase.PENDING
        assert "web-0" in waiting.status.message
        sandbox.behave()
        assert (await moves.until_finished(key)).status.phase is MigrationPhase.COMPLETED


@pytest.mark.parametrize("is_replaced", [True, False], ids=["its replacement is pending", "it has none yet"])
async def test_room_of_a_replacement_is_not_given_away(make_moves: MakeMoves, is_replaced: bool) -> None:
    """A pod was evicted to move to the target: until its replacement is bound, no other move takes its
    room."""
    moves = await make_moves()
    sandbox = moves.sandbox
    (target,) = sandbox.nodes[-1:]
    allocatable = (await moves.client.get(NODES.as_json, target))["status"]["allocatable"]
    half = {"cpu": f"{cpu_millis(allocatable['cpu']) * 6 // 10}m"}
    await sandbox.cordon(target)
    await stateful_set(sandbox, 1, pod=half, updateStrategy={"type": "OnDelete"})
    other = await sandbox.until_pod_ready(await sandbox.pod("other", **half))
    if is_replaced:
        gates = [{"name": "example.com/hold"}]
        changed = {"spec": {"template": {"spec": {"schedulingGates": gates}}}}
        await moves.client.patch(STATEFUL_SETS, sandbox.key("web"), strategic_patch(changed))
    else:
        metadata = {"namespace": sandbox.namespace, "name": "full"}
        await moves.client.create(RESOURCE_QUOTAS, {"metadata": metadata, "spec": {"hard": {"pods": "1"}}})
        await until_object(
            moves.client, RESOURCE_QUOTAS, sandbox.key("full"), lambda found: "status" in found
        )
    (source,) = await sandbox.pods()
    await sandbox.cordon(target, on=False)
    async with executing(moves) as rescheduler:

        async def asked() -> RevalidationResult:
            spec = {
                "pod": {"name": "other", "uid": other["metadata"]["uid"]},
                "sourceNode": node_of(other),
                "targetNode": target,
            }
            metadata = {
                "namespace": sandbox.namespace,
                "name": "another",
                "uid": "1",
                "creationTimestamp": other["metadata"]["creationTimestamp"],
            }
            wanted = decode_migration({"metadata": metadata, "spec": spec})
            await rescheduler.revalidation.prepare(wanted)
            return rescheduler.revalidation.revalidate(wanted)

        assert (await asked()).outcome is RevalidationOutcome.APPROVED
        key = await moves.create_migration(source, target)
        await moves.until(key, lambda migration: migration.status.step == MigrationStep.REPLACING)
        uid = source["metadata"]["uid"]

        def is_evicted(pods: Mapping[str, Object]) -> bool:
            found = pods.get("web-0")
            return found["metadata"]["uid"] != uid if is_replaced and found else not (is_replaced or found)

        await moves.until_pods(is_evicted)
        pods = rescheduler.cluster.watched.pods
        async with asyncio.timeout(60):
            while (found := pods.get(sandbox.key("web-0"))) is not None and found.uid == uid:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        refused = await asked()
    assert refused.outcome is not RevalidationOutcome.APPROVED, refused


async def test_a_budget_that_not_even_a_copy_can_meet_refuses_the_move_at_once(make_moves: MakeMoves) -> None:
    moves = await make_moves(nodes=3)
    sandbox = moves.sandbox
    await sandbox.deployment(2)
    await sandbox.budget(minAvailable=3)
    source, target = (await sandbox.pods())[0], await sandbox.free_node()
    async with observing(moves.client, sandbox.namespace) as seen, executing(moves):
        migration = await moves.until_finished(await moves.create_migration(source, target))
        await moves.until_nothing_left()
    assert migration.status.phase is MigrationPhase.FAILED
    assert migration.status.failure == Reason.BUDGET_UNSATISFIABLE, migration.status
    assert "requires 3 healthy pods; with all replicas and the copy there are 3" in migration.status.message
    assert set(seen.ready) == {2}, "there was never a copy"


@pytest.mark.full
async def test_a_move_waits_for_siblings_that_its_budget_needs(make_moves: MakeMoves) -> None:
    """The third replica starts when the move is requested: with it and the copy, the budget allows one."""
    moves = await make_moves(nodes=4)
    sandbox = moves.sandbox
    await sandbox.deployment(2)
    await sandbox.budget(minAvailable=3)
    source = (await sandbox.pods())[0]
    sandbox.behave({"startup": "3s", "termination": "0s"})
    scaled = merge_patch({"spec": {"replicas": 3}})
    await moves.client.patch(DEPLOYMENTS, sandbox.key("web"), scaled)
    await moves.until_pods(lambda pods: len(pods) == 3 and all(map(node_of, pods.values())), labels="app=web")
    target = await sandbox.free_node()
    async with observing(moves.client, sandbox.namespace) as seen, executing(moves):
        migration = await moves.until_finished(await moves.create_migration(source, target))
        await sandbox.until_ready(3)
        await moves.until_nothing_left()
    assert migration.status.phase is MigrationPhase.COMPLETED, migration.status
    assert migration.status.attempts == 1
    assert min(seen.ready) == 2, "the two that were ready before"
