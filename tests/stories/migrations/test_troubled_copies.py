"""A copy that does not come up as it should: the migration is rolled back, and nothing is left of it."""

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
from tests.stories.migrations.moving import Moves, SetMoves
from tests.stories.migrations.sidecars import webhook_adds_sidecars
from tests.stories.objects import LIMIT_RANGES, RESOURCE_QUOTAS
from tests.stories.observer import observing
from tests.stories.stage import node_of
from tests.stories.waiting import until_object

Eventually = Callable[..., Awaitable[Any]]


async def rolled_back(moves: Moves, *, retries: int = 0, **policy: Any) -> Migration:
    """Tried to move the only pod of a Deployment; nobody who looks from outside has noticed."""
    stage = moves.stage
    (source,) = await stage.pods()
    target = await stage.free_node()
    async with observing(moves.client, stage.namespace) as seen:
        migration = await moves.move(source, target, max_retries=retries, **policy)
        await moves.until_nothing_left()
    (after,) = await stage.until_ready(1)
    assert migration.status.phase is MigrationPhase.FAILED, migration.status
    assert migration.status.attempts == 1 + retries
    assert min(seen.ready) == 1
    for part in ("labels", "annotations", "ownerReferences", "uid"):
        assert after["metadata"].get(part) == source["metadata"].get(part), "as before"
    return migration


async def one_pod(set_moves: SetMoves) -> Moves:
    moves: Moves = await set_moves(nodes=2)
    await moves.stage.deployment(1)
    await moves.stage.budget(minAvailable=1)
    return moves


async def test_a_copy_that_starts_slowly_is_waited_for(set_moves: SetMoves) -> None:
    moves = await one_pod(set_moves)
    moves.stage.behave({"startup": "4s", "termination": "0s"})
    (source,) = await moves.stage.pods()
    migration = await moves.move(source, await moves.stage.free_node())
    assert migration.status.phase is MigrationPhase.COMPLETED, migration.status


async def test_a_copy_that_never_becomes_ready(set_moves: SetMoves) -> None:
    moves = await one_pod(set_moves)
    on_target = {"node": await moves.stage.free_node()}
    moves.stage.behave({"match": on_target, "readiness": "never", "startup": "0s", "termination": "0s"})
    migration = await rolled_back(moves, migration_timeout=timedelta(seconds=3))
    assert migration.status.failure == "TimedOut"
    assert "the last step was Starting" in migration.status.message


async def test_a_copy_whose_image_can_not_be_pulled(set_moves: SetMoves) -> None:
    moves = await one_pod(set_moves)
    on_target = {"node": await moves.stage.free_node()}
    moves.stage.behave({"match": on_target, "blocked": "ImagePullBackOff", "termination": "0s"})
    migration = await rolled_back(moves)
    assert migration.status.failure == "CopyFailing"
    assert "ImagePullBackOff" in migration.status.message


async def test_a_copy_that_the_scheduler_puts_elsewhere(set_moves: SetMoves) -> None:
    moves = await one_pod(set_moves)
    await moves.stage.cordon(await moves.stage.free_node())
    migration = await rolled_back(moves)
    assert migration.status.failure == "TargetDidNotFit"


async def test_what_failed_for_a_passing_reason_is_tried_again(set_moves: SetMoves) -> None:
    moves = await one_pod(set_moves)
    target = await moves.stage.free_node()
    await moves.stage.cordon(target)
    (source,) = await moves.stage.pods()
    key = await moves.wish(source, target)
    async with moves.executing():
        await moves.until(key, lambda migration: migration.status.retry_at)
        await moves.stage.cordon(target, on=False)
        migration = await moves.until_finished(key)
    assert migration.status.phase is MigrationPhase.COMPLETED, migration.status
    assert migration.status.attempts == 2
    await moves.until_nothing_left()


# -- refused at admission


def limits(resource: ApiResource[Object], namespace: str, spec: Object) -> Object:
    metadata = {"namespace": namespace, "name": "limits"}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": spec}


async def test_a_copy_beyond_the_quota(set_moves: SetMoves) -> None:
    moves = await one_pod(set_moves)
    stage = moves.stage
    quota = limits(RESOURCE_QUOTAS, stage.namespace, {"hard": {"pods": "1"}})
    await moves.client.create(RESOURCE_QUOTAS, quota)
    await until_object(
        moves.client,
        RESOURCE_QUOTAS,
        stage.key("limits"),
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
async def test_a_copy_under_a_limit_range(set_moves: SetMoves, limit: Object, failure: str) -> None:
    moves = await one_pod(set_moves)
    spec = {"limits": [{"type": "Container", **limit}]}
    await moves.client.create(LIMIT_RANGES, limits(LIMIT_RANGES, moves.stage.namespace, spec))
    migration = await rolled_back(moves, retries=0)
    assert migration.status.failure == failure
    assert migration.status.failure_is_final


@pytest.mark.control_plane(reason="the simulator has no PodSecurity")
async def test_a_copy_that_pod_security_refuses(set_moves: SetMoves) -> None:
    moves = await one_pod(set_moves)
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    await moves.client.patch(NAMESPACES, moves.stage.namespace, merge_patch({"metadata": {"labels": labels}}))
    migration = await rolled_back(moves)
    assert migration.status.failure == "CopyRefused"
    assert "PodSecurity" in migration.status.message


@pytest.mark.real_time
async def test_a_copy_that_a_webhook_refuses(set_moves: SetMoves, eventually: Eventually) -> None:
    moves = await one_pod(set_moves)
    async with webhook_refuses(moves.client, moves.stage.namespace, eventually):
        migration = await rolled_back(moves)
    assert migration.status.failure == "CopyRefused"
    assert migration.status.failure_is_final
    assert "not today" in migration.status.message


@pytest.mark.control_plane(reason="the simulator has no admission policies")
async def test_a_copy_that_an_admission_policy_refuses(set_moves: SetMoves, eventually: Eventually) -> None:
    moves = await one_pod(set_moves)
    async with policy_refuses(moves.client, moves.stage.namespace, eventually):
        migration = await rolled_back(moves)
    assert migration.status.failure == "CopyRefused"
    assert migration.status.failure_is_final


@pytest.mark.real_time
async def test_a_copy_that_a_webhook_makes_another_pod_than_its_source(
    set_moves: SetMoves, eventually: Eventually
) -> None:
    """It is noticed before the copy may be scheduled, let alone serve."""
    moves = await one_pod(set_moves)
    async with (
        webhook_adds_sidecars(moves.client, moves.stage.namespace, eventually),
        observing(moves.client, moves.stage.namespace) as seen,
    ):
        migration = await rolled_back(moves)
    assert migration.status.failure == "AdmissionDiffers"
    assert migration.status.failure_is_final
    assert "spec.containers[proxy] was added" in migration.status.message
    assert len(seen.created) == 1
    assert not seen.was_ready & set(seen.created), "the copy never ran"


# -- what the copy is like


async def test_a_pod_that_was_resized_keeps_its_size(set_moves: SetMoves) -> None:
    moves = await one_pod(set_moves)
    (source,) = await moves.stage.pods()
    resources = {"requests": {"cpu": "250m", "memory": "64Mi"}}
    await moves.client.patch(
        PODS.sub("resize"),
        moves.stage.key(source["metadata"]["name"]),
        strategic_patch({"spec": {"containers": [{"name": "main", "resources": resources}]}}),
    )
    migration = await moves.move(source, await moves.stage.free_node())
    assert migration.status.phase is MigrationPhase.COMPLETED, migration.status
    (moved,) = await moves.stage.until_ready(1)
    assert moved["spec"]["containers"][0]["resources"] == resources
    deployment = await moves.client.get(DEPLOYMENTS, moves.stage.key("web"))
    template = deployment["spec"]["template"]["spec"]["containers"][0]["resources"]
    assert template["requests"]["cpu"] == "100m"


async def test_a_copy_must_have_been_ready_for_as_long_as_its_workload_asks(set_moves: SetMoves) -> None:
    moves = await set_moves(nodes=2)
    await moves.stage.deployment(1, minReadySeconds=5)
    (source,) = await moves.stage.pods()
    migration = await moves.move(source, await moves.stage.free_node(), settle_time=timedelta())
    assert migration.status.handed_over_at is not None
    (moved,) = await moves.stage.until_ready(1)
    conditions = {each["type"]: each for each in moved["status"]["conditions"]}
    since = datetime.fromisoformat(conditions["Ready"]["lastTransitionTime"])
    assert (migration.status.handed_over_at - since).total_seconds() >= 5
    assert node_of(moved) == migration.status.target_node
