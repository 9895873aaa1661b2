"""Defaults of pods proper, beyond those of any pod spec."""

from rescheduler.simulator.admission.defaults.filling import Circumstances, fill, inner, timestamp
from rescheduler.simulator.admission.defaults.pod_spec import all_containers, fill_pod_spec
from rescheduler.simulator.admission.defaults.priority import fill_priority
from rescheduler.simulator.admission.defaults.quality import quality_of_service
from rescheduler.simulator.exchange import Object

__all__ = ["TOPOLOGY_LABELS", "fill_pod"]

TOPOLOGY_LABELS = ("topology.kubernetes.io/region", "topology.kubernetes.io/zone")
_NODE_TROUBLES = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_PATIENCE_S = 300


def fill_pod(pod: Object, about: Circumstances) -> None:
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
        _tolerate_node_troubles(spec)
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
    """In the network of its host, a container's port is a port of the host."""
    for container in all_containers(spec):
        for port in container.get("ports", ()):
            if not port.get("hostPort"):
                port["hostPort"] = port.get("containerPort", 0)


def _tolerate_node_troubles(spec: Object) -> None:
    """A pod without a view of its own stays for five minutes on a node that is in trouble."""
    given = spec.get("tolerations", [])
    missing = [
        {"key": trouble, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _PATIENCE_S}
        for trouble in _NODE_TROUBLES
        if not any(
            toleration.get("key", "") in ("", trouble) and toleration.get("effect", "") in ("", "NoExecute")
            for toleration in given
        )
    ]
    if missing:
        spec["tolerations"] = [*given, *missing]


def _fill_status(pod: Object, about: Circumstances) -> None:
    status = inner(pod, "status")
    fill(status, phase="Pending")
    status["qosClass"] = quality_of_service(pod["spec"])  # anew: admission may have changed what it asks for
    conditions = status.get("conditions", [])
    if pod["spec"].get("schedulingGates") and not any(c.get("type") == "PodScheduled" for c in conditions):
        blocked = {
            "type": "PodScheduled",
            "status": "False",
            "lastTransitionTime": timestamp(about.now),
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }
        status["conditions"] = [*conditions, blocked]


def _take_over_topology(pod: Object, about: Circumstances) -> None:
    """A pod that is made on a node knows at once in which zone and region that is."""
    node = about.lookup("v1", "Node", "", pod["spec"].get("nodeName", "")) or {"metadata": {}}
    known = node["metadata"].get("labels") or {}
    if taken := {label: known[label] for label in TOPOLOGY_LABELS if label in known}:
        inner(pod["metadata"], "labels").update(taken)


def _select_by_own_labels(pod: Object) -> None:
    """`matchLabelKeys`: the pod's own values of these labels become part of the selector."""
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
        # Applied twice (a dry run's answer sent back), a requirement is not repeated.
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
    """`podIP` and the list `podIPs` say the same; the single one wins."""
    single, several = status.get("podIP", ""), status.get("podIPs", [])
    if single and (not several or several[0].get("ip") != single):
        status["podIPs"] = [{"ip": single}]
    elif several and not single:
        status["podIP"] = several[0].get("ip", "")
