"""Rules for labels and for selectors over them."""

from collections.abc import Iterator, Mapping

from rescheduler.model.selectors.labels import Selector, SelectorError
from rescheduler.model.selectors.objects import selector_from_object
from rescheduler.simulator.admission import causes, names
from rescheduler.simulator.exchange import Object
from rescheduler.simulator.failures import Cause

__all__ = ["check_label_key", "check_labels", "check_selector", "selector_of"]


def check_label_key(key: str, path: str) -> Iterator[Cause]:
    for complaint in names.qualified_name(key):
        yield causes.invalid(path, key, complaint)


def check_labels(labels: Mapping[str, str], path: str) -> Iterator[Cause]:
    for key, value in labels.items():
        yield from check_label_key(key, path)
        for complaint in names.label_value(value):
            yield causes.invalid(path, value, complaint)


def check_selector(selector: Object, path: str) -> Iterator[Cause]:
    yield from check_labels(selector.get("matchLabels", {}), f"{path}.matchLabels")
    for index, requirement in enumerate(selector.get("matchExpressions", ())):
        yield from _check_requirement(requirement, f"{path}.matchExpressions[{index}]")


def _check_requirement(requirement: Object, path: str) -> Iterator[Cause]:
    operator, values = requirement.get("operator", ""), requirement.get("values", [])
    if operator in ("In", "NotIn"):
        if not values:
            yield causes.required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            yield causes.forbidden(f"{path}.values", detail)
    else:
        yield causes.invalid(f"{path}.operator", operator, "not a valid selector operator")
    yield from check_label_key(requirement.get("key", ""), f"{path}.key")
    for index, value in enumerate(values):
        for complaint in names.label_value(value):
            yield causes.invalid(f"{path}.values[{index}]", value, complaint)


def selector_of(selector: Object) -> Selector | None:
    """To match with; none if it has faults."""
    try:
        return selector_from_object(selector)
    except SelectorError:
        return None
