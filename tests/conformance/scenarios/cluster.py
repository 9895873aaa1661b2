"""Nodes, priorities and events: what the API server itself adds for the sake of the cluster."""

from rescheduler.cluster.codecs.record_resources import NODES, PODS
from rescheduler.kube.api_resources import EVENTS, PRIORITY_CLASSES, api_resource, merge_patch
from tests.conformance.cluster_under_test import WHOLE, ClusterUnderTest
from tests.conformance.notes import at
from tests.conformance.objects import node, pod
from tests.conformance.scenario import scenario


@scenario("a new node is tainted as not ready until its status is Ready")
async def new_node(cluster: ClusterUnderTest) -> None:
    worker = cluster.unique("worker")
    made = await cluster.create(NODES, node(worker))
    cluster.saw("taints", at(made, "spec.taints"))
    other = node(cluster.unique("tainted"))
    other["spec"] = {"taints": [{"key": "mine", "effect": "NoSchedule"}]}
    made = await cluster.create(NODES, other)
    cluster.saw("with its own", at(made, "spec.taints"))
    ready = node(cluster.unique("ready"))
    ready["status"] = {"conditions": [{"type": "Ready", "status": "True"}], "capacity": {"cpu": "4"}}
    made = await cluster.create(NODES, ready)
    cluster.saw(
        "that says it is ready",
        [at(made, "spec.taints"), at(made, "status.conditions"), at(made, "status.capacity")],
    )
    await cluster.patched(
        "the taint taken off", NODES, worker, merge_patch({"spec": {"taints": None}}), "spec"
    )


@scenario("taints and capacities of nodes are checked")
async def node_checks(cluster: ClusterUnderTest) -> None:
    for what, taint in {
        "an effect": {"key": "a", "effect": "Explode"},
        "a key": {"key": "a b", "effect": "NoSchedule"},
        "a value": {"key": "a", "value": "b c", "effect": "NoSchedule"},
        "no key": {"key": "", "effect": "NoSchedule"},
    }.items():
        item = node(cluster.unique("x"))
        item["spec"] = {"taints": [taint]}
        await cluster.created(what, NODES, item)
    twice = node(cluster.unique("x"))
    twice["spec"] = {"taints": [{"key": "a", "effect": "NoSchedule"}] * 2}
    await cluster.created("the same twice", NODES, twice)
    worker = cluster.unique("worker")
    await cluster.create(NODES, node(worker))
    negative = merge_patch({"status": {"capacity": {"cpu": "-1"}}})
    await cluster.patched("less than nothing", NODES.status, worker, negative, "status.capacity")
    unready = merge_patch({"spec": {"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"]}})
    await cluster.patched("addresses for pods", NODES, worker, unready, "spec.podCIDR")
    moved = merge_patch({"spec": {"podCIDR": "10.0.1.0/24", "podCIDRs": ["10.0.1.0/24"]}})
    await cluster.patched("other addresses", NODES, worker, moved)
    provider = merge_patch({"spec": {"providerID": "cloud://1"}})
    await cluster.patched("a provider", NODES, worker, provider, "spec.providerID")
    other = merge_patch({"spec": {"providerID": "cloud://2"}})
    await cluster.patched("another provider", NODES, worker, other)


@scenario("a new pod gets the value and the preemption policy of its priority class")
async def priorities(cluster: ClusterUnderTest) -> None:
    high = cluster.unique("high")
    item = {"metadata": {"name": high}, "value": 1000, "preemptionPolicy": "Never"}
    await cluster.create(PRIORITY_CLASSES, item)
    fields = ("spec.priority", "spec.priorityClassName", "spec.preemptionPolicy")
    await cluster.created("its class", PODS, pod("one", spec={"priorityClassName": high}), *fields)
    await cluster.created("none", PODS, pod("two"), *fields)
    system = pod("three", spec={"priorityClassName": "system-node-critical"})
    await cluster.created("a system class", PODS, system, *fields)
    agreeing = pod("four", spec={"priorityClassName": high, "priority": 1000})
    await cluster.created("the value agrees", PODS, agreeing, *fields)
    other = pod("five", spec={"priorityClassName": high, "priority": 7})
    await cluster.created("the value does not", PODS, other)
    await cluster.client.delete(PRIORITY_CLASSES, high)
    left = await cluster.read(PODS, "one")
    cluster.saw("after the class is gone", at(left, "spec.priority"))
    change = merge_patch({"spec": {"priority": 1}})
    await cluster.patched("changed", PODS, "one", change)


@scenario("Events are stored as sent, can be selected by their object, and both groups show the same")
async def events(cluster: ClusterUnderTest) -> None:
    made = await cluster.create(PODS, pod("one"))
    about = {"kind": "Pod", "namespace": cluster.namespace, "name": "one", "uid": made["metadata"]["uid"]}
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
    await cluster.created("an event", EVENTS, item, WHOLE)
    for fields in ("involvedObject.name=one", "involvedObject.name=two", "reason=Tested,type=Normal"):
        page = await cluster.client.list(EVENTS, namespace=cluster.namespace, fields=fields)
        cluster.saw(fields, [event["metadata"]["name"] for event in page.items])
    newer = api_resource("events.k8s.io", "v1", "events", "Event")
    await cluster.tried("in the other group", cluster.client.get(newer, cluster.key("one.1")), WHOLE)
    elsewhere = {**item, "metadata": {"name": "two.1"}, "involvedObject": {**about, "namespace": "default"}}
    await cluster.created("about another namespace", EVENTS, elsewhere)
    counted = merge_patch({"count": 2})
    await cluster.patched("counted", EVENTS, "one.1", counted, "count")
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
    await cluster.created("a modern one", newer, modern, WHOLE)
    await cluster.tried("as an old one", cluster.client.get(EVENTS, cluster.key("three.1")), WHOLE)
