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
from tests.conformance.cluster_under_test import WHOLE, ClusterUnderTest
from tests.conformance.notes import at
from tests.conformance.objects import deployment, node, pod, replica_set, template
from tests.conformance.scenario import scenario


def _binding(cluster: ClusterUnderTest, name: str, target: str, **metadata: object) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "namespace": cluster.namespace, **metadata},
        "target": {"kind": "Node", "name": target},
    }


async def _bound(cluster: ClusterUnderTest, what: str, name: str, target: str, **metadata: object) -> None:
    path = PODS.sub("binding").object_path(cluster.namespace, name)
    answer = await cluster.asked(what, "POST", path, body=_binding(cluster, name, target, **metadata))
    if answer.code < 400:
        cluster.saw(what, [answer.code, answer.json])


@scenario("the scale of a workload shows replicas and selector, and changes the replicas only")
async def scale(cluster: ClusterUnderTest) -> None:
    plain = {"selector": {"matchLabels": {"app": "web"}}, "template": template("web"), "replicas": 2}
    await cluster.create(DEPLOYMENTS, deployment("web", replicas=2))
    await cluster.create(REPLICA_SETS, replica_set("web", replicas=2))
    await cluster.create(
        STATEFUL_SETS, {"metadata": {"name": "web"}, "spec": {**plain, "serviceName": "web"}}
    )
    for resource in (DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS):
        name = resource.plural
        await cluster.tried(name, cluster.client.get(resource.scale, cluster.key("web")), WHOLE)
        more = merge_patch({"spec": {"replicas": 5}})
        await cluster.patched(f"{name} to 5", resource.scale, "web", more, WHOLE)
        left = await cluster.read(resource, "web")
        cluster.saw("replicas and generation", [at(left, "spec.replicas"), at(left, "metadata.generation")])
    await cluster.patched("to none", DEPLOYMENTS.scale, "web", merge_patch({"spec": {"replicas": 0}}), "spec")
    await cluster.patched("to less", DEPLOYMENTS.scale, "web", merge_patch({"spec": {"replicas": -1}}))
    await cluster.patched("of nobody", DEPLOYMENTS.scale, "nobody", more)


@scenario("a scale written with an outdated version conflicts")
async def outdated_scale(cluster: ClusterUnderTest) -> None:
    await cluster.create(DEPLOYMENTS, deployment("web"))
    key = cluster.key("web")
    first = await cluster.client.get(DEPLOYMENTS.scale, key)
    first["spec"] = {"replicas": 3}
    await cluster.tried("the first", cluster.client.replace(DEPLOYMENTS.scale, first), "spec")
    await cluster.tried("the same again", cluster.client.replace(DEPLOYMENTS.scale, first))
    del first["metadata"]["resourceVersion"]
    await cluster.tried("without a version", cluster.client.replace(DEPLOYMENTS.scale, first), "spec")


@scenario("the status of a workload is written separately from its spec")
async def workload_status(cluster: ClusterUnderTest) -> None:
    await cluster.create(DEPLOYMENTS, deployment("web", replicas=1))
    both = merge_patch(
        {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"replicas": 9},
            "status": {"replicas": 4, "readyReplicas": 3},
        }
    )
    fields = ("metadata.labels", "metadata.generation", "spec.replicas", "status")
    await cluster.patched("through the status", DEPLOYMENTS.status, "web", both, *fields)
    negative = merge_patch({"status": {"replicas": -1}})
    await cluster.patched("negative", DEPLOYMENTS.status, "web", negative)
    excess = merge_patch({"status": {"readyReplicas": 7}})
    await cluster.patched("more ready than there are", DEPLOYMENTS.status, "web", excess)
    found = await cluster.client.get(DEPLOYMENTS.status, cluster.key("web"))
    cluster.saw("read", found["kind"])


@scenario("a pod is bound once, to a node by name, and then counts as scheduled")
async def binding(cluster: ClusterUnderTest) -> None:
    await cluster.create(PODS, pod("one"))
    await _bound(cluster, "to a node", "one", "worker", annotations={"why": "because"})
    left = await cluster.read(PODS, "one")
    cluster.saw("node", at(left, "spec.nodeName"))
    cluster.saw("conditions", at(left, "status.conditions"))
    cluster.saw("annotations", at(left, "metadata.annotations"))
    await _bound(cluster, "once more", "one", "worker")
    await _bound(cluster, "to another", "one", "other")
    await _bound(cluster, "nobody", "nobody", "worker")
    await cluster.create(PODS, pod("two"))
    await _bound(cluster, "to no node", "two", "")
    await _bound(cluster, "with another uid", "two", "worker", uid="00000000-0000-0000-0000-000000000001")


@scenario("a gated or terminating pod can't be bound")
async def binding_refused(cluster: ClusterUnderTest) -> None:
    await cluster.create(PODS, pod("gated", spec={"schedulingGates": [{"name": "example.com/gate"}]}))
    await _bound(cluster, "gated", "gated", "worker")
    await cluster.create(PODS, pod("going", finalizers=["example.com/hold"]))
    await cluster.client.delete(PODS, cluster.key("going"))
    await _bound(cluster, "going", "going", "worker")
    release = json_patch([{"op": "remove", "path": "/metadata/finalizers"}])
    await cluster.client.patch(PODS, cluster.key("going"), release)


@scenario("binding a pod copies the topology labels of its node")
async def topology_labels(cluster: ClusterUnderTest) -> None:
    worker = cluster.unique("worker")
    item = node(worker)
    item["metadata"]["labels"] = {
        "topology.kubernetes.io/zone": "zone-a",
        "topology.kubernetes.io/region": "region-a",
        "other": "x",
    }
    await cluster.create(NODES, item)
    await cluster.create(PODS, pod("one", labels={"app": "web"}))
    await _bound(cluster, "to it", "one", worker)
    left = await cluster.read(PODS, "one")
    cluster.saw("labels", at(left, "metadata.labels"))
    await cluster.create(PODS, pod("two", node=worker))
    left = await cluster.read(PODS, "two")
    cluster.saw("created there", at(left, "metadata.labels"))


@scenario("a new pod is pending, and a gated one says so")
async def first_status(cluster: ClusterUnderTest) -> None:
    await cluster.create(PODS, pod("one"))
    await cluster.create(PODS, pod("gated", spec={"schedulingGates": [{"name": "example.com/gate"}]}))
    await cluster.create(PODS, pod("placed", node="worker"))
    for name in ("one", "gated", "placed"):
        left = await cluster.read(PODS, name)
        cluster.saw(name, at(left, "status"))


@scenario("resources of a running pod are changed through resize, and only there")
async def resize(cluster: ClusterUnderTest) -> None:
    resources = {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}
    container = {"name": "main", "image": "example.com/app:1", "resources": resources}
    worker = cluster.unique("worker")
    await cluster.create(NODES, node(worker))
    room = {"status": {"capacity": {"cpu": "4", "pods": "9"}, "allocatable": {"cpu": "4", "pods": "9"}}}
    await cluster.client.patch(NODES.status, worker, merge_patch(room))
    await cluster.create(PODS, pod("one", node=worker, spec={"containers": [container]}))

    def change(**resources: object) -> Object:
        return {"spec": {"containers": [{"name": "main", "resources": resources}]}}

    part = PODS.sub("resize")
    fields = ("spec.containers.0.resources", "metadata.generation", "status.qosClass")
    more = strategic_patch(change(requests={"cpu": "1500m"}))
    await cluster.patched("more", part, "one", more, *fields)
    everything = strategic_patch(change(requests={"cpu": "2"}, limits={"cpu": "2"}))
    await cluster.patched("as much as allowed", part, "one", everything, *fields)
    await cluster.patched("too much", part, "one", strategic_patch(change(requests={"cpu": "3"})))
    image = strategic_patch({"spec": {"containers": [{"name": "main", "image": "example.com/app:2"}]}})
    await cluster.patched("the image", part, "one", image, *fields)
    await cluster.patched("not through resize", PODS, "one", more)


@scenario("ephemeral containers are added through their own subresource, and stay")
async def ephemeral(cluster: ClusterUnderTest) -> None:
    await cluster.create(PODS, pod("one", node="worker"))
    part = PODS.sub("ephemeralcontainers")
    debug = {"name": "debug", "image": "example.com/debug:1"}
    added = strategic_patch({"spec": {"ephemeralContainers": [debug]}})
    await cluster.patched("one", part, "one", added, "spec.ephemeralContainers")
    twice = strategic_patch(
        {"spec": {"ephemeralContainers": [{"name": "main", "image": "example.com/debug:1"}]}}
    )
    await cluster.patched("named like another", part, "one", twice)
    removed = json_patch([{"op": "remove", "path": "/spec/ephemeralContainers"}])
    await cluster.patched("removed", part, "one", removed)
    other = strategic_patch({"spec": {"ephemeralContainers": [{**debug, "image": "example.com/debug:2"}]}})
    await cluster.patched("through the pod", PODS, "one", other)


@scenario("subresources that a kind does not have are not found")
async def absent(cluster: ClusterUnderTest) -> None:
    await cluster.create(PODS, pod("one"))
    base = PODS.object_path(cluster.namespace, "one")
    for method, path in (
        ("GET", f"{base}/scale"),
        ("GET", f"{base}/nothing"),
        ("GET", f"{base}/binding"),
        ("GET", f"{base}/eviction"),
        ("DELETE", f"{base}/status"),
        ("POST", f"{base}/status"),
    ):
        answer = await cluster.asked("", method, path)
        reported = answer.json or {}
        cluster.saw(f"{method} {path}", [answer.code, reported.get("reason"), reported.get("message")])
