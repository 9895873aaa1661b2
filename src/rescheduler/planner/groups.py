"""Pods that are planned together or not at all: those with the same group label in one namespace."""

from functools import cached_property

import numpy as np

from rescheduler.snapshot.snapshot import NOWHERE, Snapshot

__all__ = ["Groups"]


class Groups:
    def __init__(self, snapshot: Snapshot, label: str) -> None:
        self._snapshot = snapshot
        self._label = label

    def of(self, pod: int) -> str:
        """`namespace/group`, empty if it belongs to none."""
        shared = self._snapshot.classes[self._snapshot.pods.pod_class[pod]]
        name = shared.labels.get(self._label)
        return f"{shared.namespace}/{name}" if name else ""

    def members(self, group: str) -> tuple[int, ...]:
        """Rows of all pods of it that are on a node and stay there, in order."""
        return self._members.get(group, ())

    def goes_alone(self, pod: int) -> bool:
        """Whether nobody has to move with it: it has no group, or is all of it."""
        return len(self.members(self.of(pod))) <= 1

    @cached_property
    def _members(self) -> dict[str, tuple[int, ...]]:
        labelled = [
            row for row, shared in enumerate(self._snapshot.classes) if shared.labels.get(self._label)
        ]
        if not labelled:
            return {}
        pods = self._snapshot.pods
        found: dict[str, list[int]] = {}
        for pod in np.flatnonzero(np.isin(pods.pod_class, labelled) & (pods.node != NOWHERE)).tolist():
            if not pods.records[pod].is_terminating:
                found.setdefault(self.of(pod), []).append(pod)
        return {group: tuple(rows) for group, rows in found.items()}
