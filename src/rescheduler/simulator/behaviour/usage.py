"""What pods and nodes use at a moment: millicores and bytes, by their patterns."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from rescheduler.model.quantity import quantity_of
from rescheduler.simulator.behaviour.choice import NodeBehaviour, of_container
from rescheduler.simulator.behaviour.instants import read
from rescheduler.simulator.behaviour.patterns import Level, Moment, Ramp, Wave, amount_at
from rescheduler.simulator.behaviour.vocabulary import Behaviour
from rescheduler.simulator.exchange import Object

__all__ = ["Used", "node_usage", "pod_usage"]

# What the scheduler takes for containers that request nothing; shares need something to be shares of.
DEFAULT_REQUEST = {"cpu": 0.1, "memory": 200.0 * 1024 * 1024}


class Used(NamedTuple):
    cpu_millis: int = 0
    memory_bytes: int = 0

    def plus(self, other: "Used") -> "Used":
        return Used(self.cpu_millis + other.cpu_millis, self.memory_bytes + other.memory_bytes)


def pod_usage(pod: Object, behaviour: Behaviour, now: datetime) -> dict[str, Used]:
    """Per container; only those that run."""
    status = pod.get("status") or {}
    states = [*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())]
    running = {each["name"]: each["state"]["running"] for each in states if "running" in each["state"]}
    specs = [*pod["spec"]["containers"], *(pod["spec"].get("initContainers") or ())]
    uid = pod["metadata"].get("uid", "")
    used = {}
    for container in specs:
        if state := running.get(container["name"]):
            how = of_container(behaviour, pod, container)
            age = now - read(state["startedAt"])
            moment = Moment(now, age, f"{uid}/{container['name']}", behaviour.seed)
            resources = container.get("resources") or {}
            cores = _capped(how.cpu, "cpu", resources, moment)
            memory = _capped(how.memory, "memory", resources, moment)
            used[container["name"]] = Used(round(cores * 1000), round(memory))
    return used


def node_usage(
    name: str,
    allocatable: Mapping[str, object],
    how: NodeBehaviour,
    pods: Iterable[Used],
    *,
    now: datetime,
    seed: int,
) -> Used:
    """Its pods' usage and the system's."""
    moment = Moment(now, timedelta(0), f"node/{name}", seed)
    cores = amount_at(how.cpu, _units(allocatable.get("cpu")), moment) if how.cpu else 0.0
    memory = amount_at(how.memory, _units(allocatable.get("memory")), moment) if how.memory else 0.0
    total = Used(round(cores * 1000), round(memory))
    for used in pods:
        total = total.plus(used)
    return total


def _capped(
    pattern: Level | Wave | Ramp, resource: str, resources: Mapping[str, Mapping[str, object]], moment: Moment
) -> float:
    requested = (resources.get("requests") or {}).get(resource)
    amount = amount_at(pattern, _units(requested) if requested else DEFAULT_REQUEST[resource], moment)
    limit = (resources.get("limits") or {}).get(resource)
    return min(amount, _units(limit)) if limit else amount


def _units(value: object) -> float:
    """Cores or bytes."""
    return quantity_of(value).nanos / 1e9 if value is not None else 0.0
