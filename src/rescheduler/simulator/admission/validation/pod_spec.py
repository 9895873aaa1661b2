"""Rules for a pod's spec wherever it stands, in a pod or in a template."""

from collections.abc import Iterator

from rescheduler.simulator.admission import causes, names
from rescheduler.simulator.admission.validation.affinity import check_affinity
from rescheduler.simulator.admission.validation.containers import check_containers, check_init_containers
from rescheduler.simulator.admission.validation.labels import check_labels
from rescheduler.simulator.admission.validation.metadata import check_annotations
from rescheduler.simulator.admission.validation.spreading import check_spread_constraints
from rescheduler.simulator.admission.validation.tolerations import check_tolerations
from rescheduler.simulator.admission.validation.volumes import check_volumes, usable_names
from rescheduler.simulator.exchange import Object
from rescheduler.simulator.failures import Cause

__all__ = ["LARGEST_INT32", "check_pod_spec", "check_template"]

LARGEST_INT32 = (1 << 31) - 1
_CHOICES = {
    "restartPolicy": ("Always", "OnFailure", "Never"),
    "dnsPolicy": ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"),
    "preemptionPolicy": ("PreemptLowerPriority", "Never"),
}
_NAMES: dict[str, names.Rule] = {
    "serviceAccountName": names.dns_subdomain,
    "nodeName": names.dns_subdomain,
    "hostname": names.dns_label,
    "subdomain": names.dns_label,
    "priorityClassName": names.dns_subdomain,
    "runtimeClassName": names.dns_subdomain,
}


def check_pod_spec(spec: Object, path: str, *, in_pod: bool) -> Iterator[Cause]:
    volumes = spec.get("volumes", [])
    mountable = usable_names(volumes, f"{path}.volumes")
    yield from check_volumes(volumes, f"{path}.volumes")
    yield from check_containers(spec.get("containers", []), mountable, f"{path}.containers")
    yield from check_init_containers(spec, mountable, f"{path}.initContainers")
    if spec.get("hostNetwork"):
        yield from _check_host_network(spec, path, in_pod=in_pod)
    for field, allowed in _CHOICES.items():
        if spec.get(field, allowed[0]) not in allowed:
            yield causes.not_supported(f"{path}.{field}", spec[field], allowed)
    yield from check_labels(spec.get("nodeSelector", {}), f"{path}.nodeSelector")
    yield from check_affinity(spec.get("affinity", {}), f"{path}.affinity")
    yield from _check_gates(spec.get("schedulingGates", []), f"{path}.schedulingGates")
    yield from check_spread_constraints(
        spec.get("topologySpreadConstraints", []), f"{path}.topologySpreadConstraints"
    )
    yield from _check_names(spec, path)
    yield from check_tolerations(spec.get("tolerations", []), f"{path}.tolerations")
    deadline = spec.get("activeDeadlineSeconds", 1)
    if not 1 <= deadline <= LARGEST_INT32:
        yield causes.invalid(f"{path}.activeDeadlineSeconds", deadline, names.between(1, LARGEST_INT32))


def _check_names(spec: Object, path: str) -> Iterator[Cause]:
    for field, rule in _NAMES.items():
        for complaint in rule(spec[field]) if spec.get(field) else ():
            yield causes.invalid(f"{path}.{field}", spec[field], complaint)


def _check_host_network(spec: Object, path: str, *, in_pod: bool) -> Iterator[Cause]:
    for position, container in enumerate(spec.get("containers", ())):
        for index, port in enumerate(container.get("ports", ())):
            host_port = port.get("hostPort", 0)
            if (in_pod or host_port) and host_port != port.get("containerPort", 0):
                here = f"{path}.containers[{position}].ports[{index}].hostPort"
                detail = "must match `containerPort` when `hostNetwork` is true"
                yield causes.invalid(here, host_port, detail)


def _check_gates(gates: list[Object], path: str) -> Iterator[Cause]:
    seen: set[str] = set()
    for index, gate in enumerate(gates):
        name = gate.get("name", "")
        for complaint in names.qualified_name(name):
            yield causes.invalid(f"{path}[{index}]", name, complaint)
        if name in seen:
            yield causes.duplicate(f"{path}[{index}]", name)
        seen.add(name)


def check_template(template: Object, path: str) -> Iterator[Cause]:
    metadata = template.get("metadata", {})
    yield from check_labels(metadata.get("labels", {}), f"{path}.labels")
    yield from check_annotations(metadata.get("annotations", {}), f"{path}.annotations")
    spec = template.get("spec", {})
    yield from check_pod_spec(spec, f"{path}.spec", in_pod=False)
    if spec.get("ephemeralContainers"):
        detail = "ephemeral containers not allowed in pod template"
        yield causes.forbidden(f"{path}.spec.ephemeralContainers", detail)
