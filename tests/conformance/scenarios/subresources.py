"""Scale, status, binding, resizing and the containers that come later."""

from rescheduler.cluster.codecs.record_resources import NODES, PODS
from rescheduler.kube.api_resources import (
    DEPLOYMENTS,
    REPLICA_SETS,
    STATEFUL_SETS,
    Object,
    json_patch,
    merge_patch,
    strategic_patch,
)
from tests.conformance.notes import at
from tests.conformance.objects import deployment, node, pod, replica_set, template
from tests.conformance.scenario import scenario
from tests.conformance.world import WHOLE, World


def _binding(world: World, name: str, target: str, **metadata: object) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "namespace": world.namespace, **metadata},
        "target": {"kind": "Node", "name": target},
    }


async def _bound(world: World, what: str, name: str, target: str, **metadata: object) -> None:
    path = PODS.sub("binding").object_path(world.namespace, name)
    answer = await world.asked(what, "POST", path, body=_binding(world, name, target, **metadata))
    if answer.code < 400:
        world.saw(what, [answer.code, answer.json])


@scenario("the scale of a workload shows replicas and selector, and changes the replicas only")
async def scale(world: World) -> None:
    plain = {"selector": {"matchLabels": {"app": "web"}}, "template": template("web"), "replicas": 2}
    await world.create(DEPLOYMENTS, deployment("web", replicas=2))
    await world.create(REPLICA_SETS, replica_set("web", replicas=2))
    await world.create(STATEFUL_SETS, {"metadata": {"name": "web"}, "spec": {**plain, "serviceName": "web"}})
    for resource in (DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS):
        name = resource.plural
        await world.tried(name, world.client.get(resource.scale, world.key("web")), WHOLE)
        more = merge_patch({"spec": {"replicas": 5}})
        await world.patched(f"{name} to 5", resource.scale, "web", more, WHOLE)
        left = await world.read(resource, "web")
        world.saw("replicas and generation", [at(left, "spec.replicas"), at(left, "metadata.generation")])
    await world.patched("to none", DEPLOYMENTS.scale, "web", merge_patch({"spec": {"replicas": 0}}), "spec")
    await world.patched("to less", DEPLOYMENTS.scale, "web", merge_patch({"spec": {"replicas": -1}}))
    await world.patched("of nobody", DEPLOYMENTS.scale, "nobody", more)


@scenario("a scale written with an outdated version conflicts")
async def outdated_scale(world: World) -> None:
    await world.create(DEPLOYMENTS, deployment("web"))
    key = world.key("web")
    first = await world.client.get(DEPLOYMENTS.scale, key)
    first["spec"] = {"replicas": 3}
    await world.tried("the first", world.client.replace(DEPLOYMENTS.scale, first), "spec")
    await world.tried("the same again", world.client.replace(DEPLOYMENTS.scale, first))
    del first["metadata"]["resourceVersion"]
    await world.tried("without a version", world.client.replace(DEPLOYMENTS.scale, first), "spec")


@scenario("the status of a workload is written apart from the rest")
async def workload_status(world: World) -> None:
    await world.create(DEPLOYMENTS, deployment("web", replicas=1))
    both = merge_patch(
        {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"replicas": 9},
            "status": {"replicas": 4, "readyReplicas": 3},
        }
    )
    fields = ("metadata.labels", "metadata.generation", "spec.replicas", "status")
    await world.patched("through the status", DEPLOYMENTS.status, "web", both, *fields)
    negative = merge_patch({"status": {"replicas": -1}})
    await world.patched("negative", DEPLOYMENTS.status, "web", negative)
    excess = merge_patch({"status": {"readyReplicas": 7}})
    await world.patched("more ready than there are", DEPLOYMENTS.status, "web", excess)
    found = await world.client.get(DEPLOYMENTS.status, world.key("web"))
    world.saw("read", found["kind"])


@scenario("a pod is bound once, to a node by name, and then counts as scheduled")
async def binding(world: World) -> None:
    await world.create(PODS, pod("one"))
    await _bound(world, "to a node", "one", "worker", annotations={"why": "because"})
    left = await world.read(PODS, "one")
    world.saw("node", at(left, "spec.nodeName"))
    world.saw("conditions", at(left, "status.conditions"))
    world.saw("annotations", at(left, "metadata.annotations"))
    await _bound(world, "once more", "one", "worker")
    await _bound(world, "to another", "one", "other")
    await _bound(world, "nobody", "nobody", "worker")
    await world.create(PODS, pod("two"))
    await _bound(world, "to no node", "two", "")
    await _bound(world, "with another uid", "two", "worker", uid="00000000-0000-0000-0000-000000000001")


@scenario("a gated pod, or one that is going, can't be bound")
async def binding_refused(world: World) -> None:
    await world.create(PODS, pod("gated", spec={"schedulingGates": [{"name": "example.com/gate"}]}))
    await _bound(world, "gated", "gated", "worker")
    await world.create(PODS, pod("going", finalizers=["example.com/hold"]))
    await world.client.delete(PODS, world.key("going"))
    await _bound(world, "going", "going", "worker")
    release = json_patch([{"op": "remove", "path": "/metadata/finalizers"}])
    await world.client.patch(PODS, world.key("going"), release)


@scenario("binding a pod copies the topology labels of its node")
async def topology_labels(world: World) -> None:
    worker = world.unique("worker")
    item = node(worker)
    item["metadata"]["labels"] = {
        "topology.kubernetes.io/zone": "zone-a",
        "topology.kubernetes.io/region": "region-a",
        "other": "x",
    }
    await world.create(NODES, item)
    await world.create(PODS, pod("one", labels={"app": "web"}))
    await _bound(world, "to it", "one", worker)
    left = await world.read(PODS, "one")
    world.saw("labels", at(left, "metadata.labels"))
    await world.create(PODS, pod("two", node=worker))
    left = await world.read(PODS, "two")
    world.saw("created there", at(left, "metadata.labels"))


@scenario("a new pod is pending, and a gated one says so")
async def first_status(world: World) -> None:
    await world.create(PODS, pod("one"))
    await world.create(PODS, pod("gated", spec={"schedulingGates": [{"name": "example.com/gate"}]}))
    await world.create(PODS, pod("placed", node="worker"))
    for name in ("one", "gated", "placed"):
        left = await world.read(PODS, name)
        world.saw(name, at(left, "status"))


@scenario("resources of a running pod are changed through resize, and only there")
async def resize(world: World) -> None:
    resources = {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}
    container = {"name": "main", "image": "example.com/app:1", "resources": resources}
    worker = world.unique("worker")
    await world.create(NODES, node(worker))
    room = {"status": {"capacity": {"cpu": "4", "pods": "9"}, "allocatable": {"cpu": "4", "pods": "9"}}}
    await world.client.patch(NODES.status, worker, merge_patch(room))
    await world.create(PODS, pod("one", node=worker, spec={"containers": [container]}))

    def change(**resources: object) -> Object:
        return {"spec": {"containers": [{"name": "main", "resources": resources}]}}

    part = PODS.sub("resize")
    fields = ("spec.containers.0.resources", "metadata.generation", "status.qosClass")
    more = strategic_patch(change(requests={"cpu": "1500m"}))
    await world.patched("more", part, "one", more, *fields)
    everything = strategic_patch(change(requests={"cpu": "2"}, limits={"cpu": "2"}))
    await world.patched("as much as allowed", part, "one", everything, *fields)
    await world.patched("too much", part, "one", strategic_patch(change(requests={"cpu": "3"})))
    image = strategic_patch({"spec": {"containers": [{"name": "main", "image": "example.com/app:2"}]}})
    await world.patched("the image", part, "one", image, *fields)
    await world.patched("not through resize", PODS, "one", more)


@scenario("ephemeral containers are added through their own subresource, and stay")
async def ephemeral(world: World) -> None:
    await world.create(PODS, pod("one", node="worker"))
    part = PODS.sub("ephemeralcontainers")
    debug = {"name": "debug", "image": "example.com/debug:1"}
    added = strategic_patch({"spec": {"ephemeralContainers": [debug]}})
    await world.patched("one", part, "one", added, "spec.ephemeralContainers")
    twice = strategic_patch(
        {"spec": {"ephemeralContainers": [{"name": "main", "image": "example.com/debug:1"}]}}
    )
    await world.patched("named like another", part, "one", twice)
    removed = json_patch([{"op": "remove", "path": "/spec/ephemeralContainers"}])
    await world.patched("removed", part, "one", removed)
    other = strategic_patch({"spec": {"ephemeralContainers": [{**debug, "image": "example.com/debug:2"}]}})
    await world.patched("through the pod", PODS, "one", other)


@scenario("subresources that a kind does not have are not found")
async def absent(world: World) -> None:
    await world.create(PODS, pod("one"))
    base = PODS.object_path(world.namespace, "one")
    for method, path in (
        ("GET", f"{base}/scale"),
        ("GET", f"{base}/nothing"),
        ("GET", f"{base}/binding"),
        ("GET", f"{base}/eviction"),
        ("DELETE", f"{base}/status"),
        ("POST", f"{base}/status"),
    ):
        answer = await world.asked("", method, path)
        told = answer.json or {}
        world.saw(f"{method} {path}", [answer.code, told.get("reason"), told.get("message")])
