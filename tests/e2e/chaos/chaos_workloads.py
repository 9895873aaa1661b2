"""The contents of the cluster: workloads and budgets of every kind, and unrelated objects.

The label `app` names the workload of a pod; it is used once in a namespace.
"""

from typing import Any

from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube.api_resources import (
    DAEMON_SETS,
    DEPLOYMENTS,
    NAMESPACES,
    POD_DISRUPTION_BUDGETS,
    REPLICA_SETS,
    STATEFUL_SETS,
    ApiResource,
    Object,
)
from tests.e2e.chaos.object_versions import FORGED, MIGRATION_ID, MIGRATION_STATUS
from tests.stories import objects
from tests.stories.objects import PRIORITY_CLASSES, RESOURCE_QUOTAS

__all__ = [
    "CANT_GROW",
    "FLAPPING",
    "HOME",
    "MOVED_NAMESPACES",
    "STEADY",
    "bare_pods",
    "initial_replicas",
    "stock",
]

HOME = "rescheduler-home"
SHOP, BANK, FULL, BYSTANDERS = "shop", "bank", "full", "bystanders"
MOVED_NAMESPACES = (SHOP, BANK, FULL)
HIGH = "high"
CROWD_REPLICAS = 16
CANT_GROW = {f"{FULL}/quota", f"{BANK}/important"}

_FLAPPING = {
    "match": {"labels": {"app": "flapping"}},
    "readiness": {"after": "1s", "ready": "25s", "unready": "3s"},
}
STEADY = {
    "pods": [
        {"match": {"labels": {"app": "slow"}}, "startup": "5s"},
        {"startup": "1s", "termination": "1s"},
    ]
}
"""Of the kubelets: starting takes longer than an adoption."""
FLAPPING = {"pods": [_FLAPPING, *STEADY["pods"]]}
"""The same, but some pods are unready for a while again and again."""

_DEPLOYMENTS: tuple[tuple[str, str, int, Object | None, Object], ...] = (
    # namespace, app, replicas, budget, more of its spec
    (SHOP, "single", 1, None, {}),
    (SHOP, "single-min", 1, {"minAvailable": 1}, {}),
    (SHOP, "single-zero", 1, {"maxUnavailable": 0}, {}),
    (SHOP, "three", 3, None, {}),
    (SHOP, "three-min", 3, {"minAvailable": 3}, {}),
    (SHOP, "three-percent", 3, {"minAvailable": "100%"}, {}),
    (SHOP, "settling", 3, {"maxUnavailable": 1}, {"minReadySeconds": 4}),
    (SHOP, "slow", 3, {"maxUnavailable": 0}, {}),
    (BANK, "three-zero", 3, {"maxUnavailable": 0}, {}),
    (BANK, "three-one", 3, {"maxUnavailable": 1}, {}),
    (BANK, "flapping", 3, {"maxUnavailable": 1}, {}),
    (BANK, "recreated", 1, None, {"strategy": {"type": "Recreate"}}),
    (BANK, "unhealthy-allowed", 2, {"minAvailable": 2, "unhealthyPodEvictionPolicy": "AlwaysAllow"}, {}),
    (FULL, "quota", 3, None, {}),
)
_STATEFUL_SETS: tuple[tuple[str, str, int, Object | None], ...] = (
    (SHOP, "ordered", 3, None),
    (BANK, "ordered-one", 3, {"maxUnavailable": 1}),
    (BANK, "ordered-single", 1, None),
)
_BARE_PODS: tuple[tuple[str, str, Object | None], ...] = (
    (SHOP, "bare-1", None),
    (SHOP, "bare-2", None),
    (BANK, "bare-3", None),
    (BANK, "bare-min", {"minAvailable": 1}),
)
_FORGED_LABELS = {MIGRATION_ID: "forged", MIGRATION_STATUS: "in-progress"}
_FORGED_ANNOTATIONS = {
    FORGED: "true",
    "scheduler.alpha.kubernetes.io/original-pod": "00000000-0000-0000-0000-000000000000",
    "scheduler.alpha.kubernetes.io/original-pod-name": "forged",
}
_DISABLED = {"scheduler.alpha.kubernetes.io/rescheduling": "disabled"}


def initial_replicas(crowd: int = 0) -> dict[str, int]:
    """Return the replicas of the Deployments, by key."""
    return {f"{namespace}/{app}": replicas for namespace, app, replicas, _, _ in _deployments(crowd)}


def _deployments(crowd: int) -> tuple[tuple[str, str, int, Object | None, Object], ...]:
    """Return those that every round has, and a crowd of larger ones."""
    budgets: tuple[Object | None, ...] = (
        None,
        {"maxUnavailable": 0},
        {"maxUnavailable": 1},
        {"minAvailable": "90%"},
    )
    return _DEPLOYMENTS + tuple(
        ((SHOP, BANK)[number % 2], f"crowd-{number}", CROWD_REPLICAS, budgets[number % len(budgets)], {})
        for number in range(crowd)
    )


def stock(kubelet: str, crowd: int = 0) -> list[tuple[ApiResource[Any], Object]]:
    """Return the objects in the order in which they can be created."""
    spec = _spec(kubelet)
    names = (HOME, SHOP, BANK, FULL, BYSTANDERS)
    found: list[tuple[ApiResource[Any], Object]] = [
        (NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}) for name in names
    ]
    high = {"apiVersion": PRIORITY_CLASSES.api_version, "metadata": {"name": HIGH}, "value": 1000}
    found.append((PRIORITY_CLASSES, high))
    for namespace, app, replicas, budget, more in _deployments(crowd):
        # A thousand pods leave half of 50 nodes free.
        pod = _spec(kubelet, cpu="200m") if app.startswith("crowd-") else spec
        found.append((DEPLOYMENTS, objects.deployment(namespace, app, replicas, pod, **more)))
        found += _budget(namespace, app, budget)
    important = {**objects.pod_spec(kubelet, cpu="5"), "priorityClassName": HIGH}
    found.append((DEPLOYMENTS, objects.deployment(BANK, "important", 1, important)))
    found.append((REPLICA_SETS, objects.replica_set(SHOP, "plain", 2, spec)))
    for namespace, app, replicas, budget in _STATEFUL_SETS:
        made = objects.deployment(namespace, app, replicas, spec, serviceName=app)
        found.append((STATEFUL_SETS, {**made, "kind": "StatefulSet"}))
        found += _budget(namespace, app, budget)
    found += [(PODS.as_json, pod) for pod in bare_pods(kubelet)]
    for namespace, app, budget in _BARE_PODS:
        found += _budget(namespace, app, budget)
    found += _others(kubelet, spec)
    # Last, when the pods that it counts are there: no room for a copy.
    quota = {"metadata": {"namespace": FULL, "name": "full"}, "spec": {"hard": {"pods": "3"}}}
    found.append((RESOURCE_QUOTAS, {"apiVersion": "v1", "kind": "ResourceQuota", **quota}))
    return found


def bare_pods(kubelet: str) -> list[Object]:
    return [objects.pod(namespace, app, _spec(kubelet)) for namespace, app, _ in _BARE_PODS]


def _spec(kubelet: str, cpu: str = "400m") -> Object:
    return objects.pod_spec(kubelet, cpu=cpu, terminationGracePeriodSeconds=3)


def _others(kubelet: str, spec: Object) -> list[tuple[ApiResource[Any], Object]]:
    """A DaemonSet, and pods with marks that no migration has made."""
    daemons = objects.deployment(BYSTANDERS, "every-node", 1, objects.pod_spec(kubelet, cpu="10m"))
    del daemons["spec"]["replicas"]
    template = objects.deployment(BYSTANDERS, "marked-template", 2, spec)
    template["spec"]["template"]["metadata"] |= {
        "labels": {"app": "marked-template", **_FORGED_LABELS},
        "annotations": _FORGED_ANNOTATIONS,
    }
    found: list[tuple[ApiResource[Any], Object]] = [
        (DAEMON_SETS, {**daemons, "kind": "DaemonSet"}),
        (DEPLOYMENTS, template),
    ]
    for name in ("marked-1", "marked-2", "marked-3"):
        labels = {"app": name, **_FORGED_LABELS, **_DISABLED}
        pod = objects.pod(BYSTANDERS, name, spec, labels=labels, annotations=_FORGED_ANNOTATIONS)
        found.append((PODS.as_json, pod))
    return found


def _budget(namespace: str, app: str, spec: Object | None) -> list[tuple[ApiResource[Any], Object]]:
    return [(POD_DISRUPTION_BUDGETS, objects.budget(namespace, app, app, **spec))] if spec else []
