"""Rules for what containers ask for: names of resources, amounts, requests within limits."""

from collections.abc import Iterator

from rescheduler.model.quantity import parse_quantity
from rescheduler.simulator.admission import causes, names
from rescheduler.simulator.admission.validation.numbers import NOT_NEGATIVE
from rescheduler.simulator.exchange import Object
from rescheduler.simulator.failures import Cause

__all__ = ["check_amount", "check_amounts", "check_requirements"]

_OF_CONTAINERS = ("cpu", "memory", "ephemeral-storage")
_HUGE_PAGES = "hugepages-"
_COUNTED = (
    "pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps",
    "persistentvolumeclaims", "services.nodeports", "services.loadbalancers",
)  # fmt: skip
_STANDARD = {
    *_OF_CONTAINERS, *_COUNTED, "storage", "requests.storage",
    *(f"requests.{name}" for name in _OF_CONTAINERS),
    *(f"limits.{name}" for name in _OF_CONTAINERS),
}  # fmt: skip


def _is_native(name: str) -> bool:
    return "/" not in name or "kubernetes.io/" in name


def _is_extended(name: str) -> bool:
    """A device or the like, counted in whole units: `example.com/gpu`."""
    return not (_is_native(name) or name.startswith("requests.") or names.qualified_name(f"requests.{name}"))


def _may_overcommit(name: str) -> bool:
    return _is_native(name) and not name.startswith(_HUGE_PAGES)


def check_requirements(resources: Object, path: str) -> Iterator[Cause]:
    limits, requests = resources.get("limits", {}), resources.get("requests", {})
    for name, quantity in limits.items():
        yield from _check_resource(name, quantity, f"{path}.limits[{name}]")
    for name, quantity in requests.items():
        yield from _check_resource(name, quantity, f"{path}.requests[{name}]")
        yield from _check_within_limit(name, quantity, limits, path)
    asked = {*limits, *requests}
    if any(name.startswith(_HUGE_PAGES) for name in asked) and not asked & {"cpu", "memory"}:
        yield causes.forbidden(path, "HugePages require cpu or memory")


def _check_within_limit(name: str, quantity: str, limits: dict[str, str], path: str) -> Iterator[Cause]:
    if name not in limits:
        if not _may_overcommit(name):
            yield causes.required(f"{path}.limits", "Limit must be set for non overcommitable resources")
        return
    request, limit = parse_quantity(quantity), parse_quantity(limits[name])
    if request != limit and not _may_overcommit(name):
        yield causes.invalid(f"{path}.requests", quantity, f"must be equal to {name} limit of {limits[name]}")
    elif request > limit:
        detail = f"must be less than or equal to {name} limit of {limits[name]}"
        yield causes.invalid(f"{path}.requests", quantity, detail)


def _check_resource(name: str, quantity: str, path: str) -> Iterator[Cause]:
    yield from _check_name(name, path)
    yield from check_amount(name, quantity, path)


def _check_name(name: str, path: str) -> Iterator[Cause]:
    complaints = names.qualified_name(name)
    for complaint in complaints:
        yield causes.invalid(path, name, complaint)
    if "/" not in name:
        if not complaints and name not in _STANDARD and not name.startswith(_HUGE_PAGES):
            yield causes.invalid(path, name, "must be a standard resource type or fully qualified")
        if name not in _OF_CONTAINERS and not name.startswith(_HUGE_PAGES):
            yield causes.invalid(path, name, "must be a standard resource for containers")
    elif not _is_native(name) and not _is_extended(name):
        yield causes.invalid(path, name, "doesn't follow extended resource name standard")


def check_amounts(amounts: dict[str, str], path: str) -> Iterator[Cause]:
    """Of a node: keys are part of the path there, without brackets."""
    for name, quantity in amounts.items():
        yield from check_amount(name, quantity, f"{path}.{name}")


def check_amount(name: str, quantity: str, path: str) -> Iterator[Cause]:
    amount = parse_quantity(quantity)
    if amount.nanos < 0:
        yield causes.invalid(path, quantity, NOT_NEGATIVE)
    if amount.millis % 1000 and (name in _COUNTED or _is_extended(name)):
        yield causes.invalid(path, quantity, "must be an integer")
