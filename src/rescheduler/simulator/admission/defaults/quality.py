"""The quality-of-service class of a pod: how much of what its containers ask for is guaranteed."""

from rescheduler.model.quantity import Quantity, parse_quantity
from rescheduler.simulator.exchange import Object

__all__ = ["quality_of_service"]

_COUNTED = ("cpu", "memory")


def quality_of_service(spec: Object) -> str:
    holders = [spec] if spec.get("resources") else [*spec.get("initContainers", ()), *spec["containers"]]
    requests, limits = _totals(holders, "requests"), _totals(holders, "limits")
    if not requests and not limits:
        return "BestEffort"
    every_one_limited = all(_positive(holder, "limits").keys() == set(_COUNTED) for holder in holders)
    return "Guaranteed" if every_one_limited and requests == limits else "Burstable"


def _positive(holder: Object, field: str) -> dict[str, Quantity]:
    asked = holder.get("resources", {}).get(field, {})
    amounts = {name: parse_quantity(asked[name]) for name in _COUNTED if name in asked}
    return {name: number for name, number in amounts.items() if number.nanos > 0}


def _totals(holders: list[Object], field: str) -> dict[str, Quantity]:
    totals: dict[str, Quantity] = {}
    for holder in holders:
        for name, number in _positive(holder, field).items():
            totals[name] = totals.get(name, Quantity(0)) + number
    return totals
