"""Counts of pods per node that stay right while pods come and go.

Affinity and spreading ask for every pod they place: how many pods like these are on each node? The
question is the same for all pods of a workload, so the answer is counted once and then kept.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping

from rescheduler.model.selectors import Selector
from rescheduler.simulator.scheduler.by_label import ByLabel
from rescheduler.simulator.scheduler.nodes import NodeView
from rescheduler.simulator.scheduler.pods import PodView

__all__ = ["Counted", "Tallies"]

_KEPT = 1024

Counted = Callable[[PodView], bool]


class _Tally:
    def __init__(self, selector: Selector, counted: Counted, nodes: Iterable[NodeView]) -> None:
        self.selector = selector
        self.counted = counted
        every = {node.name: sum(map(counted, node.pods.values())) for node in nodes}
        self.counts = {name: count for name, count in every.items() if count}


class Tallies:
    def __init__(self) -> None:
        self._kept: dict[Hashable, _Tally] = {}
        self._by_label: ByLabel[_Tally] = ByLabel()

    def of(
        self, question: Hashable, selector: Selector, counted: Counted, nodes: Iterable[NodeView]
    ) -> Mapping[str, int]:
        """Node name → how many of its pods count; nodes without any are not there.

        All pods that count match the selector; not all that match it need count.
        """
        if (found := self._kept.get(question)) is not None:
            return found.counts
        if len(self._kept) >= _KEPT:
            oldest = self._kept.pop(next(iter(self._kept)))
            self._by_label.remove(oldest, oldest.selector)
        made = self._kept[question] = _Tally(selector, counted, nodes)
        self._by_label.add(made, selector)
        return made.counts

    def change(self, pod: PodView, node: str, by: int) -> None:
        for tally in self._by_label.candidates(pod.labels):
            if tally.counted(pod):
                count = tally.counts.get(node, 0) + by
                if count:
                    tally.counts[node] = count
                else:
                    del tally.counts[node]

    def forget(self) -> None:
        self._kept.clear()
        self._by_label = ByLabel()
