"""The scheduler's view of the cluster: nodes with their pods, namespaces and storage.

Selectors are indexed by a label value that they require, and counts of matching pods per node are kept up to
date, because all pods of a workload ask for the same counts.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Generic, TypeVar

from kubesim.apiserver.api_messages import Object
from kubesim.scheduler.node_info import InterPodTerm, NodeInfo, PodInfo, StorageInfo
from kubevalues import Selector, SelectorOperator

__all__ = ["Counted", "LabelIndex", "PodCounts", "SchedulerCache"]

T = TypeVar("T", bound=Hashable)


class LabelIndex(Generic[T]):
    def __init__(self) -> None:
        self._found: dict[tuple[str, str] | None, dict[T, None]] = {}

    def add(self, item: T, selector: Selector) -> None:
        self._found.setdefault(_required_label(selector), {})[item] = None

    def remove(self, item: T, selector: Selector) -> None:
        label = _required_label(selector)
        items = self._found[label]
        del items[item]
        if not items:
            del self._found[label]

    def candidates(self, labels: Mapping[str, str]) -> Iterator[T]:
        """Yield all items whose selector may match these labels, and few others."""
        yield from self._found.get(None, ())
        for label in labels.items():
            yield from self._found.get(label, ())


def _required_label(selector: Selector) -> tuple[str, str] | None:
    for requirement in selector.requirements:
        if requirement.operator is SelectorOperator.IN and len(requirement.values) == 1:
            return requirement.key, requirement.values[0]
    return None


_KEPT = 1024

Counted = Callable[[PodInfo], bool]


class _Tally:
    def __init__(self, selector: Selector, counted: Counted, nodes: Iterable[NodeInfo]) -> None:
        self.selector = selector
        self.counted = counted
        every = {node.name: sum(map(counted, node.pods.values())) for node in nodes}
        self.counts = {name: count for name, count in every.items() if count}


class PodCounts:
    def __init__(self) -> None:
        self._kept: dict[Hashable, _Tally] = {}
        self._by_label: LabelIndex[_Tally] = LabelIndex()

    def of(
        self, request: Hashable, selector: Selector, counted: Counted, nodes: Iterable[NodeInfo]
    ) -> Mapping[str, int]:
        """Return how many pods count on each node that has any.

        All pods that count match the selector, but not all that match it need to count.
        """
        if (found := self._kept.get(request)) is not None:
            return found.counts
        if len(self._kept) >= _KEPT:
            oldest = self._kept.pop(next(iter(self._kept)))
            self._by_label.remove(oldest, oldest.selector)
        made = self._kept[request] = _Tally(selector, counted, nodes)
        self._by_label.add(made, selector)
        return made.counts

    def change(self, pod: PodInfo, node: str, by: int) -> None:
        for tally in self._by_label.candidates(pod.labels):
            if tally.counted(pod):
                count = tally.counts.get(node, 0) + by
                if count:
                    tally.counts[node] = count
                else:
                    del tally.counts[node]

    def forget(self) -> None:
        self._kept.clear()
        self._by_label = LabelIndex()


class SchedulerCache:
    """The scheduler's view of the cluster; pods on unknown nodes are kept aside and don't count."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeInfo] = {}
        self.namespaces: dict[str, dict[str, str]] = {}
        self.storage = StorageInfo()
        self.claim_users: Counter[str] = Counter()
        """How many pods on nodes use each `namespace/claim`."""
        self._holders: dict[InterPodTerm, Counter[str]] = {}
        self._terms: LabelIndex[InterPodTerm] = LabelIndex()
        self._placed: dict[str, PodInfo] = {}
        self._tallies = PodCounts()

    @classmethod
    def of(cls, objects: Iterable[Object]) -> "SchedulerCache":
        """Return a cache of plain objects with their kinds, in any order."""
        view = cls()
        for item in objects:
            view.put(item["kind"], item)
        return view

    def put(self, kind: str, item: Object) -> None:
        """Add or update an object; kinds that don't matter for scheduling are ignored."""
        name = item["metadata"]["name"]
        match kind:
            case "Pod":
                self.put_pod(PodInfo(item))
            case "Node":
                self._put_node(item)
            case "Namespace":
                self.namespaces[name] = item["metadata"].get("labels") or {}
                self._tallies.forget()
            case _:
                if (kept := self.storage.by_kind(kind)) is not None:
                    kept[_key(item)] = item

    def drop(self, kind: str, item: Object) -> None:
        name = item["metadata"]["name"]
        match kind:
            case "Pod":
                self.drop_pod(_key(item))
            case "Node":
                self._drop_node(name)
            case "Namespace":
                self.namespaces.pop(name, None)
                self._tallies.forget()
            case _:
                if (kept := self.storage.by_kind(kind)) is not None:
                    kept.pop(_key(item), None)

    def put_pod(self, pod: PodInfo) -> None:
        """Add or update a pod; it counts if it has a node and has not ended."""
        before = self._placed.get(pod.key)
        if before is not None and before.counts_like(pod):
            self._placed[pod.key] = pod
            if (node := self.nodes.get(pod.node)) is not None:
                node.replace(pod)
            return
        self.drop_pod(pod.key)
        if pod.node and not pod.finished:
            self._placed[pod.key] = pod
            if (node := self.nodes.get(pod.node)) is not None:
                self._count(pod, node, 1)

    def placed(self, key: str) -> PodInfo | None:
        return self._placed.get(key)

    def drop_pod(self, key: str) -> None:
        if (pod := self._placed.pop(key, None)) is not None and (
            node := self.nodes.get(pod.node)
        ) is not None:
            self._count(pod, node, -1)

    @contextmanager
    def without(self, pods: Iterable[PodInfo]) -> Iterator[None]:
        """Remove these pods from the cache while the body runs."""
        taken = [pod for pod in pods if pod.key in self._placed]
        for pod in taken:
            self.drop_pod(pod.key)
        try:
            yield
        finally:
            for pod in taken:
                self.put_pod(pod)

    @contextmanager
    def with_also(self, pods: Iterable[PodInfo], node: NodeInfo) -> Iterator[None]:
        """Count these pods on the node as well while the body runs."""
        added = list(pods)
        for pod in added:
            self._count(pod, node, 1)
        try:
            yield
        finally:
            for pod in added:
                self._count(pod, node, -1)

    def namespace_labels(self, namespace: str) -> dict[str, str]:
        return self.namespaces.get(namespace, {})

    def tally(self, request: Hashable, selector: Selector, counted: Counted) -> Mapping[str, int]:
        """Return how many pods count on each node; equal keys must count the same pods.

        Only pods that match the selector are checked.
        """
        return self._tallies.of(request, selector, counted, self.nodes.values())

    def terms_against(self, pod: PodInfo) -> Iterator[tuple[InterPodTerm, Mapping[str, int]]]:
        """Yield the anti-affinity terms of placed pods that may match this pod, with counts per node."""
        for term in self._terms.candidates(pod.labels):
            yield term, self._holders[term]

    def _put_node(self, item: Object) -> None:
        view = NodeInfo(item)
        before = self.nodes.get(view.name)
        self.nodes[view.name] = view
        if before is not None:
            view.take_over(before)
            return
        for pod in self._placed.values():
            if pod.node == view.name:
                self._count(pod, view, 1)

    def _drop_node(self, name: str) -> None:
        if (node := self.nodes.get(name)) is not None:
            for pod in list(node.pods.values()):
                self._count(pod, node, -1)
            del self.nodes[name]

    def _count(self, pod: PodInfo, node: NodeInfo, by: int) -> None:
        if by > 0:
            node.add(pod)
        else:
            node.remove(pod)
        for claim in pod.claims:
            self.claim_users[f"{pod.namespace}/{claim}"] += by
        for term in pod.anti_affinity:
            self._count_term(term, node.name, by)
        self._tallies.change(pod, node.name, by)

    def _count_term(self, term: InterPodTerm, node: str, by: int) -> None:
        if term not in self._holders:
            self._holders[term] = Counter()
            self._terms.add(term, term.selector)
        holders = self._holders[term]
        holders[node] += by
        if not holders[node]:
            del holders[node]
        if not holders:
            del self._holders[term]
            self._terms.remove(term, term.selector)


def _key(item: Object) -> str:
    metadata = item["metadata"]
    namespace = metadata.get("namespace", "")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])
