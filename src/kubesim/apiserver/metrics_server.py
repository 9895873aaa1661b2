"""Serve resource usage as a metrics server does (`metrics.k8s.io/v1beta1`).

Usage is what `set_node` and `set_pod` were given, until the node or pod is deleted. For all others, the
`meter` is asked if there is one.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

from kubesim.apiserver.api_messages import Object, encode
from kubesim.apiserver.kind_registry import ResourceKind
from kubesim.apiserver.list_requests import ListSelection
from kubesim.apiserver.object_store import StoreChange, StoredObject
from kubesim.apiserver.server_metadata import without
from kubesim.apiserver.simulated_cluster import SimulatedCluster
from kubesim.apiserver.status_errors import not_found

__all__ = ["MeasuredUsage", "MetricsApi", "PodUsage", "UsageMeter", "UsageStore"]

_API_VERSION = "metrics.k8s.io/v1beta1"
_NANOS = 1_000_000_000


class MeasuredUsage(NamedTuple):
    cpu_cores: float
    memory_bytes: int

    @property
    def quantities(self) -> dict[str, str]:
        """Return the usage in the units of a metrics server, precise enough for small amounts."""
        return {"cpu": f"{round(self.cpu_cores * _NANOS)}n", "memory": f"{-(-self.memory_bytes // 1024)}Ki"}


PodUsage = Mapping[str, MeasuredUsage]
"""Usage by container name."""


class UsageMeter(Protocol):
    """Measures usage on request; returns None if it is unknown."""

    def node(self, name: str) -> tuple[MeasuredUsage, datetime] | None: ...

    def pod(self, namespace: str, name: str) -> tuple[PodUsage, datetime] | None: ...


@dataclass(slots=True)
class UsageStore:
    """The usage of nodes and pods that was set explicitly."""

    window: timedelta = timedelta(seconds=15)
    meter: UsageMeter | None = None
    _nodes: dict[str, tuple[MeasuredUsage, datetime]] = field(default_factory=dict)
    _pods: dict[tuple[str, str], tuple[PodUsage, datetime]] = field(default_factory=dict)

    def set_node(self, name: str, usage: MeasuredUsage, *, now: datetime) -> None:
        self._nodes[name] = (usage, now)

    def set_pod(self, namespace: str, name: str, usage: PodUsage, *, now: datetime) -> None:
        self._pods[namespace, name] = (dict(usage), now)

    def forget_node(self, name: str) -> None:
        self._nodes.pop(name, None)

    def forget_pod(self, namespace: str, name: str) -> None:
        self._pods.pop((namespace, name), None)

    def node_metrics(self, node: Object) -> Object | None:
        """Return the metrics of a stored node with its labels, or None if they are unknown."""
        name = node["metadata"]["name"]
        found = self._nodes.get(name) or (self.meter.node(name) if self.meter else None)
        if found is None:
            return None
        usage, taken_at = found
        return self._metrics("NodeMetrics", node, taken_at) | {"usage": usage.quantities}

    def pod_metrics(self, pod: Object) -> Object | None:
        namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        found = self._pods.get((namespace, name)) or (self.meter.pod(namespace, name) if self.meter else None)
        if found is None:
            return None
        usage, taken_at = found
        containers = [{"name": name, "usage": used.quantities} for name, used in usage.items()]
        return self._metrics("PodMetrics", pod, taken_at) | {"containers": containers}

    def _metrics(self, kind: str, subject: Object, taken_at: datetime) -> Object:
        metadata = subject["metadata"]
        moment = taken_at.strftime("%Y-%m-%dT%H:%M:%SZ")
        shown = {"name": metadata["name"], "creationTimestamp": moment}
        shown |= {field: metadata[field] for field in ("namespace", "labels") if metadata.get(field)}
        return {
            "kind": kind,
            "apiVersion": _API_VERSION,
            "metadata": shown,
            "timestamp": moment,
            "window": f"{self.window.total_seconds():g}s",
        }


class MetricsApi:
    """Serves `metrics.k8s.io`, and removes the usage of deleted nodes and pods."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.usage = UsageStore()
        self._cluster = cluster
        self._nodes, self._pods = cluster.kind("v1", "Node"), cluster.kind("v1", "Pod")
        cluster.store.observers.append(self._changed)

    def _changed(self, kind: ResourceKind, change: StoreChange) -> None:
        if change.after is not None or change.before is None:
            return
        if kind == self._nodes:
            self.usage.forget_node(change.before.name)
        elif kind == self._pods:
            self.usage.forget_pod(change.before.namespace, change.before.name)

    def records(self, kind: ResourceKind, selection: ListSelection) -> list[StoredObject]:
        return list(self._measured(kind, selection))

    def one(self, kind: ResourceKind, namespace: str, name: str) -> StoredObject:
        for record in self._measured(kind, ListSelection(namespace=namespace, name=name)):
            return record
        raise not_found(kind, name if kind.name == "NodeMetrics" else f"{namespace}/{name}")

    def _measured(self, kind: ResourceKind, selection: ListSelection) -> Iterator[StoredObject]:
        of_nodes = kind.name == "NodeMetrics"
        subjects = self._nodes if of_nodes else self._pods
        measure = self.usage.node_metrics if of_nodes else self.usage.pod_metrics
        for subject in self._cluster.store.collection(subjects).ordered(selection.namespace):
            if selection.includes(subject) and (metrics := measure(subject.object)) is not None:
                yield _shown_as(subject, metrics)


def _shown_as(subject: StoredObject, metrics: Object) -> StoredObject:
    return StoredObject(
        raw=encode(without(metrics, "kind", "apiVersion")),
        key=subject.key,
        version=subject.version,
        namespace=subject.namespace,
        name=subject.name,
        uid=subject.uid,
        labels=subject.labels,
        fields=subject.fields,
        owners=(),
        deleting=False,
    )
