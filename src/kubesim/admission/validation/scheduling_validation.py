"""Validation of node and pod affinity, topology spread constraints, taints and tolerations."""

from collections.abc import Callable, Iterator

from kubesim.admission import field_errors, name_syntax
from kubesim.admission.validation.metadata_validation import check_label_key, check_positive, check_selector
from kubesim.apiserver.api_messages import Object
from kubesim.apiserver.status_errors import FieldError

__all__ = [
    "check_affinity",
    "check_label_keys",
    "check_node_selector",
    "check_spread_constraints",
    "check_taints",
    "check_tolerations",
]

_ACTIONS = ("DoNotSchedule", "ScheduleAnyway")
_POLICIES = ("Honor", "Ignore")


def check_spread_constraints(constraints: list[Object], path: str) -> Iterator[FieldError]:
    for index, constraint in enumerate(constraints):
        here = f"{path}[{index}]"
        yield from _check_constraint(constraint, here)
        kind = _kind(constraint)
        if any(_kind(later) == kind for later in constraints[index + 1 :]):
            yield field_errors.duplicate(
                f"{here}.{{topologyKey, whenUnsatisfiable}}", f"{{{kind[0]}, {kind[1]}}}"
            )
        yield from _check_domains(constraint, here)
        for field in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if field in constraint and constraint[field] not in _POLICIES:
                yield field_errors.not_supported(f"{here}.{field}", constraint[field], _POLICIES)
        yield from check_label_keys(constraint, here)
        yield from check_selector(constraint.get("labelSelector", {}), f"{here}.labelSelector")


def _kind(constraint: Object) -> tuple[str, str]:
    return constraint.get("topologyKey", ""), constraint.get("whenUnsatisfiable", "")


def _check_constraint(constraint: Object, path: str) -> Iterator[FieldError]:
    yield from check_positive(constraint.get("maxSkew", 0), f"{path}.maxSkew")
    topology_key, action = _kind(constraint)
    if not topology_key:
        yield field_errors.required(f"{path}.topologyKey", "can not be empty")
    if action not in _ACTIONS:
        yield field_errors.not_supported(f"{path}.whenUnsatisfiable", action, _ACTIONS)


def _check_domains(constraint: Object, path: str) -> Iterator[FieldError]:
    if "minDomains" not in constraint:
        return
    yield from check_positive(constraint["minDomains"], f"{path}.minDomains")
    action = constraint.get("whenUnsatisfiable", "")
    if action != "DoNotSchedule":
        detail = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
        yield field_errors.invalid(f"{path}.minDomains", constraint["minDomains"], detail)


def check_label_keys(term: Object, path: str) -> Iterator[FieldError]:
    """Check `matchLabelKeys` and `mismatchLabelKeys`."""
    for field in ("matchLabelKeys", "mismatchLabelKeys"):
        keys = term.get(field, ())
        if keys and "labelSelector" not in term:
            yield field_errors.forbidden(
                f"{path}.{field}", "must not be specified when labelSelector is not set"
            )
            continue
        for index, key in enumerate(keys):
            yield from check_label_key(key, f"{path}.{field}[{index}]")
    yield from _check_keys_are_not_selected_too(term, path)
    for index, key in enumerate(term.get("matchLabelKeys", ())):
        if key in term.get("mismatchLabelKeys", ()):
            detail = "exists in both matchLabelKeys and mismatchLabelKeys"
            yield field_errors.invalid(f"{path}.matchLabelKeys[{index}]", key, detail)


def _check_keys_are_not_selected_too(term: Object, path: str) -> Iterator[FieldError]:
    """Check that the user's selector does not use the keys for which defaulting has added a requirement."""
    selector = term.get("labelSelector", {})
    position = {key: index for index, key in enumerate(term.get("matchLabelKeys", ()))}
    seen = set(selector.get("matchLabels", ()))
    for requirement in selector.get("matchExpressions", ()):
        key = requirement.get("key", "")
        if key in position and key in seen:
            detail = "exists in both matchLabelKeys and labelSelector"
            yield field_errors.invalid(f"{path}[{position[key]}]", key, detail)
        seen.add(key)


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def check_affinity(affinity: Object, path: str) -> Iterator[FieldError]:
    if "nodeAffinity" in affinity:
        yield from _check_node_affinity(affinity["nodeAffinity"], f"{path}.nodeAffinity")
    for name in ("podAffinity", "podAntiAffinity"):
        if name in affinity:
            yield from _check_pod_affinity(affinity[name], f"{path}.{name}")


def _check_node_affinity(affinity: Object, path: str) -> Iterator[FieldError]:
    if _REQUIRED in affinity:
        yield from check_node_selector(affinity[_REQUIRED], f"{path}.{_REQUIRED}")
    for index, preferred in enumerate(affinity.get(_PREFERRED, ())):
        here = f"{path}.{_PREFERRED}[{index}]"
        yield from _check_weight(preferred, here)
        # A preference for a value that no label can have is harmless: values go unchecked.
        yield from _check_term(preferred.get("preference", {}), f"{here}.preference", values=False)


def check_node_selector(selector: Object, path: str) -> Iterator[FieldError]:
    terms = selector.get("nodeSelectorTerms", ())
    if not terms:
        yield field_errors.required(f"{path}.nodeSelectorTerms", "must have at least one node selector term")
    for index, term in enumerate(terms):
        yield from _check_term(term, f"{path}.nodeSelectorTerms[{index}]", values=True)


def _check_weight(weighted: Object, path: str) -> Iterator[FieldError]:
    weight = weighted.get("weight", 0)
    if not 1 <= weight <= 100:
        yield field_errors.invalid(f"{path}.weight", weight, "must be in the range 1-100")


def _check_term(term: Object, path: str, *, values: bool) -> Iterator[FieldError]:
    for index, requirement in enumerate(term.get("matchExpressions", ())):
        yield from _check_label_requirement(requirement, f"{path}.matchExpressions[{index}]", values=values)
    for index, requirement in enumerate(term.get("matchFields", ())):
        yield from _check_field_requirement(requirement, f"{path}.matchFields[{index}]")


def _check_label_requirement(requirement: Object, path: str, *, values: bool) -> Iterator[FieldError]:
    operator, given = requirement.get("operator", ""), requirement.get("values", [])
    match operator:
        case "In" | "NotIn" if not given:
            yield field_errors.required(
                f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'"
            )
        case "Exists" | "DoesNotExist" if given:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            yield field_errors.forbidden(f"{path}.values", detail)
        case "Gt" | "Lt" if len(given) != 1:
            detail = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            yield field_errors.required(f"{path}.values", detail)
        case "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt":
            pass
        case _:
            yield field_errors.invalid(f"{path}.operator", operator, "not a valid selector operator")
    yield from check_label_key(requirement.get("key", ""), f"{path}.key")
    if values:
        yield from _check_values(given, name_syntax.label_value, path)


def _check_field_requirement(requirement: Object, path: str) -> Iterator[FieldError]:
    key, operator = requirement.get("key", ""), requirement.get("operator", "")
    values = requirement.get("values", [])
    if operator not in ("In", "NotIn"):
        yield field_errors.invalid(f"{path}.operator", operator, "not a valid selector operator")
    elif len(values) != 1:
        yield field_errors.required(
            f"{path}.values",
            "must be only one value when `operator` is 'In' or 'NotIn' for node field selector",
        )
    if key != "metadata.name":
        yield field_errors.invalid(f"{path}.key", key, "not a valid field selector key")
    else:
        yield from _check_values(values, name_syntax.dns_subdomain, path)


def _check_values(
    values: list[str], rule: Callable[[str], tuple[str, ...]], path: str
) -> Iterator[FieldError]:
    for index, value in enumerate(values):
        for complaint in rule(value):
            yield field_errors.invalid(f"{path}.values[{index}]", value, complaint)


def _check_pod_affinity(affinity: Object, path: str) -> Iterator[FieldError]:
    for index, term in enumerate(affinity.get(_REQUIRED, ())):
        yield from _check_pod_term(term, f"{path}.{_REQUIRED}[{index}]")
    for index, weighted in enumerate(affinity.get(_PREFERRED, ())):
        here = f"{path}.{_PREFERRED}[{index}]"
        yield from _check_weight(weighted, here)
        yield from _check_pod_term(weighted.get("podAffinityTerm", {}), f"{here}.podAffinityTerm")


def _check_pod_term(term: Object, path: str) -> Iterator[FieldError]:
    for field in ("labelSelector", "namespaceSelector"):
        yield from check_selector(term.get(field, {}), f"{path}.{field}")
    for namespace in term.get("namespaces", ()):
        for complaint in name_syntax.dns_label(namespace):
            yield field_errors.invalid(f"{path}.namespace", namespace, complaint)
    yield from check_label_keys(term, path)
    topology_key = term.get("topologyKey", "")
    if not topology_key:
        yield field_errors.required(f"{path}.topologyKey", "can not be empty")
    yield from check_label_key(topology_key, f"{path}.topologyKey")


_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def check_tolerations(tolerations: list[Object], path: str) -> Iterator[FieldError]:
    for index, toleration in enumerate(tolerations):
        yield from _check_toleration(toleration, f"{path}[{index}]")


def _check_toleration(toleration: Object, path: str) -> Iterator[FieldError]:
    key, operator = toleration.get("key", ""), toleration.get("operator", "")
    effect = toleration.get("effect", "")
    if key:
        yield from check_label_key(key, f"{path}.key")
    elif operator != "Exists":
        yield field_errors.invalid(
            f"{path}.operator",
            operator,
            'operator must be Exists when `key` is empty, which means "match all values and all keys"',
        )
    if "tolerationSeconds" in toleration and effect != "NoExecute":
        detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        yield field_errors.invalid(f"{path}.effect", effect, detail)
    yield from _check_operator(operator, toleration.get("value", ""), path)
    if effect and effect not in _EFFECTS:
        yield field_errors.not_supported(f"{path}.effect", effect, _EFFECTS)


def _check_operator(operator: str, value: str, path: str) -> Iterator[FieldError]:
    if operator in ("", "Equal"):
        if complaints := name_syntax.label_value(value):
            yield field_errors.invalid(f"{path}.operator", value, ";".join(complaints))
    elif operator == "Exists":
        if value:
            detail = "value must be empty when `operator` is 'Exists'"
            yield field_errors.invalid(f"{path}.operator", value, detail)
    elif operator in ("Lt", "Gt"):
        if not value.removeprefix("-").isdecimal():
            detail = "must be a valid decimal integer in canonical form"
            yield field_errors.invalid(f"{path}.value", value, detail)
    else:
        yield field_errors.not_supported(f"{path}.operator", operator, ("Equal", "Exists"))


def check_taints(taints: list[Object], path: str) -> Iterator[FieldError]:
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        here = f"{path}[{index}]"
        key, value, effect = taint.get("key", ""), taint.get("value", ""), taint.get("effect", "")
        yield from check_label_key(key, f"{here}.key")
        if complaints := name_syntax.label_value(value):
            yield field_errors.invalid(f"{here}.value", value, ";".join(complaints))
        if not effect:
            yield field_errors.required(f"{here}.effect")
        elif effect not in _EFFECTS:
            yield field_errors.not_supported(f"{here}.effect", effect, _EFFECTS)
        if (key, effect) in seen:
            yield field_errors.duplicate(here, taint, "taints must be unique by key and effect pair")
        seen.add((key, effect))
