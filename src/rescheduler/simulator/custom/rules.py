"""Rules that a schema states as expressions (`x-kubernetes-validations`).

`self` is the value at the place where the rule stands, `oldSelf` what it was; a rule about `oldSelf`
is asked only when there was something.
"""

from collections.abc import Iterator
from typing import Any

from rescheduler.simulator.admission.expressions import Undefined, compile_expression
from rescheduler.simulator.exchange import Object, encode
from rescheduler.simulator.failures import Cause

__all__ = ["check_rules", "has_rules"]

_NOTHING: Any = object()
_TOLD_AS = {
    "FieldValueInvalid": "Invalid value",
    "FieldValueForbidden": "Forbidden",
    "FieldValueRequired": "Required value",
    "FieldValueDuplicate": "Duplicate value",
}


def has_rules(schema: Any) -> bool:
    if isinstance(schema, dict):
        return bool(schema.get("x-kubernetes-validations")) or any(has_rules(v) for v in schema.values())
    return isinstance(schema, list) and any(has_rules(inner) for inner in schema)


def check_rules(value: Any, old: Any, schema: Object, path: str = "") -> Iterator[Cause]:
    """`old` is none for a new object."""
    yield from _check(value, _NOTHING if old is None else old, schema, path)


def _check(value: Any, old: Any, schema: Object, path: str) -> Iterator[Cause]:
    for rule in schema.get("x-kubernetes-validations", ()):
        yield from _check_rule(rule, value, old, path)
    if isinstance(value, dict):
        yield from _check_fields(value, old, schema, path)
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        keys = schema.get("x-kubernetes-list-map-keys", ())
        for index, item in enumerate(value):
            yield from _check(item, _same_item(item, old, keys), schema["items"], f"{path}[{index}]")


def _check_fields(value: Object, old: Any, schema: Object, path: str) -> Iterator[Cause]:
    properties, further = schema.get("properties", {}), schema.get("additionalProperties")
    for field, inner in sorted(value.items()):
        known = properties.get(field) or (further if isinstance(further, dict) else None)
        if known is not None:
            before = old.get(field, _NOTHING) if isinstance(old, dict) else _NOTHING
            yield from _check(inner, before, known, f"{path}.{field}" if path else field)


def _same_item(item: Any, old: Any, keys: list[str]) -> Any:
    """Only items of map-like lists can be told apart, and so be compared with what they were."""
    if not keys or not isinstance(old, list) or not isinstance(item, dict):
        return _NOTHING
    known_by = [item.get(key) for key in keys]
    return next((b for b in old if isinstance(b, dict) and [b.get(k) for k in keys] == known_by), _NOTHING)


def _check_rule(rule: Object, value: Any, old: Any, path: str) -> Iterator[Cause]:
    expression = compile_expression(rule["rule"])
    if expression.mentions("oldSelf") and old is _NOTHING:
        return
    variables = {"self": value} if old is _NOTHING else {"self": value, "oldSelf": old}
    try:
        if expression.holds(variables):
            return
        told = rule.get("message") or f"failed rule: {rule['rule']}"
    except Undefined as undefined:
        told = f"{undefined} evaluating rule: {rule.get('message') or rule['rule']}"
    reason = rule.get("reason", "FieldValueInvalid")
    where = f"{path}{rule.get('fieldPath', '')}".removeprefix(".")
    if not isinstance(value, dict | list):
        shown = encode(value).decode()
        told = {"FieldValueInvalid": f"{shown}: {told}", "FieldValueDuplicate": shown}.get(reason, told)
    yield Cause(where or "<nil>", reason, f"{_TOLD_AS.get(reason, 'Invalid value')}: {told}")
