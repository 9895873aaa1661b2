"""The places that a scenario gives to pods: a scheduler whose mind is made up."""

from collections import Counter
from collections.abc import Iterable

from rescheduler.simulator.cluster import Cluster
from rescheduler.simulator.scenario.workloads import Workload
from rescheduler.simulator.scheduler import DEFAULT_NAME
from rescheduler.simulator.scheduler.following import Following
from rescheduler.simulator.scheduler.pods import PodView
from rescheduler.simulator.scheduler.writes import Writes
from rescheduler.simulator.store import Record

__all__ = ["Placing"]

Key = tuple[str, str, str]
"""Kind, namespace and name of a workload."""


class Placing:
    """Binds the pods of workloads that say where they are; whether they fit there is not asked."""

    def __init__(self, cluster: Cluster, workloads: Iterable[Workload]) -> None:
        self._cluster = cluster
        self._pods = cluster.kind("v1", "Pod")
        self._wanted: dict[Key, Counter[str]] = {
            (each.kind, each.namespace, each.name): Counter(each.on)
            for each in workloads
            if each.on and each.kind != "Pod"
        }
        self._seen = Following(cluster, DEFAULT_NAME)
        self._writes = Writes(cluster, DEFAULT_NAME)
        cluster.store.observers.append(self._seen.notice)

    def place(self) -> bool:
        """Places all pods that are there; whether all places are taken."""
        if self._wanted:
            for pod in self._newest_last():
                node = self._place_of(pod)
                if node is not None:
                    self._writes.bind(
                        PodView(pod.object), self._seen.view.nodes[node], self._seen.view.storage
                    )
        return not self.missing()

    def missing(self) -> list[str]:
        """Workloads with places that no pod has taken, in words."""
        left = {"/".join(key): +places for key, places in self._wanted.items()}
        return [f"{key}: {places.total()} on {', '.join(places)}" for key, places in left.items() if places]

    def close(self) -> None:
        self._cluster.store.observers.remove(self._seen.notice)

    def _newest_last(self) -> list[Record]:
        """Pods without a node: ordinals in their order, and so on."""
        found = self._cluster.store.collection(self._pods).ordered()
        waiting = [pod for pod in found if not pod.fields["spec.nodeName"] and not pod.deleting]
        return sorted(waiting, key=lambda pod: pod.version)

    def _place_of(self, pod: Record) -> str | None:
        places = self._wanted.get(self._workload_of(pod), Counter())
        node = next((name for name, count in places.items() if count), None)
        if node is not None:
            places[node] -= 1
        return node

    def _workload_of(self, record: Record) -> Key:
        """Up the chain of owners: a pod, its ReplicaSet, its Deployment."""
        kind = "Pod"
        while record.owners and (found := self._cluster.store.by_uid(record.owners[0])) is not None:
            kind, record = found[0].name, found[1]
        return kind, record.namespace, record.name
