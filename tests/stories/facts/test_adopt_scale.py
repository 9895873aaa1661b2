"""Why the PodMigration has a scale: without it, budgets that must know the expected count allow nothing."""

import pytest

from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube import errors
from rescheduler.kube.api_resources import POD_DISRUPTION_BUDGETS, ApiResource, Object
from tests.stories.facts import adopt
from tests.stories.facts.podmigrations import PODMIGRATIONS, UNSCALED_MIGRATIONS
from tests.stories.sandbox import MakeSandbox, Sandbox
from tests.stories.waiting import until_object

pytestmark = pytest.mark.full

COUNTING = [
    pytest.param({"maxUnavailable": 1}, id="maxUnavailable as a number"),
    pytest.param({"maxUnavailable": "50%"}, id="maxUnavailable as a percentage"),
    pytest.param({"minAvailable": "50%"}, id="minAvailable as a percentage"),
]


def allowed(budget: Object) -> int:
    return int(budget["status"]["disruptionsAllowed"])


def condition(budget: Object) -> Object:
    (found,) = budget["status"].get("conditions") or [{}]
    return dict(found)


async def two_replicas_and_a_copy(
    sandbox: Sandbox, migrations: ApiResource[Object], budget: Object
) -> tuple[str, Object, Object]:
    """The budget's key, the source, the copy that is ready."""
    await sandbox.deployment(2)
    guard = await sandbox.budget(**budget)
    source = (await sandbox.pods())[0]
    await until_object(sandbox.client, POD_DISRUPTION_BUDGETS, guard, lambda found: allowed(found) == 1)
    handover = await adopt.begin(
        sandbox.client, adopt.key(source), await sandbox.free_node(), migrations=migrations, finalizer=False
    )
    return guard, source, await adopt.bring_up(sandbox.client, handover)


@pytest.mark.parametrize("budget", COUNTING)
async def test_with_a_scale(make_sandbox: MakeSandbox, budget: Object) -> None:
    """The budget allows one disruption more while the copy is ready."""
    sandbox = await make_sandbox(nodes=3)
    guard, source, _ = await two_replicas_and_a_copy(sandbox, PODMIGRATIONS, budget)
    await until_object(sandbox.client, POD_DISRUPTION_BUDGETS, guard, lambda found: allowed(found) == 2)
    await sandbox.client.evict(adopt.key(source))


@pytest.mark.parametrize("budget", COUNTING)
async def test_without_a_scale(make_sandbox: MakeSandbox, budget: Object) -> None:
    """The budget allows nothing while the copy exists."""
    sandbox = await make_sandbox(nodes=3)
    guard, source, copy = await two_replicas_and_a_copy(sandbox, UNSCALED_MIGRATIONS, budget)
    failed = await until_object(
        sandbox.client,
        POD_DISRUPTION_BUDGETS,
        guard,
        lambda found: condition(found).get("reason") == "SyncFailed",
    )
    assert allowed(failed) == 0
    assert "does not implement the scale subresource" in condition(failed)["message"]
    with pytest.raises(errors.BudgetRefused):
        await sandbox.client.evict(adopt.key(source))
    await sandbox.client.delete(PODS, adopt.key(copy), grace_s=0)
    await until_object(sandbox.client, POD_DISRUPTION_BUDGETS, guard, lambda found: allowed(found) == 1)


async def test_a_budget_that_counts_pods_needs_no_scale(make_sandbox: MakeSandbox) -> None:
    sandbox = await make_sandbox(nodes=3)
    guard, source, _ = await two_replicas_and_a_copy(sandbox, UNSCALED_MIGRATIONS, {"minAvailable": 1})
    await until_object(sandbox.client, POD_DISRUPTION_BUDGETS, guard, lambda found: allowed(found) == 2)
    await sandbox.client.evict(adopt.key(source))
