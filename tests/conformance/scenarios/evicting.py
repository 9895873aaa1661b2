"""Evictions: what a budget allows, and how a refusal reads.

The scenarios write the budgets' statuses by hand: no disruption controller is at work here.
"""

from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube.api_resources import POD_DISRUPTION_BUDGETS, merge_patch
from tests.conformance.notes import at
from tests.conformance.objects import budget, pod
from tests.conformance.scenario import scenario
from tests.conformance.world import World


async def _running_pod(world: World, name: str, *, ready: bool = True, phase: str = "Running") -> str:
    made = await world.create(PODS, pod(name, node="worker", labels={"app": "web"}))
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    status = merge_patch({"status": {"phase": phase, "conditions": [condition]}})
    await world.client.patch(PODS.status, world.key(name), status)
    uid: str = made["metadata"]["uid"]
    return uid


async def _budget(world: World, name: str, *, allowed: int, healthy: int = 1, **spec: object) -> None:
    await world.create(POD_DISRUPTION_BUDGETS, budget(name, "web", **(spec or {"minAvailable": 1})))
    status = {
        "observedGeneration": 1, "disruptionsAllowed": allowed, "currentHealthy": healthy,
        "desiredHealthy": 1, "expectedPods": 1,
    }  # fmt: skip
    resource = POD_DISRUPTION_BUDGETS.status
    await world.client.patch(resource, world.key(name), merge_patch({"status": status}))


@scenario("without a budget every eviction is accepted")
async def no_budget(world: World) -> None:
    await _running_pod(world, "web-1")
    await world.tried("eviction", world.client.evict(world.key("web-1")))
    left = await world.read(PODS, "web-1")
    world.saw("grace period", at(left, "metadata.deletionGracePeriodSeconds"))
    conditions = at(left, "status.conditions") or []
    world.saw("why", [c.get("reason") for c in conditions if c["type"] == "DisruptionTarget"])


@scenario("a budget that allows nothing refuses, and is named")
async def refused(world: World) -> None:
    await _running_pod(world, "web-1")
    await _budget(world, "web-budget", allowed=0)
    await world.tried("eviction", world.client.evict(world.key("web-1")))


@scenario("a budget that allows one eviction allows one")
async def allows_one(world: World) -> None:
    for name in ("web-1", "web-2"):
        await _running_pod(world, name)
    await _budget(world, "web-budget", allowed=1, healthy=2)
    await world.tried("the first", world.client.evict(world.key("web-1")))
    left = await world.read(POD_DISRUPTION_BUDGETS, "web-budget")
    world.saw("allowed after it", at(left, "status.disruptionsAllowed"))
    world.saw("pods counted as disrupted", sorted(at(left, "status.disruptedPods") or {}))
    await world.tried("the second", world.client.evict(world.key("web-2")))


@scenario("a budget whose status is not computed yet asks for patience")
async def fresh_budget(world: World) -> None:
    await _running_pod(world, "web-1")
    await world.create(POD_DISRUPTION_BUDGETS, budget("web-budget", "web", minAvailable=1))
    await world.tried("eviction", world.client.evict(world.key("web-1")))


@scenario("a pod under two budgets can't be evicted")
async def two_budgets(world: World) -> None:
    await _running_pod(world, "web-1")
    await _budget(world, "first", allowed=1)
    await _budget(world, "second", allowed=1)
    await world.tried("eviction", world.client.evict(world.key("web-1")))


@scenario("an eviction can be made to depend on the pod's uid")
async def uid_precondition(world: World) -> None:
    uid = await _running_pod(world, "web-1")
    wrong = "00000000-0000-0000-0000-000000000000"
    await world.tried("another uid", world.client.evict(world.key("web-1"), uid=wrong))
    await world.tried("its uid", world.client.evict(world.key("web-1"), uid=uid))
    await world.tried("nobody", world.client.evict(world.key("web-9")))


@scenario("a dry run of an eviction asks the budget and changes nothing")
async def dry_run(world: World) -> None:
    await _running_pod(world, "web-1")
    await _budget(world, "web-budget", allowed=1)
    await world.tried("dry run", world.client.evict(world.key("web-1"), dry_run=True))
    left = await world.read(PODS, "web-1")
    world.saw("deleted", at(left, "metadata.deletionTimestamp"))
    after = await world.read(POD_DISRUPTION_BUDGETS, "web-budget")
    world.saw("allowed after it", at(after, "status.disruptionsAllowed"))


@scenario("a finished or pending pod is evicted whatever the budget says")
async def not_running(world: World) -> None:
    await _running_pod(world, "done", phase="Succeeded")
    await _running_pod(world, "waiting", ready=False, phase="Pending")
    await _budget(world, "web-budget", allowed=0)
    for name in ("done", "waiting"):
        await world.tried(name, world.client.evict(world.key(name)))


@scenario("an unready pod is evicted if the budget is healthy without it, or always if its policy says so")
async def unready(world: World) -> None:
    await _running_pod(world, "web-1", ready=False)
    await _budget(world, "web-budget", allowed=0, healthy=0)
    await world.tried("while others are missing", world.client.evict(world.key("web-1")))
    healthy = merge_patch({"status": {"currentHealthy": 1}})
    await world.client.patch(POD_DISRUPTION_BUDGETS.status, world.key("web-budget"), healthy)
    await world.tried("with enough healthy", world.client.evict(world.key("web-1")))
    await _running_pod(world, "web-2", ready=False)
    always = merge_patch(
        {"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}, "status": {"currentHealthy": 0}}
    )
    await world.client.patch(POD_DISRUPTION_BUDGETS, world.key("web-budget"), always)
    await world.tried("AlwaysAllow", world.client.evict(world.key("web-2")))


@scenario("a pod that is already going is evicted whatever the budget says")
async def already_going(world: World) -> None:
    await _running_pod(world, "web-1")
    await _budget(world, "web-budget", allowed=0)
    await world.client.delete(PODS, world.key("web-1"))
    await world.tried("eviction", world.client.evict(world.key("web-1")))
    left = await world.read(PODS, "web-1")
    world.saw("reasons", [each.get("reason") for each in at(left, "status.conditions")])


@scenario("an eviction can shorten the grace period, and may bring its own conditions of the deletion")
async def with_options(world: World) -> None:
    uid = await _running_pod(world, "web-1")
    await world.tried("another version", world.client.evict(world.key("web-1"), version="1"))
    await world.tried("with five seconds", world.client.evict(world.key("web-1"), uid=uid, grace_s=5))
    left = await world.read(PODS, "web-1")
    world.saw("grace period", at(left, "metadata.deletionGracePeriodSeconds"))
    await _running_pod(world, "web-2")
    await world.tried("at once", world.client.evict(world.key("web-2"), grace_s=0))
    world.saw("web-2", await world.read(PODS, "web-2"))


@scenario("an eviction must be one, of the pod that the path names")
async def odd_bodies(world: World) -> None:
    await _running_pod(world, "web-1")
    path = PODS.sub("eviction").object_path(world.namespace, "web-1")
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "web-1"}}
    await world.asked("another pod's", "POST", path, body={**eviction, "metadata": {"name": "web-2"}})
    elsewhere = {"name": "web-1", "namespace": "default"}
    await world.asked("another namespace's", "POST", path, body={**eviction, "metadata": elsewhere})
    answer = await world.asked("", "POST", path, body={**eviction, "kind": "Pod", "apiVersion": "v1"})
    world.saw("a pod", answer.code)
    answer = await world.asked("", "POST", path, body=eviction)
    world.saw("a good one", [answer.code, answer.json])
