"""The schema of one version of a custom kind: the shape of its objects and their rules."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from rescheduler.simulator.admission import causes
from rescheduler.simulator.custom import shaping
from rescheduler.simulator.custom.rules import check_rules, has_rules
from rescheduler.simulator.custom.values import check_value
from rescheduler.simulator.exchange import Object
from rescheduler.simulator.failures import Cause

__all__ = ["CustomSchema", "ScalePaths"]

_BLOCKING = (
    "FieldValueRequired",
    "FieldValueTypeInvalid",
    "FieldValueNotSupported",
    "FieldValueTooLong",
    "FieldValueTooMany",
)
"""With one of these, rules are not asked: they could stumble over the very same fault."""
_UNCHECKED = (
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)
_INT32 = (1 << 31) - 1


class ScalePaths(NamedTuple):
    """Where objects keep what their scale shows."""

    replicas: str
    status_replicas: str
    selector: str = ""


@dataclass(frozen=True, slots=True)
class CustomSchema:
    root: Object
    """As in the definition's `openAPIV3Schema`."""
    scale: ScalePaths | None = None

    def completed(self, obj: Object) -> Object:
        """A copy without unknown fields and with defaults."""
        result: Object = shaping.shaped(obj, self.root, whole_object=True)
        return result

    def unknown_fields(self, obj: Object) -> list[str]:
        return list(shaping.unknown(obj, self.root, whole_object=True))

    def faults(self, new: Object, old: Object | None) -> Iterator[Cause]:
        found = [*check_value(new, self.root, ""), *self._scale_faults(new)]
        yield from found
        if has_rules(self.root):
            if any(fault.reason in _BLOCKING for fault in found):
                yield causes.invalid("<nil>", None, _UNCHECKED)
            else:
                yield from check_rules(new, old, self.root)

    def _scale_faults(self, obj: Object) -> Iterator[Cause]:
        for path in (self.scale.replicas, self.scale.status_replicas) if self.scale else ():
            number, culprit = _number_at(obj, path)
            if culprit is not None:
                told = f"{path} accessor error: {culprit} is of the type {_go_type(culprit)}, expected "
                wanted = "int64" if culprit is number else "map[string]interface{}"
                yield causes.invalid(path, 0, f"{told}{wanted}")
            elif number is not None and number < 0:
                yield causes.invalid(path, number, "should be a non-negative integer")
            elif number is not None and number > _INT32:
                yield causes.invalid(path, number, f"should be less than or equal to {_INT32}")


def _number_at(obj: Any, path: str) -> tuple[Any, Any]:
    """The number, and what stood in the way or in place of it."""
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
