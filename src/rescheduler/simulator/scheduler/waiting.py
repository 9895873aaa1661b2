"""Pods without a node: those whose turn is next, and those that wait for something to change."""

import heapq
from collections.abc import Iterable, Mapping

from rescheduler.simulator.scheduler.pods import PodView

__all__ = ["ANYTHING", "WOKEN_BY", "Waiting"]

_ON_THE_NODE = frozenset({"NodePorts", "NodeResourcesFit", "VolumeRestrictions", "NodeVolumeLimits"})
_AMONG_PODS = frozenset({"InterPodAffinity", "PodTopologySpread"})
_VOLUMES = frozenset({"VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone"})
ANYTHING = "*"

WOKEN_BY: Mapping[str, frozenset[str]] = {
    "pod placed": _AMONG_PODS,
    "pod changed": _AMONG_PODS | {"NodeResourcesFit"},
    "pod ends": frozenset({"PodTopologySpread"}),
    "pod gone": _AMONG_PODS | _ON_THE_NODE,
    "node changed": frozenset({ANYTHING}),
    "storage changed": _VOLUMES,
    "namespace changed": frozenset({"InterPodAffinity"}),
}
"""What happened → which filters might now say otherwise."""


class Waiting:
    def __init__(self) -> None:
        self._pods: dict[str, PodView] = {}
        self._parked: dict[str, frozenset[str]] = {}
        self._turns: list[tuple[int, str, str, str]] = []
        """A heap; entries whose pod is gone, parked or another one by now are skipped when they come up."""
        self.attempts: dict[str, int] = {}
        """By uid: how often a pod was tried in vain."""

    def __len__(self) -> int:
        return len(self._pods)

    def get(self, key: str) -> PodView | None:
        return self._pods.get(key)

    def put(self, pod: PodView) -> None:
        """It gets a turn if it is new, or what it asks for is."""
        before = self._pods.get(pod.key)
        self._pods[pod.key] = pod
        if before is None or before.uid != pod.uid or _asks_otherwise(before, pod):
            self._parked.pop(pod.key, None)
            self._queue(pod)

    def remove(self, key: str) -> None:
        if (pod := self._pods.pop(key, None)) is not None:
            self.attempts.pop(pod.uid, None)
        self._parked.pop(key, None)

    def park(self, pod: PodView, refused_by: Iterable[str]) -> int:
        """Until something changes that these filters look at. How often it was tried by now."""
        self._parked[pod.key] = frozenset(refused_by)
        self.attempts[pod.uid] = self.attempts.get(pod.uid, 0) + 1
        return self.attempts[pod.uid]

    def woken_by(self, happened: str) -> list[PodView]:
        """Those that are worth another try; they stay parked until they are released."""
        filters = WOKEN_BY[happened]
        return [
            self._pods[key]
            for key, refused_by in self._parked.items()
            if ANYTHING in filters or ANYTHING in refused_by or filters & refused_by
        ]

    def release(self, key: str) -> None:
        if self._parked.pop(key, None) is not None:
            self._queue(self._pods[key])

    def has_next(self) -> bool:
        self._skip_stale()
        return bool(self._turns)

    def next(self) -> PodView | None:
        """The most important, then the oldest. It has had its turn: it is placed now, or parked."""
        self._skip_stale()
        return self._pods[heapq.heappop(self._turns)[2]] if self._turns else None

    def _queue(self, pod: PodView) -> None:
        created = pod.object["metadata"].get("creationTimestamp") or ""
        heapq.heappush(self._turns, (-pod.priority, created, pod.key, pod.uid))

    def _skip_stale(self) -> None:
        while self._turns:
            *_, key, uid = self._turns[0]
            pod = self._pods.get(key)
            if pod is not None and pod.uid == uid and key not in self._parked:
                return
            heapq.heappop(self._turns)


def _asks_otherwise(before: PodView, after: PodView) -> bool:
    return before.spec != after.spec or before.labels != after.labels
