"""A copy that doesn't become ready: the migration is rolled back, and no leftover remains."""

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from rescheduler.api.podmigration import Migration, MigrationPhase
from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube.api_resources import (
    DEPLOYMENTS,
    NAMESPACES,
    ApiResource,
    Object,
    merge_patch,
    strategic_patch,
)
from tests.stories.facts.admission import policy_refuses, webhook_refuses
from tests.stories.migrations.moves import MakeMoves, Moves
from tests.stories.migrations.sidecars import webhook_adds_sidecars
from tests.stories.objects import LIMIT_RANGES, RESOURCE_QUOTAS
from tests.stories.observer import observing
from tests.stories.sandbox import node_of
from tests.stories.waiting import until_object

Eventually = Callable[..., Awaitable[Any]]


async def rolled_back(moves: Moves, *, retries: int = 0, **policy: Any) -> Migration:
    """The move of a Deployment's only pod failed, and its clients did not notice."""
    sandbox = moves.sandbox
    (source,) = await sandbox.pods()
    target = await sandbox.free_node()
    async with observing(moves.client, sandbox.namespace) as seen:
        migration = await moves.move(source, target, max_retries=retries, **policy)
        await moves.until_nothing_left()
    (after,) = await sandbox.until_ready(1)
    assert migration.status.phase is MigrationPhase.FAILED, migration.status
    assert migration.status.attempts == 1 + retries
    assert min(seen.ready) == 1
    for part in ("labels", "annotations", "ownerReferences", "uid"):
        assert after["metadata"].get(part) == source["metadata"].get(part), "as before"
    return migration


async def one_pod(make_moves: MakeMoves) -> Moves:
    moves: Moves = await make_moves(nodes=2)
    await moves.sandbox.deployment(1)
    await moves.sandbox.budget(minAvailable=1)
    return moves


async def test_a_copy_that_starts_slowly_is_waited_for(make_moves: MakeMoves) -> None:
    moves = await one_pod(make_moves)
    moves.sandbox.behave({"startup": "4s", "termination": "0s"})
    (source,) = await moves.sandbox.pods()
    migration = await moves.move(source, await moves.sandbox.free_node())
    assert migration.status.phase is MigrationPhase.COMPLETED, migration.status


async def test_a_copy_that_never_becomes_ready(make_moves: MakeMoves) -> None:
    moves = await one_pod(make_moves)
    on_target = {"node": await moves.sandbox.free_node()}
    moves.sandbox.behave({"match": on_target, "readiness": "never", "startup": "0s", "termination": "0s"})
    migration = await rolled_back(moves, migration_timeout=timedelta(seconds=3))
    assert migration.status.failure == "TimedOut"
    assert "the last step was Starting" in migration.status.message


async def test_a_copy_whose_image_can_not_be_pulled(make_moves: MakeMoves) -> None:
    moves = await one_pod(make_moves)
    on_target = {"node": await moves.sandbox.free_node()}
    moves.sandbox.behave({"match": on_target, "blocked": "ImagePullBackOff", "termination": "0s"})
    migration = await rolled_back(moves)
    assert migration.status.failure == "CopyFailing"
    assert "ImagePullBackOff" in migration.status.message


async def test_a_copy_that_the_scheduler_puts_elsewhere(make_moves: MakeMoves) -> None:
    moves = await one_pod(make_moves)
    await moves.sandbox.cordon(await moves.sandbox.free_node())
    migration = await rolled_back(moves)
    assert migration.status.failure == "TargetDidNotFit"


@pytest.mark.full
async def test_what_failed_for_a_passing_reason_is_tried_again(make_moves: MakeMoves) -> None:
    moves = await one_pod(make_moves)
    target = await moves.sandbox.free_node()
    await moves.sandbox.cordon(target)
    (source,) = await moves.sandbox.pods()
    key = await moves.create_migration(source, target)
    async with moves.executing():
        await moves.until(key, lambda migration: migration.status.retry_at)
        await moves.sandbox.cordon(target, on=False)
        migration = await moves.until_finished(key)
    assert migration.status.phase is MigrationPhase.COMPLETED, migration.status
    assert migration.status.attempts == 2
    await moves.until_nothing_left()


# -- refused at admission


def limits(resource: ApiResource[Object], namespace: str, spec: Object) -> Object:
    metadata = {"namespace": namespace, "name": "limits"}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": spec}


async def test_a_copy_beyond_the_quota(make_moves: MakeMoves) -> None:
    moves = await one_pod(make_moves)
    sandbox = moves.sandbox
    quota = limits(RESOURCE_QUOTAS, sandbox.namespace, {"hard": {"pods": "1"}})
    await moves.client.create(RESOURCE_QUOTAS, quota)
    await until_object(
        moves.client,
        RESOURCE_QUOTAS,
        sandbox.key("limits"),
        lambda quota: quota.get("status", {}).get("used") == {"pods": "1"},
    )
    migration = await rolled_back(moves)
    assert migration.status.failure == "CopyRefused"
    assert migration.status.failure_is_final
    assert "exceeded quota" in migration.status.message


@pytest.mark.parametrize(
    ("limit", "failure"),
    [
        pytest.param({"min": {"cpu": "200m"}}, "CopyRefused", id="below its minimum"),
        pytest.param({"max": {"cpu": "50m"}}, "CopyRefused", id="above its maximum"),
        pytest.param(
            {"default": {"cpu": "1"}}, "AdmissionDiffers", id="that sets a limit the source has not"
        ),
    ],
)
async def test_a_copy_under_a_limit_range(make_moves: MakeMoves, limit: Object, failure: str) -> None:
    moves = await one_pod(make_moves)
    spec = {"limits": [{"type": "Container", **limit}]}
    await moves.client.create(LIMIT_RANGES, limits(LIMIT_RANGES, moves.sandbox.namespace, spec))
    migration = await rolled_back(moves, retries=0)
    assert migration.status.failure == failure
    assert migration.status.failure_is_final


@pytest.mark.control_plane(reason="the simulator has no PodSecurity")
async def test_a_copy_that_pod_security_refuses(make_moves: MakeMoves) -> None:
    moves = await one_pod(make_moves)
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    await moves.client.patch(
        NAMESPACES, moves.sandbox.namespace, merge_patch({"metadata": {"labels": labels}})
    )
    migration = await rolled_back(moves)
    assert migration.status.failure == "CopyRefused"
    assert "PodSecurity" in migration.status.message


@pytest.mark.real_time
async def test_a_copy_that_a_webhook_refuses(make_moves: MakeMoves, eventually: Eventually) -> None:
    moves = await one_pod(make_moves)
    async with webhook_refuses(moves.client, moves.sandbox.namespace, eventually):
        migration = await rolled_back(moves)
    assert migration.status.failure == "CopyRefused"
    assert migration.status.failure_is_final
    assert "not today" in migration.status.message


@pytest.mark.control_plane(reason="the simulator has no admission policies")
async def test_a_copy_that_an_admission_policy_refuses(make_moves: MakeMoves, eventually: Eventually) -> None:
    moves = await one_pod(make_moves)
    async with policy_refuses(moves.client, moves.sandbox.namespace, eventually):
        migration = await rolled_back(moves)
    assert migration.status.failure == "CopyRefused"
    assert migration.status.failure_is_final


@pytest.mark.real_time
async def test_a_copy_that_a_webhook_makes_another_pod_than_its_source(
    make_moves: MakeMoves, eventually: Eventually
) -> None:
    """It is noticed before the copy may be scheduled, let alone serve."""
    moves = await one_pod(make_moves)
    async with (
        webhook_adds_sidecars(moves.client, moves.sandbox.namespace, eventually),
        observing(moves.client, moves.sandbox.namespace) as seen,
    ):
        migration = await rolled_back(moves)
    assert migration.status.failure == "AdmissionDiffers"
    assert migration.status.failure_is_final
    assert "spec.containers[proxy] was added" in migration.status.message
    assert len(seen.created) == 1
    assert not seen.was_ready & set(seen.created), "the copy never ran"


# -- what the copy is like


async def test_a_pod_that_was_resized_keeps_its_size(make_moves: MakeMoves) -> None:
    moves = await one_pod(make_moves)
    (source,) = await moves.sandbox.pods()
    resources = {"requests": {"cpu": "250m", "memory": "64Mi"}}
    await moves.client.patch(
        PODS.sub("resize"),
        moves.sandbox.key(source["metadata"]["name"]),
        strategic_patch({"spec": {"containers": [{"name": "main", "resources": resources}]}}),
    )
    migration = await moves.move(source, await moves.sandbox.free_node())
    assert migration.status.phase is MigrationPhase.COMPLETED, migration.status
    (moved,) = await moves.sandbox.until_ready(1)
    assert moved["spec"]["containers"][0]["resources"] == resources
    deployment = await moves.client.get(DEPLOYMENTS, moves.sandbox.key("web"))
    template = deployment["spec"]["template"]["spec"]["containers"][0]["resources"]
    assert template["requests"]["cpu"] == "100m"


async def test_a_copy_must_have_been_ready_for_as_long_as_its_workload_asks(make_moves: MakeMoves) -> None:
    moves = await make_moves(nodes=2)
    await moves.sandbox.deployment(1, minReadySeconds=5)
    (source,) = await moves.sandbox.pods()
    migration = await moves.move(source, await moves.sandbox.free_node(), settle_time=timedelta())
    assert migration.status.handed_over_at is not None
    (moved,) = await moves.sandbox.until_ready(1)
    conditions = {each["type"]: each for each in moved["status"]["conditions"]}
    since = datetime.fromisoformat(conditions["Ready"]["lastTransitionTime"])
    assert (migration.status.handed_over_at - since).total_seconds() >= 5
    assert node_of(moved) == migration.status.target_node
