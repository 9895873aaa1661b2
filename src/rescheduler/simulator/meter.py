"""What pods and nodes use, read when somebody asks: no alarm rings for usage that nobody looks at."""

from datetime import UTC, datetime

from rescheduler.simulator.behaviour import Draw, Used, node_usage, of_node, pod_draws
from rescheduler.simulator.cluster import Cluster
from rescheduler.simulator.kubelets import Kubelets
from rescheduler.simulator.metrics import PodUsage, Usage
from rescheduler.simulator.store import Record

__all__ = ["KubeletMeter"]

_EVERY_S = 15
"""A metrics server reads its kubelets so often; in between it tells what it read last."""


class KubeletMeter:
    """A `Meter` that asks the kubelets. Of dead nodes and their pods nothing is known."""

    def __init__(self, cluster: Cluster, kubelets: Kubelets) -> None:
        self._cluster = cluster
        self._kubelets = kubelets
        self._pods, self._nodes = cluster.kind("v1", "Pod"), cluster.kind("v1", "Node")
        self._draws: dict[str, tuple[int, list[Draw]]] = {}
        """By the pod's uid: its version, and what follows from it."""
        self._obeyed = kubelets.behaviour

    def node(self, name: str) -> tuple[Usage, datetime] | None:
        record = self._cluster.store.find(self._nodes, "", name)
        if record is None or self._kubelets.is_dead(name):
            return None
        at = self._read_at()
        behaviour = self._kubelets.behaviour
        drawn = [used for pod in self._kubelets.pods_of(name) for used in self._used(pod, at).values()]
        allocatable = (record.object.get("status") or {}).get("allocatable") or {}
        how = of_node(behaviour, name, record.labels)
        return _usage(node_usage(name, allocatable, how, drawn, now=at, seed=behaviour.seed)), at

    def pod(self, namespace: str, name: str) -> tuple[PodUsage, datetime] | None:
        record = self._cluster.store.find(self._pods, namespace, name)
        if record is None or self._kubelets.is_dead(record.fields["spec.nodeName"]):
            return None
        at = self._read_at()
        used = self._used(record, at)
        return ({name: _usage(each) for name, each in used.items()}, at) if used else None

    def _used(self, pod: Record, at: datetime) -> dict[str, Used]:
        behaviour = self._kubelets.behaviour
        if behaviour is not self._obeyed or len(self._draws) > self._most_remembered():
            self._draws.clear()
            self._obeyed = behaviour
        version, draws = self._draws.get(pod.uid, (0, []))
        if version != pod.version:
            draws = pod_draws(pod.object, behaviour)
            self._draws[pod.uid] = (pod.version, draws)
        return {draw.container: draw.at(at, behaviour.seed) for draw in draws}

    def _most_remembered(self) -> int:
        """Pods that are gone are not forgotten one by one, but together when they are the most."""
        return 2 * len(self._cluster.store.collection(self._pods).records) + 100

    def _read_at(self) -> datetime:
        seconds = int(self._cluster.clock.now().timestamp())
        return datetime.fromtimestamp(seconds - seconds % _EVERY_S, UTC)


def _usage(used: Used) -> Usage:
    return Usage(used.cpu_millis / 1000, used.memory_bytes)
