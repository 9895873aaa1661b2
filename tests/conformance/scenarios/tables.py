"""What `kubectl get` shows: the server makes the table."""

import re
from typing import Any

from rescheduler.cluster.codecs.record_resources import NODES, PODS
from rescheduler.kube.api_resources import (
    CONFIG_MAPS,
    CRON_JOBS,
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    LEASES,
    NAMESPACES,
    POD_DISRUPTION_BUDGETS,
    PRIORITY_CLASSES,
    REPLICA_SETS,
    SECRETS,
    STATEFUL_SETS,
    ApiResource,
    Object,
    merge_patch,
)
from tests.conformance.cluster_under_test import ClusterUnderTest
from tests.conformance.definitions import define, version
from tests.conformance.notes import at
from tests.conformance.objects import budget, config_map, deployment, node, pod, replica_set, template
from tests.conformance.scenario import scenario
from tests.stories.objects import SERVICES

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
_AGE = re.compile(r"\d+[smhd]")


async def _table(cluster: ClusterUnderTest, resource: ApiResource[Any], name: str) -> None:
    namespace = cluster.namespace if resource.namespaced else ""
    answer = await cluster.asked(resource.plural, "GET", resource.object_path(namespace, name), accept=TABLE)
    columns = [
        [column["name"], column["type"], column["format"], column["priority"]]
        for column in answer.json["columnDefinitions"]
    ]
    cells = [[_ageless(cell) for cell in row["cells"]] for row in answer.json["rows"]]
    cluster.saw(f"{resource.plural}: columns", columns)
    cluster.saw(f"{resource.plural}: cells", cells)
    cluster.saw(f"{resource.plural}: the object in it", at(answer.json, "rows.0.object.kind"))


def _ageless(cell: object) -> object:
    return "AGE" if isinstance(cell, str) and _AGE.fullmatch(cell) else cell


@scenario("pods: ready, status, restarts and node")
async def pods(cluster: ClusterUnderTest) -> None:
    def waiting(reason: str) -> Object:
        return {"waiting": {"reason": reason}}

    def status(state: Object, *, ready: bool = False, restarts: int = 0, **more: object) -> Object:
        return {
            "containerStatuses": [
                {"name": "main", "image": "x", "imageID": "", "ready": ready, "restartCount": restarts,
                 "state": state, "lastState": {}, **more}
            ]
        }  # fmt: skip

    running = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    cases: dict[str, Object] = {
        "new": {},
        "running": {"phase": "Running", "podIP": "10.0.0.7", "podIPs": [{"ip": "10.0.0.7"}],
                    **status(running, ready=True)},
        "crashing": {"phase": "Running", **status(waiting("CrashLoopBackOff"), restarts=4)},
        "no-image": {"phase": "Pending", **status(waiting("ImagePullBackOff"))},
        "oom": {"phase": "Failed", **status({"terminated": {"exitCode": 137, "reason": "OOMKilled"}})},
        "exit": {"phase": "Failed", **status({"terminated": {"exitCode": 3}})},
        "signal": {"phase": "Failed", **status({"terminated": {"exitCode": 137, "signal": 9}})},
        "done": {"phase": "Succeeded", **status({"terminated": {"exitCode": 0, "reason": "Completed"}})},
        "evicted": {"phase": "Failed", "reason": "Evicted"},
        "nominated": {"nominatedNodeName": "worker"},
        "unready": {"phase": "Running", **status(running),
                    "conditions": [{"type": "Ready", "status": "False"}]},
    }  # fmt: skip
    for name, reported in cases.items():
        await cluster.create(PODS, pod(name, node="worker" if name == "running" else ""))
        await cluster.client.patch(PODS.status, cluster.key(name), merge_patch({"status": reported}))
        await _table(cluster, PODS, name)
    gate = [{"name": "example.com/gate"}]
    await cluster.create(PODS, pod("gated", spec={"schedulingGates": gate}))
    await _table(cluster, PODS, "gated")
    init = [{"name": "first", "image": "example.com/app:1"}, {"name": "second", "image": "example.com/app:1"}]
    await cluster.create(PODS, pod("starting", spec={"initContainers": init}))
    for state in (waiting("PodInitializing"), waiting("CrashLoopBackOff"), {"terminated": {"exitCode": 2}}):
        first = {
            "name": "first",
            "image": "x",
            "imageID": "",
            "ready": False,
            "restartCount": 1,
            "state": state,
        }
        change = merge_patch({"status": {"initContainerStatuses": [first]}})
        await cluster.client.patch(PODS.status, cluster.key("starting"), change)
        await _table(cluster, PODS, "starting")
    await cluster.create(PODS, pod("going", node="worker"))
    await cluster.client.delete(PODS, cluster.key("going"))
    await _table(cluster, PODS, "going")


@scenario("nodes: status, roles and versions")
async def nodes(cluster: ClusterUnderTest) -> None:
    info = {
        "kubeletVersion": "v1.37.0", "osImage": "Linux", "kernelVersion": "6.1", "architecture": "amd64",
        "containerRuntimeVersion": "fake://1", "bootID": "", "kubeProxyVersion": "", "machineID": "",
        "operatingSystem": "linux", "systemUUID": "",
    }  # fmt: skip
    for name, ready in (("ready", "True"), ("lost", "Unknown"), ("broken", "False"), ("silent", "")):
        item = node(cluster.unique(name))
        item["metadata"]["labels"] = {"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "extra"}
        await cluster.create(NODES, item)
        if ready:
            address = [{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "Hostname", "address": name}]
            condition = [{"type": "Ready", "status": ready}]
            reported = {"nodeInfo": info, "addresses": address, "conditions": condition}
            await cluster.client.patch(NODES.status, cluster.unique(name), merge_patch({"status": reported}))
        await _table(cluster, NODES, cluster.unique(name))
    cordon = merge_patch({"spec": {"unschedulable": True}, "metadata": {"labels": None}})
    await cluster.client.patch(NODES, cluster.unique("ready"), cordon)
    await _table(cluster, NODES, cluster.unique("ready"))


@scenario("workloads: desired, current and ready replicas")
async def workloads(cluster: ClusterUnderTest) -> None:
    await cluster.create(DEPLOYMENTS, deployment("web", replicas=3))
    reported = {"replicas": 3, "readyReplicas": 2, "updatedReplicas": 1, "availableReplicas": 2}
    await cluster.client.patch(DEPLOYMENTS.status, cluster.key("web"), merge_patch({"status": reported}))
    await cluster.create(REPLICA_SETS, replica_set("web", replicas=2))
    plain = {"selector": {"matchLabels": {"app": "web"}}, "template": template("web")}
    await cluster.create(
        STATEFUL_SETS, {"metadata": {"name": "web"}, "spec": {**plain, "serviceName": "web"}}
    )
    placed = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {**template("web")["spec"], "nodeSelector": {"a": "b"}},
    }
    await cluster.create(DAEMON_SETS, {"metadata": {"name": "web"}, "spec": {**plain, "template": placed}})
    once = {"template": {"spec": {**pod("x")["spec"], "restartPolicy": "Never"}}}
    await cluster.create(JOBS, {"metadata": {"name": "web"}, "spec": {**once, "completions": 3}})
    await cluster.create(
        CRON_JOBS,
        {"metadata": {"name": "web"}, "spec": {"schedule": "@hourly", "jobTemplate": {"spec": once}}},
    )
    for resource in (DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, DAEMON_SETS, CRON_JOBS):
        await _table(cluster, resource, "web")
    cells = await cluster.asked("", "GET", JOBS.object_path(cluster.namespace, "web"), accept=TABLE)
    cluster.saw(
        "jobs", [cells.json["rows"][0]["cells"][:3], [c["name"] for c in cells.json["columnDefinitions"]]]
    )


@scenario("other kinds")
async def small_things(cluster: ClusterUnderTest) -> None:
    await cluster.create(POD_DISRUPTION_BUDGETS, budget("least", "web", minAvailable=1))
    await cluster.create(POD_DISRUPTION_BUDGETS, budget("most", "web", maxUnavailable="50%"))
    await cluster.create(CONFIG_MAPS, config_map("web"))
    await cluster.create(SECRETS, {"metadata": {"name": "web"}, "stringData": {"a": "b"}})
    headless = {"clusterIP": "None", "ports": [{"port": 80}, {"port": 53, "protocol": "UDP", "name": "dns"}]}
    headless["ports"][0]["name"] = "http"
    await cluster.create(SERVICES, {"metadata": {"name": "web"}, "spec": headless})
    await cluster.create(LEASES, {"metadata": {"name": "web"}, "spec": {"holderIdentity": "me"}})
    high = cluster.unique("high")
    await cluster.create(PRIORITY_CLASSES, {"metadata": {"name": high}, "value": 1000})
    await _table(cluster, POD_DISRUPTION_BUDGETS, "least")
    await _table(cluster, POD_DISRUPTION_BUDGETS, "most")
    for resource in (CONFIG_MAPS, SECRETS, SERVICES, LEASES):
        await _table(cluster, resource, "web")
    await _table(cluster, PRIORITY_CLASSES, high)
    await _table(cluster, NAMESPACES, cluster.namespace)


@scenario("a definition has its own columns")
async def custom_columns(cluster: ClusterUnderTest) -> None:
    columns = [
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size", "description": "How large"},
        {"name": "On", "type": "boolean", "jsonPath": ".spec.on"},
        {"name": "First", "type": "string", "jsonPath": ".spec.parts[0]", "priority": 1},
        {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status'},
        {"name": "When", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        {"name": "Missing", "type": "string", "jsonPath": ".spec.missing"},
    ]
    resource = await define(
        cluster,
        version(
            size={"type": "integer"},
            on={"type": "boolean"},
            parts={"type": "array", "items": {"type": "string"}},
            more={"additionalPrinterColumns": columns},
        ),
    )
    item: Object = {"metadata": {"name": "one"}, "spec": {"size": 3, "on": True, "parts": ["a", "b"]}}
    item["status"] = {
        "conditions": [{"type": "Fine", "status": "False"}, {"type": "Ready", "status": "True"}]
    }
    await cluster.create(resource, item)
    await cluster.create(resource, {"metadata": {"name": "two"}})
    for name in ("one", "two"):
        await _table(cluster, resource, name)


@scenario("a definition without columns shows name and age")
async def no_columns(cluster: ClusterUnderTest) -> None:
    resource = await define(cluster, version(size={"type": "integer"}))
    await cluster.create(resource, {"metadata": {"name": "one"}})
    await _table(cluster, resource, "one")


@scenario("a table holds whole objects, their metadata or none, as asked")
async def included(cluster: ClusterUnderTest) -> None:
    await cluster.create(CONFIG_MAPS, config_map("one"))
    path = CONFIG_MAPS.object_path(cluster.namespace, "one")
    for include in ("Object", "Metadata", "None", "Some"):
        answer = await cluster.asked(include, "GET", path, query={"includeObject": include}, accept=TABLE)
        if answer.code == 200:
            cluster.saw(include, at(answer.json, "rows.0.object"))
