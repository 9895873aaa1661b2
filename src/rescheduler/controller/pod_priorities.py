"""The priorities of all pods on nodes, counted as they come and go.

Most clusters have no priorities among their workloads: then nobody can preempt anybody, and that is known
without looking at the cluster.
"""

from collections import Counter

from rescheduler.kube.informer import Informer
from rescheduler.model.pods import PodRecord

__all__ = ["PodPriorities"]


class PodPriorities:
    def __init__(self, pods: Informer[PodRecord]) -> None:
        self._counts: Counter[int] = Counter()
        pods.subscribe(self._heard)

    def any_below(self, priority: int) -> bool:
        return any(each < priority for each in self._counts)

    def _heard(self, old: PodRecord | None, new: PodRecord | None) -> None:
        if old is not None and old.node:
            self._counts[old.priority] -= 1
            if not self._counts[old.priority]:
                del self._counts[old.priority]
        if new is not None and new.node:
            self._counts[new.priority] += 1
