"""The CPU and memory usage of pods and nodes at a given time, from their usage patterns."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from kubesim.apiserver.api_messages import Object
from kubesim.behaviour.behaviour_rules import Behaviour
from kubesim.behaviour.rule_matching import NodeBehaviour, of_container
from kubesim.behaviour.usage_patterns import UsageLevel, UsageMoment, UsageRamp, UsageWave, amount_at
from kubesim.common_fields import parse_timestamp
from kubevalues.quantity import quantity_of

__all__ = ["ContainerDraw", "SimulatedUsage", "node_usage", "pod_draws", "pod_usage"]

# The scheduler's assumption for containers without requests; a share of the request needs one, too.
DEFAULT_REQUEST = {"cpu": 0.1, "memory": 200.0 * 1024 * 1024}


class SimulatedUsage(NamedTuple):
    cpu_millis: int = 0
    memory_bytes: int = 0

    def plus(self, other: "SimulatedUsage") -> "SimulatedUsage":
        return SimulatedUsage(self.cpu_millis + other.cpu_millis, self.memory_bytes + other.memory_bytes)


class ContainerDraw(NamedTuple):
    """The usage of one running container, as far as it does not depend on the time."""

    container: str
    identity: str
    started: datetime
    cpu: "DrawAmounts"
    memory: "DrawAmounts"

    def at(self, now: datetime, seed: int) -> SimulatedUsage:
        moment = UsageMoment(now, now - self.started, self.identity, seed)
        return SimulatedUsage(round(self.cpu.at(moment) * 1000), round(self.memory.at(moment)))


class DrawAmounts(NamedTuple):
    """A usage pattern of one resource, its request and its limit."""

    pattern: UsageLevel | UsageWave | UsageRamp
    requested: float
    limit: float | None

    def at(self, moment: UsageMoment) -> float:
        amount = amount_at(self.pattern, self.requested, moment)
        return amount if self.limit is None else min(amount, self.limit)


def pod_draws(pod: Object, behaviour: Behaviour) -> list[ContainerDraw]:
    """Return the usage of the running containers."""
    status = pod.get("status") or {}
    states = [*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())]
    running = {each["name"]: each["state"]["running"] for each in states if "running" in each["state"]}
    specs = [*pod["spec"]["containers"], *(pod["spec"].get("initContainers") or ())]
    uid = pod["metadata"].get("uid", "")
    draws = []
    for container in specs:
        if state := running.get(container["name"]):
            how = of_container(behaviour, pod, container)
            resources = container.get("resources") or {}
            draws.append(
                ContainerDraw(
                    container["name"],
                    f"{uid}/{container['name']}",
                    parse_timestamp(state["startedAt"]),
                    _amounts(how.cpu, "cpu", resources),
                    _amounts(how.memory, "memory", resources),
                )
            )
    return draws


def pod_usage(pod: Object, behaviour: Behaviour, now: datetime) -> dict[str, SimulatedUsage]:
    """Return the usage of each running container."""
    return {draw.container: draw.at(now, behaviour.seed) for draw in pod_draws(pod, behaviour)}


def node_usage(
    name: str,
    allocatable: Mapping[str, object],
    how: NodeBehaviour,
    pods: Iterable[SimulatedUsage],
    *,
    now: datetime,
    seed: int,
) -> SimulatedUsage:
    """Return the usage of the pods on a node and of its system."""
    moment = UsageMoment(now, timedelta(0), f"node/{name}", seed)
    cores = amount_at(how.cpu, _units(allocatable.get("cpu")), moment) if how.cpu else 0.0
    memory = amount_at(how.memory, _units(allocatable.get("memory")), moment) if how.memory else 0.0
    total = SimulatedUsage(round(cores * 1000), round(memory))
    for used in pods:
        total = total.plus(used)
    return total


def _amounts(
    pattern: UsageLevel | UsageWave | UsageRamp, resource: str, resources: Mapping[str, Mapping[str, object]]
) -> DrawAmounts:
    requested = (resources.get("requests") or {}).get(resource)
    limit = (resources.get("limits") or {}).get(resource)
    return DrawAmounts(
        pattern,
        _units(requested) if requested else DEFAULT_REQUEST[resource],
        _units(limit) if limit else None,
    )


def _units(value: object) -> float:
    """Return the quantity in cores or bytes."""
    return quantity_of(value).nanos / 1e9 if value is not None else 0.0
