"""What the Eviction API answers, to the letter."""

from typing import Any

import msgspec
import pytest

from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube.api_resources import POD_DISRUPTION_BUDGETS, Object, merge_patch, split_key
from rescheduler.kube.client import Client
from rescheduler.kube.transport import ApiRequest
from tests.stories import objects
from tests.stories.facts import adopt
from tests.stories.fixtures import Cluster
from tests.stories.sandbox import MakeSandbox, Sandbox
from tests.stories.waiting import until_gone, until_object

NO_SUCH_UID = "11111111-2222-3333-4444-555555555555"


class Answer(msgspec.Struct):
    code: int
    retry_after: str | None
    body: Object

    @property
    def causes(self) -> list[Object]:
        return list(self.body.get("details", {}).get("causes") or [])


async def evict(client: Client, key: str, **options: Any) -> Answer:
    """The bare request: status, header and body as they come."""
    namespace, name = split_key(key)
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"namespace": namespace, "name": name},
        "deleteOptions": options,
    }
    headers = {"content-type": "application/json", "accept": "application/json"}
    path = PODS.sub("eviction").object_path(namespace, name)
    request = ApiRequest("POST", path, (), headers, msgspec.json.encode(eviction), 30.0, False)
    async with await client.transport.send(request) as response:
        body = msgspec.json.decode(await response.read())
        return Answer(response.status, response.headers.get("retry-after"), body)


async def one_pod(make_sandbox: MakeSandbox) -> tuple[Sandbox, Object]:
    sandbox = await make_sandbox(nodes=1)
    await sandbox.deployment(1)
    (pod,) = await sandbox.pods()
    return sandbox, pod


# -- without a budget, or with one that allows it


async def test_an_accepted_eviction_is_201_and_the_pod_goes(make_sandbox: MakeSandbox) -> None:
    sandbox, pod = await one_pod(make_sandbox)
    answer = await evict(sandbox.client, adopt.key(pod), preconditions={"uid": pod["metadata"]["uid"]})
    assert (answer.code, answer.body["status"]) == (201, "Success")
    await until_gone(sandbox.client, PODS.as_json, adopt.key(pod))


async def test_a_pod_that_is_gone_is_404(make_sandbox: MakeSandbox) -> None:
    sandbox, _ = await one_pod(make_sandbox)
    answer = await evict(sandbox.client, sandbox.key("no-such-pod"))
    assert (answer.code, answer.body["reason"]) == (404, "NotFound")


async def test_another_uid_than_expected_is_409_and_the_pod_stays(make_sandbox: MakeSandbox) -> None:
    sandbox, pod = await one_pod(make_sandbox)
    answer = await evict(sandbox.client, adopt.key(pod), preconditions={"uid": NO_SUCH_UID})
    assert (answer.code, answer.body["reason"]) == (409, "Conflict")
    assert (await sandbox.pods())[0]["metadata"]["uid"] == pod["metadata"]["uid"]


# -- refused


async def test_a_budget_that_is_spent_is_429_and_names_itself_but_no_time(make_sandbox: MakeSandbox) -> None:
    sandbox, pod = await one_pod(make_sandbox)
    await sandbox.budget("guard", minAvailable=1)
    answer = await evict(sandbox.client, adopt.key(pod))
    assert (answer.code, answer.body["reason"]) == (429, "TooManyRequests")
    (cause,) = answer.causes
    assert cause["reason"] == "DisruptionBudget"
    assert cause["message"] == "The disruption budget guard needs 1 healthy pods and has 1 currently"
    assert answer.retry_after is None
    assert "retryAfterSeconds" not in answer.body["details"]


async def test_two_budgets_on_one_pod_are_500_however_much_they_allow(make_sandbox: MakeSandbox) -> None:
    sandbox, pod = await one_pod(make_sandbox)
    await sandbox.budget("one", maxUnavailable=1)
    await sandbox.budget("two", maxUnavailable=1)
    answer = await evict(sandbox.client, adopt.key(pod))
    assert answer.code == 500
    assert answer.body["message"] == (
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
    )


# -- budgets whose status is not computed: without controllers, the moment after a change lasts


def assert_not_yet(answer: Answer, budget: str) -> None:
    assert (answer.code, answer.body["reason"]) == (429, "TooManyRequests")
    assert answer.retry_after == "10"
    (cause,) = answer.causes
    assert cause["reason"] == "DisruptionBudget"
    assert cause["message"] == f"The disruption budget {budget} is still being processed by the server."


async def test_a_budget_not_yet_computed_is_429_with_a_time_to_wait(
    make_sandbox: MakeSandbox, cluster: Cluster
) -> None:
    sandbox, pod = await one_pod(make_sandbox)
    async with cluster.controllers_stopped():
        fresh = objects.budget(sandbox.namespace, "fresh", "web", maxUnavailable=1)
        made = await sandbox.client.create(POD_DISRUPTION_BUDGETS, fresh)
        assert "observedGeneration" not in made.get("status", {})
        assert_not_yet(await evict(sandbox.client, adopt.key(pod)), "fresh")


async def test_budget_of_a_generation_that_was_not_observed(
    make_sandbox: MakeSandbox, cluster: Cluster
) -> None:
    """What its status allows does not count yet."""
    sandbox, pod = await one_pod(make_sandbox)
    budget = await sandbox.budget("changed", maxUnavailable=1)
    await until_object(
        sandbox.client,
        POD_DISRUPTION_BUDGETS,
        budget,
        lambda found: found["status"]["disruptionsAllowed"] == 1,
    )
    async with cluster.controllers_stopped():
        changed = await sandbox.client.patch(
            POD_DISRUPTION_BUDGETS, budget, merge_patch({"spec": {"maxUnavailable": 0}})
        )
        assert changed["status"]["disruptionsAllowed"] == 1, "of the budget as it was"
        assert changed["status"]["observedGeneration"] < changed["metadata"]["generation"]
        assert_not_yet(await evict(sandbox.client, adopt.key(pod)), "changed")


# -- unready pods under a budget


@pytest.mark.parametrize(
    ("policy", "code"),
    [
        pytest.param({}, 429, id="as if it were ready, by default"),
        pytest.param(
            {"unhealthyPodEvictionPolicy": "IfHealthyBudget"}, 429, id="as if it were ready, IfHealthyBudget"
        ),
        pytest.param({"unhealthyPodEvictionPolicy": "AlwaysAllow"}, 201, id="not at all, AlwaysAllow"),
    ],
)
async def test_unready_pod_while_too_few_are_healthy(
    make_sandbox: MakeSandbox, policy: Object, code: int
) -> None:
    """The budget protects it, too."""
    sandbox, pod = await one_pod(make_sandbox)
    budget = await sandbox.budget("guard", minAvailable=1, **policy)
    sandbox.behave({"readiness": "never"})
    await until_object(
        sandbox.client, POD_DISRUPTION_BUDGETS, budget, lambda found: found["status"]["currentHealthy"] == 0
    )
    assert (await evict(sandbox.client, adopt.key(pod))).code == code


async def test_while_enough_pods_are_healthy_an_unready_one_may_go(make_sandbox: MakeSandbox) -> None:
    sandbox = await make_sandbox(nodes=2)
    await sandbox.deployment(2, pod={"affinity": objects.anti_affinity("web")})
    budget = await sandbox.budget("guard", minAvailable=1)
    unready, _ = await sandbox.pods()
    sandbox.behave({"match": {"node": unready["spec"]["nodeName"]}, "readiness": "never"})
    spent = await until_object(
        sandbox.client, POD_DISRUPTION_BUDGETS, budget, lambda found: found["status"]["currentHealthy"] == 1
    )
    assert spent["status"]["disruptionsAllowed"] == 0
    assert (await evict(sandbox.client, adopt.key(unready))).code == 201


async def test_a_pod_that_does_not_run_yet_is_not_protected(make_sandbox: MakeSandbox) -> None:
    sandbox = await make_sandbox(nodes=1)
    await sandbox.pod("web", schedulingGates=[{"name": "example.com/wait"}])
    await sandbox.budget("guard", minAvailable=1)
    assert (await evict(sandbox.client, sandbox.key("web"))).code == 201
