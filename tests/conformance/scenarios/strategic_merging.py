"""Strategic merge patches: lists of built-in kinds are merged by their keys."""

from typing import Any

from rescheduler.cluster.codecs.record_resources import NODES, PODS
from rescheduler.kube.api_resources import CONFIG_MAPS, DEPLOYMENTS, Object, strategic_patch
from tests.conformance.cluster_under_test import ClusterUnderTest
from tests.conformance.objects import config_map, deployment, node, pod
from tests.conformance.scenario import scenario
from tests.stories.objects import SERVICES

STRATEGIC = "application/strategic-merge-patch+json"


def _spec(**spec: Any) -> Object:
    """A change of a deployment's pods."""
    return {"spec": {"template": {"spec": spec}}}


async def _changed(cluster: ClusterUnderTest, name: str, changes: dict[str, Object], *fields: str) -> None:
    inside = [f"spec.template.spec.{field}" for field in fields]
    for what, change in changes.items():
        await cluster.patched(what, DEPLOYMENTS, name, strategic_patch(change), *inside)


@scenario("containers are merged by name, their variables too, their ports by number")
async def containers(cluster: ClusterUnderTest) -> None:
    body = deployment("web")
    body["spec"]["template"]["spec"]["containers"] = [
        {
            "name": "main",
            "image": "example.com/app:1",
            "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
            "ports": [{"containerPort": 80, "name": "http"}],
            "args": ["one", "two"],
        },
        {"name": "side", "image": "example.com/side:1"},
    ]
    await cluster.create(DEPLOYMENTS, body)
    changes = {
        "an image": _spec(containers=[{"name": "main", "image": "example.com/app:2"}]),
        "a variable": _spec(containers=[{"name": "main", "env": [{"name": "B", "value": "3"}]}]),
        "one more": _spec(containers=[{"name": "main", "env": [{"name": "C", "value": "4"}]}]),
        "one less": _spec(containers=[{"name": "main", "env": [{"name": "A", "$patch": "delete"}]}]),
        "a port": _spec(containers=[{"name": "main", "ports": [{"containerPort": 81, "name": "more"}]}]),
        "a port renamed": _spec(
            containers=[{"name": "main", "ports": [{"containerPort": 80, "name": "web"}]}]
        ),
        "arguments": _spec(containers=[{"name": "main", "args": ["three"]}]),
        "a container more": _spec(containers=[{"name": "third", "image": "example.com/third:1"}]),
        "a container less": _spec(containers=[{"name": "side", "$patch": "delete"}]),
        "in another order": _spec(**{"$setElementOrder/containers": [{"name": "third"}, {"name": "main"}]}),
        "order and change": _spec(
            **{
                "$setElementOrder/containers": [{"name": "main"}, {"name": "third"}],
                "containers": [{"name": "third", "image": "example.com/third:2"}],
            }
        ),
    }
    fields = ("containers.*.name", "containers.*.image", "containers.*.env", "containers.*.args")
    await _changed(cluster, "web", changes, *fields, "containers.*.ports")


@scenario("a list or a map can be replaced as a whole")
async def replaced(cluster: ClusterUnderTest) -> None:
    await cluster.create(DEPLOYMENTS, deployment("web"))
    changes: dict[str, Object] = {
        "the containers": _spec(
            containers=[{"$patch": "replace"}, {"name": "other", "image": "example.com/other:1"}]
        ),
        "the node selector, merged": _spec(nodeSelector={"a": "1", "b": "2"}),
        "the node selector, replaced": _spec(nodeSelector={"$patch": "replace", "c": "3"}),
        "the node selector, deleted": _spec(nodeSelector={"$patch": "delete"}),
        "null": _spec(terminationGracePeriodSeconds=None),
    }
    await _changed(
        cluster, "web", changes, "containers.*.name", "nodeSelector", "terminationGracePeriodSeconds"
    )


@scenario("volumes are merged by name; one of another kind needs $retainKeys")
async def volumes(cluster: ClusterUnderTest) -> None:
    await cluster.create(DEPLOYMENTS, deployment("web"))
    changes = {
        "two volumes": _spec(
            volumes=[{"name": "a", "emptyDir": {}}, {"name": "b", "configMap": {"name": "settings"}}]
        ),
        "a size": _spec(volumes=[{"name": "a", "emptyDir": {"sizeLimit": "1Gi"}}]),
        "another kind": _spec(volumes=[{"name": "a", "hostPath": {"path": "/tmp"}}]),
        "another kind, keeping only it": _spec(
            volumes=[{"name": "a", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/tmp"}}]
        ),
        "gone": _spec(volumes=[{"name": "b", "$patch": "delete"}]),
    }
    await _changed(cluster, "web", changes, "volumes")


@scenario("the strategy of a deployment keeps only what $retainKeys names")
async def strategy(cluster: ClusterUnderTest) -> None:
    await cluster.create(DEPLOYMENTS, deployment("web"))
    changes = {
        "only the type": {"spec": {"strategy": {"type": "Recreate"}}},
        "with $retainKeys": {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}},
    }
    for what, change in changes.items():
        await cluster.patched(what, DEPLOYMENTS, "web", strategic_patch(change), "spec.strategy")


@scenario("tolerations are replaced, finalizers and owners merged, conditions merged by type")
async def other_lists(cluster: ClusterUnderTest) -> None:
    finalizers = ["example.com/a", "example.com/b"]
    await cluster.create(PODS, pod("one", finalizers=finalizers))
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner"}
    owners = [{**owner, "uid": f"00000000-0000-0000-0000-00000000000{number}"} for number in (1, 2)]
    ready = {"type": "Ready", "status": "True"}
    changes: dict[str, Object] = {
        "a toleration": {"spec": {"tolerations": [{"key": "a", "operator": "Exists"}]}},
        "a finalizer more": {"metadata": {"finalizers": ["example.com/c"]}},
        "a finalizer less": {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/b"]}},
        "an owner": {"metadata": {"ownerReferences": [owners[0]]}},
        "an owner more": {"metadata": {"ownerReferences": [owners[1]]}},
        "an owner less": {"metadata": {"ownerReferences": [{"uid": owners[0]["uid"], "$patch": "delete"}]}},
    }
    fields = ("metadata.finalizers", "metadata.ownerReferences", "spec.tolerations.*.key")
    for what, change in changes.items():
        await cluster.patched(what, PODS, "one", strategic_patch(change), *fields)
    for what, condition in {
        "a condition": ready,
        "another": {"type": "Initialized", "status": "True"},
        "the first again": {**ready, "status": "False", "reason": "Because"},
    }.items():
        change = strategic_patch({"status": {"conditions": [condition]}})
        await cluster.patched(what, PODS.status, "one", change, "status.conditions")
    await cluster.patched(
        "all finalizers", PODS, "one", strategic_patch({"metadata": {"finalizers": None}}), fields[0]
    )


@scenario(
    "a service's ports are merged by number, a node's taints and addresses are handled as their kind says"
)
async def services_and_nodes(cluster: ClusterUnderTest) -> None:
    ports = [{"name": "http", "port": 80}, {"name": "https", "port": 443}]
    await cluster.create(SERVICES, {"metadata": {"name": "web"}, "spec": {"ports": ports}})
    for what, change in {
        "a target": [{"port": 80, "targetPort": 8080}],
        "a port more": [{"name": "admin", "port": 9000}],
        "a port less": [{"port": 443, "$patch": "delete"}],
    }.items():
        patch = strategic_patch({"spec": {"ports": change}})
        await cluster.patched(what, SERVICES, "web", patch, "spec.ports")
    worker = cluster.unique("worker")
    await cluster.create(NODES, node(worker))
    for what, change in {
        "a taint": {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}},
        "another taint": {"spec": {"taints": [{"key": "b", "effect": "NoSchedule"}]}},
        "unschedulable": {"spec": {"unschedulable": True}},
    }.items():
        await cluster.patched(what, NODES, worker, strategic_patch(change), "spec")
    for what, address in {"an address": "10.0.0.1", "another address": "10.0.0.2"}.items():
        change = {"status": {"addresses": [{"type": "InternalIP", "address": address}]}}
        await cluster.patched(what, NODES.status, worker, strategic_patch(change), "status.addresses")


@scenario("invalid directives are refused")
async def nonsense(cluster: ClusterUnderTest) -> None:
    await cluster.create(DEPLOYMENTS, deployment("web"))
    await cluster.create(CONFIG_MAPS, config_map("settings"))
    changes = {
        "an unknown directive": _spec(nodeSelector={"$patch": "frobnicate"}),
        "a container without name": _spec(containers=[{"image": "example.com/app:2"}]),
        "a list that is a map": _spec(containers={"name": "main"}),
        "an order that leaves one out": _spec(
            **{
                "$setElementOrder/containers": [{"name": "other"}],
                "containers": [{"name": "main", "image": "example.com/app:2"}],
            }
        ),
    }
    path = DEPLOYMENTS.object_path(cluster.namespace, "web")
    for what, change in changes.items():
        # Only the code: the words quote the patch as Go prints it.
        answer = await cluster.asked("", "PATCH", path, body=change, content_type=STRATEGIC)
        cluster.saw(what, answer.code)
    remove = strategic_patch({"data": {"a": None, "b": "2"}})
    await cluster.patched("a plain map", CONFIG_MAPS, "settings", remove, "data")
