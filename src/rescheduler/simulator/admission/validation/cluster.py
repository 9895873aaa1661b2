"""Rules for nodes, namespaces, budgets, priority classes, leases, autoscalers and role bindings."""

from collections.abc import Iterator

from rescheduler.simulator.admission import causes
from rescheduler.simulator.admission.defaults.priority import SYSTEM_CLASSES
from rescheduler.simulator.admission.validation.labels import check_selector
from rescheduler.simulator.admission.validation.numbers import check_at_most_all, check_count_or_percent
from rescheduler.simulator.admission.validation.resources import check_amounts
from rescheduler.simulator.admission.validation.tolerations import check_taints
from rescheduler.simulator.exchange import Object
from rescheduler.simulator.failures import Cause

__all__ = [
    "check_autoscaler",
    "check_budget",
    "check_event",
    "check_lease",
    "check_node",
    "check_priority_class",
    "check_role_binding",
]

_HIGHEST_USER_PRIORITY = 1_000_000_000
_SYSTEM_PREFIX = "system-"
_EVICTION_POLICIES = ("AlwaysAllow", "IfHealthyBudget")


def check_node(new: Object, old: Object | None) -> Iterator[Cause]:
    yield from check_taints(new["spec"].get("taints", []), "metadata.taints")
    for field in ("capacity", "allocatable"):
        yield from check_amounts(new.get("status", {}).get(field, {}), f"status.{field}")
    before = (old or {}).get("spec", {})
    provider, provider_before = new["spec"].get("providerID", ""), before.get("providerID", "")
    if provider_before and provider != provider_before:
        what = "modified" if provider else "cleared"
        yield causes.invalid("spec.providerID", None, f"field cannot be {what} once set")
    if before.get("podCIDRs") and new["spec"].get("podCIDRs") != before["podCIDRs"]:
        detail = 'node updates may not change podCIDR except from "" to valid'
        yield causes.forbidden("spec.podCIDRs", detail)


def check_budget(new: Object, _: Object | None) -> Iterator[Cause]:
    spec = new["spec"]
    if "minAvailable" in spec and "maxUnavailable" in spec:
        yield causes.invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set")
    for field in ("minAvailable", "maxUnavailable"):
        if field in spec:
            yield from check_count_or_percent(spec[field], f"spec.{field}")
            yield from check_at_most_all(spec[field], f"spec.{field}")
    yield from check_selector(spec.get("selector", {}), "spec.selector")
    policy = spec.get("unhealthyPodEvictionPolicy", "AlwaysAllow")
    if policy not in _EVICTION_POLICIES:
        yield causes.not_supported("spec.unhealthyPodEvictionPolicy", policy, _EVICTION_POLICIES)


def check_priority_class(new: Object, old: Object | None) -> Iterator[Cause]:
    name, value = new["metadata"].get("name", ""), new.get("value", 0)
    if old is not None:
        if value != old.get("value", 0):
            yield causes.forbidden("value", "may not be changed in an update.")
        if new.get("preemptionPolicy") != old.get("preemptionPolicy"):
            yield causes.immutable("preemptionPolicy", new.get("preemptionPolicy"))
        return
    if name.startswith(_SYSTEM_PREFIX):
        yield from _check_system_class(name, value, is_default=new.get("globalDefault", False))
    elif value > _HIGHEST_USER_PRIORITY:
        detail = f"maximum allowed value of a user defined priority is {_HIGHEST_USER_PRIORITY}"
        yield causes.forbidden("value", detail)
    allowed = ("PreemptLowerPriority", "Never")
    if new.get("preemptionPolicy") not in allowed:
        yield causes.not_supported("preemptionPolicy", new.get("preemptionPolicy", ""), allowed)


def _check_system_class(name: str, value: int, *, is_default: bool) -> Iterator[Cause]:
    if name not in SYSTEM_CLASSES:
        why = f"{name} is not a known system priority class"
    elif value != SYSTEM_CLASSES[name]:
        why = f"value of {name} PriorityClass must be {SYSTEM_CLASSES[name]}"
    elif is_default:
        why = f"globalDefault of {name} PriorityClass must be false"
    else:
        return
    detail = f"priority class names with 'system-' prefix are reserved for system use only. error: {why}"
    yield causes.forbidden("metadata.name", detail)


def check_event(new: Object, _: Object | None) -> Iterator[Cause]:
    """An event is where its object is; one about a cluster-wide object is in `default`."""
    about, here = new.get("involvedObject", {}).get("namespace", ""), new["metadata"].get("namespace", "")
    if new.get("eventTime"):
        fits = bool(about) or here in ("default", "kube-system")
    else:
        fits = here in ("", about or "default")
    if not fits:
        yield causes.invalid("involvedObject.namespace", about, "does not match event.namespace")


def check_lease(new: Object, _: Object | None) -> Iterator[Cause]:
    spec = new.get("spec", {})
    if spec.get("leaseDurationSeconds", 1) <= 0:
        here = "spec.leaseDurationSeconds"
        yield causes.invalid(here, spec["leaseDurationSeconds"], "must be greater than 0")
    if spec.get("leaseTransitions", 0) < 0:
        here = "spec.leaseTransitions"
        yield causes.invalid(here, spec["leaseTransitions"], "must be greater than or equal to 0")


def check_autoscaler(new: Object, _: Object | None) -> Iterator[Cause]:
    spec = new["spec"]
    fewest, most = spec.get("minReplicas", 1), spec.get("maxReplicas", 0)
    if fewest < 1:
        yield causes.invalid("spec.minReplicas", fewest, "must be greater than or equal to 1")
    if most < 0:
        yield causes.invalid("spec.maxReplicas", most, "must be greater than 0")
    if most < fewest:
        yield causes.invalid("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`")
    if most == 0:
        yield causes.required("spec.maxReplicas")
    for field in ("kind", "name"):
        if not spec.get("scaleTargetRef", {}).get(field):
            yield causes.required(f"spec.scaleTargetRef.{field}")


def check_role_binding(new: Object, old: Object | None) -> Iterator[Cause]:
    role = new.get("roleRef", {})
    if not role.get("name"):
        yield causes.required("roleRef.name")
    allowed = ("Role", "ClusterRole") if new.get("kind") == "RoleBinding" else ("ClusterRole",)
    if role.get("kind") not in allowed:
        yield causes.not_supported("roleRef.kind", role.get("kind", ""), allowed)
    if old is not None and role != old.get("roleRef"):
        yield causes.immutable("roleRef", role)
    for index, subject in enumerate(new.get("subjects", ())):
        if not subject.get("name"):
            yield causes.required(f"subjects[{index}].name")
        if subject.get("kind") not in ("ServiceAccount", "User", "Group"):
            known = ("ServiceAccount", "User", "Group")
            yield causes.not_supported(f"subjects[{index}].kind", subject.get("kind", ""), known)
        # Inside of a namespace, an account without one is of the same.
        homeless = subject.get("kind") == "ServiceAccount" and not subject.get("namespace")
        if homeless and new.get("kind") == "ClusterRoleBinding":
            yield causes.required(f"subjects[{index}].namespace")
