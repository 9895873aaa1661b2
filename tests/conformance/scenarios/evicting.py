"""Evictions: what a budget allows, and how a refusal reads.

The scenarios write the budgets' statuses by hand: no disruption controller is at work here.
"""

from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube.api_resources import POD_DISRUPTION_BUDGETS, merge_patch
from tests.conformance.cluster_under_test import ClusterUnderTest
from tests.conformance.notes import at
from tests.conformance.objects import budget, pod
from tests.conformance.scenario import scenario


async def _running_pod(
    cluster: ClusterUnderTest, name: str, *, ready: bool = True, phase: str = "Running"
) -> str:
    made = await cluster.create(PODS, pod(name, node="worker", labels={"app": "web"}))
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    status = merge_patch({"status": {"phase": phase, "conditions": [condition]}})
    await cluster.client.patch(PODS.status, cluster.key(name), status)
    uid: str = made["metadata"]["uid"]
    return uid


async def _budget(
    cluster: ClusterUnderTest, name: str, *, allowed: int, healthy: int = 1, **spec: object
) -> None:
    await cluster.create(POD_DISRUPTION_BUDGETS, budget(name, "web", **(spec or {"minAvailable": 1})))
    status = {
        "observedGeneration": 1, "disruptionsAllowed": allowed, "currentHealthy": healthy,
        "desiredHealthy": 1, "expectedPods": 1,
    }  # fmt: skip
    resource = POD_DISRUPTION_BUDGETS.status
    await cluster.client.patch(resource, cluster.key(name), merge_patch({"status": status}))


@scenario("without a budget every eviction is accepted")
async def no_budget(cluster: ClusterUnderTest) -> None:
    await _running_pod(cluster, "web-1")
    await cluster.tried("eviction", cluster.client.evict(cluster.key("web-1")))
    left = await cluster.read(PODS, "web-1")
    cluster.saw("grace period", at(left, "metadata.deletionGracePeriodSeconds"))
    conditions = at(left, "status.conditions") or []
    cluster.saw("why", [c.get("reason") for c in conditions if c["type"] == "DisruptionTarget"])


@scenario("a budget that allows nothing refuses, and is named")
async def refused(cluster: ClusterUnderTest) -> None:
    await _running_pod(cluster, "web-1")
    await _budget(cluster, "web-budget", allowed=0)
    await cluster.tried("eviction", cluster.client.evict(cluster.key("web-1")))


@scenario("a budget that allows one eviction allows one")
async def allows_one(cluster: ClusterUnderTest) -> None:
    for name in ("web-1", "web-2"):
        await _running_pod(cluster, name)
    await _budget(cluster, "web-budget", allowed=1, healthy=2)
    await cluster.tried("the first", cluster.client.evict(cluster.key("web-1")))
    left = await cluster.read(POD_DISRUPTION_BUDGETS, "web-budget")
    cluster.saw("allowed after it", at(left, "status.disruptionsAllowed"))
    cluster.saw("pods counted as disrupted", sorted(at(left, "status.disruptedPods") or {}))
    await cluster.tried("the second", cluster.client.evict(cluster.key("web-2")))


@scenario("a budget whose status is not computed yet refuses for now")
async def fresh_budget(cluster: ClusterUnderTest) -> None:
    await _running_pod(cluster, "web-1")
    await cluster.create(POD_DISRUPTION_BUDGETS, budget("web-budget", "web", minAvailable=1))
    await cluster.tried("eviction", cluster.client.evict(cluster.key("web-1")))


@scenario("a pod under two budgets can't be evicted")
async def two_budgets(cluster: ClusterUnderTest) -> None:
    await _running_pod(cluster, "web-1")
    await _budget(cluster, "first", allowed=1)
    await _budget(cluster, "second", allowed=1)
    await cluster.tried("eviction", cluster.client.evict(cluster.key("web-1")))


@scenario("an eviction can be made to depend on the pod's uid")
async def uid_precondition(cluster: ClusterUnderTest) -> None:
    uid = await _running_pod(cluster, "web-1")
    wrong = "00000000-0000-0000-0000-000000000000"
    await cluster.tried("another uid", cluster.client.evict(cluster.key("web-1"), uid=wrong))
    await cluster.tried("its uid", cluster.client.evict(cluster.key("web-1"), uid=uid))
    await cluster.tried("nobody", cluster.client.evict(cluster.key("web-9")))


@scenario("a dry run of an eviction asks the budget and changes nothing")
async def dry_run(cluster: ClusterUnderTest) -> None:
    await _running_pod(cluster, "web-1")
    await _budget(cluster, "web-budget", allowed=1)
    await cluster.tried("dry run", cluster.client.evict(cluster.key("web-1"), dry_run=True))
    left = await cluster.read(PODS, "web-1")
    cluster.saw("deleted", at(left, "metadata.deletionTimestamp"))
    after = await cluster.read(POD_DISRUPTION_BUDGETS, "web-budget")
    cluster.saw("allowed after it", at(after, "status.disruptionsAllowed"))


@scenario("a finished or pending pod is evicted whatever the budget says")
async def not_running(cluster: ClusterUnderTest) -> None:
    await _running_pod(cluster, "done", phase="Succeeded")
    await _running_pod(cluster, "waiting", ready=False, phase="Pending")
    await _budget(cluster, "web-budget", allowed=0)
    for name in ("done", "waiting"):
        await cluster.tried(name, cluster.client.evict(cluster.key(name)))


@scenario("an unready pod is evicted if the budget is healthy without it, or always if its policy says so")
async def unready(cluster: ClusterUnderTest) -> None:
    await _running_pod(cluster, "web-1", ready=False)
    await _budget(cluster, "web-budget", allowed=0, healthy=0)
    await cluster.tried("while others are missing", cluster.client.evict(cluster.key("web-1")))
    healthy = merge_patch({"status": {"currentHealthy": 1}})
    await cluster.client.patch(POD_DISRUPTION_BUDGETS.status, cluster.key("web-budget"), healthy)
    await cluster.tried("with enough healthy", cluster.client.evict(cluster.key("web-1")))
    await _running_pod(cluster, "web-2", ready=False)
    always = merge_patch(
        {"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}, "status": {"currentHealthy": 0}}
    )
    await cluster.client.patch(POD_DISRUPTION_BUDGETS, cluster.key("web-budget"), always)
    await cluster.tried("AlwaysAllow", cluster.client.evict(cluster.key("web-2")))


@scenario("a terminating pod is evicted whatever the budget says")
async def already_going(cluster: ClusterUnderTest) -> None:
    await _running_pod(cluster, "web-1")
    await _budget(cluster, "web-budget", allowed=0)
    await cluster.client.delete(PODS, cluster.key("web-1"))
    await cluster.tried("eviction", cluster.client.evict(cluster.key("web-1")))
    left = await cluster.read(PODS, "web-1")
    cluster.saw("reasons", [each.get("reason") for each in at(left, "status.conditions")])


@scenario("an eviction can shorten the grace period, and may bring its own conditions of the deletion")
async def with_options(cluster: ClusterUnderTest) -> None:
    uid = await _running_pod(cluster, "web-1")
    await cluster.tried("another version", cluster.client.evict(cluster.key("web-1"), version="1"))
    await cluster.tried("with five seconds", cluster.client.evict(cluster.key("web-1"), uid=uid, grace_s=5))
    left = await cluster.read(PODS, "web-1")
    cluster.saw("grace period", at(left, "metadata.deletionGracePeriodSeconds"))
    await _running_pod(cluster, "web-2")
    await cluster.tried("at once", cluster.client.evict(cluster.key("web-2"), grace_s=0))
    cluster.saw("web-2", await cluster.read(PODS, "web-2"))


@scenario("an eviction must be an Eviction object of the pod in the path")
async def odd_bodies(cluster: ClusterUnderTest) -> None:
    await _running_pod(cluster, "web-1")
    path = PODS.sub("eviction").object_path(cluster.namespace, "web-1")
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "web-1"}}
    await cluster.asked("another pod's", "POST", path, body={**eviction, "metadata": {"name": "web-2"}})
    elsewhere = {"name": "web-1", "namespace": "default"}
    await cluster.asked("another namespace's", "POST", path, body={**eviction, "metadata": elsewhere})
    answer = await cluster.asked("", "POST", path, body={**eviction, "kind": "Pod", "apiVersion": "v1"})
    cluster.saw("a pod", answer.code)
    answer = await cluster.asked("", "POST", path, body=eviction)
    cluster.saw("a good one", [answer.code, answer.json])
