"""Defaults of nodes, namespaces, policies, events, services, storage and webhook configurations.

The address of a service is derived from its namespace and name, so that the same cluster has the same
addresses in every run. Protection finalizers of storage objects are not set, because no controller here
removes them.
"""

from base64 import b64encode
from zlib import crc32

from kubesim.admission.admission_lookup import DefaultingContext, fill, inner
from kubesim.apiserver.api_messages import Object
from kubesim.common_fields import format_timestamp

__all__ = [
    "fill_autoscaler",
    "fill_binding",
    "fill_budget",
    "fill_csi_driver",
    "fill_definition",
    "fill_endpoint_slice",
    "fill_event",
    "fill_limit_range",
    "fill_namespace",
    "fill_node",
    "fill_persistent_volume",
    "fill_priority_class",
    "fill_quota",
    "fill_secret",
    "fill_service",
    "fill_storage_class",
    "fill_volume_claim",
    "fill_webhook_configuration",
]

_NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
_NODE_FACTS = (
    "machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "containerRuntimeVersion",
    "kubeletVersion", "kubeProxyVersion", "operatingSystem", "architecture",
)  # fmt: skip
_RBAC = "rbac.authorization.k8s.io"


def fill_node(node: Object, about: DefaultingContext) -> None:
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


def fill_namespace(namespace: Object, about: DefaultingContext) -> None:
    if name := namespace["metadata"].get("name"):
        inner(namespace["metadata"], "labels")["kubernetes.io/metadata.name"] = name
    spec = inner(namespace, "spec")
    if about.creating and "kubernetes" not in spec.get("finalizers", ()):
        spec["finalizers"] = [*spec.get("finalizers", ()), "kubernetes"]
    fill(inner(namespace, "status"), phase="Active")


def fill_priority_class(priority_class: Object, _: DefaultingContext) -> None:
    fill(priority_class, value=0, preemptionPolicy="PreemptLowerPriority")


def fill_budget(budget: Object, _: DefaultingContext) -> None:
    fill(budget, spec={})
    counts = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
    fill(inner(budget, "status"), dict.fromkeys(counts, 0))


def fill_quota(quota: Object, _: DefaultingContext) -> None:
    fill(quota, status={})


def fill_secret(secret: Object, _: DefaultingContext) -> None:
    fill(secret, type="Opaque")
    for key, text in secret.pop("stringData", {}).items():
        inner(secret, "data")[key] = b64encode(text.encode()).decode()


def fill_event(event: Object, _: DefaultingContext) -> None:
    fill(event, source={})
    event.setdefault("reportingComponent", "")
    event.setdefault("reportingInstance", "")
    for moment in ("firstTimestamp", "lastTimestamp", "eventTime"):
        event.setdefault(moment, None)


def fill_limit_range(limit_range: Object, _: DefaultingContext) -> None:
    for limit in inner(limit_range, "spec").get("limits", ()):
        if limit.get("type") == "Container":
            default = limit.get("max", {}) | limit.get("default", {})
            request = limit.get("min", {}) | default | limit.get("defaultRequest", {})
            limit.update({"default": default} if default else {})
            limit.update({"defaultRequest": request} if request else {})


def fill_binding(binding: Object, _: DefaultingContext) -> None:
    """Set the defaults of a role binding."""
    fill(inner(binding, "roleRef"), apiGroup=_RBAC)
    for subject in binding.get("subjects", ()):
        if subject.get("kind") in ("User", "Group"):
            fill(subject, apiGroup=_RBAC)


def fill_autoscaler(autoscaler: Object, _: DefaultingContext) -> None:
    spec = inner(autoscaler, "spec")
    fill(spec, minReplicas=1)
    if not spec.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": 80}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    status = inner(autoscaler, "status")
    fill(status, desiredReplicas=0)
    status.setdefault("currentMetrics", None)


def fill_definition(definition: Object, about: DefaultingContext) -> None:
    """Set the defaults of a CustomResourceDefinition."""
    spec = inner(definition, "spec")
    names = inner(spec, "names")
    if kind := names.get("kind"):
        fill(names, singular=kind.lower(), listKind=f"{kind}List")
    fill(spec, conversion={"strategy": "None"})
    if about.creating:
        stored = [version["name"] for version in spec.get("versions", ()) if version.get("storage")]
        fill(inner(definition, "status"), storedVersions=stored)


_NODE_PORTS = range(30_000, 32_768)
_ADDRESSES = 1 << 16
_STICKY_S = 10_800


def fill_service(service: Object, about: DefaultingContext) -> None:
    spec = inner(service, "spec")
    fill(spec, type="ClusterIP", sessionAffinity="None")
    fill(service, status={"loadBalancer": {}})
    if spec["sessionAffinity"] == "ClientIP":
        fill(spec, sessionAffinityConfig={"clientIP": {"timeoutSeconds": _STICKY_S}})
    for port in spec.get("ports", ()):
        fill(port, protocol="TCP")
        if not port.get("targetPort"):
            port["targetPort"] = port.get("port", 0)
    if spec["type"] != "ExternalName":
        _fill_address(service, about)
    if spec["type"] in ("NodePort", "LoadBalancer"):
        _fill_node_ports(service, about)


def _fill_address(service: Object, about: DefaultingContext) -> None:
    spec = service["spec"]
    if not spec.get("clusterIP"):
        stored = (None if about.creating else about.stored(service)) or {}
        spec["clusterIP"] = stored.get("spec", {}).get("clusterIP") or _address(service)
    fill(
        spec,
        clusterIPs=[spec["clusterIP"]],
        ipFamilies=["IPv4"],
        ipFamilyPolicy="SingleStack",
        internalTrafficPolicy="Cluster",
    )


def _fill_node_ports(service: Object, about: DefaultingContext) -> None:
    spec = service["spec"]
    fill(spec, externalTrafficPolicy="Cluster")
    if spec["type"] == "LoadBalancer":
        fill(spec, allocateLoadBalancerNodePorts=True)
    stored = (None if about.creating else about.stored(service)) or {}
    before = {port.get("port"): port.get("nodePort") for port in stored.get("spec", {}).get("ports", ())}
    for port in spec.get("ports", ()):
        if not port.get("nodePort"):
            drawn = _NODE_PORTS[_draw(service, f":{port.get('port')}") % len(_NODE_PORTS)]
            port["nodePort"] = before.get(port.get("port")) or drawn


def _address(service: Object) -> str:
    # Neither the first address, which the service of the API server has, nor a network's own.
    high, low = divmod(_draw(service) % (_ADDRESSES - 300) + 256, 256)
    return f"10.96.{high}.{low}"


def _draw(service: Object, salt: str = "") -> int:
    metadata = service["metadata"]
    return crc32(f"{metadata.get('namespace', '')}/{metadata.get('name', '')}{salt}".encode())


def fill_endpoint_slice(endpoint_slice: Object, _: DefaultingContext) -> None:
    for field in ("endpoints", "ports"):
        endpoint_slice[field] = endpoint_slice.get(field) or None  # an empty list is stored as none at all
    for endpoint in endpoint_slice["endpoints"] or ():
        fill(endpoint, conditions={})
    for port in endpoint_slice["ports"] or ():
        port.setdefault("name", "")
        fill(port, protocol="TCP")


def fill_persistent_volume(volume: Object, about: DefaultingContext) -> None:
    spec = inner(volume, "spec")
    fill(spec, persistentVolumeReclaimPolicy="Retain", volumeMode="Filesystem")
    if "hostPath" in spec:
        spec["hostPath"].setdefault("type", "")
    status = inner(volume, "status")
    if not status.get("phase"):
        status["phase"] = "Pending"
        fill(status, lastPhaseTransitionTime=format_timestamp(about.now))


def fill_volume_claim(claim: Object, _: DefaultingContext) -> None:
    fill(inner(claim, "spec"), volumeMode="Filesystem", resources={})
    fill(inner(claim, "status"), phase="Pending")


def fill_storage_class(storage_class: Object, _: DefaultingContext) -> None:
    fill(storage_class, reclaimPolicy="Delete", volumeBindingMode="Immediate")


def fill_csi_driver(driver: Object, _: DefaultingContext) -> None:
    fill(
        inner(driver, "spec"),
        attachRequired=True,
        podInfoOnMount=False,
        volumeLifecycleModes=["Persistent"],
        storageCapacity=False,
        fsGroupPolicy="ReadWriteOnceWithFSType",
        requiresRepublish=False,
        seLinuxMount=False,
        preventPodSchedulingIfMissing=False,
    )


def fill_webhook_configuration(configuration: Object, about: DefaultingContext) -> None:
    for webhook in configuration.get("webhooks", ()):
        if about.kind.name == "MutatingWebhookConfiguration":
            fill(webhook, reinvocationPolicy="Never")
        fill(
            webhook,
            failurePolicy="Fail",
            matchPolicy="Equivalent",
            namespaceSelector={},
            objectSelector={},
            timeoutSeconds=10,
        )
        for rule in webhook.get("rules", ()):
            fill(rule, scope="*")
        if "service" in webhook.get("clientConfig", {}):
            fill(webhook["clientConfig"]["service"], port=443)
