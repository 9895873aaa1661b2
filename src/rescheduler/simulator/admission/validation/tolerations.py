"""Rules for the taints of nodes and for what tolerates them."""

from collections.abc import Iterator

from rescheduler.simulator.admission import causes, names
from rescheduler.simulator.admission.validation.labels import check_label_key
from rescheduler.simulator.exchange import Object
from rescheduler.simulator.failures import Cause

__all__ = ["check_taints", "check_tolerations"]

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def check_tolerations(tolerations: list[Object], path: str) -> Iterator[Cause]:
    for index, toleration in enumerate(tolerations):
        yield from _check_toleration(toleration, f"{path}[{index}]")


def _check_toleration(toleration: Object, path: str) -> Iterator[Cause]:
    key, operator = toleration.get("key", ""), toleration.get("operator", "")
    effect = toleration.get("effect", "")
    if key:
        yield from check_label_key(key, f"{path}.key")
    elif operator != "Exists":
        yield causes.invalid(
            f"{path}.operator",
            operator,
            'operator must be Exists when `key` is empty, which means "match all values and all keys"',
        )
    if "tolerationSeconds" in toleration and effect != "NoExecute":
        detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        yield causes.invalid(f"{path}.effect", effect, detail)
    yield from _check_operator(operator, toleration.get("value", ""), path)
    if effect and effect not in _EFFECTS:
        yield causes.not_supported(f"{path}.effect", effect, _EFFECTS)


def _check_operator(operator: str, value: str, path: str) -> Iterator[Cause]:
    if operator in ("", "Equal"):
        if complaints := names.label_value(value):
            yield causes.invalid(f"{path}.operator", value, ";".join(complaints))
    elif operator == "Exists":
        if value:
            detail = "value must be empty when `operator` is 'Exists'"
            yield causes.invalid(f"{path}.operator", value, detail)
    elif operator in ("Lt", "Gt"):
        if not value.removeprefix("-").isdecimal():
            detail = "must be a valid decimal integer in canonical form"
            yield causes.invalid(f"{path}.value", value, detail)
    else:
        yield causes.not_supported(f"{path}.operator", operator, ("Equal", "Exists"))


def check_taints(taints: list[Object], path: str) -> Iterator[Cause]:
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        here = f"{path}[{index}]"
        key, value, effect = taint.get("key", ""), taint.get("value", ""), taint.get("effect", "")
        yield from check_label_key(key, f"{here}.key")
        if complaints := names.label_value(value):
            yield causes.invalid(f"{here}.value", value, ";".join(complaints))
        if not effect:
            yield causes.required(f"{here}.effect")
        elif effect not in _EFFECTS:
            yield causes.not_supported(f"{here}.effect", effect, _EFFECTS)
        if (key, effect) in seen:
            yield causes.duplicate(here, taint, "taints must be unique by key and effect pair")
        seen.add((key, effect))
