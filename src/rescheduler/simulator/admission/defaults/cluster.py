"""Defaults of what a cluster consists of besides its workloads: nodes, namespaces, policies, events."""

from base64 import b64encode

from rescheduler.simulator.admission.defaults.filling import Circumstances, fill, inner
from rescheduler.simulator.exchange import Object

__all__ = [
    "fill_autoscaler",
    "fill_binding",
    "fill_budget",
    "fill_definition",
    "fill_event",
    "fill_limit_range",
    "fill_namespace",
    "fill_node",
    "fill_priority_class",
    "fill_quota",
    "fill_secret",
]

_NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
_NODE_FACTS = (
    "machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "containerRuntimeVersion",
    "kubeletVersion", "kubeProxyVersion", "operatingSystem", "architecture",
)  # fmt: skip
_RBAC = "rbac.authorization.k8s.io"


def fill_node(node: Object, about: Circumstances) -> None:
    status = inner(node, "status")
    fill(status, daemonEndpoints={"kubeletEndpoint": {"Port": 0}})
    for fact in _NODE_FACTS:
        inner(status, "nodeInfo").setdefault(fact, "")
    for condition in status.get("conditions", ()):
        condition.setdefault("lastHeartbeatTime", None)
        condition.setdefault("lastTransitionTime", None)
    if "capacity" in status:
        fill(status, allocatable=dict(status["capacity"]))
    spec = inner(node, "spec")
    if about.creating and _NOT_READY not in spec.get("taints", ()):
        spec["taints"] = [*spec.get("taints", ()), dict(_NOT_READY)]


def fill_namespace(namespace: Object, about: Circumstances) -> None:
    if name := namespace["metadata"].get("name"):
        inner(namespace["metadata"], "labels")["kubernetes.io/metadata.name"] = name
    spec = inner(namespace, "spec")
    if about.creating and "kubernetes" not in spec.get("finalizers", ()):
        spec["finalizers"] = [*spec.get("finalizers", ()), "kubernetes"]
    fill(inner(namespace, "status"), phase="Active")


def fill_priority_class(priority_class: Object, _: Circumstances) -> None:
    fill(priority_class, value=0, preemptionPolicy="PreemptLowerPriority")


def fill_budget(budget: Object, _: Circumstances) -> None:
    fill(budget, spec={})
    counts = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
    fill(inner(budget, "status"), dict.fromkeys(counts, 0))


def fill_quota(quota: Object, _: Circumstances) -> None:
    fill(quota, status={})


def fill_secret(secret: Object, _: Circumstances) -> None:
    fill(secret, type="Opaque")
    for key, text in secret.pop("stringData", {}).items():
        inner(secret, "data")[key] = b64encode(text.encode()).decode()


def fill_event(event: Object, _: Circumstances) -> None:
    fill(event, source={})
    event.setdefault("reportingComponent", "")
    event.setdefault("reportingInstance", "")
    for moment in ("firstTimestamp", "lastTimestamp", "eventTime"):
        event.setdefault(moment, None)


def fill_limit_range(limit_range: Object, _: Circumstances) -> None:
    for limit in inner(limit_range, "spec").get("limits", ()):
        if limit.get("type") == "Container":
            default = limit.get("max", {}) | limit.get("default", {})
            request = limit.get("min", {}) | default | limit.get("defaultRequest", {})
            limit.update({"default": default} if default else {})
            limit.update({"defaultRequest": request} if request else {})


def fill_binding(binding: Object, _: Circumstances) -> None:
    """Of a role to its subjects."""
    fill(inner(binding, "roleRef"), apiGroup=_RBAC)
    for subject in binding.get("subjects", ()):
        if subject.get("kind") in ("User", "Group"):
            fill(subject, apiGroup=_RBAC)


def fill_autoscaler(autoscaler: Object, _: Circumstances) -> None:
    spec = inner(autoscaler, "spec")
    fill(spec, minReplicas=1)
    if not spec.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": 80}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    status = inner(autoscaler, "status")
    fill(status, desiredReplicas=0)
    status.setdefault("currentMetrics", None)


def fill_definition(definition: Object, about: Circumstances) -> None:
    """Of custom resources."""
    spec = inner(definition, "spec")
    names = inner(spec, "names")
    if kind := names.get("kind"):
        fill(names, singular=kind.lower(), listKind=f"{kind}List")
    fill(spec, conversion={"strategy": "None"})
    if about.creating:
        stored = [version["name"] for version in spec.get("versions", ()) if version.get("storage")]
        fill(inner(definition, "status"), storedVersions=stored)
