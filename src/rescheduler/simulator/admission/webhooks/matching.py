"""Which webhooks want to see a request."""

from collections.abc import Mapping
from typing import Any

from rescheduler.model.selectors.objects import selector_from_object
from rescheduler.simulator.admission.expressions import compile_expression
from rescheduler.simulator.admission.webhooks.attempt import Attempt
from rescheduler.simulator.exchange import Object

__all__ = ["concerns"]

_OWN_GROUP = "admissionregistration.k8s.io"
"""Webhooks never see webhook configurations: a broken one could not be mended any more."""


def concerns(webhook: Object, attempt: Attempt) -> bool:
    """Raises `expressions.Undefined` if a match condition has no value for this object."""
    return (
        attempt.kind.group != _OWN_GROUP
        and any(_rule_fits(rule, attempt) for rule in webhook.get("rules", ()))
        and _namespace_fits(webhook.get("namespaceSelector", {}), attempt)
        and _object_fits(webhook.get("objectSelector", {}), attempt)
        and _conditions_hold(webhook.get("matchConditions", []), attempt)
    )


def _rule_fits(rule: Object, attempt: Attempt) -> bool:
    kind = attempt.kind
    return (
        _is_among(attempt.operation, rule.get("operations", []))
        and _is_among(kind.group, rule.get("apiGroups", []))
        and _is_among(kind.version, rule.get("apiVersions", []))
        and any(_resource_fits(resource, attempt) for resource in rule.get("resources", ()))
        and rule.get("scope", "*") in ("*", "Namespaced" if kind.namespaced else "Cluster")
    )


def _is_among(value: str, wanted: list[str]) -> bool:
    return value in wanted or "*" in wanted


def _resource_fits(wanted: str, attempt: Attempt) -> bool:
    """`pods` is without its subresources, `pods/*` with them, and `*` is as `*` and nothing behind it."""
    resource, _, subresource = wanted.partition("/")
    return resource in ("*", attempt.kind.plural) and subresource in ("*", attempt.subresource)


def _namespace_fits(selector: Object, attempt: Attempt) -> bool:
    labels: Mapping[str, str] = attempt.namespace_labels
    if attempt.kind.name == "Namespace" and not attempt.kind.group:
        labels = _labels(attempt.object or attempt.old)
    elif not attempt.kind.namespaced:
        return True
    return selector_from_object(selector).matches(labels)


def _object_fits(selector: Object, attempt: Attempt) -> bool:
    wanted = selector_from_object(selector)
    return any(
        wanted.matches(_labels(candidate))
        for candidate in (attempt.object, attempt.old)
        if candidate is not None
    )


def _labels(obj: Object | None) -> Mapping[str, str]:
    labels: Mapping[str, str] = (obj or {}).get("metadata", {}).get("labels") or {}
    return labels


def _conditions_hold(conditions: list[Object], attempt: Attempt) -> bool:
    if not conditions:
        return True
    variables: dict[str, Any] = {
        "object": attempt.object,
        "oldObject": attempt.old,
        "request": attempt.request(uid=""),
    }
    return all(compile_expression(condition["expression"]).holds(variables) for condition in conditions)
