"""Compute amounts of resources as integers, and the requests of a pod as Kubernetes does.

Requests of containers add up, because they run at the same time. Init containers run one after another, so
the largest counts. A sidecar (a restartable init container) keeps running, so it adds to all later init
containers and to the containers. Overhead is added. Pod-level requests replace the sum of the containers
for cpu, memory and huge pages.

While a pod is resized in place, its spec, its allocation and its actual resources differ: the largest
counts, per resource. If the node can never satisfy the resize, the spec does not count.
"""

from collections.abc import Callable, Iterable, Mapping

import msgspec

from kubevalues.quantity import Quantity

__all__ = [
    "ContainerResourceSpec",
    "GrantedResources",
    "PodResourceSpec",
    "Quantities",
    "Resources",
    "is_scalar_resource",
    "pod_requests",
    "resources_of",
]

_SCALAR_PREFIXES = ("hugepages-", "attachable-volumes-")


class Resources(msgspec.Struct, frozen=True, gc=False):
    """Amounts of resources: of a node, or requested by a pod."""

    cpu_millis: int = 0
    memory_bytes: int = 0
    ephemeral_bytes: int = 0
    pods: int = 0
    """How many pods a node takes; 0 in the requests of a pod, which always needs one."""
    extended: tuple[tuple[str, int], ...] = ()
    """Devices, huge pages and the like, sorted by name."""


def resources_of(amounts: Mapping[str, Quantity]) -> Resources:
    """Return the amounts, rounded up to whole numbers as in the scheduler. Add quantities before you call
    this."""
    nothing = Quantity(0)
    return Resources(
        cpu_millis=amounts.get("cpu", nothing).millis,
        memory_bytes=amounts.get("memory", nothing).whole,
        ephemeral_bytes=amounts.get("ephemeral-storage", nothing).whole,
        pods=amounts.get("pods", nothing).whole,
        extended=tuple(sorted(_extended(amounts.items()))),
    )


def _extended(amounts: Iterable[tuple[str, Quantity]]) -> Iterable[tuple[str, int]]:
    return ((name, amount.whole) for name, amount in amounts if is_scalar_resource(name))


def is_scalar_resource(resource: str) -> bool:
    """Return whether the scheduler counts this resource beside cpu, memory, ephemeral storage and pods."""
    if resource.startswith(_SCALAR_PREFIXES) or "kubernetes.io/" in resource:
        return True
    return "/" in resource and not resource.startswith("requests.")


Quantities = Mapping[str, Quantity]


class GrantedResources(msgspec.Struct, frozen=True):
    """The resources of one container, or of the pod, in the status; None for what the status doesn't have.

    A status may have resources of the pod without requests among them: then `actual` is empty.
    """

    allocated: Quantities | None = None
    actual: Quantities | None = None


class ContainerResourceSpec(msgspec.Struct, frozen=True):
    name: str
    requests: Quantities = {}
    is_sidecar: bool = False


class PodResourceSpec(msgspec.Struct, frozen=True):
    """The parts of a pod that determine its requests."""

    containers: tuple[ContainerResourceSpec, ...] = ()
    init_containers: tuple[ContainerResourceSpec, ...] = ()
    overhead: Quantities = {}
    pod_level: Quantities = {}


def pod_requests(
    pod: PodResourceSpec,
    granted: Mapping[str, GrantedResources] | None = None,
    *,
    pod_granted: GrantedResources | None = None,
    resize_infeasible: bool = False,
) -> Resources:
    """Return the requests of a new pod or, with `granted` (by container), of a running pod."""
    of_pod = pod_granted or GrantedResources()
    if granted is None:
        total = _over_containers(pod, lambda container: container.requests)
    else:
        total = _largest(*_views(pod, granted, of_pod, resize_infeasible))
    total |= _of_the_pod(pod, of_pod, granted is not None, resize_infeasible)
    return resources_of(_sum(total, pod.overhead))


def _views(
    pod: PodResourceSpec, granted: Mapping[str, GrantedResources], of_pod: GrantedResources, infeasible: bool
) -> Iterable[Quantities]:
    """Yield the pod with the resources of its spec, those that its node allocated, and its actual ones."""
    nothing = GrantedResources()

    def asked(container: ContainerResourceSpec) -> Quantities:
        return {} if infeasible else container.requests

    def allocated(container: ContainerResourceSpec) -> Quantities:
        amounts = granted.get(container.name, nothing).allocated
        return asked(container) if amounts is None else amounts

    def actual(container: ContainerResourceSpec) -> Quantities:
        amounts = granted.get(container.name, nothing).actual
        return allocated(container) if amounts is None else amounts

    if not infeasible:
        yield _over_containers(pod, asked)
    # Newer kubelets report the sums themselves.
    if of_pod.allocated and of_pod.actual:
        yield of_pod.allocated
        yield of_pod.actual
    else:
        yield _over_containers(pod, allocated)
        yield _over_containers(pod, actual)


def _over_containers(
    pod: PodResourceSpec, amounts_of: Callable[[ContainerResourceSpec], Quantities]
) -> dict[str, Quantity]:
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


def _of_the_pod(
    pod: PodResourceSpec, of_pod: GrantedResources, is_running: bool, infeasible: bool
) -> dict[str, Quantity]:
    if not any(_may_be_set_on_a_pod(name) for name in pod.pod_level):
        return {}
    amounts: Mapping[str, Quantity] = pod.pod_level
    if is_running and of_pod.actual is not None:
        asked: Quantities = {} if infeasible else pod.pod_level
        amounts = _largest(asked, of_pod.actual, of_pod.allocated or {})
    return {name: amount for name, amount in amounts.items() if _may_be_set_on_a_pod(name)}


def _may_be_set_on_a_pod(resource: str) -> bool:
    return resource in {"cpu", "memory"} or resource.startswith("hugepages-")


def _sum(one: Quantities, other: Quantities) -> dict[str, Quantity]:
    total = dict(one)
    for name, amount in other.items():
        total[name] = total[name] + amount if name in total else amount
    return total


def _largest(*several: Quantities) -> dict[str, Quantity]:
    found: dict[str, Quantity] = {}
    for amounts in several:
        for name, amount in amounts.items():
            if name not in found or amount > found[name]:
                found[name] = amount
    return found
