"""The cluster as it will be when everything that is under way has arrived: what the next check plans with.

A check does not wait until the moves of the last one are over. By load, a pod that is being moved counts
where it goes, or its node would be relieved twice; and one that is terminating counts nowhere, however long
it takes to end. By room both count where they are, too: nobody knows how soon they leave, and whether they
arrive.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rescheduler.controller.followed import Followed
from rescheduler.controller.observing import running, target_of, unfinished
from rescheduler.model.migrations import Migration, Phase
from rescheduler.snapshot.freezing import grouped, sums
from rescheduler.snapshot.snapshot import NOWHERE, PodTable, Rows, Snapshot

__all__ = ["Coming", "Unfinished", "anticipated", "coming", "unfinished_now"]


@dataclass(frozen=True, slots=True)
class Coming:
    """A migration that is not over."""

    pod: str
    uid: str
    target: str
    """Empty if it is still open."""
    copies: tuple[str, ...] = ()
    """Keys of pods that take its place, as far as there are any yet."""
    is_begun: bool = True
    strategy: str = ""


@dataclass(frozen=True, slots=True)
class Unfinished:
    """Migrations that are not over, as they were at one moment: thousands of them may wait.

    To put it together costs the event loop little; `coming` is for a thread.
    """

    migrations: Sequence[Migration]
    """In a fixed order."""
    successors: Mapping[str, str]
    """Keys of pods that take the place of others, by the migration's key. One that waits has none."""

    def coming(self) -> list[Coming]:
        return [self._coming(each) for each in self.migrations]

    def _coming(self, migration: Migration) -> Coming:
        successor = self.successors.get(migration.key)
        return Coming(
            migration.pod_key,
            migration.spec.pod.uid,
            migration.target_node,
            () if successor is None else (successor,),
            is_begun=migration.status.phase is Phase.IN_PROGRESS,
            strategy=migration.spec.strategy,
        )


def unfinished_now(seen: Followed) -> Unfinished:
    targets = ((each.key, target_of(each, seen)) for each in running(seen))
    return Unfinished(unfinished(seen), {key: pod.key for key, pod in targets if pod is not None})


def coming(seen: Followed) -> list[Coming]:
    """All that are asked for or under way, in a fixed order."""
    return unfinished_now(seen).coming()


def anticipated(snapshot: Snapshot, moves: Sequence[Coming]) -> Snapshot:
    """Pods that are under way can't be chosen, wherever they are: `snapshot.moving` has them."""
    node = snapshot.pods.node.copy()
    leaving: list[int] = []
    for move in moves:
        row = snapshot.pods.row.get(move.pod)
        if row is None or snapshot.pods.records[row].uid != move.uid or node[row] == NOWHERE:
            continue
        there = any(_counts(snapshot, copy) for copy in move.copies)
        target = NOWHERE if there else snapshot.nodes.row.get(move.target, int(node[row]))
        if target != node[row]:
            leaving.append(row)
            node[row] = target
    ending = [
        row
        for row, pod in enumerate(snapshot.pods.records)
        if pod.deleted_s is not None and node[row] != NOWHERE
    ]
    found = _moved(snapshot, node, leaving) if leaving else snapshot
    return _relieved(found, ending) if ending else found


def _counts(snapshot: Snapshot, pod: str) -> bool:
    row = snapshot.pods.row.get(pod)
    return row is not None and snapshot.pods.node[row] != NOWHERE


def _moved(snapshot: Snapshot, node: Rows, leaving: list[int]) -> Snapshot:
    by_node, first_on = grouped(node, len(snapshot.nodes))
    before, nodes = snapshot.pods, snapshot.nodes
    pods: PodTable = replace(before, node=node, by_node=by_node, first_on=first_on)
    requested = sums(pods.requests, pods)
    np.add.at(requested, before.node[leaving], before.requests[leaving])
    for column in (node, by_node, first_on, requested):
        column.setflags(write=False)
    load = sums(pods.load, pods)
    load.setflags(write=False)
    return replace(snapshot, pods=pods, nodes=replace(nodes, requested=requested, load=load))


def _relieved(snapshot: Snapshot, ending: list[int]) -> Snapshot:
    """For rules they are still there; for those who even out loads, they are as good as gone."""
    load = snapshot.nodes.load.copy()
    np.subtract.at(load, snapshot.pods.node[ending], snapshot.pods.load[ending])
    load.setflags(write=False)
    return replace(snapshot, nodes=replace(snapshot.nodes, load=load))
