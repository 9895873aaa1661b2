"""Rules for node and pod affinity."""

from collections.abc import Callable, Iterator

from rescheduler.simulator.admission import causes, names
from rescheduler.simulator.admission.validation.labels import check_label_key, check_selector
from rescheduler.simulator.admission.validation.spreading import check_label_keys
from rescheduler.simulator.exchange import Object
from rescheduler.simulator.failures import Cause

__all__ = ["check_affinity", "check_node_selector"]

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def check_affinity(affinity: Object, path: str) -> Iterator[Cause]:
    if "nodeAffinity" in affinity:
        yield from _check_node_affinity(affinity["nodeAffinity"], f"{path}.nodeAffinity")
    for name in ("podAffinity", "podAntiAffinity"):
        if name in affinity:
            yield from _check_pod_affinity(affinity[name], f"{path}.{name}")


def _check_node_affinity(affinity: Object, path: str) -> Iterator[Cause]:
    if _REQUIRED in affinity:
        yield from check_node_selector(affinity[_REQUIRED], f"{path}.{_REQUIRED}")
    for index, preferred in enumerate(affinity.get(_PREFERRED, ())):
        here = f"{path}.{_PREFERRED}[{index}]"
        yield from _check_weight(preferred, here)
        # A preference for a value that no label can have is harmless: values go unchecked.
        yield from _check_term(preferred.get("preference", {}), f"{here}.preference", values=False)


def check_node_selector(selector: Object, path: str) -> Iterator[Cause]:
    terms = selector.get("nodeSelectorTerms", ())
    if not terms:
        yield causes.required(f"{path}.nodeSelectorTerms", "must have at least one node selector term")
    for index, term in enumerate(terms):
        yield from _check_term(term, f"{path}.nodeSelectorTerms[{index}]", values=True)


def _check_weight(weighted: Object, path: str) -> Iterator[Cause]:
    weight = weighted.get("weight", 0)
    if not 1 <= weight <= 100:
        yield causes.invalid(f"{path}.weight", weight, "must be in the range 1-100")


def _check_term(term: Object, path: str, *, values: bool) -> Iterator[Cause]:
    for index, requirement in enumerate(term.get("matchExpressions", ())):
        yield from _check_label_requirement(requirement, f"{path}.matchExpressions[{index}]", values=values)
    for index, requirement in enumerate(term.get("matchFields", ())):
        yield from _check_field_requirement(requirement, f"{path}.matchFields[{index}]")


def _check_label_requirement(requirement: Object, path: str, *, values: bool) -> Iterator[Cause]:
    operator, given = requirement.get("operator", ""), requirement.get("values", [])
    match operator:
        case "In" | "NotIn" if not given:
            yield causes.required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
        case "Exists" | "DoesNotExist" if given:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            yield causes.forbidden(f"{path}.values", detail)
        case "Gt" | "Lt" if len(given) != 1:
            detail = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            yield causes.required(f"{path}.values", detail)
        case "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt":
            pass
        case _:
            yield causes.invalid(f"{path}.operator", operator, "not a valid selector operator")
    yield from check_label_key(requirement.get("key", ""), f"{path}.key")
    if values:
        yield from _check_values(given, names.label_value, path)


def _check_field_requirement(requirement: Object, path: str) -> Iterator[Cause]:
    key, operator = requirement.get("key", ""), requirement.get("operator", "")
    values = requirement.get("values", [])
    if operator not in ("In", "NotIn"):
        yield causes.invalid(f"{path}.operator", operator, "not a valid selector operator")
    elif len(values) != 1:
        yield causes.required(
            f"{path}.values",
            "must be only one value when `operator` is 'In' or 'NotIn' for node field selector",
        )
    if key != "metadata.name":
        yield causes.invalid(f"{path}.key", key, "not a valid field selector key")
    else:
        yield from _check_values(values, names.dns_subdomain, path)


def _check_values(values: list[str], rule: Callable[[str], tuple[str, ...]], path: str) -> Iterator[Cause]:
    for index, value in enumerate(values):
        for complaint in rule(value):
            yield causes.invalid(f"{path}.values[{index}]", value, complaint)


def _check_pod_affinity(affinity: Object, path: str) -> Iterator[Cause]:
    for index, term in enumerate(affinity.get(_REQUIRED, ())):
        yield from _check_pod_term(term, f"{path}.{_REQUIRED}[{index}]")
    for index, weighted in enumerate(affinity.get(_PREFERRED, ())):
        here = f"{path}.{_PREFERRED}[{index}]"
        yield from _check_weight(weighted, here)
        yield from _check_pod_term(weighted.get("podAffinityTerm", {}), f"{here}.podAffinityTerm")


def _check_pod_term(term: Object, path: str) -> Iterator[Cause]:
    for field in ("labelSelector", "namespaceSelector"):
        yield from check_selector(term.get(field, {}), f"{path}.{field}")
    for namespace in term.get("namespaces", ()):
        for complaint in names.dns_label(namespace):
            yield causes.invalid(f"{path}.namespace", namespace, complaint)
    yield from check_label_keys(term, path)
    topology_key = term.get("topologyKey", "")
    if not topology_key:
        yield causes.required(f"{path}.topologyKey", "can not be empty")
    yield from check_label_key(topology_key, f"{path}.topologyKey")
