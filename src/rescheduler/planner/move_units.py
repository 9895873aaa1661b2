"""What is planned, in rows of the snapshot: the form between a strategy's steps and the moves of a plan.

Pods that are planned together or not at all: those with the same group label in one namespace.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from rescheduler.api.podmigration import Handover
from rescheduler.cluster.snapshot import NO_ROW, Snapshot

__all__ = ["MoveUnit", "PlannedMove", "PodGroups", "count_moves"]


@dataclass(frozen=True, slots=True)
class PlannedMove:
    """One pod from one node to another."""

    pod: int
    source: int
    target: int
    handover: Handover
    strategy: str
    reason: str
    gain: float
    group: str = ""
    hop: bool = False
    left_for: str = ""
    """The reason that it left for, where `reason` also says why it goes on to there."""

    @property
    def source_stays(self) -> bool:
        return self.handover.source_stays

    def split_at(self, stop: int) -> "tuple[PlannedMove, PlannedMove]":
        """The same in two: what is gained is gained by the second."""
        return (
            replace(self, target=stop).as_hop(),
            replace(self, source=stop),
        )

    def merged_with(self, second_move: "PlannedMove", instead: str) -> "PlannedMove":
        """This one and the next as one: for what it left for, and for what speaks for that target. `instead`
        says of which."""
        left_for = self.left_for or self.reason
        reason = f"{left_for}; {instead}: {second_move.reason}"
        return replace(self, target=second_move.target, reason=reason, left_for=left_for)

    def as_hop(self) -> "PlannedMove":
        """As the first of two."""
        return replace(self, gain=0.0, hop=True)


@dataclass(frozen=True, slots=True)
class MoveUnit:
    """Legs that are under way together: one, or the members of a group."""

    moves: tuple[PlannedMove, ...]

    @property
    def group(self) -> str:
        """Empty for a pod that moves alone."""
        return self.moves[0].group


def count_moves(units: Iterable[MoveUnit]) -> int:
    return sum(len(unit.moves) for unit in units)


class PodGroups:
    def __init__(self, snapshot: Snapshot, label: str) -> None:
        self._snapshot = snapshot
        self._label = label

    def of(self, pod: int) -> str:
        """`namespace/group`, empty if it belongs to none."""
        pod_class = self._snapshot.classes[self._snapshot.pods.pod_class[pod]]
        name = pod_class.labels.get(self._label)
        return f"{pod_class.namespace}/{name}" if name else ""

    def members(self, group: str) -> tuple[int, ...]:
        """Rows of all pods of it that are on a node and stay there, in order."""
        return self._members.get(group, ())

    def goes_alone(self, pod: int) -> bool:
        """Whether nobody has to move with it: it has no group, or is all of it."""
        return len(self.members(self.of(pod))) <= 1

    @cached_property
    def _members(self) -> dict[str, tuple[int, ...]]:
        labelled = [
            row for row, pod_class in enumerate(self._snapshot.classes) if pod_class.labels.get(self._label)
        ]
        if not labelled:
            return {}
        pods = self._snapshot.pods
        found: dict[str, list[int]] = {}
        for pod in np.flatnonzero(np.isin(pods.pod_class, labelled) & (pods.node != NO_ROW)).tolist():
            if not pods.records[pod].is_terminating:
                found.setdefault(self.of(pod), []).append(pod)
        return {group: tuple(rows) for group, rows in found.items()}
