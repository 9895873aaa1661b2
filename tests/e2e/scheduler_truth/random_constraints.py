"""What a pod can ask for, each a function that adds it to a pod."""

from random import Random
from typing import Any

from tests.e2e.scheduler_truth.random_nodes import TAINTS, ZONES
from tests.e2e.scheduler_truth.worlds import NAMESPACES, NODES, Object

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


def add_requests(dice: Random, pod: Object) -> None:
    """Containers, init containers, sidecars, overhead and the pod as a whole, in any mixture."""
    spec = pod["spec"]
    for container in spec["containers"]:
        container["resources"] = _resources(dice)
    if dice.random() < 0.3:
        spec["initContainers"] = [
            {
                "name": f"init-{number}",
                "image": "none",
                "resources": _resources(dice),
                **({"restartPolicy": "Always"} if dice.random() < 0.5 else {}),
            }
            for number in range(dice.randint(1, 3))
        ]
    if dice.random() < 0.15:
        # As large as all containers together can be: smaller ones are refused.
        spec["resources"] = {"requests": {"cpu": dice.choice(("8", "9")), "memory": "12Gi"}}
        if dice.random() < 0.7:
            for container in (*spec["containers"], *spec.get("initContainers", ())):
                container.pop("resources", None)
            spec["resources"] = {"requests": {"cpu": dice.choice(_CPU), "memory": dice.choice(_MEMORY)}}


def _resources(dice: Random) -> Object:
    requests: dict[str, str] = {}
    if dice.random() < 0.8:
        requests["cpu"] = dice.choice(_CPU)
    if dice.random() < 0.6:
        requests["memory"] = dice.choice(_MEMORY)
    if dice.random() < 0.15:
        requests["ephemeral-storage"] = dice.choice(("1Gi", "8Gi", "15Gi"))
    limits: dict[str, str] = {}
    if dice.random() < 0.2:
        requests["example.com/gpu"] = limits["example.com/gpu"] = str(dice.randint(1, 2))
    if requests and dice.random() < 0.1:
        requests["hugepages-2Mi"] = limits["hugepages-2Mi"] = dice.choice(("32Mi", "64Mi"))
        requests.setdefault("cpu", "100m")
    return {"requests": requests, "limits": limits} if limits else {"requests": requests}


def add_tolerations(dice: Random, pod: Object) -> None:
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
    pod["spec"].setdefault("tolerations", []).extend(dice.sample(choices, dice.randint(1, 3)))


def add_node_selector(dice: Random, pod: Object) -> None:
    pod["spec"]["nodeSelector"] = dict(
        dice.sample([("disk", "ssd"), ("topology.kubernetes.io/zone", dice.choice(ZONES))], 1)
    )


def add_node_affinity(dice: Random, pod: Object) -> None:
    terms = [_node_term(dice) for _ in range(dice.choice((1, 1, 2)))]
    affinity = pod["spec"].setdefault("affinity", {})
    affinity["nodeAffinity"] = {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}
    }


def _node_term(dice: Random) -> Object:
    expressions: list[Object] = [
        {"key": "disk", "operator": "In", "values": ["ssd", "nvme"]},
        {"key": "disk", "operator": "NotIn", "values": ["hdd"]},
        {"key": "disk", "operator": "Exists"},
        {"key": "disk", "operator": "DoesNotExist"},
        {"key": "generation", "operator": "Gt", "values": [dice.choice(("3", "4", "0"))]},
        {"key": "generation", "operator": "Lt", "values": [dice.choice(("5", "6", "0"))]},
        {"key": "topology.kubernetes.io/zone", "operator": "In", "values": dice.sample(ZONES, 2)},
        {"key": "topology.kubernetes.io/zone", "operator": "NotIn", "values": [dice.choice(ZONES)]},
    ]
    fields: list[Object] = [
        {"key": "metadata.name", "operator": operator, "values": [dice.choice(NODES)]}
        for operator in ("In", "In", "NotIn")
    ]
    term: Object = {}
    if dice.random() < 0.9:
        term["matchExpressions"] = dice.sample(expressions, dice.choice((1, 1, 2)))
    if dice.random() < 0.25:
        term["matchFields"] = dice.sample(fields, dice.choice((1, 1, 2)))
    return term


def add_ports(dice: Random, pod: Object) -> None:
    ports = []
    for number in dice.sample((8080, 8081, 9000), dice.choice((1, 1, 2))):
        port: Object = {"containerPort": 80 + number, "hostPort": number}
        if dice.random() < 0.5:
            port["hostIP"] = dice.choice(("0.0.0.0", "127.0.0.1", "10.0.0.1"))
        if dice.random() < 0.3:
            port["protocol"] = "UDP"
        ports.append(port)
    containers = pod["spec"].get("initContainers") or pod["spec"]["containers"]
    dice.choice(containers)["ports"] = ports


def _selector(dice: Random) -> Object | None:
    return dice.choice(
        (
            {"matchLabels": {"app": dice.choice(APPS)}},
            {"matchLabels": {"app": dice.choice(APPS)}},
            {"matchExpressions": [{"key": "app", "operator": "In", "values": dice.sample(APPS, 2)}]},
            {"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["back"]}]},
            {"matchExpressions": [{"key": "tier", "operator": "Exists"}]},
            {"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]},
            {},
            None,
        )
    )


def _pod_term(dice: Random) -> Object:
    term: Object = {"topologyKey": dice.choices(_KEYS, (5, 4, 2, 1))[0]}
    if (selector := _selector(dice)) is not None:
        term["labelSelector"] = selector
    if dice.random() < 0.2:
        term["namespaces"] = dice.sample(tuple(NAMESPACES), dice.randint(1, 2))
    if dice.random() < 0.25:
        term["namespaceSelector"] = dice.choice(
            (
                {},
                {"matchLabels": {"team": "red"}},
                {"matchExpressions": [{"key": "team", "operator": "Exists"}]},
            )
        )
    if selector and "tier" not in str(selector) and dice.random() < 0.25:
        term[dice.choice(("matchLabelKeys", "mismatchLabelKeys"))] = ["tier"]
    return term


def add_affinity(dice: Random, pod: Object) -> None:
    _require(dice, pod, "podAffinity", dice.choice((1, 1, 2)))


def add_anti_affinity(dice: Random, pod: Object) -> None:
    _require(dice, pod, "podAntiAffinity", dice.choice((1, 1, 2)))


def _require(dice: Random, pod: Object, kind: str, count: int) -> None:
    terms = [_pod_term(dice) for _ in range(count)]
    pod["spec"].setdefault("affinity", {})[kind] = {"requiredDuringSchedulingIgnoredDuringExecution": terms}


def add_spread(dice: Random, pod: Object) -> None:
    constraints = []
    for key in dice.sample(_KEYS[:3], dice.choice((1, 1, 2))):
        selector = _selector(dice)
        constraint: dict[str, Any] = {
            "topologyKey": key,
            "maxSkew": dice.choice((1, 1, 2)),
            "whenUnsatisfiable": dice.choices(("DoNotSchedule", "ScheduleAnyway"), (6, 1))[0],
        }
        if selector is not None:
            constraint["labelSelector"] = selector
        if constraint["whenUnsatisfiable"] == "DoNotSchedule" and dice.random() < 0.25:
            constraint["minDomains"] = dice.randint(1, 4)
        for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if dice.random() < 0.35:
                constraint[policy] = dice.choice(("Honor", "Ignore"))
        if selector and "tier" not in str(selector) and dice.random() < 0.25:
            constraint["matchLabelKeys"] = ["tier"]
        constraints.append(constraint)
    pod["spec"]["topologySpreadConstraints"] = constraints
