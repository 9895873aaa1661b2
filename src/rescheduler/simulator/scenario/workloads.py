"""What runs in a scenario, in the words of its file."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from rescheduler.simulator.scenario.words import Name, Part, Quantity, Text

__all__ = ["STANDARD", "Budget", "Claim", "Kind", "Workload"]

STANDARD = "standard"
"""The storage class of claims that name no other."""

Kind = Literal["Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob", "Pod"]
Count = int | Annotated[str, Field(pattern=r"^(100|[0-9]{1,2})%$")]
"""A number, or a percentage such as `25%`."""


class Budget(Part):
    """A PodDisruptionBudget of the workload's name, for its pods."""

    min_available: Count | None = None
    max_unavailable: Count | None = None
    unhealthy_pod_eviction_policy: Literal["IfHealthyBudget", "AlwaysAllow"] | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> "Budget":
        if (self.min_available is None) == (self.max_unavailable is None):
            raise ValueError("one of `minAvailable` and `maxUnavailable` is needed")
        return self


class Claim(Part):
    """A volume for each pod of a StatefulSet, or one for all pods of another workload."""

    name: Name
    size: Quantity = "10Gi"
    storage_class: Name = STANDARD
    """`standard` is there without being asked for."""
    access_mode: Literal["ReadWriteOnce", "ReadWriteOncePod", "ReadWriteMany", "ReadOnlyMany"] = (
        "ReadWriteOnce"
    )


def _places(value: object) -> object:
    """`{worker-1: 2, worker-2: 1}` is short for `[worker-1, worker-1, worker-2]`."""
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, dict):
        return value
    for node, count in value.items():
        if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= 10_000:
            raise ValueError(f"{node}: {count!r}: must be a number of pods")
    return tuple(node for node, count in value.items() for _ in range(count))


class Workload(Part):
    """Pods of one sort. Its pods, its selector and its Service have the label `app: NAME`."""

    kind: Kind = "Deployment"
    namespace: Name = "default"
    name: Name
    replicas: int | None = Field(default=None, ge=0, le=100_000)
    """Of a Job: completions, all at once. Not given: as many as `on` names, else 1."""
    cpu: Quantity | None = "100m"
    """What each pod requests; null: nothing."""
    memory: Quantity | None = "128Mi"
    image: str = ""
    """Not given: `example.com/NAME:1.0`."""
    labels: Mapping[str, Text] = {}
    """Of the workload and of its pods."""
    annotations: Mapping[str, Text] = {}
    """Of its pods."""
    pod: Mapping[str, Any] = {}
    """Merged into the pod's spec as kubectl merges: constraints, volumes, priorityClassName, anything.
    Its container has the workload's name."""
    spec: Mapping[str, Any] = {}
    """Merged into the workload's own spec: strategy, podManagementPolicy, parallelism, …"""
    on: Annotated[tuple[Name, ...], BeforeValidator(_places)] = ()
    """Nodes where its first pods are when time starts, whether they belong there or not: a list of nodes, or
    `{node: count}`. The scheduler places the rest."""
    budget: Budget | None = None
    service: int | None = Field(default=None, ge=1, le=65535)
    """A Service of its name at this port."""
    claims: tuple[Claim, ...] = ()
    schedule: Text | None = None
    """Of a CronJob: when, as in `*/5 * * * *`."""

    @property
    def size(self) -> int:
        return max(1, len(self.on)) if self.replicas is None else self.replicas

    @model_validator(mode="after")
    def _makes_sense(self) -> "Workload":
        if (self.kind == "CronJob") != (self.schedule is not None):
            raise ValueError("`schedule` is for a CronJob, and a CronJob needs one")
        if self.on and self.kind in ("DaemonSet", "CronJob"):
            raise ValueError(
                f"`on` is not for a {self.kind}: its pods are not there when time starts, or everywhere"
            )
        if self.kind == "DaemonSet" and self.replicas is not None:
            raise ValueError("`replicas` is not for a DaemonSet: it has a pod on every node")
        if self.replicas is not None and len(self.on) > self.replicas:
            raise ValueError(f"`on` names {len(self.on)} nodes for {self.replicas} replicas")
        return self
