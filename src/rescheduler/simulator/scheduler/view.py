"""The cluster as the scheduler sees it: nodes with their pods, namespaces, storage."""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from rescheduler.model.selectors import Selector
from rescheduler.simulator.exchange import Object
from rescheduler.simulator.scheduler.affinity_terms import AffinityTerm
from rescheduler.simulator.scheduler.by_label import ByLabel
from rescheduler.simulator.scheduler.nodes import NodeView
from rescheduler.simulator.scheduler.pods import PodView
from rescheduler.simulator.scheduler.storage import StorageView
from rescheduler.simulator.scheduler.tallies import Counted, Tallies

__all__ = ["ClusterView"]


class ClusterView:
    """Pods on nodes that are not there (yet) wait aside and count for nothing."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeView] = {}
        self.namespaces: dict[str, dict[str, str]] = {}
        self.storage = StorageView()
        self.claim_users: Counter[str] = Counter()
        """`namespace/claim` → how many pods on nodes use it."""
        self._holders: dict[AffinityTerm, Counter[str]] = {}
        self._terms: ByLabel[AffinityTerm] = ByLabel()
        self._placed: dict[str, PodView] = {}
        self._tallies = Tallies()

    @classmethod
    def of(cls, objects: Iterable[Object]) -> "ClusterView":
        """From plain objects with their kinds, in any order."""
        view = cls()
        for item in objects:
            view.put(item["kind"], item)
        return view

    def put(self, kind: str, item: Object) -> None:
        """An object as it now is; kinds that have nothing to do with placement are ignored."""
        name = item["metadata"]["name"]
        match kind:
            case "Pod":
                self.put_pod(PodView(item))
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

    def put_pod(self, pod: PodView) -> None:
        """Counts if it has a node and still runs, whatever it was before."""
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

    def placed(self, key: str) -> PodView | None:
        return self._placed.get(key)

    def drop_pod(self, key: str) -> None:
        if (pod := self._placed.pop(key, None)) is not None and (
            node := self.nodes.get(pod.node)
        ) is not None:
            self._count(pod, node, -1)

    @contextmanager
    def without(self, pods: Iterable[PodView]) -> Iterator[None]:
        """As if these pods were not there."""
        taken = [pod for pod in pods if pod.key in self._placed]
        for pod in taken:
            self.drop_pod(pod.key)
        try:
            yield
        finally:
            for pod in taken:
                self.put_pod(pod)

    @contextmanager
    def with_also(self, pods: Iterable[PodView], node: NodeView) -> Iterator[None]:
        """As if these pods were on the node as well."""
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

    def tally(self, question: Hashable, selector: Selector, counted: Counted) -> Mapping[str, int]:
        """Node name → how many of its pods count; equal questions must count the same pods.

        Pods that count match the selector: it tells which pods need not be looked at.
        """
        return self._tallies.of(question, selector, counted, self.nodes.values())

    def terms_against(self, pod: PodView) -> Iterator[tuple[AffinityTerm, Mapping[str, int]]]:
        """Anti-affinity of pods on nodes that may mean this pod, and how many such pods each node has."""
        for term in self._terms.candidates(pod.labels):
            yield term, self._holders[term]

    def _put_node(self, item: Object) -> None:
        view = NodeView(item)
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

    def _count(self, pod: PodView, node: NodeView, by: int) -> None:
        if by > 0:
            node.add(pod)
        else:
            node.remove(pod)
        for claim in pod.claims:
            self.claim_users[f"{pod.namespace}/{claim}"] += by
        for term in pod.anti_affinity:
            self._count_term(term, node.name, by)
        self._tallies.change(pod, node.name, by)

    def _count_term(self, term: AffinityTerm, node: str, by: int) -> None:
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
