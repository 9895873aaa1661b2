"""A node as the scheduler looks at it: the plain object and the pods on it, summed up."""

from collections.abc import Mapping

from rescheduler.model.quantity import quantity_of
from rescheduler.simulator.exchange import Object
from rescheduler.simulator.scheduler.pods import PodView
from rescheduler.simulator.scheduler.requests import amounts

__all__ = ["NodeView"]


class NodeView:
    """The node stays the same, the pods on it come and go."""

    def __init__(self, node: Object) -> None:
        metadata, spec = node["metadata"], node.get("spec") or {}
        self.object = node
        self.name: str = metadata["name"]
        self.labels: Mapping[str, str] = metadata.get("labels") or {}
        self.taints: tuple[Object, ...] = tuple(spec.get("taints") or ())
        self.unschedulable: bool = bool(spec.get("unschedulable"))
        status = node.get("status") or {}
        allocatable = status.get("allocatable") or {}
        self.allocatable = amounts(allocatable)
        self.room_for_pods = quantity_of(allocatable.get("pods", 0)).whole
        self.declared_features = frozenset(status.get("declaredFeatures") or ())
        self.pods: dict[str, PodView] = {}
        self.requested: dict[str, int] = {}
        self.with_ports: dict[str, PodView] = {}
        self.owners: dict[str, int] = {}
        """Uid of a workload → how many of its pods are here."""

    def is_like(self, other: "NodeView") -> bool:
        """Nothing differs that a filter looks at."""
        return all(
            getattr(self, field) == getattr(other, field)
            for field in (
                "labels", "taints", "unschedulable", "allocatable", "room_for_pods", "declared_features"
            )
        )  # fmt: skip

    def add(self, pod: PodView) -> None:
        self.pods[pod.key] = pod
        if pod.host_ports:
            self.with_ports[pod.key] = pod
        if pod.owner_uid:
            self.owners[pod.owner_uid] = self.owners.get(pod.owner_uid, 0) + 1
        for name, amount in pod.held.items():
            self.requested[name] = self.requested.get(name, 0) + amount

    def remove(self, pod: PodView) -> None:
        del self.pods[pod.key]
        self.with_ports.pop(pod.key, None)
        if pod.owner_uid:
            self.owners[pod.owner_uid] -= 1
        for name, amount in pod.held.items():
            self.requested[name] -= amount

    def take_over(self, before: "NodeView") -> None:
        """The pods of the same node, as it was before it changed."""
        self.pods, self.with_ports = before.pods, before.with_ports
        self.requested, self.owners = before.requested, before.owners

    def replace(self, pod: PodView) -> None:
        """The same pod in a newer state, in which nothing differs that is summed up here."""
        self.pods[pod.key] = pod
        if pod.host_ports:
            self.with_ports[pod.key] = pod
