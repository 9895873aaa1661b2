"""The resources that a pod requests: containers, init containers and sidecars.

During a resize, a pod counts with the maximum of its requested, allocated and used resources.
"""

from collections.abc import Callable, Mapping

from kubesim.apiserver.api_messages import Object
from kubevalues.quantity import Quantity, quantity_of

__all__ = ["Amounts", "amounts", "held_by", "wanted_by"]

Amounts = Mapping[str, int]
"""Amounts in thousandths for CPU and whole units otherwise, of resources that a scheduler counts."""

_Quantities = dict[str, Quantity]
_COUNTED = frozenset({"cpu", "memory", "ephemeral-storage"})


def wanted_by(pod: Object) -> Amounts:
    """Return the resources that a pod without a node needs, from its spec."""
    return _whole_pod(
        pod, _containers(pod, _spec_of), _quantities((pod["spec"].get("resources") or {}).get("requests"))
    )


def held_by(pod: Object) -> Amounts:
    """Return the resources that a pod on a node may be using now or soon."""
    status = pod.get("status") or {}
    infeasible = _resize_infeasible(status)
    allocated, actual = _allocated(pod, status, infeasible=infeasible)
    asked = {} if infeasible else _containers(pod, _spec_of)
    at_pod_level = _spec_of(pod["spec"])
    if _has_pod_level(at_pod_level) and (reported := status.get("resources")) is not None:
        at_pod_level = (
            _largest(
                {} if infeasible else at_pod_level,
                _quantities(reported.get("requests")),
                _quantities(status.get("allocatedResources")),
            )
            or at_pod_level
        )
        at_pod_level = dict(at_pod_level)
    return _whole_pod(pod, _largest(asked, actual, allocated), at_pod_level)


def amounts(listed: Mapping[str, object] | None) -> dict[str, int]:
    """Return resources as whole numbers, without those that a scheduler does not count."""
    return {
        name: quantity.millis if name == "cpu" else quantity.whole
        for name, quantity in _quantities(listed).items()
        if _is_counted(name)
    }


def _whole_pod(pod: Object, containers: _Quantities, at_pod_level: _Quantities) -> Amounts:
    total = dict(containers)
    if _has_pod_level(at_pod_level):
        total |= {name: quantity for name, quantity in at_pod_level.items() if _is_pod_level(name)}
    _add(total, _quantities(pod["spec"].get("overhead")))
    return {
        name: quantity.millis if name == "cpu" else quantity.whole
        for name, quantity in total.items()
        if _is_counted(name)
    }


_Reading = Callable[[Object], _Quantities]


def _containers(pod: Object, read: _Reading) -> _Quantities:
    spec = pod["spec"]
    together: _Quantities = {}
    for container in spec.get("containers") or ():
        _add(together, read(container))
    sidecars: _Quantities = {}
    peak: _Quantities = {}
    for container in spec.get("initContainers") or ():
        asked = read(container)
        if container.get("restartPolicy") == "Always":
            _add(together, asked)
            _add(sidecars, asked)
            peak = _largest(peak, sidecars)
        else:
            at_its_turn = dict(asked)
            _add(at_its_turn, sidecars)
            peak = _largest(peak, at_its_turn)
    return _largest(together, peak)


def _spec_of(asking: Object) -> _Quantities:
    """Return the requests of a container, or of a pod as a whole."""
    return _quantities((asking.get("resources") or {}).get("requests"))


def _allocated(pod: Object, status: Object, *, infeasible: bool) -> tuple[_Quantities, _Quantities]:
    """Return what is allocated to the pod and what it has; newer kubelets report both for the whole pod."""
    reported = (status.get("resources") or {}).get("requests")
    if status.get("allocatedResources") and reported:
        return _quantities(status["allocatedResources"]), _quantities(reported)
    statuses = {
        item["name"]: item
        for item in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ()))
    }

    def allocated(container: Object) -> _Quantities:
        found = statuses.get(container["name"]) or {}
        if found.get("allocatedResources"):
            return _quantities(found["allocatedResources"])
        return {} if infeasible else _spec_of(container)

    def actual(container: Object) -> _Quantities:
        found = statuses.get(container["name"]) or {}
        if in_use := (found.get("resources") or {}).get("requests"):
            return _quantities(in_use)
        return allocated(container)

    return _containers(pod, allocated), _containers(pod, actual)


def _resize_infeasible(status: Object) -> bool:
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodResizePending":
            return bool(condition.get("reason") == "Infeasible")
    return False


def _has_pod_level(requests: Mapping[str, Quantity]) -> bool:
    return any(map(_is_pod_level, requests))


def _is_pod_level(name: str) -> bool:
    return name in {"cpu", "memory"} or name.startswith("hugepages-")


def _is_counted(name: str) -> bool:
    if name in _COUNTED or name.startswith(("hugepages-", "attachable-volumes-")):
        return True
    return "kubernetes.io/" in name or ("/" in name and not name.startswith("requests."))


def _quantities(listed: Mapping[str, object] | None) -> _Quantities:
    return {name: quantity_of(value) for name, value in listed.items()} if listed else {}


def _add(total: _Quantities, more: Mapping[str, Quantity]) -> None:
    for name, quantity in more.items():
        total[name] = total[name] + quantity if name in total else quantity


def _largest(*lists: Mapping[str, Quantity]) -> _Quantities:
    largest: _Quantities = {}
    for one in lists:
        for name, quantity in one.items():
            if name not in largest or quantity > largest[name]:
                largest[name] = quantity
    return largest
