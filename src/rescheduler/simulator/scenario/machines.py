"""The nodes of a scenario: single ones, and pools of nodes that are alike."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Literal

from pydantic import Field

from rescheduler.simulator.exchange import Object
from rescheduler.simulator.heartbeats import healthy_conditions
from rescheduler.simulator.scenario.words import Name, Part, Quantity, Text

__all__ = ["Machine", "Pool", "Taint", "node_object"]

_POOL_LABEL, _PRICE_LABEL = "pool", "price"


class Taint(Part):
    key: str = Field(min_length=1)
    value: Text = ""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] = "NoSchedule"


class _Shape(Part):
    name: Name
    cpu: Quantity = "4"
    """What is reserved for the system is already taken off."""
    memory: Quantity = "16Gi"
    pods: Quantity = "110"
    """How many pods it takes."""
    resources: Mapping[str, Quantity] = {}
    """What else it has, such as `nvidia.com/gpu: 2`."""
    price: Text | None = None
    """Becomes its label `price`."""
    labels: Mapping[str, Text] = {}
    taints: tuple[Taint, ...] = ()


class Machine(_Shape):
    """A node."""

    zone: Name | None = None
    """Its `topology.kubernetes.io/zone`."""
    unschedulable: bool = False
    """Cordoned from the start."""


class Pool(_Shape):
    """Nodes that are alike: `name-1`, `name-2` and so on, each with the label `pool: name`."""

    count: int = Field(ge=0, le=10_000)
    zones: tuple[Name, ...] = ()
    """The nodes are in these zones in turn."""

    def machines(self) -> Iterator[Machine]:
        shared = {field: getattr(self, field) for field in _Shape.model_fields}
        shared["labels"] = {_POOL_LABEL: self.name, **self.labels}
        for number in range(1, self.count + 1):
            zone = self.zones[(number - 1) % len(self.zones)] if self.zones else None
            yield Machine(**shared | {"name": f"{self.name}-{number}", "zone": zone})


def node_object(machine: Machine, number: int, now: datetime) -> Object:
    """As its kubelet registers it; `number` gives it an address of its own."""
    size = {"cpu": machine.cpu, "memory": machine.memory, "pods": machine.pods, **machine.resources}
    spec: Object = {"taints": [taint.model_dump() for taint in machine.taints]} if machine.taints else {}
    if machine.unschedulable:
        spec["unschedulable"] = True
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": machine.name, "labels": _labels(machine)},
        "spec": spec,
        "status": {
            "capacity": size,
            "allocatable": dict(size),
            "conditions": healthy_conditions((), now),
            "addresses": [
                {"type": "InternalIP", "address": f"172.16.{number // 256 % 256}.{number % 256}"},
                {"type": "Hostname", "address": machine.name},
            ],
            "nodeInfo": {
                "machineID": machine.name, "systemUUID": machine.name, "bootID": machine.name,
                "kernelVersion": "simulated", "osImage": "Simulated", "operatingSystem": "linux",
                "architecture": "amd64", "containerRuntimeVersion": "simulated://1",
                "kubeletVersion": "v1.37.1", "kubeProxyVersion": "",
            },
        },
    }  # fmt: skip


def _labels(machine: Machine) -> dict[str, str]:
    known = {
        "kubernetes.io/hostname": machine.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "node-role.kubernetes.io/worker": "",
    }
    if machine.zone is not None:
        known["topology.kubernetes.io/zone"] = machine.zone
    if machine.price is not None:
        known[_PRICE_LABEL] = machine.price
    return known | dict(machine.labels)
