"""What a pod counts for, exactly as Kubernetes computes it.

Containers run together, so their requests add up. Init containers run one after the other before them,
so the largest counts; a sidecar (an init container that restarts always) starts in its turn and stays,
so it adds to every later init container and to the containers. Overhead comes on top. Requests of the
pod as a whole replace what its containers sum up to, for cpu, memory and huge pages.

While a pod is being resized in place, spec, what its node has allocated, and what is really in effect
differ: the largest of the three counts, per resource. If the node can never grant the resize, the
spec does not count.
"""

from collections.abc import Callable, Iterable, Mapping

import msgspec

from rescheduler.model.quantity import Quantity
from rescheduler.model.resources import Resources, resources_of

__all__ = ["Amounts", "AskingContainer", "AskingPod", "Granted", "requests_of"]

Amounts = Mapping[str, Quantity]


class Granted(msgspec.Struct, frozen=True):
    """What a status says about the resources of one container, or of the pod; None where it says nothing.

    A status may have resources of the pod without requests among them: then `actual` is empty.
    """

    allocated: Amounts | None = None
    actual: Amounts | None = None


class AskingContainer(msgspec.Struct, frozen=True):
    name: str
    requests: Amounts = {}
    is_sidecar: bool = False


class AskingPod(msgspec.Struct, frozen=True):
    """The parts of a pod that decide what it counts for."""

    containers: tuple[AskingContainer, ...] = ()
    init_containers: tuple[AskingContainer, ...] = ()
    overhead: Amounts = {}
    pod_level: Amounts = {}


def requests_of(
    pod: AskingPod,
    granted: Mapping[str, Granted] | None = None,
    *,
    pod_granted: Granted | None = None,
    resize_infeasible: bool = False,
) -> Resources:
    """Without `granted`: what a new pod asks for. With it (by container): what the running pod counts for."""
    of_pod = pod_granted or Granted()
    if granted is None:
        total = _over_containers(pod, lambda container: container.requests)
    else:
        total = _largest(*_views(pod, granted, of_pod, resize_infeasible))
    total |= _of_the_pod(pod, of_pod, granted is not None, resize_infeasible)
    return resources_of(_sum(total, pod.overhead))


def _views(
    pod: AskingPod, granted: Mapping[str, Granted], of_pod: Granted, infeasible: bool
) -> Iterable[Amounts]:
    """The pod as its spec has it, as its node allocated it, and as it really runs."""
    nothing = Granted()

    def asked(container: AskingContainer) -> Amounts:
        return {} if infeasible else container.requests

    def allocated(container: AskingContainer) -> Amounts:
        told = granted.get(container.name, nothing).allocated
        return asked(container) if told is None else told

    def actual(container: AskingContainer) -> Amounts:
        told = granted.get(container.name, nothing).actual
        return allocated(container) if told is None else told

    if not infeasible:
        yield _over_containers(pod, asked)
    # Newer kubelets report the sums themselves.
    if of_pod.allocated and of_pod.actual:
        yield of_pod.allocated
        yield of_pod.actual
    else:
        yield _over_containers(pod, allocated)
        yield _over_containers(pod, actual)


def _over_containers(pod: AskingPod, amounts_of: Callable[[AskingContainer], Amounts]) -> dict[str, Quantity]:
    running: dict[str, Quantity] = {}
    for container in pod.containers:
        running = _sum(running, amounts_of(container))
    sidecars: dict[str, Quantity] = {}
    starting: dict[str, Quantity] = {}
    for container in pod.init_containers:
        amounts = amounts_of(container)
        if container.is_sidecar:
            running = _sum(running, amounts)
            sidecars = _sum(sidecars, amounts)
            starting = _largest(starting, sidecars)
        else:
            starting = _largest(starting, _sum(sidecars, amounts))
    return _largest(running, starting)


def _of_the_pod(pod: AskingPod, of_pod: Granted, is_running: bool, infeasible: bool) -> dict[str, Quantity]:
    if not any(_may_be_set_on_a_pod(name) for name in pod.pod_level):
        return {}
    amounts: Mapping[str, Quantity] = pod.pod_level
    if is_running and of_pod.actual is not None:
        asked: Amounts = {} if infeasible else pod.pod_level
        amounts = _largest(asked, of_pod.actual, of_pod.allocated or {})
    return {name: amount for name, amount in amounts.items() if _may_be_set_on_a_pod(name)}


def _may_be_set_on_a_pod(resource: str) -> bool:
    return resource in {"cpu", "memory"} or resource.startswith("hugepages-")


def _sum(one: Amounts, other: Amounts) -> dict[str, Quantity]:
    total = dict(one)
    for name, amount in other.items():
        total[name] = total[name] + amount if name in total else amount
    return total


def _largest(*several: Amounts) -> dict[str, Quantity]:
    found: dict[str, Quantity] = {}
    for amounts in several:
        for name, amount in amounts.items():
            if name not in found or amount > found[name]:
                found[name] = amount
    return found
