"""A plan as the page shows it: its moves, the load after each wave, histograms, and what is refused."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import groupby
from typing import Final, Literal

import numpy as np

from rescheduler.cluster.snapshot import NO_ROW, Floats, Ints, Snapshot
from rescheduler.planner.plan import Move, Plan, Rejection, percent_of_allocatable
from rescheduler.web.api_types import RefusalGroup
from rescheduler.web.node_page import HIDDEN_ROOM, refusal_group, visible_refusal, workload_of
from rescheduler.web.plan_api_types import (
    HistogramView,
    NodeChangeView,
    PlannedMoveView,
    PlanPageView,
    WaveView,
)
from rescheduler.web.web_viewer import Visibility

__all__ = ["PlanRevision", "plan_view", "visible_plan"]

_BIN: Final = 5.0
_EDGES: Final = tuple(_BIN * number for number in range(int(100 / _BIN) + 1))
_DIGITS: Final = 2


@dataclass(frozen=True, slots=True, eq=False)
class PlanRevision:
    """A plan, and the snapshot that it was made from."""

    number: int
    snapshot: Snapshot
    plan: Plan
    origin: Literal["check", "page", "whatIf"]
    is_executed: bool = False
    planning_s: float = 0.0
    usage_source: str = ""

    @property
    def nodes(self) -> frozenset[str]:
        """Return the nodes that the plan changes."""
        moved = {name for move in self.plan.moves for name in (move.source, move.target) if name}
        return frozenset(moved | {each.node for each in self.plan.changes})


def visible_plan(plan: Plan, visibility: Visibility) -> Plan:
    """Return the plan without the pods that the viewer may not see."""
    if visibility.sees_all:
        return plan
    return replace(
        plan,
        moves=tuple(_visible_move(move, visibility) for move in plan.moves if visibility.sees_key(move.pod)),
        changes=tuple(
            replace(each, reason=visibility.visible_text(each.reason))
            for each in plan.changes
            if visibility.nodes
        ),
        nodes=plan.nodes if visibility.nodes else (),
        refused=tuple(
            visible_refusal(each, visibility)
            for each in plan.refused
            if not each.subject or visibility.sees_key(each.subject)
        ),
        refused_counts={},
        assumptions=tuple(visibility.visible_text(each) for each in plan.assumptions),
    )


def _visible_move(move: Move, visibility: Visibility) -> Move:
    """Return the move without the names of pods that it makes room for, if the viewer may not see them."""
    if all(visibility.sees_key(room.pod) for room in move.rooms):
        return replace(move, reason=visibility.visible_text(move.reason))
    rooms = tuple(room for room in move.rooms if visibility.sees_key(room.pod))
    return replace(move, reason=HIDDEN_ROOM, rooms=rooms)


def plan_view(revision: PlanRevision, resources: Sequence[str], visibility: Visibility) -> PlanPageView:
    """Return the plan for a viewer, with the load of these resources."""
    snapshot, plan = revision.snapshot, revision.plan
    shown = visible_plan(plan, visibility)
    columns = [snapshot.resources.index(name) for name in resources if name in snapshot.resources]
    waves = list(_waves(snapshot, plan, columns)) if visibility.nodes else []
    return PlanPageView(
        revision=revision.number,
        taken_at=datetime.fromtimestamp(plan.taken_at_s, UTC),
        origin=revision.origin,
        is_executed=revision.is_executed,
        planning_seconds=round(revision.planning_s, 3),
        usage_source=revision.usage_source,
        moves=[_move_view(snapshot, move) for move in shown.moves],
        hidden_moves=len(plan.moves) - len(shown.moves),
        changes=[
            NodeChangeView(each.node, str(each.change), each.strategy, each.reason) for each in shown.changes
        ],
        waves=waves,
        histograms=[
            _histogram(snapshot, plan, column)
            for column in columns
            if visibility.nodes and len(snapshot.nodes)
        ],
        refused=refusal_groups(shown),
        assumptions=list(shown.assumptions),
    )


def _move_view(snapshot: Snapshot, move: Move) -> PlannedMoveView:
    row = snapshot.pods.row.get(move.pod)
    return PlannedMoveView(
        move.pod,
        move.uid,
        move.source,
        move.target,
        "" if row is None else workload_of(snapshot, row),
        move.strategy,
        str(move.handover),
        move.reason,
        round(move.gain, 4),
        move.wave + 1,
        move.group,
        move.hop,
    )


def refusal_groups(plan: Plan) -> list[RefusalGroup]:
    by_reason: dict[str, list[Rejection]] = {}
    for each in plan.refused:
        by_reason.setdefault(each.reason, []).append(each)
    counts = dict(plan.refused_counts) or Counter(each.reason for each in plan.refused)
    return [
        refusal_group(reason, by_reason.get(reason, []), count)
        for reason, count in sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    ]


# --- loads


def _waves(snapshot: Snapshot, plan: Plan, columns: Sequence[int]) -> Iterable[WaveView]:
    """Yield the nodes whose load each wave changes, with their load after it."""
    load = snapshot.nodes.load.copy()
    for wave, moves in groupby(sorted(plan.moves, key=lambda move: move.wave), key=lambda move: move.wave):
        count, rows = 0, set()
        for move in moves:
            count += 1
            rows |= set(_apply(snapshot, load, move))
        changed = sorted(rows)
        percent = percent_of_allocatable(load[changed], snapshot.nodes.allocatable[changed])
        yield WaveView(
            wave + 1,
            count,
            [snapshot.nodes.records[row].name for row in changed],
            {snapshot.resources[column]: _rounded(percent[:, column]) for column in columns},
        )


def _apply(snapshot: Snapshot, load: Ints, move: Move) -> Iterable[int]:
    """Move the pod's load, and yield the rows that change."""
    pod = snapshot.pods.row.get(move.pod)
    if pod is None:
        return
    for name, sign in ((move.source, -1), (move.target, 1)):
        row = snapshot.nodes.row.get(name or "", NO_ROW)
        if row != NO_ROW:
            load[row] += sign * snapshot.pods.load[pod]
            yield row


def _histogram(snapshot: Snapshot, plan: Plan, column: int) -> HistogramView:
    nodes = snapshot.nodes
    load = nodes.load.copy()
    for move in plan.moves:
        for _ in _apply(snapshot, load, move):
            pass
    has = nodes.allocatable[:, column] > 0
    before = percent_of_allocatable(nodes.load[has, column], nodes.allocatable[has, column])
    after = percent_of_allocatable(load[has, column], nodes.allocatable[has, column])
    return HistogramView(
        snapshot.resources[column],
        list(_EDGES),
        _counts(before),
        _counts(after),
        *_number_pairs(before, after),
    )


def _counts(loads: Floats) -> list[int]:
    bins = np.clip((loads // _BIN).astype(np.int64), 0, len(_EDGES) - 1)
    found: list[int] = np.bincount(bins, minlength=len(_EDGES)).tolist()
    return found


def _number_pairs(before: Floats, after: Floats) -> Iterable[float]:
    for name in ("mean", "std", "min", "max"):
        for loads in (before, after):
            yield round(float(getattr(loads, name)()), _DIGITS) if len(loads) else 0.0


def _rounded(numbers: Floats) -> list[float]:
    found: list[float] = np.round(numbers, _DIGITS).tolist()
    return found
