"""Nodes, priorities and events: what the API server itself adds for the sake of the cluster."""

from rescheduler.cluster.codecs.record_resources import NODES, PODS
from rescheduler.kube.api_resources import EVENTS, PRIORITY_CLASSES, api_resource, merge_patch
from tests.conformance.notes import at
from tests.conformance.objects import node, pod
from tests.conformance.scenario import scenario
from tests.conformance.world import WHOLE, World


@scenario("a new node is tainted as not ready until somebody says otherwise")
async def new_node(world: World) -> None:
    worker = world.unique("worker")
    made = await world.create(NODES, node(worker))
    world.saw("taints", at(made, "spec.taints"))
    other = node(world.unique("tainted"))
    other["spec"] = {"taints": [{"key": "mine", "effect": "NoSchedule"}]}
    made = await world.create(NODES, other)
    world.saw("with its own", at(made, "spec.taints"))
    ready = node(world.unique("ready"))
    ready["status"] = {"conditions": [{"type": "Ready", "status": "True"}], "capacity": {"cpu": "4"}}
    made = await world.create(NODES, ready)
    world.saw(
        "that says it is ready",
        [at(made, "spec.taints"), at(made, "status.conditions"), at(made, "status.capacity")],
    )
    await world.patched("the taint taken off", NODES, worker, merge_patch({"spec": {"taints": None}}), "spec")


@scenario("taints and capacities of nodes are checked")
async def node_checks(world: World) -> None:
    for what, taint in {
        "an effect": {"key": "a", "effect": "Explode"},
        "a key": {"key": "a b", "effect": "NoSchedule"},
        "a value": {"key": "a", "value": "b c", "effect": "NoSchedule"},
        "no key": {"key": "", "effect": "NoSchedule"},
    }.items():
        item = node(world.unique("x"))
        item["spec"] = {"taints": [taint]}
        await world.created(what, NODES, item)
    twice = node(world.unique("x"))
    twice["spec"] = {"taints": [{"key": "a", "effect": "NoSchedule"}] * 2}
    await world.created("the same twice", NODES, twice)
    worker = world.unique("worker")
    await world.create(NODES, node(worker))
    negative = merge_patch({"status": {"capacity": {"cpu": "-1"}}})
    await world.patched("less than nothing", NODES.status, worker, negative, "status.capacity")
    unready = merge_patch({"spec": {"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"]}})
    await world.patched("addresses for pods", NODES, worker, unready, "spec.podCIDR")
    moved = merge_patch({"spec": {"podCIDR": "10.0.1.0/24", "podCIDRs": ["10.0.1.0/24"]}})
    await world.patched("other addresses", NODES, worker, moved)
    provider = merge_patch({"spec": {"providerID": "cloud://1"}})
    await world.patched("a provider", NODES, worker, provider, "spec.providerID")
    other = merge_patch({"spec": {"providerID": "cloud://2"}})
    await world.patched("another provider", NODES, worker, other)


@scenario("a pod gets the value and the preemption policy of its priority class, once and for all")
async def priorities(world: World) -> None:
    high = world.unique("high")
    item = {"metadata": {"name": high}, "value": 1000, "preemptionPolicy": "Never"}
    await world.create(PRIORITY_CLASSES, item)
    fields = ("spec.priority", "spec.priorityClassName", "spec.preemptionPolicy")
    await world.created("its class", PODS, pod("one", spec={"priorityClassName": high}), *fields)
    await world.created("none", PODS, pod("two"), *fields)
    system = pod("three", spec={"priorityClassName": "system-node-critical"})
    await world.created("a system class", PODS, system, *fields)
    agreeing = pod("four", spec={"priorityClassName": high, "priority": 1000})
    await world.created("the value agrees", PODS, agreeing, *fields)
    other = pod("five", spec={"priorityClassName": high, "priority": 7})
    await world.created("the value does not", PODS, other)
    await world.client.delete(PRIORITY_CLASSES, high)
    left = await world.read(PODS, "one")
    world.saw("after the class is gone", at(left, "spec.priority"))
    change = merge_patch({"spec": {"priority": 1}})
    await world.patched("changed", PODS, "one", change)


@scenario(
    "events are stored as they are, can be chosen by what they are about, and both groups show the same"
)
async def events(world: World) -> None:
    made = await world.create(PODS, pod("one"))
    about = {"kind": "Pod", "namespace": world.namespace, "name": "one", "uid": made["metadata"]["uid"]}
    item = {
        "metadata": {"name": "one.1"},
        "involvedObject": {**about, "apiVersion": "v1"},
        "reason": "Tested",
        "message": "for a test",
        "type": "Normal",
        "count": 1,
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "source": {"component": "tests"},
    }
    await world.created("an event", EVENTS, item, WHOLE)
    for fields in ("involvedObject.name=one", "involvedObject.name=two", "reason=Tested,type=Normal"):
        page = await world.client.list(EVENTS, namespace=world.namespace, fields=fields)
        world.saw(fields, [event["metadata"]["name"] for event in page.items])
    newer = api_resource("events.k8s.io", "v1", "events", "Event")
    await world.tried("in the other group", world.client.get(newer, world.key("one.1")), WHOLE)
    elsewhere = {**item, "metadata": {"name": "two.1"}, "involvedObject": {**about, "namespace": "default"}}
    await world.created("about another namespace", EVENTS, elsewhere)
    counted = merge_patch({"count": 2})
    await world.patched("counted", EVENTS, "one.1", counted, "count")
    modern = {
        "metadata": {"name": "three.1"},
        "regarding": about,
        "reason": "Tested",
        "action": "Testing",
        "note": "for a test",
        "type": "Normal",
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "example.com/tests",
        "reportingInstance": "tests-1",
    }
    await world.created("a modern one", newer, modern, WHOLE)
    await world.tried("as an old one", world.client.get(EVENTS, world.key("three.1")), WHOLE)
