"""Small objects for the facts: only what matters to them."""

from datetime import datetime
from typing import Any

from rescheduler.kube.api_resources import Object, api_resource, key_of
from tests.testbed.fake_kubelet.nodes import KUBELET_LABEL

__all__ = [
    "ENDPOINT_SLICES",
    "HOSTNAME",
    "LIMIT_RANGES",
    "PRIORITY_CLASSES",
    "RESOURCE_QUOTAS",
    "SERVICES",
    "anti_affinity",
    "budget",
    "deployment",
    "key",
    "pod",
    "pod_spec",
    "prefers",
    "ready_since",
    "replica_set",
    "requires",
    "service",
]

SERVICES = api_resource("", "v1", "services", "Service")
RESOURCE_QUOTAS = api_resource("", "v1", "resourcequotas", "ResourceQuota")
LIMIT_RANGES = api_resource("", "v1", "limitranges", "LimitRange")
ENDPOINT_SLICES = api_resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
PRIORITY_CLASSES = api_resource(
    "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False
)
HOSTNAME = "kubernetes.io/hostname"


def pod_spec(kubelet: str, *, cpu: str = "100m", **more: Any) -> Object:
    """Return the spec of a pod for the nodes of one fake kubelet only."""
    container = {
        "name": "main",
        "image": "shop/web:1",
        "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}},
    }
    return {"nodeSelector": {KUBELET_LABEL: kubelet}, "containers": [container]} | more


def pod(namespace: str, name: str, spec: Object, **metadata: Any) -> Object:
    metadata = {"namespace": namespace, "name": name, "labels": {"app": name}} | metadata
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def deployment(namespace: str, app: str, replicas: int, spec: Object, **more: Any) -> Object:
    return _workload("Deployment", namespace, app, replicas, spec, more)


def replica_set(namespace: str, app: str, replicas: int, spec: Object, **more: Any) -> Object:
    return _workload("ReplicaSet", namespace, app, replicas, spec, more)


def _workload(kind: str, namespace: str, app: str, replicas: int, spec: Object, more: Object) -> Object:
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"namespace": namespace, "name": app},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": app}},
            "template": {"metadata": {"labels": {"app": app}}, "spec": spec},
            **more,
        },
    }


def service(namespace: str, app: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"namespace": namespace, "name": app},
        "spec": {"selector": {"app": app}, "ports": [{"port": 80}]},
    }


def budget(namespace: str, name: str, app: str, **spec: Any) -> Object:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"selector": {"matchLabels": {"app": app}}, **spec},
    }


# -- where pods may go


def anti_affinity(app: str) -> Object:
    """Never two of one revision on a node, as Deployments that roll out on few nodes have it."""
    term = {
        "labelSelector": {"matchLabels": {"app": app}},
        "matchLabelKeys": ["pod-template-hash"],
        "topologyKey": HOSTNAME,
    }
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def requires(node: str) -> Object:
    terms = {"nodeSelectorTerms": [_on(node)]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def prefers(node: str, weight: int = 100) -> Object:
    preference = {"weight": weight, "preference": _on(node)}
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preference]}}


def _on(node: str) -> Object:
    return {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [node]}]}


# -- what objects say


def key(item: Object) -> str:
    return key_of(item["metadata"].get("namespace", ""), item["metadata"]["name"])


def ready_since(pod: Object) -> datetime | None:
    """None while it is not ready, or on its way out."""
    if "deletionTimestamp" in pod["metadata"]:
        return None
    for condition in pod.get("status", {}).get("conditions") or ():
        if condition["type"] == "Ready" and condition["status"] == "True":
            return datetime.fromisoformat(condition["lastTransitionTime"])
    return None
