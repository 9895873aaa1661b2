"""`metrics.k8s.io`: usage shown as objects that nobody stored."""

from collections.abc import Iterator

from rescheduler.simulator.cluster import Cluster
from rescheduler.simulator.exchange import Object, encode
from rescheduler.simulator.failures import not_found
from rescheduler.simulator.kinds import Kind
from rescheduler.simulator.metadata import without
from rescheduler.simulator.metrics import UsageBook
from rescheduler.simulator.selection import Selection
from rescheduler.simulator.store import Change, Record

__all__ = ["UsageView"]


class UsageView:
    """Follows nodes and pods, so that a name that is used again starts with a clean sheet."""

    def __init__(self, cluster: Cluster) -> None:
        self.book = UsageBook()
        self._cluster = cluster
        self._nodes, self._pods = cluster.kind("v1", "Node"), cluster.kind("v1", "Pod")
        cluster.store.observers.append(self._changed)

    def _changed(self, kind: Kind, change: Change) -> None:
        if change.after is not None or change.before is None:
            return
        if kind == self._nodes:
            self.book.forget_node(change.before.name)
        elif kind == self._pods:
            self.book.forget_pod(change.before.namespace, change.before.name)

    def records(self, kind: Kind, selection: Selection) -> list[Record]:
        return list(self._measured(kind, selection))

    def one(self, kind: Kind, namespace: str, name: str) -> Record:
        for record in self._measured(kind, Selection(namespace=namespace, name=name)):
            return record
        raise not_found(kind, name if kind.name == "NodeMetrics" else f"{namespace}/{name}")

    def _measured(self, kind: Kind, selection: Selection) -> Iterator[Record]:
        of_nodes = kind.name == "NodeMetrics"
        subjects = self._nodes if of_nodes else self._pods
        measure = self.book.node_metrics if of_nodes else self.book.pod_metrics
        for subject in self._cluster.store.collection(subjects).ordered(selection.namespace):
            if selection.includes(subject) and (metrics := measure(subject.object)) is not None:
                yield _shown_as(subject, metrics)


def _shown_as(subject: Record, metrics: Object) -> Record:
    return Record(
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
