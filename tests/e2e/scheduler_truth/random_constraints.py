"""Constraints of pods, each a function that adds it to a pod."""

from random import Random
from typing import Any

from tests.e2e.scheduler_truth.random_cluster import NAMESPACES, NODES, Object
from tests.e2e.scheduler_truth.random_nodes import TAINTS, ZONES

__all__ = [
    "APPS",
    "TIERS",
    "add_affinity",
    "add_anti_affinity",
    "add_node_affinity",
    "add_node_selector",
    "add_ports",
    "add_requests",
    "add_spread",
    "add_tolerations",
]

APPS = ("web", "db", "cache")
TIERS = ("front", "back")
_KEYS = ("topology.kubernetes.io/zone", "kubernetes.io/hostname", "disk", "absent")
_CPU = ("100m", "250m", "500m", "1", "1500m", "2", "0.3", "100u")
_MEMORY = ("128Mi", "500M", "1Gi", "1.5Gi", "2Gi", "2000000k")


def add_requests(rng: Random, pod: Object) -> None:
    """Containers, init containers, sidecars, overhead and the pod as a whole, in any mixture."""
    spec = pod["spec"]
    for container in spec["containers"]:
        container["resources"] = _resources(rng)
    if rng.random() < 0.3:
        spec["initContainers"] = [
            {
                "name": f"init-{number}",
                "image": "none",
                "resources": _resources(rng),
                **({"restartPolicy": "Always"} if rng.random() < 0.5 else {}),
            }
            for number in range(rng.randint(1, 3))
        ]
    if rng.random() < 0.15:
        # As large as all containers together can be: smaller ones are refused.
        spec["resources"] = {"requests": {"cpu": rng.choice(("8", "9")), "memory": "12Gi"}}
        if rng.random() < 0.7:
            for container in (*spec["containers"], *spec.get("initContainers", ())):
                container.pop("resources", None)
            spec["resources"] = {"requests": {"cpu": rng.choice(_CPU), "memory": rng.choice(_MEMORY)}}


def _resources(rng: Random) -> Object:
    requests: dict[str, str] = {}
    if rng.random() < 0.8:
        requests["cpu"] = rng.choice(_CPU)
    if rng.random() < 0.6:
        requests["memory"] = rng.choice(_MEMORY)
    if rng.random() < 0.15:
        requests["ephemeral-storage"] = rng.choice(("1Gi", "8Gi", "15Gi"))
    limits: dict[str, str] = {}
    if rng.random() < 0.2:
        requests["example.com/gpu"] = limits["example.com/gpu"] = str(rng.randint(1, 2))
    if requests and rng.random() < 0.1:
        requests["hugepages-2Mi"] = limits["hugepages-2Mi"] = rng.choice(("32Mi", "64Mi"))
        requests.setdefault("cpu", "100m")
    return {"requests": requests, "limits": limits} if limits else {"requests": requests}


def add_tolerations(rng: Random, pod: Object) -> None:
    choices: list[Object] = [
        {"operator": "Exists"},
        {"key": "dedicated", "operator": "Exists"},
        {"key": "dedicated", "operator": "Equal", "value": "batch"},
        {"key": "dedicated", "value": "web", "effect": "NoExecute"},
        {"key": "dedicated", "value": "web", "effect": "NoSchedule"},
        {"key": "spot", "operator": "Exists", "effect": "NoSchedule"},
        {"key": "spot", "value": ""},
        {"operator": "Exists", "effect": "NoExecute"},
        {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"},
        {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoExecute"},
        *({"key": taint["key"], "operator": "Exists"} for taint in TAINTS),
    ]
    pod["spec"].setdefault("tolerations", []).extend(rng.sample(choices, rng.randint(1, 3)))


def add_node_selector(rng: Random, pod: Object) -> None:
    pod["spec"]["nodeSelector"] = dict(
        rng.sample([("disk", "ssd"), ("topology.kubernetes.io/zone", rng.choice(ZONES))], 1)
    )


def add_node_affinity(rng: Random, pod: Object) -> None:
    terms = [_node_term(rng) for _ in range(rng.choice((1, 1, 2)))]
    affinity = pod["spec"].setdefault("affinity", {})
    affinity["nodeAffinity"] = {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}
    }


def _node_term(rng: Random) -> Object:
    expressions: list[Object] = [
        {"key": "disk", "operator": "In", "values": ["ssd", "nvme"]},
        {"key": "disk", "operator": "NotIn", "values": ["hdd"]},
        {"key": "disk", "operator": "Exists"},
        {"key": "disk", "operator": "DoesNotExist"},
        {"key": "generation", "operator": "Gt", "values": [rng.choice(("3", "4", "0"))]},
        {"key": "generation", "operator": "Lt", "values": [rng.choice(("5", "6", "0"))]},
        {"key": "topology.kubernetes.io/zone", "operator": "In", "values": rng.sample(ZONES, 2)},
        {"key": "topology.kubernetes.io/zone", "operator": "NotIn", "values": [rng.choice(ZONES)]},
    ]
    fields: list[Object] = [
        {"key": "metadata.name", "operator": operator, "values": [rng.choice(NODES)]}
        for operator in ("In", "In", "NotIn")
    ]
    term: Object = {}
    if rng.random() < 0.9:
        term["matchExpressions"] = rng.sample(expressions, rng.choice((1, 1, 2)))
    if rng.random() < 0.25:
        term["matchFields"] = rng.sample(fields, rng.choice((1, 1, 2)))
    return term


def add_ports(rng: Random, pod: Object) -> None:
    ports = []
    for number in rng.sample((8080, 8081, 9000), rng.choice((1, 1, 2))):
        port: Object = {"containerPort": 80 + number, "hostPort": number}
        if rng.random() < 0.5:
            port["hostIP"] = rng.choice(("0.0.0.0", "127.0.0.1", "10.0.0.1"))
        if rng.random() < 0.3:
            port["protocol"] = "UDP"
        ports.append(port)
    containers = pod["spec"].get("initContainers") or pod["spec"]["containers"]
    rng.choice(containers)["ports"] = ports


def _selector(rng: Random) -> Object | None:
    return rng.choice(
        (
            {"matchLabels": {"app": rng.choice(APPS)}},
            {"matchLabels": {"app": rng.choice(APPS)}},
            {"matchExpressions": [{"key": "app", "operator": "In", "values": rng.sample(APPS, 2)}]},
            {"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["back"]}]},
            {"matchExpressions": [{"key": "tier", "operator": "Exists"}]},
            {"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]},
            {},
            None,
        )
    )


def _pod_term(rng: Random) -> Object:
    term: Object = {"topologyKey": rng.choices(_KEYS, (5, 4, 2, 1))[0]}
    if (selector := _selector(rng)) is not None:
        term["labelSelector"] = selector
    if rng.random() < 0.2:
        term["namespaces"] = rng.sample(tuple(NAMESPACES), rng.randint(1, 2))
    if rng.random() < 0.25:
        term["namespaceSelector"] = rng.choice(
            (
                {},
                {"matchLabels": {"team": "red"}},
                {"matchExpressions": [{"key": "team", "operator": "Exists"}]},
            )
        )
    if selector and "tier" not in str(selector) and rng.random() < 0.25:
        term[rng.choice(("matchLabelKeys", "mismatchLabelKeys"))] = ["tier"]
    return term


def add_affinity(rng: Random, pod: Object) -> None:
    _require(rng, pod, "podAffinity", rng.choice((1, 1, 2)))


def add_anti_affinity(rng: Random, pod: Object) -> None:
    _require(rng, pod, "podAntiAffinity", rng.choice((1, 1, 2)))


def _require(rng: Random, pod: Object, kind: str, count: int) -> None:
    terms = [_pod_term(rng) for _ in range(count)]
    pod["spec"].setdefault("affinity", {})[kind] = {"requiredDuringSchedulingIgnoredDuringExecution": terms}


def add_spread(rng: Random, pod: Object) -> None:
    constraints = []
    for key in rng.sample(_KEYS[:3], rng.choice((1, 1, 2))):
        selector = _selector(rng)
        constraint: dict[str, Any] = {
            "topologyKey": key,
            "maxSkew": rng.choice((1, 1, 2)),
            "whenUnsatisfiable": rng.choices(("DoNotSchedule", "ScheduleAnyway"), (6, 1))[0],
        }
        if selector is not None:
            constraint["labelSelector"] = selector
        if constraint["whenUnsatisfiable"] == "DoNotSchedule" and rng.random() < 0.25:
            constraint["minDomains"] = rng.randint(1, 4)
        for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if rng.random() < 0.35:
                constraint[policy] = rng.choice(("Honor", "Ignore"))
        if selector and "tier" not in str(selector) and rng.random() < 0.25:
            constraint["matchLabelKeys"] = ["tier"]
        constraints.append(constraint)
    pod["spec"]["topologySpreadConstraints"] = constraints
