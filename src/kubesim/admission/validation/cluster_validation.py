"""Validation of nodes, namespaces, policies, leases, autoscalers, role bindings, config data and services."""

from collections.abc import Iterator

from kubesim.admission import field_errors, name_syntax
from kubesim.admission.admission_plugins import SYSTEM_CLASSES
from kubesim.admission.validation.container_validation import check_amounts, check_port
from kubesim.admission.validation.metadata_validation import (
    check_at_most_all,
    check_count_or_percent,
    check_labels,
    check_selector,
)
from kubesim.admission.validation.scheduling_validation import check_taints
from kubesim.apiserver.api_messages import Object
from kubesim.apiserver.status_errors import FieldError

__all__ = [
    "check_autoscaler",
    "check_budget",
    "check_configuration",
    "check_endpoint_slice",
    "check_event",
    "check_lease",
    "check_node",
    "check_priority_class",
    "check_role_binding",
    "check_service",
]

_HIGHEST_USER_PRIORITY = 1_000_000_000
_SYSTEM_PREFIX = "system-"
_EVICTION_POLICIES = ("AlwaysAllow", "IfHealthyBudget")


def check_node(new: Object, old: Object | None) -> Iterator[FieldError]:
    yield from check_taints(new["spec"].get("taints", []), "metadata.taints")
    for field in ("capacity", "allocatable"):
        yield from check_amounts(new.get("status", {}).get(field, {}), f"status.{field}")
    before = (old or {}).get("spec", {})
    provider, provider_before = new["spec"].get("providerID", ""), before.get("providerID", "")
    if provider_before and provider != provider_before:
        what = "modified" if provider else "cleared"
        yield field_errors.invalid("spec.providerID", None, f"field cannot be {what} once set")
    if before.get("podCIDRs") and new["spec"].get("podCIDRs") != before["podCIDRs"]:
        detail = 'node updates may not change podCIDR except from "" to valid'
        yield field_errors.forbidden("spec.podCIDRs", detail)


def check_budget(new: Object, _: Object | None) -> Iterator[FieldError]:
    spec = new["spec"]
    if "minAvailable" in spec and "maxUnavailable" in spec:
        yield field_errors.invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set")
    for field in ("minAvailable", "maxUnavailable"):
        if field in spec:
            yield from check_count_or_percent(spec[field], f"spec.{field}")
            yield from check_at_most_all(spec[field], f"spec.{field}")
    yield from check_selector(spec.get("selector", {}), "spec.selector")
    policy = spec.get("unhealthyPodEvictionPolicy", "AlwaysAllow")
    if policy not in _EVICTION_POLICIES:
        yield field_errors.not_supported("spec.unhealthyPodEvictionPolicy", policy, _EVICTION_POLICIES)


def check_priority_class(new: Object, old: Object | None) -> Iterator[FieldError]:
    name, value = new["metadata"].get("name", ""), new.get("value", 0)
    if old is not None:
        if value != old.get("value", 0):
            yield field_errors.forbidden("value", "may not be changed in an update.")
        if new.get("preemptionPolicy") != old.get("preemptionPolicy"):
            yield field_errors.immutable("preemptionPolicy", new.get("preemptionPolicy"))
        return
    if name.startswith(_SYSTEM_PREFIX):
        yield from _check_system_class(name, value, is_default=new.get("globalDefault", False))
    elif value > _HIGHEST_USER_PRIORITY:
        detail = f"maximum allowed value of a user defined priority is {_HIGHEST_USER_PRIORITY}"
        yield field_errors.forbidden("value", detail)
    allowed = ("PreemptLowerPriority", "Never")
    if new.get("preemptionPolicy") not in allowed:
        yield field_errors.not_supported("preemptionPolicy", new.get("preemptionPolicy", ""), allowed)


def _check_system_class(name: str, value: int, *, is_default: bool) -> Iterator[FieldError]:
    if name not in SYSTEM_CLASSES:
        why = f"{name} is not a known system priority class"
    elif value != SYSTEM_CLASSES[name]:
        why = f"value of {name} PriorityClass must be {SYSTEM_CLASSES[name]}"
    elif is_default:
        why = f"globalDefault of {name} PriorityClass must be false"
    else:
        return
    detail = f"priority class names with 'system-' prefix are reserved for system use only. error: {why}"
    yield field_errors.forbidden("metadata.name", detail)


def check_event(new: Object, _: Object | None) -> Iterator[FieldError]:
    """Check that an event is in the namespace of its object, or in `default` for cluster-scoped objects.

    For events with an `eventTime`, the real server checks less.
    """
    about, here = new.get("involvedObject", {}).get("namespace", ""), new["metadata"].get("namespace", "")
    if new.get("eventTime"):
        fits = bool(about) or here in ("default", "kube-system")
    else:
        fits = here in ("", about or "default")
    if not fits:
        yield field_errors.invalid("involvedObject.namespace", about, "does not match event.namespace")


def check_lease(new: Object, _: Object | None) -> Iterator[FieldError]:
    spec = new.get("spec", {})
    if spec.get("leaseDurationSeconds", 1) <= 0:
        here = "spec.leaseDurationSeconds"
        yield field_errors.invalid(here, spec["leaseDurationSeconds"], "must be greater than 0")
    if spec.get("leaseTransitions", 0) < 0:
        here = "spec.leaseTransitions"
        yield field_errors.invalid(here, spec["leaseTransitions"], "must be greater than or equal to 0")


def check_autoscaler(new: Object, _: Object | None) -> Iterator[FieldError]:
    spec = new["spec"]
    fewest, most = spec.get("minReplicas", 1), spec.get("maxReplicas", 0)
    if fewest < 1:
        yield field_errors.invalid("spec.minReplicas", fewest, "must be greater than or equal to 1")
    if most < 0:
        yield field_errors.invalid("spec.maxReplicas", most, "must be greater than 0")
    if most < fewest:
        yield field_errors.invalid("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`")
    if most == 0:
        yield field_errors.required("spec.maxReplicas")
    for field in ("kind", "name"):
        if not spec.get("scaleTargetRef", {}).get(field):
            yield field_errors.required(f"spec.scaleTargetRef.{field}")


def check_role_binding(new: Object, old: Object | None) -> Iterator[FieldError]:
    role = new.get("roleRef", {})
    if not role.get("name"):
        yield field_errors.required("roleRef.name")
    allowed = ("Role", "ClusterRole") if new.get("kind") == "RoleBinding" else ("ClusterRole",)
    if role.get("kind") not in allowed:
        yield field_errors.not_supported("roleRef.kind", role.get("kind", ""), allowed)
    if old is not None and role != old.get("roleRef"):
        yield field_errors.immutable("roleRef", role)
    for index, subject in enumerate(new.get("subjects", ())):
        if not subject.get("name"):
            yield field_errors.required(f"subjects[{index}].name")
        if subject.get("kind") not in ("ServiceAccount", "User", "Group"):
            known = ("ServiceAccount", "User", "Group")
            yield field_errors.not_supported(f"subjects[{index}].kind", subject.get("kind", ""), known)
        # In a RoleBinding, an account without a namespace is in the namespace of the binding.
        without_namespace = subject.get("kind") == "ServiceAccount" and not subject.get("namespace")
        if without_namespace and new.get("kind") == "ClusterRoleBinding":
            yield field_errors.required(f"subjects[{index}].namespace")


_FIELDS = ("data", "binaryData")
_MOST_BYTES = 1 << 20
_FROZEN = "field is immutable when `immutable` is set"


def check_configuration(new: Object, old: Object | None) -> Iterator[FieldError]:
    yield from _check_keys(new)
    size = sum(len(value.encode()) for field in _FIELDS for value in new.get(field, {}).values())
    if size > _MOST_BYTES:
        yield field_errors.too_long("data" if new.get("kind") == "Secret" else "", _MOST_BYTES)
    if old is None:
        return
    if new.get("type") != old.get("type"):
        yield field_errors.immutable("type", new.get("type"))
    if old.get("immutable"):
        yield from _check_frozen(new, old)


def _check_keys(new: Object) -> Iterator[FieldError]:
    for field in _FIELDS:
        for key in new.get(field, ()):
            for complaint in name_syntax.config_key(key):
                yield field_errors.invalid(f"{field}[{key}]", key, complaint)
    for key in new.get("binaryData", ()):
        if key in new.get("data", ()):
            yield field_errors.invalid(f"data[{key}]", key, "duplicate of key present in binaryData")


def _check_frozen(new: Object, old: Object) -> Iterator[FieldError]:
    if not new.get("immutable"):
        yield field_errors.forbidden("immutable", _FROZEN)
    for field in _FIELDS:
        if new.get(field, {}) != old.get(field, {}):
            yield field_errors.forbidden(field, _FROZEN)


_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_ADDRESS_TYPES = ("FQDN", "IPv4", "IPv6")


def check_service(new: Object, old: Object | None) -> Iterator[FieldError]:
    spec = new["spec"]
    kind, ports = spec.get("type", ""), spec.get("ports", [])
    headless = spec.get("clusterIP") == "None"
    if not ports and not headless and kind != "ExternalName":
        yield field_errors.required("spec.ports")
    if headless and kind in ("LoadBalancer", "NodePort"):
        yield field_errors.invalid(
            "spec.clusterIPs[0]", "None", f"may not be set to 'None' for {kind} services"
        )
    if kind == "ExternalName":
        yield from _check_external_name(spec)
    yield from _check_ports(ports)
    yield from check_labels(spec.get("selector", {}), "spec.selector")
    affinity = spec.get("sessionAffinity", "None")
    if affinity not in ("ClientIP", "None"):
        yield field_errors.not_supported("spec.sessionAffinity", affinity, ("ClientIP", "None"))
    if kind not in _TYPES:
        yield field_errors.not_supported("spec.type", kind, _TYPES)
    yield from _check_address_kept(spec, old)


def _check_external_name(spec: Object) -> Iterator[FieldError]:
    name = spec.get("externalName", "").removesuffix(".")
    if not name:
        yield field_errors.required("spec.externalName")
        return
    for complaint in name_syntax.dns_subdomain(name):
        yield field_errors.invalid("spec.externalName", name, complaint)


def _check_ports(ports: list[Object]) -> Iterator[FieldError]:
    seen: set[str] = set()
    used: set[tuple[str, int]] = set()
    for index, port in enumerate(ports):
        path = f"spec.ports[{index}]"
        name, protocol, number = port.get("name", ""), port.get("protocol", ""), port.get("port", 0)
        if not name and len(ports) > 1:
            yield field_errors.required(f"{path}.name")
        for complaint in name_syntax.dns_label(name) if name else ():
            yield field_errors.invalid(f"{path}.name", name, complaint)
        if name and name in seen:
            yield field_errors.duplicate(f"{path}.name", name)
        seen.add(name)
        for complaint in name_syntax.port_number(number):
            yield field_errors.invalid(f"{path}.port", number, complaint)
        if protocol not in _PROTOCOLS:
            yield field_errors.not_supported(f"{path}.protocol", protocol, _PROTOCOLS)
        yield from check_port(port.get("targetPort", 0), f"{path}.targetPort")
        if (protocol, number) in used:
            yield field_errors.duplicate(path, {"protocol": protocol, "port": number})
        used.add((protocol, number))


def _check_address_kept(spec: Object, old: Object | None) -> Iterator[FieldError]:
    before = (old or {}).get("spec", {})
    address, address_before = spec.get("clusterIP", ""), before.get("clusterIP", "")
    if (
        address_before
        and address != address_before
        and "ExternalName" not in (spec.get("type"), before.get("type"))
    ):
        yield field_errors.invalid("spec.clusterIPs[0]", [address], "may not change once set")


def check_endpoint_slice(new: Object, old: Object | None) -> Iterator[FieldError]:
    address_type = new.get("addressType", "")
    if not address_type:
        yield field_errors.required("addressType")
    elif address_type not in _ADDRESS_TYPES:
        yield field_errors.not_supported("addressType", address_type, _ADDRESS_TYPES)
    if old is not None and address_type != old.get("addressType"):
        yield field_errors.immutable("addressType", address_type)
    for index, endpoint in enumerate(new.get("endpoints") or ()):
        if not endpoint.get("addresses"):
            yield field_errors.required(f"endpoints[{index}].addresses", "must contain at least 1 address")
    for index, port in enumerate(new.get("ports") or ()):
        if port.get("protocol") not in _PROTOCOLS:
            yield field_errors.not_supported(f"ports[{index}].protocol", port.get("protocol", ""), _PROTOCOLS)
