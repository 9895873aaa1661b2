"""Which families a change is about: their keys are looked at again. Healthy pods concern nobody."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from rescheduler.controller.followed import said
from rescheduler.controller.known_cluster import KnownCluster
from rescheduler.controller.recovering.families import TELLING, Families
from rescheduler.kube.informer import Handler, Informer
from rescheduler.kube.resources import Object
from rescheduler.model.migrations import FAILED_PODS
from rescheduler.model.nodes import NodeRecord
from rescheduler.model.pods import PodRecord

__all__ = ["NODES", "SUSPECTS", "Waking"]

NODES: Final = "nodes"
"""Not of a family: some node was lost, or has come back, and its pods are to be looked for."""
SUSPECTS: Final = "suspects"
"""Nor is this: which nodes are suspect may have changed, although nothing fails that did not before."""


class Waking:
    def __init__(self, cluster: KnownCluster, families: Families, wake: Callable[[str], None]) -> None:
        self._cluster = cluster
        self._families = families
        self._wake = wake

    def subscribe(self) -> Callable[[], None]:
        """Everything that is not well is looked at once, and from then on when something changes."""
        ends = [informer.subscribe(handler) for informer, handler in self._handlers()]

        def end() -> None:
            for each in ends:
                each()

        return end

    def wake_all(self) -> None:
        """Everything that is not well is looked at once more, as at the beginning."""
        for informer, handler in self._handlers():
            for each in informer:
                handler(None, each)

    def _handlers(self) -> Iterator[tuple[Informer[Any], Handler[Any]]]:
        seen = self._cluster.followed
        for kind, known in self._cluster.workloads.items():
            yield known.informer, self._of_workload(kind)
        yield seen.pods.informer, self._pod
        yield seen.nodes, self._node
        yield seen.migrations.informer, self._migration

    def wake_pods_of_lost_nodes(self) -> None:
        ready = {node.name for node in self._cluster.followed.nodes if node.is_ready}
        for pod in self._cluster.followed.pods.informer:
            if pod.node and pod.node not in ready:
                self._wake_family(pod)

    def _pod(self, old: PodRecord | None, new: PodRecord | None) -> None:
        if new is not None and _is_well(new) and (old is None or _is_well(old)):
            return
        for pod in (old, new):
            if pod is not None:
                self._wake_family(pod)

    def _wake_family(self, pod: PodRecord) -> None:
        if key := self._families.key_of(pod):
            self._wake(key)

    def _of_workload(self, kind: str) -> Callable[[Object | None, Object | None], None]:
        def changed(old: Object | None, new: Object | None) -> None:
            for item in (new, old):
                if item is not None and TELLING.intersection(_annotations(item)):
                    self._wake(self._families.key_of_workload(kind, item))
                    return

        return changed

    def _node(self, old: NodeRecord | None, new: NodeRecord | None) -> None:
        if old is None or new is None:
            self._wake(SUSPECTS)
        is_well = new is not None and new.is_ready
        if is_well and (old is None or old.is_ready):
            return
        if old is None or new is None or old.is_ready != new.is_ready or old.taints != new.taints:
            self._wake(NODES)

    def _migration(self, _: Object | None, new: Object | None) -> None:
        """One that has ended may leave a failed copy behind, and its copy is a pod like any other now."""
        if new is None or not said(new, "status", "finishedAt"):
            return
        namespace, known = new["metadata"]["namespace"], self._cluster.followed.pods
        source = known.get(f"{namespace}/{said(new, 'spec', 'pod', 'name')}")
        if source is not None and said(new, "spec", "strategy") == FAILED_PODS:
            self._wake_family(source)
        copy = known.get(f"{namespace}/{said(new, 'status', 'targetPod', 'name')}")
        if copy is not None and not _is_well(copy):
            self._wake_family(copy)


def _is_well(pod: PodRecord) -> bool:
    return pod.is_ready and not pod.is_terminating and not _tells_something(pod)


def _tells_something(pod: PodRecord) -> bool:
    """Of a pod that is its own family: a record that may be due to go, or a number that makes no sense."""
    return pod.owner is None and bool(TELLING.intersection(pod.marks))


def _annotations(item: Object) -> Mapping[str, str]:
    return item["metadata"].get("annotations") or {}
