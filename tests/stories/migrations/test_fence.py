"""Preconditions that the API server checks: they stop late requests of a dead process."""

import pytest

from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube import errors
from rescheduler.kube.api_resources import POD_DISRUPTION_BUDGETS, Object, merge_patch, strategic_patch
from tests.stories.migrations.moves import MakeMoves


@pytest.mark.parametrize(
    "budget",
    [pytest.param({}, id="without a budget"), pytest.param({"maxUnavailable": 1}, id="under a budget")],
)
async def test_an_eviction_that_has_seen_an_older_version_is_refused(
    make_moves: MakeMoves, budget: Object
) -> None:
    moves = await make_moves(nodes=2)
    sandbox = moves.sandbox
    await sandbox.deployment(1)
    if budget:
        await sandbox.budget(**budget)
    (seen,) = await sandbox.pods()
    key, uid = sandbox.key(seen["metadata"]["name"]), seen["metadata"]["uid"]
    patch = merge_patch({"metadata": {"labels": {"changed": "since"}}})
    changed = await moves.client.patch(PODS.as_json, key, patch)
    with pytest.raises(errors.Conflict):
        await moves.client.evict(key, uid=uid, version=seen["metadata"]["resourceVersion"])
    assert "deletionTimestamp" not in (await moves.client.get(PODS.as_json, key))["metadata"]
    if not budget:
        await moves.client.evict(key, uid=uid, version=changed["metadata"]["resourceVersion"])
        await sandbox.until_ready(1)


async def test_a_refused_version_has_spent_the_budget_all_the_same(make_moves: MakeMoves) -> None:
    """It recovers when the pod still exists after two minutes, so a client reads the pod before it evicts."""
    moves = await make_moves(nodes=2)
    sandbox = moves.sandbox
    await sandbox.deployment(1)
    guard = await sandbox.budget(maxUnavailable=1)
    (pod,) = await sandbox.pods()
    key, uid = sandbox.key(pod["metadata"]["name"]), pod["metadata"]["uid"]
    with pytest.raises(errors.Conflict):
        await moves.client.evict(key, uid=uid, version="1")
    status = (await moves.client.get(POD_DISRUPTION_BUDGETS, guard))["status"]
    assert list(status["disruptedPods"]) == [pod["metadata"]["name"]]
    with pytest.raises(errors.BudgetRefused):
        await moves.client.evict(key, uid=uid)


async def test_a_patch_that_names_an_owner_by_its_uid_alone(make_moves: MakeMoves) -> None:
    """It changes nothing, and is refused if the pod does not have that owner.

    So the release of a copy is refused if the garbage collector has removed its ReplicaSet from it.
    """
    moves = await make_moves(nodes=2)
    sandbox = moves.sandbox
    await sandbox.replica_set(1)
    (pod,) = await sandbox.pods()
    owners = pod["metadata"]["ownerReferences"]
    still_named = strategic_patch({"metadata": {"ownerReferences": [{"uid": owners[0]["uid"]}]}})
    key = sandbox.key(pod["metadata"]["name"])
    patched = await moves.client.patch(PODS.as_json, key, still_named)
    assert patched["metadata"]["ownerReferences"] == owners
    bare = await sandbox.until_pod_ready(await sandbox.pod("bare", metadata={"labels": {"app": "other"}}))
    with pytest.raises(errors.Invalid):
        await moves.client.patch(PODS.as_json, sandbox.key("bare"), still_named)
    after = await moves.client.get(PODS.as_json, sandbox.key("bare"))
    assert after["metadata"]["resourceVersion"] == bare["metadata"]["resourceVersion"]
