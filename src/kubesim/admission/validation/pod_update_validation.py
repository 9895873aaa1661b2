"""Validation of pod updates.

Only images, deadlines, tolerations, scheduling gates and ephemeral containers may change, and, while a
scheduling gate is set, the node affinity may become narrower.
"""

from collections.abc import Iterator
from typing import Any

from kubesim.admission import field_errors, name_syntax
from kubesim.admission.validation.pod_validation import LARGEST_INT32
from kubesim.apiserver.api_messages import Object
from kubesim.apiserver.status_errors import FieldError

__all__ = ["check_ephemeral_containers", "check_pod_update", "without_empty"]

_CHANGEABLE = ",".join((
    "`spec.containers[*].image`",
    "`spec.initContainers[*].image`",
    "`spec.activeDeadlineSeconds`",
    "`spec.tolerations` (only additions to existing tolerations)",
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
))  # fmt: skip
_GROUPS = ("containers", "initContainers")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def check_pod_update(new: Object, old: Object, *, may_resize: bool = False) -> Iterator[FieldError]:
    """Check a pod update; with `may_resize`, container resources may change as well."""
    spec, before = new["spec"], old["spec"]
    for group in _GROUPS:
        if len(spec.get(group, ())) != len(before.get(group, ())):
            yield field_errors.forbidden(f"spec.{group}", "pod updates may not add or remove containers")
            return
    yield from _check_deadline(spec, before)
    yield from _check_tolerations(spec.get("tolerations", []), before.get("tolerations", []))
    yield from _check_gates(spec, before)
    comparable = _with_changeable_undone(spec, before, may_resize=may_resize)
    if before.get("schedulingGates"):
        yield from _check_node_choice(spec, before)
        comparable = _with_node_choice_undone(comparable, before)
    comparable, before = without_empty(comparable), without_empty(before)
    if comparable != before:
        changes = "\n".join(_differences(comparable, before))
        detail = f"pod updates may not change fields other than {_CHANGEABLE}\n{changes}"
        yield field_errors.forbidden("spec", detail)


def _check_deadline(spec: Object, before: Object) -> Iterator[FieldError]:
    path = "spec.activeDeadlineSeconds"
    deadline, deadline_before = spec.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds")
    if deadline is None:
        if deadline_before is not None:
            yield field_errors.invalid(path, None, "must not update from a positive integer to nil value")
    elif not 0 <= deadline <= LARGEST_INT32:
        yield field_errors.invalid(path, deadline, name_syntax.between(0, LARGEST_INT32))
    elif deadline_before is not None and deadline > deadline_before:
        yield field_errors.invalid(path, deadline, "must be less than or equal to previous value")


def _check_tolerations(tolerations: list[Object], before: list[Object]) -> Iterator[FieldError]:
    kept = [_without(toleration, "tolerationSeconds") for toleration in tolerations]
    if any(_without(toleration, "tolerationSeconds") not in kept for toleration in before):
        detail = "existing toleration can not be modified except its tolerationSeconds"
        yield field_errors.forbidden("spec.tolerations", detail)


def _check_gates(spec: Object, before: Object) -> Iterator[FieldError]:
    known = {gate.get("name", "") for gate in before.get("schedulingGates", ())}
    for index, gate in enumerate(spec.get("schedulingGates", ())):
        name = gate.get("name", "")
        if name not in known:
            detail = f"only deletion is allowed, but found new scheduling gate '{name}'"
            yield field_errors.forbidden(f"spec.schedulingGates[{index}].name", detail)


def _check_node_choice(spec: Object, before: Object) -> Iterator[FieldError]:
    selector, selector_before = spec.get("nodeSelector", {}), before.get("nodeSelector", {})
    if not selector_before.items() <= selector.items():
        detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        yield field_errors.invalid("spec.nodeSelector", selector, detail)
    terms, terms_before = _required_terms(spec), _required_terms(before)
    path = f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"
    if terms_before and len(terms) != len(terms_before):
        detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        yield field_errors.invalid(path, terms, detail)
        return
    for index, (term, term_before) in enumerate(zip(terms, terms_before, strict=False)):
        if not _only_adds(term, term_before):
            detail = "only additions are allowed (no mutations or deletions)"
            yield field_errors.invalid(f"{path}[{index}]", term, detail)


def _required_terms(spec: Object) -> list[Object]:
    node_affinity = spec.get("affinity", {}).get("nodeAffinity", {})
    terms: list[Object] = node_affinity.get(_REQUIRED, {}).get("nodeSelectorTerms", [])
    return terms


def _only_adds(term: Object, before: Object) -> bool:
    fields = ("matchExpressions", "matchFields")
    if not any(before.get(field) for field in fields):
        return not any(term.get(field) for field in fields)
    return all(term.get(field, [])[: len(before.get(field, []))] == before.get(field, []) for field in fields)


def _with_changeable_undone(spec: Object, before: Object, *, may_resize: bool) -> Object:
    """Return `spec` with all changeable fields set to their old values."""
    fields = ("activeDeadlineSeconds", "tolerations", "schedulingGates")
    undone = _without(spec, *fields) | {field: before[field] for field in fields if field in before}
    if before.get("terminationGracePeriodSeconds", 0) < 0 and spec.get("terminationGracePeriodSeconds") == 1:
        undone["terminationGracePeriodSeconds"] = before["terminationGracePeriodSeconds"]
    changeable = ("image", "resources") if may_resize else ("image",)
    for group in _GROUPS:
        if group in spec:
            undone[group] = [
                container
                | {field: container_before[field] for field in changeable if field in container_before}
                for container, container_before in zip(spec[group], before.get(group, ()), strict=False)
            ]
    return undone


def _with_node_choice_undone(spec: Object, before: Object) -> Object:
    undone = _without(spec, "nodeSelector")
    if "nodeSelector" in before:
        undone["nodeSelector"] = before["nodeSelector"]
    affinity = _without(spec.get("affinity", {}), "nodeAffinity")
    if "nodeAffinity" in before.get("affinity", {}):
        affinity["nodeAffinity"] = before["affinity"]["nodeAffinity"]
    undone["affinity"] = affinity
    return undone


def _without(obj: Object, *fields: str) -> Object:
    return {field: value for field, value in obj.items() if field not in fields}


def without_empty(value: Any) -> Any:
    """Return the value without empty fields, which mean the same as absent ones."""
    if isinstance(value, dict):
        return {
            key: without_empty(inner)
            for key, inner in value.items()
            if inner not in (None, "", [], {}, False)
        }
    return [without_empty(inner) for inner in value] if isinstance(value, list) else value


def _differences(new: Object, old: Object) -> Iterator[str]:
    for field in sorted({*new, *old}):
        if new.get(field) != old.get(field):
            yield f"  {field}:"
            yield from (f"  - {field_errors.shown_value(old[field])}",) if field in old else ()
            yield from (f"  + {field_errors.shown_value(new[field])}",) if field in new else ()


_PATH = "spec.ephemeralContainers"


def check_ephemeral_containers(new: Object, old: Object) -> Iterator[FieldError]:
    spec = new["spec"]
    wanted = spec.get("ephemeralContainers", [])
    taken = {each.get("name") for group in ("containers", "initContainers") for each in spec.get(group, ())}
    for index, container in enumerate(wanted):
        if container.get("name") in taken:
            yield field_errors.duplicate(f"{_PATH}[{index}].name", container.get("name"))
        taken.add(container.get("name"))
    by_name = {container.get("name"): without_empty(container) for container in wanted}
    for before in old["spec"].get("ephemeralContainers", ()):
        name = before["name"]
        if name not in by_name:
            yield field_errors.forbidden(
                _PATH, f'existing ephemeral containers "{name}" may not be removed\n'
            )
        elif by_name[name] != without_empty(before):
            yield field_errors.forbidden(
                _PATH, f'existing ephemeral containers "{name}" may not be changed\n'
            )
