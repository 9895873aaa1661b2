"""Resource usage as a metrics server would serve it (`metrics.k8s.io/v1beta1`).

Nothing is measured here: usage is what someone said it is, by `set_node` and `set_pod`, and is forgotten
when the node or the pod is. Of what nobody said anything, the `meter` is asked, if there is one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

from rescheduler.simulator.exchange import Object

__all__ = ["Meter", "PodUsage", "Usage", "UsageBook"]

_API_VERSION = "metrics.k8s.io/v1beta1"
_NANOS = 1_000_000_000


class Usage(NamedTuple):
    cpu_cores: float
    memory_bytes: int

    @property
    def quantities(self) -> dict[str, str]:
        """In the units a metrics server uses, fine enough to show small amounts."""
        return {"cpu": f"{round(self.cpu_cores * _NANOS)}n", "memory": f"{-(-self.memory_bytes // 1024)}Ki"}


PodUsage = Mapping[str, Usage]
"""By name of the container."""


class Meter(Protocol):
    """Reads usage when it is asked for; None where nothing can be read."""

    def node(self, name: str) -> tuple[Usage, datetime] | None: ...

    def pod(self, namespace: str, name: str) -> tuple[PodUsage, datetime] | None: ...


@dataclass(slots=True)
class UsageBook:
    """What nodes and pods use, until told otherwise."""

    window: timedelta = timedelta(seconds=15)
    meter: Meter | None = None
    _nodes: dict[str, tuple[Usage, datetime]] = field(default_factory=dict)
    _pods: dict[tuple[str, str], tuple[PodUsage, datetime]] = field(default_factory=dict)

    def set_node(self, name: str, usage: Usage, *, now: datetime) -> None:
        self._nodes[name] = (usage, now)

    def set_pod(self, namespace: str, name: str, usage: PodUsage, *, now: datetime) -> None:
        self._pods[namespace, name] = (dict(usage), now)

    def forget_node(self, name: str) -> None:
        self._nodes.pop(name, None)

    def forget_pod(self, namespace: str, name: str) -> None:
        self._pods.pop((namespace, name), None)

    def node_metrics(self, node: Object) -> Object | None:
        """For a node as it is stored: its labels are shown, too. None if nothing is known."""
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
