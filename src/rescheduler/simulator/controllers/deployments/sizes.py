"""How large each ReplicaSet of a Deployment should be next. Pure: sizes by name come out."""

import math
from collections.abc import Iterable

from rescheduler.simulator.controllers.counts import scaled
from rescheduler.simulator.controllers.deployments.family import (
    DESIRED,
    MAXIMUM,
    Family,
    available_of,
    by_age,
    size_of,
)
from rescheduler.simulator.exchange import Object

__all__ = [
    "Sizes",
    "is_rolling",
    "is_scaling",
    "max_surge",
    "max_unavailable",
    "new_size",
    "proportional",
    "rolled_down",
]

Sizes = dict[str, int]
"""By the ReplicaSet's name; those that stay as they are need not be in it."""


def is_rolling(deployment: Object) -> bool:
    return bool(deployment["spec"]["strategy"]["type"] == "RollingUpdate")


def _bounds(deployment: Object) -> tuple[int, int]:
    """Surge and unavailable pods; never both zero, which would block any rollout."""
    rolling = deployment["spec"]["strategy"].get("rollingUpdate") or {}
    total = size_of(deployment)
    surge = scaled(rolling.get("maxSurge"), total, round_up=True)
    unavailable = scaled(rolling.get("maxUnavailable"), total, round_up=False)
    return surge, unavailable if surge or unavailable else 1


def max_surge(deployment: Object) -> int:
    return _bounds(deployment)[0] if is_rolling(deployment) else 0


def max_unavailable(deployment: Object) -> int:
    total = size_of(deployment)
    return min(_bounds(deployment)[1], total) if is_rolling(deployment) and total else 0


def is_scaling(family: Family) -> bool:
    """An active ReplicaSet was sized for another number of replicas than the Deployment now has."""
    desired = ((each["metadata"].get("annotations") or {}).get(DESIRED) for each in family.active)
    return any(text is not None and text != str(size_of(family.deployment)) for text in desired)


def new_size(family: Family) -> int:
    """Of the ReplicaSet with the present template: as many as surge allows."""
    wanted = size_of(family.deployment)
    present = size_of(family.new) if family.new is not None else 0
    if not is_rolling(family.deployment) or present >= wanted:
        return wanted
    room = wanted + max_surge(family.deployment) - sum(map(size_of, family.all))
    return present + min(max(room, 0), wanted - present)


def rolled_down(family: Family) -> Sizes:
    """Of the older ReplicaSets: first what is not available anyway, then as many as may be missed."""
    assert family.new is not None
    old = sorted((each for each in family.old if size_of(each) > 0), key=by_age)
    least = size_of(family.deployment) - max_unavailable(family.deployment)
    missing_new = size_of(family.new) - available_of(family.new)
    spare = sum(map(size_of, old)) + size_of(family.new) - least - missing_new
    sizes = {each["metadata"]["name"]: size_of(each) for each in old}
    if spare <= 0:
        return {}
    for each in old:
        name = each["metadata"]["name"]
        unhealthy = min(spare, sizes[name] - available_of(each))
        if unhealthy > 0:
            sizes[name] -= unhealthy
            spare -= unhealthy
    may_go = sum(map(available_of, (*old, family.new))) - least
    for each in old:
        name = each["metadata"]["name"]
        gone = min(sizes[name], max(may_go, 0))
        sizes[name] -= gone
        may_go -= gone
    return {name: size for name, size in sizes.items() if size != _size_named(old, name)}


def _size_named(replica_sets: Iterable[Object], name: str) -> int:
    return next(size_of(each) for each in replica_sets if each["metadata"]["name"] == name)


def proportional(family: Family) -> Sizes:
    """After scaling in the middle of a rollout: each active ReplicaSet keeps its share."""
    deployment, wanted = family.deployment, size_of(family.deployment)
    only = _only_active_or_latest(family)
    if only is not None:
        return {only["metadata"]["name"]: wanted}
    if family.new is not None and _is_saturated(deployment, family.new):
        return {each["metadata"]["name"]: 0 for each in family.old if size_of(each) > 0}
    if not is_rolling(deployment):
        return {}
    active = family.active
    change = (wanted + max_surge(deployment) if wanted else 0) - sum(map(size_of, active))
    # Larger ones first; among equals the newer grow and the older shrink first.
    active.sort(key=by_age, reverse=change > 0)
    active.sort(key=size_of, reverse=True)
    sizes, made = {}, 0
    for each in active:
        share = _share(each, deployment, change, made)
        sizes[each["metadata"]["name"]] = size_of(each) + share
        made += share
    largest = active[0]["metadata"]["name"]
    sizes[largest] = max(0, sizes[largest] + change - made)
    return sizes


def _only_active_or_latest(family: Family) -> Object | None:
    active = family.active
    if len(active) == 1:
        return active[0]
    if active or not family.all:
        return None
    return family.new if family.new is not None else max(family.old, key=by_age)


def _is_saturated(deployment: Object, new: Object) -> bool:
    wanted = size_of(deployment)
    desired = (new["metadata"].get("annotations") or {}).get(DESIRED)
    return size_of(new) == wanted and desired == str(wanted) and available_of(new) == wanted


def _share(replica_set: Object, deployment: Object, change: int, made: int) -> int:
    if change in {0, made}:
        return 0
    fraction, allowed = _fraction(replica_set, deployment), change - made
    return min(fraction, allowed) if change > 0 else max(fraction, allowed)


def _fraction(replica_set: Object, deployment: Object) -> int:
    size, wanted = size_of(replica_set), size_of(deployment)
    if wanted == 0:
        return -size
    text = (replica_set["metadata"].get("annotations") or {}).get(MAXIMUM, "")
    before = int(text) if text.isdigit() else 0
    before = before or int(deployment.get("status", {}).get("replicas", 0))
    if before == 0:
        return 0
    exact = size * (wanted + max_surge(deployment)) / before
    return math.floor(exact + 0.5) - size
