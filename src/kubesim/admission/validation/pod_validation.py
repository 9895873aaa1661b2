"""Validation of new pods, pod templates, their volumes, and pod statuses."""

from collections.abc import Iterator
from functools import lru_cache

from kubesim.admission import field_errors, name_syntax
from kubesim.admission.validation.container_validation import check_containers, check_init_containers
from kubesim.admission.validation.metadata_validation import (
    check_annotations,
    check_labels,
    check_not_negative,
)
from kubesim.admission.validation.scheduling_validation import (
    check_affinity,
    check_spread_constraints,
    check_tolerations,
)
from kubesim.apiserver.api_messages import Object, decode, encode
from kubesim.apiserver.status_errors import FieldError
from kubevalues.quantity import parse_quantity

__all__ = [
    "LARGEST_INT32",
    "check_new_pod",
    "check_pod",
    "check_pod_spec",
    "check_pod_status",
    "check_template",
    "check_volumes",
    "usable_names",
]

_SINGLE_NAME = {
    "persistentVolumeClaim": "claimName",
    "secret": "secretName",
    "configMap": "name",
    "csi": "driver",
    "hostPath": "path",
}
"""The required field of each volume source."""


def check_volumes(volumes: list[Object], path: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, volume in enumerate(volumes):
        here = f"{path}[{index}]"
        complaints = [*_check_source(volume, here), *_check_name(volume, seen, here)]
        yield from complaints
        if not complaints:
            seen.add(volume["name"])


def usable_names(volumes: list[Object], path: str) -> set[str]:
    """Return the names of valid volumes, which containers can mount."""
    seen: set[str] = set()
    for volume in volumes:
        if not any(_check_source(volume, path)) and not any(_check_name(volume, seen, path)):
            seen.add(volume["name"])
    return seen


def _check_name(volume: Object, seen: set[str], path: str) -> Iterator[FieldError]:
    name = volume.get("name", "")
    if not name:
        yield field_errors.required(f"{path}.name")
        return
    for complaint in name_syntax.dns_label(name):
        yield field_errors.invalid(f"{path}.name", name, complaint)
    if name in seen:
        yield field_errors.duplicate(f"{path}.name", name)


def _check_source(volume: Object, path: str) -> Iterator[FieldError]:
    sources = [field for field in volume if field != "name"]
    if not sources:
        yield field_errors.required(path, "must specify a volume type")
        return
    for source in sources[1:]:
        yield field_errors.forbidden(f"{path}.{source}", "may not specify more than 1 volume type")
    chosen = sources[0]
    field = _SINGLE_NAME.get(chosen)
    if field and not volume[chosen].get(field):
        yield field_errors.required(f"{path}.{chosen}.{field}")
    size = volume[chosen].get("sizeLimit") if chosen == "emptyDir" else None
    if size is not None and parse_quantity(size).nanos < 0:
        detail = "SizeLimit field must be a valid resource quantity"
        yield field_errors.forbidden(f"{path}.emptyDir.sizeLimit", detail)


LARGEST_INT32 = (1 << 31) - 1
_CHOICES = {
    "restartPolicy": ("Always", "OnFailure", "Never"),
    "dnsPolicy": ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"),
    "preemptionPolicy": ("PreemptLowerPriority", "Never"),
}
_NAMES: dict[str, name_syntax.NameRule] = {
    "serviceAccountName": name_syntax.dns_subdomain,
    "nodeName": name_syntax.dns_subdomain,
    "hostname": name_syntax.dns_label,
    "subdomain": name_syntax.dns_label,
    "priorityClassName": name_syntax.dns_subdomain,
    "runtimeClassName": name_syntax.dns_subdomain,
}


def check_pod_spec(spec: Object, path: str, *, in_pod: bool) -> Iterator[FieldError]:
    volumes = spec.get("volumes", [])
    mountable = usable_names(volumes, f"{path}.volumes")
    yield from check_volumes(volumes, f"{path}.volumes")
    yield from check_containers(spec.get("containers", []), mountable, f"{path}.containers")
    yield from check_init_containers(spec, mountable, f"{path}.initContainers")
    if spec.get("hostNetwork"):
        yield from _check_host_network(spec, path, in_pod=in_pod)
    for field, allowed in _CHOICES.items():
        if spec.get(field, allowed[0]) not in allowed:
            yield field_errors.not_supported(f"{path}.{field}", spec[field], allowed)
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
        yield field_errors.invalid(
            f"{path}.activeDeadlineSeconds", deadline, name_syntax.between(1, LARGEST_INT32)
        )


def _check_names(spec: Object, path: str) -> Iterator[FieldError]:
    for field, rule in _NAMES.items():
        for complaint in rule(spec[field]) if spec.get(field) else ():
            yield field_errors.invalid(f"{path}.{field}", spec[field], complaint)


def _check_host_network(spec: Object, path: str, *, in_pod: bool) -> Iterator[FieldError]:
    for position, container in enumerate(spec.get("containers", ())):
        for index, port in enumerate(container.get("ports", ())):
            host_port = port.get("hostPort", 0)
            if (in_pod or host_port) and host_port != port.get("containerPort", 0):
                here = f"{path}.containers[{position}].ports[{index}].hostPort"
                detail = "must match `containerPort` when `hostNetwork` is true"
                yield field_errors.invalid(here, host_port, detail)


def _check_gates(gates: list[Object], path: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, gate in enumerate(gates):
        name = gate.get("name", "")
        for complaint in name_syntax.qualified_name(name):
            yield field_errors.invalid(f"{path}[{index}]", name, complaint)
        if name in seen:
            yield field_errors.duplicate(f"{path}[{index}]", name)
        seen.add(name)


def check_template(template: Object, path: str) -> Iterator[FieldError]:
    metadata = template.get("metadata", {})
    yield from check_labels(metadata.get("labels", {}), f"{path}.labels")
    yield from check_annotations(metadata.get("annotations", {}), f"{path}.annotations")
    spec = template.get("spec", {})
    yield from check_pod_spec(spec, f"{path}.spec", in_pod=False)
    if spec.get("ephemeralContainers"):
        detail = "ephemeral containers not allowed in pod template"
        yield field_errors.forbidden(f"{path}.spec.ephemeralContainers", detail)


_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_INT32 = range(-(1 << 31), 1 << 31)


def check_pod(pod: Object) -> Iterator[FieldError]:
    """Check what applies to both new and changed pods."""
    spec = pod["spec"]
    yield from _check_deletion_cost(pod["metadata"].get("annotations", {}))
    yield from _spec_faults(encode(spec))
    yield from check_not_negative(spec, ["terminationGracePeriodSeconds"], "spec")
    for group in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(group, ())):
            image = container.get("image", "")
            if image != image.strip():
                detail = "must not have leading or trailing whitespace"
                yield field_errors.invalid(f"spec.{group}[{index}].image", image, detail)


@lru_cache(maxsize=512)
def _spec_faults(spec: bytes) -> tuple[FieldError, ...]:
    """Return the faults of a spec, cached because pods of one workload have the same spec."""
    return tuple(check_pod_spec(decode(spec), "spec", in_pod=True))


def _check_deletion_cost(annotations: dict[str, str]) -> Iterator[FieldError]:
    """Check the annotation that sets the order in which a ReplicaSet removes pods."""
    if _DELETION_COST not in annotations:
        return
    cost = annotations[_DELETION_COST]
    digits = cost.removeprefix("-")
    if not digits.isdecimal() or int(cost) not in _INT32 or (digits != "0" and digits.startswith("0")):
        yield field_errors.invalid(f"metadata.annotations[{_DELETION_COST}]", cost, "must be a 32bit integer")


def check_new_pod(pod: Object) -> Iterator[FieldError]:
    yield from check_pod(pod)
    spec = pod["spec"]
    if spec.get("ephemeralContainers"):
        yield field_errors.forbidden("spec.ephemeralContainers", "cannot be set on create")
    if spec.get("nodeName") and spec.get("schedulingGates"):
        yield field_errors.forbidden(
            "spec.nodeName", "cannot be set until all schedulingGates have been cleared"
        )


def check_pod_status(new: Object, old: Object) -> Iterator[FieldError]:
    status, before = new.get("status", {}), old.get("status", {})
    nominated, nominated_before = status.get("nominatedNodeName", ""), before.get("nominatedNodeName", "")
    if nominated and nominated != nominated_before:
        for complaint in name_syntax.dns_subdomain(nominated):
            yield field_errors.invalid("status.nominatedNodeName", nominated, complaint)
        if old["spec"].get("nodeName"):
            detail = "may not be set on pods that are already bound to a node"
            yield field_errors.forbidden("status.nominatedNodeName", detail)
    for index, condition in enumerate(status.get("conditions", ())):
        for complaint in name_syntax.qualified_name(condition.get("type", "")):
            yield field_errors.invalid(
                f"status.conditions[{index}].type", condition.get("type", ""), complaint
            )
    quality, quality_before = status.get("qosClass", ""), before.get("qosClass", "")
    if quality_before and quality != quality_before:
        yield field_errors.immutable("status.qosClass", quality)
