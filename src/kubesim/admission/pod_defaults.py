"""Defaults of pods and pod templates: spec, containers, volumes, and the quality-of-service class."""

from kubesim.admission.admission_lookup import DefaultingContext, fill, inner
from kubesim.admission.admission_plugins import fill_priority
from kubesim.apiserver.api_messages import Object
from kubesim.common_fields import format_timestamp
from kubevalues.quantity import Quantity, parse_quantity

__all__ = [
    "TOPOLOGY_LABELS",
    "all_containers",
    "fill_container",
    "fill_pod",
    "fill_pod_spec",
    "fill_template",
    "fill_volume",
    "quality_of_service",
]

_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE_NUMBERS = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}


def fill_container(container: Object) -> None:
    fill(
        container,
        resources={},
        terminationMessagePath="/dev/termination-log",
        terminationMessagePolicy="File",
        imagePullPolicy="Always" if _is_latest(container.get("image", "")) else "IfNotPresent",
    )
    for port in container.get("ports", ()):
        fill(port, protocol="TCP")
    for probe in (container[name] for name in _PROBES if name in container):
        _fill_probe(probe)
    for hook in container.get("lifecycle", {}).values():
        if isinstance(hook, dict):  # `stopSignal` is a string among the hooks
            _fill_action(hook)
    for variable in container.get("env", ()):
        _fill_source(variable.get("valueFrom", {}))


def _is_latest(image: str) -> bool:
    """Return whether the image has the tag `latest`, also if it has neither tag nor digest."""
    if "@" in image:
        return False
    _, colon, tag = image.rpartition("/")[2].partition(":")
    return not colon or tag == "latest"


def _fill_probe(probe: Object) -> None:
    for number, default in _PROBE_NUMBERS.items():
        if not probe.get(number):
            probe[number] = default
    _fill_action(probe)


def _fill_action(handler: Object) -> None:
    if "httpGet" in handler:
        fill(handler["httpGet"], path="/", scheme="HTTP")
    if "grpc" in handler:
        handler["grpc"].setdefault("service", "")


def _fill_source(source: Object) -> None:
    if "fieldRef" in source:
        fill(source["fieldRef"], apiVersion="v1")
    if "resourceFieldRef" in source:
        fill(source["resourceFieldRef"], divisor="0")


_READABLE_BY_ALL = 0o644
_WITH_MODE = ("secret", "configMap", "downwardAPI", "projected")
_TOKEN_LIFE_S = 3600


def fill_volume(volume: Object) -> None:
    if volume.keys() <= {"name"}:
        volume["emptyDir"] = {}
    for source in (volume[name] for name in _WITH_MODE if name in volume):
        fill(source, defaultMode=_READABLE_BY_ALL)
    if "hostPath" in volume:
        volume["hostPath"].setdefault("type", "")
    if "ephemeral" in volume:
        _fill_claim_template(volume["ephemeral"])
    for item in volume.get("downwardAPI", {}).get("items", ()):
        _fill_item(item)
    for projection in volume.get("projected", {}).get("sources", ()):
        _fill_projection(projection)


def _fill_claim_template(source: Object) -> None:
    if "volumeClaimTemplate" in source:
        template = source["volumeClaimTemplate"]
        fill(template, metadata={})
        fill(inner(template, "spec"), volumeMode="Filesystem")


def _fill_item(item: Object) -> None:
    if "fieldRef" in item:
        fill(item["fieldRef"], apiVersion="v1")
    if "resourceFieldRef" in item:
        fill(item["resourceFieldRef"], divisor="0")


def _fill_projection(projection: Object) -> None:
    if "serviceAccountToken" in projection:
        fill(projection["serviceAccountToken"], expirationSeconds=_TOKEN_LIFE_S)
    for item in projection.get("downwardAPI", {}).get("items", ()):
        _fill_item(item)


def fill_pod_spec(spec: Object) -> None:
    fill(
        spec,
        restartPolicy="Always",
        dnsPolicy="ClusterFirst",
        schedulerName="default-scheduler",
        terminationGracePeriodSeconds=30,
        securityContext={},
    )
    _fill_service_account(spec)
    for container in all_containers(spec):
        fill_container(container)
    for volume in spec.get("volumes", ()):
        fill_volume(volume)


def _fill_service_account(spec: Object) -> None:
    """Set `serviceAccountName` and its old name `serviceAccount` to the same value."""
    name = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if name:
        spec["serviceAccountName"] = spec["serviceAccount"] = name


def all_containers(spec: Object) -> list[Object]:
    """Return init, regular and ephemeral containers."""
    return [
        container
        for group in ("initContainers", "containers", "ephemeralContainers")
        for container in spec.get(group, ())
    ]


def fill_template(owner_spec: Object) -> None:
    """Set the defaults of a workload's pod template."""
    template = inner(owner_spec, "template")
    fill(template, metadata={})
    fill_pod_spec(inner(template, "spec"))


_COUNTED = ("cpu", "memory")


def quality_of_service(spec: Object) -> str:
    holders = [spec] if spec.get("resources") else [*spec.get("initContainers", ()), *spec["containers"]]
    requests, limits = _totals(holders, "requests"), _totals(holders, "limits")
    if not requests and not limits:
        return "BestEffort"
    every_one_limited = all(_positive(holder, "limits").keys() == set(_COUNTED) for holder in holders)
    return "Guaranteed" if every_one_limited and requests == limits else "Burstable"


def _positive(holder: Object, field: str) -> dict[str, Quantity]:
    asked = holder.get("resources", {}).get(field, {})
    amounts = {name: parse_quantity(asked[name]) for name in _COUNTED if name in asked}
    return {name: number for name, number in amounts.items() if number.nanos > 0}


def _totals(holders: list[Object], field: str) -> dict[str, Quantity]:
    totals: dict[str, Quantity] = {}
    for holder in holders:
        for name, number in _positive(holder, field).items():
            totals[name] = totals.get(name, Quantity(0)) + number
    return totals


TOPOLOGY_LABELS = ("topology.kubernetes.io/region", "topology.kubernetes.io/zone")
_TOLERATED = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_TOLERATION_S = 300


def fill_pod(pod: Object, about: DefaultingContext) -> None:
    spec = inner(pod, "spec")
    fill_pod_spec(spec)
    fill(spec, enableServiceLinks=True)
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    for container in [*spec.get("initContainers", ()), *spec.setdefault("containers", [])]:
        _request_what_is_limited(container["resources"])
    if spec.get("hostNetwork"):
        _open_host_ports(spec)
    if not about.subresource:
        _add_default_tolerations(spec)
        fill_priority(pod, about)
    if about.creating:
        _take_over_topology(pod, about)
        _select_by_own_labels(pod)
        _fill_status(pod, about)
    _mirror_addresses(pod.get("status", {}))
    for condition in pod.get("status", {}).get("conditions", ()):
        condition.setdefault("lastProbeTime", None)
        condition.setdefault("lastTransitionTime", None)


def _request_what_is_limited(resources: Object) -> None:
    if resources.get("limits"):
        resources["requests"] = resources["limits"] | resources.get("requests", {})


def _open_host_ports(spec: Object) -> None:
    """Set `hostPort` of every container port of a pod in the host network."""
    for container in all_containers(spec):
        for port in container.get("ports", ()):
            if not port.get("hostPort"):
                port["hostPort"] = port.get("containerPort", 0)


def _add_default_tolerations(spec: Object) -> None:
    """Add the default tolerations: five minutes on a node that is not ready or unreachable."""
    given = spec.get("tolerations", [])
    missing = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _TOLERATION_S}
        for key in _TOLERATED
        if not any(
            toleration.get("key", "") in ("", key) and toleration.get("effect", "") in ("", "NoExecute")
            for toleration in given
        )
    ]
    if missing:
        spec["tolerations"] = [*given, *missing]


def _fill_status(pod: Object, about: DefaultingContext) -> None:
    status = inner(pod, "status")
    fill(status, phase="Pending")
    status["qosClass"] = quality_of_service(pod["spec"])  # again: admission may have changed its requests
    conditions = status.get("conditions", [])
    if pod["spec"].get("schedulingGates") and not any(c.get("type") == "PodScheduled" for c in conditions):
        blocked = {
            "type": "PodScheduled",
            "status": "False",
            "lastTransitionTime": format_timestamp(about.now),
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }
        status["conditions"] = [*conditions, blocked]


def _take_over_topology(pod: Object, about: DefaultingContext) -> None:
    """Copy the topology labels of its node to a pod that is created with a node."""
    node = about.lookup("v1", "Node", "", pod["spec"].get("nodeName", "")) or {"metadata": {}}
    known = node["metadata"].get("labels") or {}
    if taken := {label: known[label] for label in TOPOLOGY_LABELS if label in known}:
        inner(pod["metadata"], "labels").update(taken)


def _select_by_own_labels(pod: Object) -> None:
    """Add the pod's own values of `matchLabelKeys` to the selector."""
    labels = pod["metadata"].get("labels", {})
    for term in _label_key_terms(pod["spec"]):
        selector = term.get("labelSelector")
        if selector is None:
            continue
        wanted = [
            {"key": key, "operator": operator, "values": [labels[key]]}
            for field, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn"))
            for key in term.get(field, ())
            if key in labels
        ]
        given = selector.get("matchExpressions", [])
        # Don't repeat a requirement if the answer of a dry run is sent back.
        if new := [requirement for requirement in wanted if requirement not in given]:
            selector["matchExpressions"] = [*given, *new]


def _label_key_terms(spec: Object) -> list[Object]:
    terms: list[Object] = list(spec.get("topologySpreadConstraints", ()))
    for name in ("podAffinity", "podAntiAffinity"):
        affinity = spec.get("affinity", {}).get(name, {})
        terms += affinity.get("requiredDuringSchedulingIgnoredDuringExecution", ())
        for weighted in affinity.get("preferredDuringSchedulingIgnoredDuringExecution", ()):
            terms.append(weighted.get("podAffinityTerm", {}))
    return terms


def _mirror_addresses(status: Object) -> None:
    """Make `podIP` and the list `podIPs` consistent; the single value wins."""
    single, several = status.get("podIP", ""), status.get("podIPs", [])
    if single and (not several or several[0].get("ip") != single):
        status["podIPs"] = [{"ip": single}]
    elif several and not single:
        status["podIP"] = several[0].get("ip", "")
