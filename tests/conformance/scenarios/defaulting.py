"""What the server adds to an object: whole objects are compared."""

from typing import Any

from rescheduler.cluster.codecs.record_resources import NODES, PODS
from rescheduler.kube.api_resources import (
    CRON_JOBS,
    CUSTOM_RESOURCE_DEFINITIONS,
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    LEASES,
    MUTATING_WEBHOOKS,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_DISRUPTION_BUDGETS,
    PRIORITY_CLASSES,
    REPLICA_SETS,
    SECRETS,
    STATEFUL_SETS,
    STORAGE_CLASSES,
    ApiResource,
    Object,
    api_resource,
    merge_patch,
)
from tests.conformance.cluster_under_test import WHOLE, ClusterUnderTest
from tests.conformance.objects import budget, deployment, node, pod, replica_set, template
from tests.conformance.scenario import scenario
from tests.stories.objects import SERVICES

STORAGE_CAPACITIES = api_resource("storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity")


async def _whole(cluster: ClusterUnderTest, resource: ApiResource[Any], *items: Object) -> None:
    for item in items:
        await cluster.created(f"{resource.kind} {item['metadata']['name']}", resource, item, WHOLE)


@scenario("a pod gets its defaults")
async def a_pod(cluster: ClusterUnderTest) -> None:
    await _whole(cluster, PODS, pod("plain"))


@scenario("each part of a pod gets its defaults")
async def parts_of_a_pod(cluster: ClusterUnderTest) -> None:
    probe = {"httpGet": {"port": 80}}
    container = {
        "name": "main",
        "image": "example.com/app",
        "ports": [{"containerPort": 80}, {"containerPort": 53, "protocol": "UDP", "hostPort": 53}],
        "livenessProbe": probe,
        "readinessProbe": {"tcpSocket": {"port": 80}, "periodSeconds": 3},
        "startupProbe": {"grpc": {"port": 9000}},
        "lifecycle": {"preStop": {"httpGet": {"port": "http"}}},
        "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "0.5"}},
        "env": [
            {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "B", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
        ],
    }
    volumes: list[Object] = [
        {"name": "empty"},
        {"name": "secret", "secret": {"secretName": "s"}},
        {"name": "settings", "configMap": {"name": "c"}},
        {"name": "host", "hostPath": {"path": "/tmp"}},
        {
            "name": "down",
            "downwardAPI": {"items": [{"path": "n", "fieldRef": {"fieldPath": "metadata.name"}}]},
        },
        {"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}},
        {
            "name": "claim",
            "ephemeral": {
                "volumeClaimTemplate": {
                    "spec": {
                        "accessModes": ["ReadWriteOnce"],
                        "resources": {"requests": {"storage": "1Gi"}},
                    }
                }
            },
        },
    ]
    spec: Object = {
        "containers": [container],
        "initContainers": [{"name": "first", "image": "example.com/first:1", "restartPolicy": "Always"}],
        "volumes": volumes,
        "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}],
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
        ],
        "schedulingGates": [{"name": "example.com/gate"}],
        "serviceAccount": "somebody",
        "hostNetwork": False,
    }
    await _whole(cluster, PODS, pod("rich", spec=spec))


@scenario("a pod's quality of service follows from its requests and limits")
async def quality(cluster: ClusterUnderTest) -> None:
    small = {"cpu": "100m", "memory": "64Mi"}
    cases: dict[str, list[Object]] = {
        "guaranteed": [{"requests": small, "limits": small}],
        "only-limits": [{"limits": small}],
        "burstable": [{"requests": small}],
        "one-of-two": [{"requests": small, "limits": small}, {}],
        "no-memory": [{"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}],
        "other-resource": [{"limits": {"example.com/gpu": "1"}}],
        "best-effort": [{}],
    }
    for name, resources in cases.items():
        containers = [
            {"name": f"c{number}", "image": "example.com/app:1", "resources": each}
            for number, each in enumerate(resources)
        ]
        fields = ("status.qosClass", "spec.containers.*.resources")
        await cluster.created(name, PODS, pod(name, spec={"containers": containers}), *fields)


@scenario("quantities keep their value and are written in canonical form")
async def quantities(cluster: ClusterUnderTest) -> None:
    written = ("1000m", "0.5", "1e3", "2048Mi", "1.5Gi", "1024", "100M", "0.1", "1Ki", "1500000u")
    for number, text in enumerate(written):
        resources = {"requests": {"memory": text, "cpu": text}}
        container = {"name": "main", "image": "example.com/app:1", "resources": resources}
        item = pod(f"n{number}", spec={"containers": [container]})
        await cluster.created(text, PODS, item, "spec.containers.0.resources.requests")


@scenario("workloads get their defaults")
async def workloads(cluster: ClusterUnderTest) -> None:
    selector = {"matchLabels": {"app": "web"}}
    plain: Object = {"selector": selector, "template": template("web")}
    await _whole(cluster, DEPLOYMENTS, {"metadata": {"name": "web"}, "spec": plain})
    recreate = {**plain, "strategy": {"type": "Recreate"}, "replicas": 0}
    await _whole(cluster, DEPLOYMENTS, {"metadata": {"name": "recreate"}, "spec": recreate})
    await _whole(cluster, REPLICA_SETS, {"metadata": {"name": "web"}, "spec": {**plain}})
    claim = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"],
             "resources": {"requests": {"storage": "1Gi"}}}}  # fmt: skip
    stateful = {**plain, "serviceName": "web", "volumeClaimTemplates": [claim]}
    await _whole(cluster, STATEFUL_SETS, {"metadata": {"name": "web"}, "spec": stateful})
    await _whole(cluster, DAEMON_SETS, {"metadata": {"name": "web"}, "spec": plain})


@scenario("Jobs and CronJobs get their defaults")
async def jobs(cluster: ClusterUnderTest) -> None:
    spec = {**pod("x")["spec"], "restartPolicy": "Never"}
    job: Object = {"metadata": {"name": "once"}, "spec": {"template": {"spec": spec}}}
    made = await cluster.created("a job", JOBS, job)
    cluster.saw("its spec", made["spec"])
    cluster.saw("its status", made["status"])
    cluster.saw("its annotations", made["metadata"].get("annotations"))
    indexed = {"template": {"spec": spec}, "completionMode": "Indexed", "completions": 3}
    await cluster.created("an indexed job", JOBS, {"metadata": {"name": "indexed"}, "spec": indexed}, "spec")
    cron = {"schedule": "@hourly", "jobTemplate": {"spec": {"template": {"spec": spec}}}}
    await _whole(cluster, CRON_JOBS, {"metadata": {"name": "hourly"}, "spec": cron})


@scenario("budgets, Leases and Secrets get their defaults")
async def small_things(cluster: ClusterUnderTest) -> None:
    await _whole(cluster, POD_DISRUPTION_BUDGETS, budget("web", "web", minAvailable=1))
    await _whole(cluster, LEASES, {"metadata": {"name": "lock"}, "spec": {"holderIdentity": "me"}})
    await _whole(cluster, SECRETS, {"metadata": {"name": "key"}, "stringData": {"a": "b"}})


@scenario("Services get their defaults")
async def services(cluster: ClusterUnderTest) -> None:
    ports = [{"port": 80}]
    headless = {"clusterIP": "None", "ports": ports, "selector": {"app": "web"}}
    await _whole(cluster, SERVICES, {"metadata": {"name": "headless"}, "spec": headless})
    external = {"type": "ExternalName", "externalName": "example.com"}
    await _whole(cluster, SERVICES, {"metadata": {"name": "external"}, "spec": external})
    for kind in ("ClusterIP", "NodePort", "LoadBalancer"):
        item = {"metadata": {"name": kind.lower()}, "spec": {"type": kind, "ports": ports}}
        made = await cluster.created(kind, SERVICES, item)
        spec = made["spec"]
        cluster.saw("has an address", [spec["clusterIP"] == spec["clusterIPs"][0], "." in spec["clusterIP"]])
        cluster.saw("has a node port", 30000 <= spec["ports"][0].pop("nodePort", 0) <= 32767)
        cluster.saw("the rest", {**spec, "clusterIP": "", "clusterIPs": []})


@scenario("cluster-scoped objects get their defaults")
async def cluster_wide(cluster: ClusterUnderTest) -> None:
    await _whole(cluster, NODES, node(cluster.unique("worker")))
    await _whole(cluster, PRIORITY_CLASSES, {"metadata": {"name": cluster.unique("high")}, "value": 1000})
    provisioner = {"metadata": {"name": cluster.unique("fast")}, "provisioner": "example.com/fast"}
    await _whole(cluster, STORAGE_CLASSES, provisioner)
    volume = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/tmp"}}
    # Without their finalizers: the controllers that take them off again are another part's subject.
    item = {"metadata": {"name": cluster.unique("volume")}, "spec": volume}
    await cluster.created("a volume", PERSISTENT_VOLUMES, item, "spec", "status")
    forget = merge_patch({"metadata": {"finalizers": None}})
    await cluster.client.patch(PERSISTENT_VOLUMES, cluster.unique("volume"), forget)
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    item = {"metadata": {"name": "claim"}, "spec": claim}
    await cluster.created("a claim", PERSISTENT_VOLUME_CLAIMS, item, "spec", "status")
    await cluster.client.patch(PERSISTENT_VOLUME_CLAIMS, cluster.key("claim"), forget)


@scenario("storage capacity is reported per class and topology, which can't be changed")
async def storage_capacities(cluster: ClusterUnderTest) -> None:
    everywhere = {"matchLabels": {"topology.kubernetes.io/zone": "a"}}
    left: Object = {"storageClassName": "fast", "nodeTopology": everywhere, "capacity": "10Gi"}
    await _whole(cluster, STORAGE_CAPACITIES, {"metadata": {"name": "left"}, **left})
    less = merge_patch({"capacity": "1Gi", "maximumVolumeSize": "512Mi"})
    await cluster.patched("less is left", STORAGE_CAPACITIES, "left", less, WHOLE)
    for field, value in (("storageClassName", "slow"), ("nodeTopology", {})):
        await cluster.patched(f"another {field}", STORAGE_CAPACITIES, "left", merge_patch({field: value}))
    path = STORAGE_CAPACITIES.object_path(cluster.namespace, "left")
    shown = await cluster.asked("", "GET", path, accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    columns = [column["name"] for column in shown.json["columnDefinitions"]]
    cluster.saw("as kubectl shows it", [columns, shown.json["rows"][0]["cells"]])
    await cluster.created("without a class", STORAGE_CAPACITIES, {"metadata": {"name": "none"}})
    negative = {"metadata": {"name": "negative"}, **left, "capacity": "-1"}
    await cluster.created("less than nothing", STORAGE_CAPACITIES, negative)


@scenario("definitions and webhooks get their defaults")
async def extensions(cluster: ClusterUnderTest) -> None:
    group = f"{cluster.namespace}.example.com"
    schema = {"type": "object", "properties": {"spec": {"type": "object"}}}
    definition = {
        "metadata": {"name": f"widgets.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
            ],
        },
    }
    made = await cluster.created("a definition", CUSTOM_RESOURCE_DEFINITIONS, definition)
    cluster.saw("its spec", made["spec"])
    cluster.saw("its generation", made["metadata"].get("generation"))
    webhook = {
        "name": "label.example.com",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Ignore",
        "objectSelector": {"matchLabels": {"nobody": "has-this"}},
        "rules": [
            {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
        ],
    }
    configuration = {"metadata": {"name": cluster.unique("webhooks")}, "webhooks": [webhook]}
    await _whole(cluster, MUTATING_WEBHOOKS, configuration)


@scenario("explicit values are kept")
async def explicit(cluster: ClusterUnderTest) -> None:
    spec = {
        "terminationGracePeriodSeconds": 0,
        "dnsPolicy": "Default",
        "restartPolicy": "OnFailure",
        "schedulerName": "mine",
        "enableServiceLinks": False,
        "tolerations": [{"operator": "Exists"}],
        "automountServiceAccountToken": False,
        "priority": 0,
    }
    await _whole(cluster, PODS, pod("one", spec=spec))
    await _whole(cluster, REPLICA_SETS, replica_set("none"))
    await _whole(cluster, DEPLOYMENTS, deployment("web", minReadySeconds=5, paused=True))
