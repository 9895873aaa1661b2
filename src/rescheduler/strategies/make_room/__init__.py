"""MakeRoom: move other pods so that a pod that can't be scheduled gets room on one node."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import ClassVar

import numpy as np

from kubevalues.duration import short_duration
from rescheduler.api.well_known_names import RESCHEDULING_LABEL
from rescheduler.cluster.snapshot import NO_ROW, Ints, is_selected_namespace
from rescheduler.config.policy_blocks import RoomWithAutoscaler
from rescheduler.strategies.cost_optimization import unschedulable_pods
from rescheduler.strategies.fair_shares import interleave_namespaces, share_of_each
from rescheduler.strategies.make_room.room_demand import FreeBlock, PodDemand
from rescheduler.strategies.make_room.room_search import FoundRoom, RoomSearch, SearchLimits
from rescheduler.strategies.strategy import Proposal, ProposedMove, Room, View

__all__ = ["MakeRoom"]

_TRIES = 3
"""How many sets of moves to propose for one pod if the planner refuses them."""
_MOST_FAILURES = 100
"""After this many different units without room, a check stops searching: each search takes time. Namespaces
share this number, so that a namespace with pods that fit nowhere does not keep others from getting room."""
_NO_ROOM = "NoRoomToMake"


class MakeRoom:
    """Makes room for pods for which the scheduler found no node, with as few moves as possible.

    The room is on one node: other pods leave it until the pod fits there, by every rule. No pod moves for one
    of lower priority, and no pod is preempted. Pods of a group get room together or not at all. With
    `defragment` it also keeps a block of one resource free on some node.
    """

    name: ClassVar[str] = "MakeRoom"

    def __init__(self, only: Collection[str] | None = None) -> None:
        """Limit the strategy to the pods in `only`, which get room now, however long they have waited."""
        self._only = only
        self._has_block = False
        self._without_room: dict[tuple[tuple[int, int], ...], int] = {}
        """The state of the placement that had no room for a unit, by class and priority of its pods."""
        self._failures: Counter[str] = Counter()
        """How many different units found no room, by namespace."""
        self._most_failures = _MOST_FAILURES
        """The share of `_MOST_FAILURES` for one namespace."""
        self.fitting: dict[str, str] = {}
        """Pending pods that already have room, and the nodes on which the plan reserves it."""

    def propose(self, view: View) -> Iterator[Proposal]:
        search = RoomSearch(view)
        if self._only is None:
            units = [unit for unit in _units(view, unschedulable_pods(view.snapshot)) if _all_due(view, unit)]
        else:
            rows = (view.snapshot.pods.row.get(key, NO_ROW) for key in self._only)
            units = _units(view, [row for row in rows if row != NO_ROW and _waits(view, row)])
        units = _in_turns(view, units)
        self._most_failures = share_of_each(_MOST_FAILURES, len({_namespace(view, unit) for unit in units}))
        for unit in units:
            if not any(_key(view, pod) in self.fitting for pod in unit):
                yield from self._propose_room(view, search, unit, 1 / len(units))
        if self._only is None and view.policy.make_room.defragment.resource and not self._has_block:
            yield from self._keep_block(view, search)

    def _propose_room(
        self, view: View, search: RoomSearch, unit: Sequence[int], gain: float
    ) -> Iterator[Proposal]:
        for _ in range(_TRIES):
            if view.room <= 0:
                return
            rooms = self._rooms_for(view, search, unit)
            if rooms is None:
                return
            moves = [move for found in rooms for move in found.moves]
            if not moves:
                # The unit already has room: the scheduler will use it, so the next pod can't have it.
                for pod, found in zip(unit, rooms, strict=True):
                    self.fitting[_key(view, pod)] = view.snapshot.nodes.records[found.node].name
                    view.reserve(_asks(view, pod), found.node)
                return
            reason = _reason(view, unit, rooms)
            reserved = tuple(Room(pod, found.node) for pod, found in zip(unit, rooms, strict=True))
            yield _proposal(moves, reason, gain, reserved)
            if all(view.placement.position[pod] != NO_ROW for pod in unit):
                return

    def _rooms_for(self, view: View, search: RoomSearch, unit: Sequence[int]) -> list[FoundRoom] | None:
        """Return a room for each pod of the unit; None if one gets none.

        After a failure, equal units are not searched again unless pods have moved meanwhile, because
        thousands of equal pods may be pending.
        """
        pods = view.snapshot.pods
        alike = tuple((int(pods.pod_class[pod]), int(pods.priority[pod])) for pod in unit)
        state = hash(view.placement.free.tobytes())
        namespace = _namespace(view, unit)
        if self._without_room.get(alike) == state or self._failures[namespace] >= self._most_failures:
            words = "pods like it get no room, or too many pods of its namespace wait for room"
            view.report_staying(unit[0], _NO_ROOM, words)
            return None
        rooms = _find_rooms(view, search, unit)
        if rooms is None:
            self._failures[namespace] += alike not in self._without_room
            self._without_room[alike] = state
        return rooms

    def _keep_block(self, view: View, search: RoomSearch) -> Iterator[Proposal]:
        setting = view.policy.make_room.defragment
        asks = np.zeros(len(view.snapshot.resources), np.int64)
        if setting.resource not in view.snapshot.resources:
            view.report_node(None, _NO_ROOM, f"no node has {setting.resource}")
            return
        asks[view.snapshot.resources.index(setting.resource)] = setting.keep_free
        block = FreeBlock(view, asks)
        limits = SearchLimits(moves=_most_moves(view), only_make_before_break=True)
        what = f"{setting.keep_free} {setting.resource}"
        found = search.find(block, limits)
        if found is None:
            why = f"at most {limits.moves} moves can't free {what} on any node"
            view.report_node(None, _NO_ROOM, why)
            return
        if found.moves:
            node = view.snapshot.nodes.records[found.node].name
            yield _proposal(found.moves, f"keeps {what} free on {node}", 1.0)
        if block.fits_on(found.node):
            self._has_block = True
            view.reserve(asks, found.node)


def _proposal(
    moves: Sequence[tuple[int, int]], reason: str, gain: float, rooms: tuple[Room, ...] = ()
) -> Proposal:
    each = gain / len(moves)
    return Proposal(tuple(ProposedMove(pod, target, reason, each) for pod, target in moves), rooms)


def _find_rooms(view: View, search: RoomSearch, unit: Sequence[int]) -> list[FoundRoom] | None:
    """Return a room for each pod of the unit, or None if one gets none."""
    rooms: list[FoundRoom] = []
    moved: set[int] = set()
    with view.placement.trial():
        for pod in unit:
            most = _most_moves(view) - len(moved)
            demand = search.demand_of(pod)
            with _without_own_nomination(view, pod):
                found = search.find(demand, SearchLimits(moves=most), frozenset(moved))
            if found is None:
                _report_no_room(view, demand, most)
                return None
            rooms.append(found)
            for each, target in found.moves:
                moved.add(each)
                view.placement.move(each, target)
            view.placement.place(pod, found.node)
    return rooms


def _most_moves(view: View) -> int:
    return min(view.room, view.policy.make_room.max_moves)


@contextmanager
def _without_own_nomination(view: View, pod: int) -> Iterator[None]:
    """Free the room that the nomination of this pod reserves, while the body runs."""
    nominated = view.snapshot.nodes.row.get(view.snapshot.pods.records[pod].nominated_node)
    if nominated is None:
        yield
        return
    asks = _asks(view, pod)
    view.placement.reserve(-asks, nominated)
    try:
        yield
    finally:
        view.placement.reserve(asks, nominated)


def _reason(view: View, unit: Sequence[int], rooms: Sequence[FoundRoom]) -> str:
    pod, found = next((pod, found) for pod, found in zip(unit, rooms, strict=True) if found.moves)
    node = view.snapshot.nodes.records[found.node].name
    others = f" and {len(unit) - 1} more of its group" if len(unit) > 1 else ""
    refusals = view.placement.refusals(pod, found.node, source_stays=False)
    why = ", ".join(refusal.detail or refusal.reasons[0] for refusal in refusals)
    return f"makes room for {_key(view, pod)}{others} on {node}: {why}"


# -- which pods


def _waits(view: View, pod: int) -> bool:
    record = view.snapshot.pods.records[pod]
    return not (record.node or record.is_terminating or record.is_finished)


def _all_due(view: View, unit: Sequence[int]) -> bool:
    return all(_is_due(view, pod) for pod in unit)


def _units(view: View, waiting: Sequence[int]) -> list[tuple[int, ...]]:
    """Return these pods as units in the same order; pods of a group are one unit."""
    label, pods = view.policy.pod_group_label, view.snapshot.pods
    units: dict[object, list[int]] = {}
    for pod in waiting:
        if view.placement.position[pod] != NO_ROW or not _may_be_helped(view, pod):
            continue
        record = pods.records[pod]
        group = record.labels.get(label)
        units.setdefault((record.namespace, group) if group else pod, []).append(pod)
    return [tuple(unit) for unit in units.values()]


def _in_turns(view: View, units: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Return the units by priority, as the scheduler does; among equal ones, namespaces take turns."""
    priority = view.snapshot.pods.priority
    by_priority = groupby(units, lambda unit: int(priority[unit[0]]))
    return [
        unit
        for _, equals in by_priority
        for unit in interleave_namespaces(equals, lambda unit: _namespace(view, unit))
    ]


def _namespace(view: View, unit: Sequence[int]) -> str:
    return view.snapshot.pods.records[unit[0]].namespace


def _may_be_helped(view: View, pod: int) -> bool:
    """Return whether room may be made for the pod; report why not."""
    record, policy = view.snapshot.pods.records[pod], view.policy
    shape = record.shape
    refusals = {
        "ExcludedNamespace": record.namespace in policy.excluded_namespaces,
        "NamespaceNotSelected": not is_selected_namespace(view.snapshot, policy, record.namespace),
        "OptedOut": record.labels.get(RESCHEDULING_LABEL) == "disabled",
        "ExcludedBySelector": policy.excluded_pod_selector.matches(record.labels),
        "OtherScheduler": shape.scheduler_name not in policy.known_schedulers,
        "ResourceClaims": bool(shape.resource_claims),
        "SchedulingGroup": shape.scheduling_group is not None,
        "AlreadyMoving": _waits_for_preemption(view, pod),
    }
    for reason, applies in refusals.items():
        if applies:
            view.report_staying(pod, reason, _WHY_NO_HELP[reason])
            return False
    return True


_WHY_NO_HELP = {
    "ExcludedNamespace": "no room is made for it: its namespace is one of excludedNamespaces",
    "NamespaceNotSelected": "no room is made for it: namespaceSelector does not match its namespace",
    "OptedOut": f'no room is made for it: it has the label {RESCHEDULING_LABEL}: "disabled"',
    "ExcludedBySelector": "no room is made for it: it matches excludedPodSelector",
    "OtherScheduler": "no room is made for it: its scheduler is not one of knownSchedulers",
    "ResourceClaims": "no room is made for it: it needs devices (resourceClaims), whose rules are not known",
    "SchedulingGroup": "no room is made for it: the scheduler places its scheduling group as one",
    "AlreadyMoving": "it waits for pods that are leaving its nominated node",
}


def _waits_for_preemption(view: View, pod: int) -> bool:
    node = view.snapshot.nodes.row.get(view.snapshot.pods.records[pod].nominated_node)
    records = view.snapshot.pods.records
    return node is not None and any(records[each].is_terminating for each in view.snapshot.pods.on(node))


def _is_due(view: View, pod: int) -> bool:
    """Return whether the pod has waited long enough. If a node autoscaler may add a node, report why it has
    to wait longer."""
    setting, record = view.policy.make_room, view.snapshot.pods.records[pod]
    condition = record.condition("PodScheduled")
    since_s = (condition.since_s if condition is not None else 0) or record.created_s
    waited_s = view.snapshot.taken_at_s - since_s
    if waited_s < setting.min_pending_time.total_seconds():
        return False
    found = ", ".join(view.autoscalers.evidence)
    if not found or setting.with_autoscaler is RoomWithAutoscaler.ALWAYS:
        return True
    if setting.with_autoscaler is RoomWithAutoscaler.AFTER_TIMEOUT:
        if waited_s >= setting.autoscaler_timeout.total_seconds():
            return True
        why = f"no room is made until the pod has waited {short_duration(setting.autoscaler_timeout)}"
    else:
        why = "makeRoom.withAutoscaler is never"
    view.report_staying(pod, "LeftToAutoscaler", f"{found} may add a node: {why}")
    return False


def _report_no_room(view: View, demand: PodDemand, most: int) -> None:
    if not demand.nodes().any():
        why = "no node allows it, whichever pods move: node selector, affinity, taints or volumes forbid all"
    else:
        why = f"no node gets room for it with at most {most} moves of pods of its priority or lower"
    view.report_staying(demand.pod, _NO_ROOM, why)


def _asks(view: View, pod: int) -> Ints:
    asks: Ints = view.snapshot.classes[view.snapshot.pods.pod_class[pod]].asks
    return asks


def _key(view: View, pod: int) -> str:
    return view.snapshot.pods.records[pod].key
