"""The workloads and nodes of a scenario, as its file describes them."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from kubesim.apiserver.api_messages import Object
from kubesim.node_heartbeats import healthy_conditions
from kubesim.scenario.scenario_values import Name, Quantity, ScenarioModel, Text

__all__ = [
    "STANDARD",
    "Kind",
    "ScenarioBudget",
    "ScenarioClaim",
    "ScenarioNode",
    "ScenarioNodePool",
    "ScenarioTaint",
    "ScenarioWorkload",
    "node_object",
]

STANDARD = "standard"
"""The storage class of claims that name none."""

Kind = Literal["Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob", "Pod"]
Count = int | Annotated[str, Field(pattern=r"^(100|[0-9]{1,2})%$")]
"""A number, or a percentage such as `25%`."""


class ScenarioBudget(ScenarioModel):
    """A PodDisruptionBudget with the workload's name, for its pods."""

    min_available: Count | None = None
    max_unavailable: Count | None = None
    unhealthy_pod_eviction_policy: Literal["IfHealthyBudget", "AlwaysAllow"] | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> "ScenarioBudget":
        if (self.min_available is None) == (self.max_unavailable is None):
            raise ValueError("one of `minAvailable` and `maxUnavailable` is needed")
        return self


class ScenarioClaim(ScenarioModel):
    """A volume for each pod of a StatefulSet, or one for all pods of another workload."""

    name: Name
    size: Quantity = "10Gi"
    storage_class: Name = STANDARD
    """`standard` always exists."""
    access_mode: Literal["ReadWriteOnce", "ReadWriteOncePod", "ReadWriteMany", "ReadOnlyMany"] = (
        "ReadWriteOnce"
    )


def _places(value: object) -> object:
    """Expand `{worker-1: 2, worker-2: 1}` to `[worker-1, worker-1, worker-2]`."""
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, dict):
        return value
    for node, count in value.items():
        if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= 10_000:
            raise ValueError(f"{node}: {count!r}: must be a number of pods")
    return tuple(node for node, count in value.items() for _ in range(count))


class ScenarioWorkload(ScenarioModel):
    """Pods of one kind. Its pods, its selector and its Service have the label `app: NAME`."""

    kind: Kind = "Deployment"
    namespace: Name = "default"
    name: Name
    replicas: int | None = Field(default=None, ge=0, le=100_000)
    """For a Job: completions, all in parallel. Not given: as many as `on` names, else 1."""
    cpu: Quantity | None = "100m"
    """The requests of each pod; null: none."""
    memory: Quantity | None = "128Mi"
    image: str = ""
    """Not given: `example.com/NAME:1.0`."""
    labels: Mapping[str, Text] = {}
    """Labels of the workload and of its pods."""
    annotations: Mapping[str, Text] = {}
    """Annotations of its pods."""
    pod: Mapping[str, Any] = {}
    """Merged into the pod's spec as kubectl merges: constraints, volumes, priorityClassName, anything. Its
    container has the workload's name.
    """
    spec: Mapping[str, Any] = {}
    """Merged into the workload's own spec: strategy, podManagementPolicy, parallelism, …"""
    on: Annotated[tuple[Name, ...], BeforeValidator(_places)] = ()
    """Nodes of its first pods at the start, whether they fit there or not: a list of nodes, or `{node:
    count}`. The scheduler places the others.
    """
    budget: ScenarioBudget | None = None
    service: int | None = Field(default=None, ge=1, le=65535)
    """A Service with its name at this port."""
    claims: tuple[ScenarioClaim, ...] = ()
    schedule: Text | None = None
    """The schedule of a CronJob, as in `*/5 * * * *`."""

    @property
    def size(self) -> int:
        return max(1, len(self.on)) if self.replicas is None else self.replicas

    @model_validator(mode="after")
    def _check_fields(self) -> "ScenarioWorkload":
        if (self.kind == "CronJob") != (self.schedule is not None):
            raise ValueError("`schedule` is required for a CronJob, and not allowed for other kinds")
        if self.on and self.kind in ("DaemonSet", "CronJob"):
            raise ValueError(
                f"`on` is not allowed for a {self.kind}: its pods run on every node, or don't exist yet"
            )
        if self.kind == "DaemonSet" and self.replicas is not None:
            raise ValueError("`replicas` is not allowed for a DaemonSet: it has a pod on every node")
        if self.replicas is not None and len(self.on) > self.replicas:
            raise ValueError(f"`on` names {len(self.on)} nodes for {self.replicas} replicas")
        return self


_POOL_LABEL, _PRICE_LABEL = "pool", "price"


class ScenarioTaint(ScenarioModel):
    key: str = Field(min_length=1)
    value: Text = ""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] = "NoSchedule"


class _Shape(ScenarioModel):
    name: Name
    cpu: Quantity = "4"
    """Allocatable, without what is reserved for the system."""
    memory: Quantity = "16Gi"
    pods: Quantity = "110"
    """The maximum number of pods."""
    resources: Mapping[str, Quantity] = {}
    """Other resources, such as `nvidia.com/gpu: 2`."""
    price: Text | None = None
    """Becomes its label `price`."""
    labels: Mapping[str, Text] = {}
    taints: tuple[ScenarioTaint, ...] = ()


class ScenarioNode(_Shape):
    """A node."""

    zone: Name | None = None
    """Its `topology.kubernetes.io/zone`."""
    unschedulable: bool = False
    """Cordoned from the start."""


class ScenarioNodePool(_Shape):
    """Identical nodes: `name-1`, `name-2` and so on, each with the label `pool: name`."""

    count: int = Field(ge=0, le=10_000)
    zones: tuple[Name, ...] = ()
    """The nodes are spread over these zones in turn."""

    def machines(self) -> Iterator[ScenarioNode]:
        shared = {field: getattr(self, field) for field in _Shape.model_fields}
        shared["labels"] = {_POOL_LABEL: self.name, **self.labels}
        for number in range(1, self.count + 1):
            zone = self.zones[(number - 1) % len(self.zones)] if self.zones else None
            yield ScenarioNode(**shared | {"name": f"{self.name}-{number}", "zone": zone})


def node_object(machine: ScenarioNode, number: int, now: datetime) -> Object:
    """Return the node as its kubelet registers it; its address is derived from `number`."""
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


def _labels(machine: ScenarioNode) -> dict[str, str]:
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
