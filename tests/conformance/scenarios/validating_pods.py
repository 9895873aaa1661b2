"""What is refused of pods, new ones and changed ones, and which field is named."""

from typing import Any

from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube.api_resources import Object, json_patch, merge_patch
from tests.conformance.cluster_under_test import ClusterUnderTest
from tests.conformance.objects import pod
from tests.conformance.scenario import scenario


async def _refused(cluster: ClusterUnderTest, items: dict[str, Object]) -> None:
    for what, item in items.items():
        await cluster.created(what, PODS, item)


def _containers(*containers: Object) -> Object:
    return {"containers": [{"name": "main", "image": "example.com/app:1", **each} for each in containers]}


@scenario("a preference weighs between 1 and 100")
async def weights(cluster: ClusterUnderTest) -> None:
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    for weight in (-50, 0, 1, 100, 101):
        preferred = [{"weight": weight, "preference": term}]
        affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
        await cluster.created(f"node {weight}", PODS, pod(f"node-{abs(weight)}", spec={"affinity": affinity}))
        pod_term = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "zone"}
        weighted = [{"weight": weight, "podAffinityTerm": pod_term}]
        affinity = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": weighted}}
        await cluster.created(f"pod {weight}", PODS, pod(f"pod-{abs(weight)}", spec={"affinity": affinity}))


@scenario("affinity terms must be complete and use operators that exist")
async def affinity(cluster: ClusterUnderTest) -> None:
    required = "requiredDuringSchedulingIgnoredDuringExecution"

    def node_affinity(*terms: Object) -> Object:
        return {"affinity": {"nodeAffinity": {required: {"nodeSelectorTerms": list(terms)}}}}

    def pod_affinity(**term: Any) -> Object:
        return {"affinity": {"podAffinity": {required: [term]}}}

    def expression(**expression: Any) -> Object:
        return {"matchExpressions": [expression]}

    selector = {"matchLabels": {"app": "web"}}
    cases = {
        "no terms": node_affinity(),
        "an unknown operator": node_affinity(expression(key="a", operator="Like", values=["b"])),
        "In without values": node_affinity(expression(key="a", operator="In")),
        "Exists with values": node_affinity(expression(key="a", operator="Exists", values=["b"])),
        "Gt of no number": node_affinity(expression(key="a", operator="Gt", values=["b"])),
        "no topology key": pod_affinity(labelSelector=selector),
        "matchLabelKeys without selector": pod_affinity(topologyKey="zone", matchLabelKeys=["a"]),
        "a bad selector": pod_affinity(topologyKey="zone", labelSelector=expression(key="a", operator="In")),
        "matchLabelKeys of a selected label": pod_affinity(
            topologyKey="zone", labelSelector=selector, matchLabelKeys=["app"]
        ),
    }
    await _refused(cluster, {what: pod("x", spec=spec) for what, spec in cases.items()})


@scenario("requests must not exceed limits, and quantities must be whole where counting")
async def resources(cluster: ClusterUnderTest) -> None:
    cases = {
        "more requested than allowed": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}},
        "negative": {"requests": {"cpu": "-1"}},
        "half a device": {"limits": {"example.com/gpu": "0.5"}},
        "a device that is only requested": {"requests": {"example.com/gpu": "1"}},
        "a resource nobody knows": {"requests": {"frobs": "1"}},
        "hardly any cpu": {"requests": {"cpu": "0.1m"}},
    }
    for what, each in cases.items():
        await cluster.created(what, PODS, pod("x", spec=_containers({"resources": each})))
    unreadable = pod("x", spec=_containers({"resources": {"requests": {"cpu": "lots"}}}))
    await cluster.created("no quantity", PODS, unreadable)


@scenario("containers must be named, once, and have an image")
async def containers(cluster: ClusterUnderTest) -> None:
    probe = {"httpGet": {"port": 80}}
    cases: dict[str, Object] = {
        "none": {"containers": []},
        "two of a name": _containers({}, {}),
        "a bad name": _containers({"name": "Not Good"}),
        "no image": {"containers": [{"name": "main"}]},
        "a port too high": _containers({"ports": [{"containerPort": 70000}]}),
        "two ports of a name": _containers(
            {"ports": [{"containerPort": 1, "name": "a"}, {"containerPort": 2, "name": "a"}]}
        ),
        "a protocol": _containers({"ports": [{"containerPort": 1, "protocol": "ICMP"}]}),
        "a mount of nothing": _containers({"volumeMounts": [{"name": "data", "mountPath": "/data"}]}),
        "a variable's name": _containers({"env": [{"name": "a=b"}]}),
        "a pull policy": _containers({"imagePullPolicy": "Sometimes"}),
        "a liveness probe of two successes": _containers({"livenessProbe": {**probe, "successThreshold": 2}}),
        "a probe of nothing": _containers({"readinessProbe": {"periodSeconds": 3}}),
        "restartPolicy Never in a sidecar": {
            **_containers({}),
            "initContainers": [{"name": "i", "image": "example.com/i:1", "restartPolicy": "Sometimes"}],
        },
        "an init container of the same name": {
            **_containers({}),
            "initContainers": [{"name": "main", "image": "example.com/i:1"}],
        },
    }
    await _refused(cluster, {what: {"metadata": {"name": "x"}, "spec": spec} for what, spec in cases.items()})


@scenario("a pod's own settings are checked")
async def pod_settings(cluster: ClusterUnderTest) -> None:
    spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    gate = {"name": "example.com/gate"}
    cases: dict[str, Object] = {
        "restart policy": {"restartPolicy": "Sometimes"},
        "DNS policy": {"dnsPolicy": "Magic"},
        "no skew": {"topologySpreadConstraints": [{**spread, "maxSkew": 0}]},
        "no topology key": {"topologySpreadConstraints": [{**spread, "topologyKey": ""}]},
        "an unknown answer": {"topologySpreadConstraints": [{**spread, "whenUnsatisfiable": "Panic"}]},
        "the same twice": {"topologySpreadConstraints": [spread, spread]},
        "minDomains of a preference": {
            "topologySpreadConstraints": [{**spread, "whenUnsatisfiable": "ScheduleAnyway", "minDomains": 2}]
        },
        "a toleration of every key and a value": {"tolerations": [{"operator": "Exists", "value": "a"}]},
        "a toleration of nothing": {"tolerations": [{"operator": "Equal", "value": "a"}]},
        "seconds of another effect": {
            "tolerations": [{"key": "a", "effect": "NoSchedule", "tolerationSeconds": 3}]
        },
        "a toleration's effect": {"tolerations": [{"key": "a", "effect": "Explode"}]},
        "two gates of a name": {"schedulingGates": [gate, gate]},
        "a gate's name": {"schedulingGates": [{"name": "not a name"}]},
        "gated but placed": {"schedulingGates": [gate], "nodeName": "worker"},
        "a negative grace period": {"terminationGracePeriodSeconds": -1},
        "no time to be active": {"activeDeadlineSeconds": 0},
        "a node selector": {"nodeSelector": {"a": "b c"}},
        "a node's name": {"nodeName": "Not_Good"},
        "two volumes of a name": {"volumes": [{"name": "a", "emptyDir": {}}, {"name": "a", "emptyDir": {}}]},
        "a volume of two kinds": {"volumes": [{"name": "a", "emptyDir": {}, "hostPath": {"path": "/tmp"}}]},
        "a host port that is another": {
            "hostNetwork": True, **_containers({"ports": [{"containerPort": 1, "hostPort": 2}]})
        },
        "a priority of one's own": {"priority": 17},
        "a priority class nobody made": {"priorityClassName": cluster.unique("nobody")},
        "a host name": {"hostname": "Not_Good"},
    }  # fmt: skip
    await _refused(cluster, {what: pod("x", spec=spec) for what, spec in cases.items()})


@scenario("most of a pod can't be changed once it exists")
async def pod_updates(cluster: ClusterUnderTest) -> None:
    await cluster.create(PODS, pod("one", node="worker"))
    fields = ("spec.containers.0.image", "spec.tolerations.*.key", "spec.terminationGracePeriodSeconds")
    container = {"name": "main", "image": "example.com/app:2"}
    toleration = [{"key": "a", "operator": "Exists"}]
    for what, change in {
        "the image": [{"op": "replace", "path": "/spec/containers/0/image", "value": "example.com/app:2"}],
        "another node": [{"op": "replace", "path": "/spec/nodeName", "value": "other"}],
        "a container more": [
            {"op": "add", "path": "/spec/containers/-", "value": {**container, "name": "b"}}
        ],
        "a toleration less": [{"op": "replace", "path": "/spec/tolerations", "value": toleration}],
        "a toleration more": [{"op": "add", "path": "/spec/tolerations/-", "value": toleration[0]}],
        "the grace period": [{"op": "replace", "path": "/spec/terminationGracePeriodSeconds", "value": 5}],
        "a gate": [{"op": "add", "path": "/spec/schedulingGates", "value": [{"name": "example.com/gate"}]}],
        "an active deadline": [{"op": "add", "path": "/spec/activeDeadlineSeconds", "value": 60}],
        "a longer one": [{"op": "replace", "path": "/spec/activeDeadlineSeconds", "value": 90}],
    }.items():
        await cluster.patched(what, PODS, "one", json_patch(change), *fields)
    resources = [{"op": "add", "path": "/spec/containers/0/resources", "value": {"requests": {"cpu": "1"}}}]
    await cluster.patched("resources", PODS, "one", json_patch(resources))


@scenario("a gated pod may be given a narrower choice of nodes, one that is not may not")
async def gated_updates(cluster: ClusterUnderTest) -> None:
    gate = {"schedulingGates": [{"name": "example.com/gate"}]}
    await cluster.create(PODS, pod("gated", spec=gate))
    await cluster.create(PODS, pod("free"))
    selector = merge_patch({"spec": {"nodeSelector": {"zone": "a"}}})
    for name in ("gated", "free"):
        await cluster.patched(f"a node selector, {name}", PODS, name, selector, "spec.nodeSelector")
    other = merge_patch({"spec": {"nodeSelector": {"zone": "b"}}})
    await cluster.patched("another value", PODS, "gated", other)
    more = merge_patch({"spec": {"nodeSelector": {"disk": "fast"}}})
    await cluster.patched("one more", PODS, "gated", more, "spec.nodeSelector")
    opened = json_patch([{"op": "remove", "path": "/spec/schedulingGates"}])
    await cluster.patched(
        "the gate opened", PODS, "gated", opened, "status.conditions", "spec.schedulingGates"
    )
    closed = merge_patch({"spec": gate})
    await cluster.patched("and closed", PODS, "gated", closed)
