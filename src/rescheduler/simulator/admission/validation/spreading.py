"""Rules for topology spread constraints, and for the label keys they share with pod affinity."""

from collections.abc import Iterator

from rescheduler.simulator.admission import causes
from rescheduler.simulator.admission.validation.labels import check_label_key, check_selector
from rescheduler.simulator.admission.validation.numbers import check_positive
from rescheduler.simulator.exchange import Object
from rescheduler.simulator.failures import Cause

__all__ = ["check_label_keys", "check_spread_constraints"]

_ACTIONS = ("DoNotSchedule", "ScheduleAnyway")
_POLICIES = ("Honor", "Ignore")


def check_spread_constraints(constraints: list[Object], path: str) -> Iterator[Cause]:
    for index, constraint in enumerate(constraints):
        here = f"{path}[{index}]"
        yield from _check_constraint(constraint, here)
        kind = _kind(constraint)
        if any(_kind(later) == kind for later in constraints[index + 1 :]):
            yield causes.duplicate(f"{here}.{{topologyKey, whenUnsatisfiable}}", f"{{{kind[0]}, {kind[1]}}}")
        yield from _check_domains(constraint, here)
        for field in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if field in constraint and constraint[field] not in _POLICIES:
                yield causes.not_supported(f"{here}.{field}", constraint[field], _POLICIES)
        yield from check_label_keys(constraint, here)
        yield from check_selector(constraint.get("labelSelector", {}), f"{here}.labelSelector")


def _kind(constraint: Object) -> tuple[str, str]:
    return constraint.get("topologyKey", ""), constraint.get("whenUnsatisfiable", "")


def _check_constraint(constraint: Object, path: str) -> Iterator[Cause]:
    yield from check_positive(constraint.get("maxSkew", 0), f"{path}.maxSkew")
    topology_key, action = _kind(constraint)
    if not topology_key:
        yield causes.required(f"{path}.topologyKey", "can not be empty")
    if action not in _ACTIONS:
        yield causes.not_supported(f"{path}.whenUnsatisfiable", action, _ACTIONS)


def _check_domains(constraint: Object, path: str) -> Iterator[Cause]:
    if "minDomains" not in constraint:
        return
    yield from check_positive(constraint["minDomains"], f"{path}.minDomains")
    action = constraint.get("whenUnsatisfiable", "")
    if action != "DoNotSchedule":
        detail = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
        yield causes.invalid(f"{path}.minDomains", constraint["minDomains"], detail)


def check_label_keys(term: Object, path: str) -> Iterator[Cause]:
    """Of `matchLabelKeys` and `mismatchLabelKeys`."""
    for field in ("matchLabelKeys", "mismatchLabelKeys"):
        keys = term.get(field, ())
        if keys and "labelSelector" not in term:
            yield causes.forbidden(f"{path}.{field}", "must not be specified when labelSelector is not set")
            continue
        for index, key in enumerate(keys):
            yield from check_label_key(key, f"{path}.{field}[{index}]")
    yield from _check_keys_are_not_selected_too(term, path)
    for index, key in enumerate(term.get("matchLabelKeys", ())):
        if key in term.get("mismatchLabelKeys", ()):
            detail = "exists in both matchLabelKeys and mismatchLabelKeys"
            yield causes.invalid(f"{path}.matchLabelKeys[{index}]", key, detail)


def _check_keys_are_not_selected_too(term: Object, path: str) -> Iterator[Cause]:
    """Defaulting has added one requirement for each key; a second one is the user's."""
    selector = term.get("labelSelector", {})
    position = {key: index for index, key in enumerate(term.get("matchLabelKeys", ()))}
    seen = set(selector.get("matchLabels", ()))
    for requirement in selector.get("matchExpressions", ()):
        key = requirement.get("key", "")
        if key in position and key in seen:
            detail = "exists in both matchLabelKeys and labelSelector"
            yield causes.invalid(f"{path}[{position[key]}]", key, detail)
        seen.add(key)
