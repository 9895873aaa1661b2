"""The schema of one version of a custom kind: structure and validation rules (`x-kubernetes-validations`).

In a rule, `self` is the value at the place of the rule and `oldSelf` its previous value. Rules with `oldSelf`
run only if there was a previous value.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from kubesim.admission import field_errors
from kubesim.admission.cel_evaluation import UndefinedValue, compile_expression
from kubesim.apiserver.api_messages import Object, encode
from kubesim.apiserver.status_errors import FieldError
from kubesim.custom_resources import schema_values
from kubesim.custom_resources.schema_values import check_value

__all__ = ["CustomSchema", "ScalePaths", "check_rules", "has_rules"]

_NOTHING: Any = object()
_REASON_TITLES = {
    "FieldValueInvalid": "Invalid value",
    "FieldValueForbidden": "Forbidden",
    "FieldValueRequired": "Required value",
    "FieldValueDuplicate": "Duplicate value",
}


def has_rules(schema: Any) -> bool:
    if isinstance(schema, dict):
        return bool(schema.get("x-kubernetes-validations")) or any(has_rules(v) for v in schema.values())
    return isinstance(schema, list) and any(has_rules(inner) for inner in schema)


def check_rules(value: Any, old: Any, schema: Object, path: str = "") -> Iterator[FieldError]:
    """Check the validation rules; `old` is None for a new object."""
    yield from _check(value, _NOTHING if old is None else old, schema, path)


def _check(value: Any, old: Any, schema: Object, path: str) -> Iterator[FieldError]:
    for rule in schema.get("x-kubernetes-validations", ()):
        yield from _check_rule(rule, value, old, path)
    if isinstance(value, dict):
        yield from _check_fields(value, old, schema, path)
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        keys = schema.get("x-kubernetes-list-map-keys", ())
        for index, item in enumerate(value):
            yield from _check(item, _same_item(item, old, keys), schema["items"], f"{path}[{index}]")


def _check_fields(value: Object, old: Any, schema: Object, path: str) -> Iterator[FieldError]:
    properties, further = schema.get("properties", {}), schema.get("additionalProperties")
    for field, inner in sorted(value.items()):
        known = properties.get(field) or (further if isinstance(further, dict) else None)
        if known is not None:
            before = old.get(field, _NOTHING) if isinstance(old, dict) else _NOTHING
            yield from _check(inner, before, known, f"{path}.{field}" if path else field)


def _same_item(item: Any, old: Any, keys: list[str]) -> Any:
    """Return the previous item; only items of map lists have keys to find it by."""
    if not keys or not isinstance(old, list) or not isinstance(item, dict):
        return _NOTHING
    known_by = [item.get(key) for key in keys]
    return next((b for b in old if isinstance(b, dict) and [b.get(k) for k in keys] == known_by), _NOTHING)


def _check_rule(rule: Object, value: Any, old: Any, path: str) -> Iterator[FieldError]:
    expression = compile_expression(rule["rule"])
    if expression.mentions("oldSelf") and old is _NOTHING:
        return
    variables = {"self": value} if old is _NOTHING else {"self": value, "oldSelf": old}
    try:
        if expression.holds(variables):
            return
        problem = rule.get("message") or f"failed rule: {rule['rule']}"
    except UndefinedValue as undefined:
        problem = f"{undefined} evaluating rule: {rule.get('message') or rule['rule']}"
    reason = rule.get("reason", "FieldValueInvalid")
    where = f"{path}{rule.get('fieldPath', '')}".removeprefix(".")
    if not isinstance(value, dict | list):
        shown = encode(value).decode()
        problem = {"FieldValueInvalid": f"{shown}: {problem}", "FieldValueDuplicate": shown}.get(
            reason, problem
        )
    yield FieldError(where or "<nil>", reason, f"{_REASON_TITLES.get(reason, 'Invalid value')}: {problem}")


_BLOCKING = (
    "FieldValueRequired",
    "FieldValueTypeInvalid",
    "FieldValueNotSupported",
    "FieldValueTooLong",
    "FieldValueTooMany",
)
"""The errors after which rules are not evaluated, because they could fail for the same reason."""
_UNCHECKED = (
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)
_INT32 = (1 << 31) - 1


class ScalePaths(NamedTuple):
    """The paths of the fields that the scale subresource shows."""

    replicas: str
    status_replicas: str
    selector: str = ""


@dataclass(frozen=True, slots=True)
class CustomSchema:
    root: Object
    """The definition's `openAPIV3Schema`."""
    scale: ScalePaths | None = None

    def completed(self, obj: Object) -> Object:
        """Return a copy without unknown fields and with defaults."""
        result: Object = schema_values.shaped(obj, self.root, whole_object=True)
        return result

    def unknown_fields(self, obj: Object) -> list[str]:
        return list(schema_values.unknown(obj, self.root, whole_object=True))

    def faults(self, new: Object, old: Object | None) -> Iterator[FieldError]:
        found = [*check_value(new, self.root, ""), *self._scale_faults(new)]
        yield from found
        if has_rules(self.root):
            if any(fault.reason in _BLOCKING for fault in found):
                yield field_errors.invalid("<nil>", None, _UNCHECKED)
            else:
                yield from check_rules(new, old, self.root)

    def _scale_faults(self, obj: Object) -> Iterator[FieldError]:
        for path in (self.scale.replicas, self.scale.status_replicas) if self.scale else ():
            number, culprit = _number_at(obj, path)
            if culprit is not None:
                problem = f"{path} accessor error: {culprit} is of the type {_go_type(culprit)}, expected "
                wanted = "int64" if culprit is number else "map[string]interface{}"
                yield field_errors.invalid(path, 0, f"{problem}{wanted}")
            elif number is not None and number < 0:
                yield field_errors.invalid(path, number, "should be a non-negative integer")
            elif number is not None and number > _INT32:
                yield field_errors.invalid(path, number, f"should be less than or equal to {_INT32}")


def _number_at(obj: Any, path: str) -> tuple[Any, Any]:
    """Return the number at a path, and the value of a wrong type on the path or at its end."""
    for step in filter(None, path.split(".")):
        if not isinstance(obj, dict):
            return None, obj
        if obj.get(step) is None:
            return None, None
        obj = obj[step]
    is_number = isinstance(obj, int) and not isinstance(obj, bool)
    return obj, None if is_number else obj


def _go_type(value: Any) -> str:
    match value:
        case bool():
            return "bool"
        case str():
            return "string"
        case float():
            return "float64"
        case list():
            return "[]interface {}"
        case dict():
            return "map[string]interface {}"
        case _:
            return "int64"
