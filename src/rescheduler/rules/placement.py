"""Keep the node of every pod while a plan is being made: a snapshot whose pods can be moved.

A placement starts as the snapshot. `place` adds a copy of a pod to a node and `remove` removes one; every
rule that depends on other pods sees the change immediately. `trial` undoes the changes that are made
inside it. Rules that no move can change (taints, labels, volume topology) are evaluated once per pod
class.

    fits ──▶ RuleSet: ClassRules per pod class ─┬─ StaticRules: a mask of nodes
                                                └─ live rules ──▶ DomainCounts, AttachedVolumes, free room
    place, remove ──▶ PodPositions, and everything that the live rules read
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import NamedTuple

import numpy as np

from kubevalues import SelectorError
from rescheduler.cluster.snapshot import CPU, MEMORY, NO_ROW, Flags, Floats, Indices, Ints, Rows, Snapshot
from rescheduler.config.policy_blocks import Preference
from rescheduler.rules import volume_rules
from rescheduler.rules.node_affinity import NodeLabels
from rescheduler.rules.node_capacity import node_ports, node_resources_fit
from rescheduler.rules.node_volume_limits import AttachedVolumes, attachable_volumes, node_volume_limits
from rescheduler.rules.pod_class_index import PodClassIndex
from rescheduler.rules.pod_positions import ITSELF, DomainCountRegistry, NodeConflicts, PodPositions
from rescheduler.rules.preference_scores import ClassPreferences, NodeScores
from rescheduler.rules.rule_check import NodeRefusal, RuleCheck, SchedulerRule, StaticCheck
from rescheduler.rules.static_rules import ClassRules, StaticRules
from rescheduler.rules.topology_rules import (
    SpreadCheck,
    inter_pod_affinity,
    pod_topology_spread,
    spread_checks,
)
from rescheduler.rules.volume_provisioning import AvailableVolumes

__all__ = ["Placement", "RuleSet"]


class RuleSet:
    """All scheduler rules. Those of a pod class are built once; moves change the counts that they read."""

    def __init__(self, snapshot: Snapshot, positions: PodPositions, free: Ints) -> None:
        self._snapshot = snapshot
        self._positions = positions
        self._free = free
        self._index = PodClassIndex(snapshot)
        self._node_labels = NodeLabels(snapshot.nodes)
        self._static_rules = StaticRules(self._node_labels)
        self._count_registry = DomainCountRegistry(positions)
        self._node_conflicts = NodeConflicts(
            snapshot.pods, positions, self._node_labels, self._count_registry
        )
        self._available_volumes = AvailableVolumes(snapshot.storage)
        self._attached: AttachedVolumes | None = None
        """Built when the first rule needs it, because it examines every pod with volumes."""
        self._class_rules: dict[int, ClassRules] = {}
        self._spread_checks: dict[int, list[SpreadCheck]] = {}
        self._preferences: dict[int, ClassPreferences] = {}

    def class_rules(self, pod: int) -> ClassRules:
        number = int(self._snapshot.pods.pod_class[pod])
        found = self._class_rules.get(number)
        if found is None:
            found = self._class_rules[number] = self._build_class_rules(number, pod)
        return found

    def spread_checks(self, pod: int) -> Sequence[SpreadCheck]:
        """Return the topology spread constraints that it must keep; none if they can't be read."""
        number = int(self._snapshot.pods.pod_class[pod])
        found = self._spread_checks.get(number)
        if found is None:
            try:
                found = spread_checks(number, self._index, self._static_rules, self._count_registry)
            except SelectorError:
                found = []
            self._spread_checks[number] = found
        return found

    def node_rules(self, number: int) -> tuple[StaticCheck | None, StaticCheck | None]:
        """Return the checks of taints, and of node selector and affinity, for the pods of one class."""
        return self._static_rules.node_rules(self._snapshot.classes[number])

    def preferences(self, number: int) -> ClassPreferences:
        """Return the preferences of the pods of one class."""
        found = self._preferences.get(number)
        if found is None:
            found = self._preferences[number] = ClassPreferences(
                number, self._index, self._static_rules, self._count_registry
            )
        return found

    def count(self, pod_class: int, node: int, by: int, *, is_ending: bool) -> None:
        """Add this number of pods of the class to the node, for all rules."""
        self._count_registry.count(pod_class, node, by, is_ending=is_ending)
        if self._attached is not None:
            self._attached.count(pod_class, node, by)

    def count_hypothetically(self, pod_class: int, node: int, by: int, *, is_ending: bool) -> None:
        """Add this number of pods of the class to the node, only for rules that count pods by domain."""
        self._count_registry.count(pod_class, node, by, is_ending=is_ending)

    def _build_class_rules(self, number: int, pod: int) -> ClassRules:
        pod_class = self._snapshot.classes[number]
        of_nodes = self._static_rules.checks(pod_class)
        static_fits = self._static_rules.mask(of_nodes)
        live: list[RuleCheck | None] = [
            node_resources_fit(
                pod_class, self._free, self._snapshot.nodes.allocatable, self._snapshot.resources
            ),
            node_ports(number, self._index, self._node_conflicts),
            pod_topology_spread(number, self._index, self._static_rules, self._count_registry),
            inter_pod_affinity(number, self._index, self._node_labels, self._count_registry),
        ]
        constraints, affinity = pod_class.constraints, pod_class.affinity
        conflicts_with_itself = bool(
            constraints.spread or affinity.pod_affinity.required or affinity.pod_anti_affinity.required
        )
        fixed: list[RuleCheck] = [*of_nodes]
        if pod_class.volumes:
            volumes = self._volume_checks(number, pod)
            for check in volumes.fixed:
                static_fits = static_fits & check.passes
            fixed += volumes.fixed
            live += volumes.live
            conflicts_with_itself |= volumes.conflicts_with_itself
        return ClassRules(
            static_fits, fixed, [check for check in live if check is not None], conflicts_with_itself
        )

    def _volume_checks(self, number: int, pod: int) -> "_VolumeChecks":
        storage, node_labels = self._snapshot.storage, self._node_labels
        pod_class = self._snapshot.classes[number]
        # A class with ephemeral volumes has one pod, because their claims have its name.
        record, is_placed = self._snapshot.pods.records[pod], self._snapshot.pods.node[pod] != NO_ROW
        claims = volume_rules.claims_of(pod_class, storage, is_placed=is_placed)
        fixed = (
            volume_rules.volume_binding(
                claims, self._available_volumes, node_labels, pod=record.key, uid=record.uid
            ),
            volume_rules.volume_zone(claims, storage, node_labels),
        )
        attachable = attachable_volumes(pod_class, storage, is_placed=is_placed)
        return _VolumeChecks(
            fixed=[check for check in fixed if check is not None],
            live=[
                volume_rules.volume_restrictions(number, claims, self._index, self._node_conflicts),
                node_volume_limits(attachable, self._attachments, storage, node_labels)
                if attachable
                else None,
            ],
            conflicts_with_itself=any(map(volume_rules.is_single_pod_claim, claims)),
        )

    def _attachments(self) -> AttachedVolumes:
        if self._attached is None:
            self._attached = AttachedVolumes(self._snapshot, self._positions)
        return self._attached


class _VolumeChecks(NamedTuple):
    fixed: list[StaticCheck]
    live: list[RuleCheck | None]
    conflicts_with_itself: bool


_Change = tuple[int, int, int, int]
"""The pod, the node, the number of the copy, and 1 (placed) or -1 (removed)."""
_UNCHANGED = nullcontext()


class Placement:
    """The nodes of all pods, which can be moved and moved back. Its columns are read-only for others."""

    snapshot: Snapshot
    requested: Ints
    """[node, resource]: the requests now."""
    load: Ints
    """[node, resource]: the load now."""
    position: Rows
    """[pod]: the node on which it was placed last; `NO_ROW` if it is on none."""

    def __init__(self, snapshot: Snapshot, *, unreserved: int = NO_ROW) -> None:
        """Start as the snapshot, with room for nominated pods, except for the pending pod `unreserved`."""
        self.snapshot = snapshot
        self.requested = snapshot.nodes.requested.copy()
        self.load = snapshot.nodes.load.copy()
        # By resource, then by node, so that one resource of all nodes is contiguous in memory.
        self._free = np.ascontiguousarray((snapshot.nodes.allocatable - snapshot.nodes.requested).T)
        self._free_on = self._free.T
        self._leave_room_for_nominated(unreserved)
        self._positions = PodPositions(snapshot)
        self.position = self._positions.latest
        self._rule_set = RuleSet(snapshot, self._positions, self._free)
        self._tried: list[_Change] | None = None
        self._reserved: list[tuple[Ints, int]] = []
        """The reservations that were made in trials."""

    def _leave_room_for_nominated(self, unreserved: int) -> None:
        """Reserve room on a node for a pod that the scheduler has nominated there."""
        pods, nodes = self.snapshot.pods, self.snapshot.nodes
        for pod in np.flatnonzero(pods.node == NO_ROW):
            record = pods.records[pod]
            if pod == unreserved or record.is_finished or record.is_terminating:
                continue
            if record.nominated_node in nodes.row:
                asks = self.snapshot.classes[pods.pod_class[pod]].asks
                self._free_on[nodes.row[record.nominated_node]] -= asks

    @property
    def free(self) -> Ints:
        """Return [resource, node]: what is free now and not reserved. Read-only."""
        return self._free

    def pods_on(self, node: int) -> list[int]:
        """Return the rows of the pods on the node now, in order of their keys."""
        return self._positions.pods_on(node)

    def fits(self, pod: int, *, source_stays: bool) -> Flags:
        """Return [node]: every rule allows a copy of the pod there now.

        With `source_stays`, the pod itself counts like any other; otherwise it is ignored. Its own node never
        fits.
        """
        class_rules = self._rule_set.class_rules(pod)
        with self._ignoring_source(pod, class_rules, source_stays):
            found = class_rules.fits()
        found[self._positions.nodes_with(pod)] = False
        return found

    def fits_another(self, pod: int) -> Flags:
        """Return [node]: one more pod like it fits there now, perhaps on its own node, too."""
        return self._rule_set.class_rules(pod).fits()

    def static_fits(self, pod: int) -> Flags:
        """Return [node]: no static rule forbids it. Read-only."""
        return self._rule_set.class_rules(pod).static_fits

    def node_rules(self, pod_class: int) -> tuple[StaticCheck | None, StaticCheck | None]:
        """Return the checks of taints, and of node selector and affinity, for the pods of one class; None if
        there is nothing to check. This is cheaper than all rules."""
        return self._rule_set.node_rules(pod_class)

    def preferences(self, pod_class: int) -> ClassPreferences:
        """Return the preferences of the pods of one class."""
        return self._rule_set.preferences(pod_class)

    def preference_scores(self, pod: int, wanted: Collection[Preference], among: Flags) -> list[NodeScores]:
        """Return the score of each node by the preferences of the pod, which itself does not count."""
        found = self.preferences(int(self.snapshot.pods.pod_class[pod]))
        with self._excluding(pod) if found.depends_on_pods else _UNCHANGED:
            return found.scores(wanted, among, int(self.position[pod]))

    def fits_on(self, pod: int, node: int, *, source_stays: bool) -> bool:
        """Return `fits(pod)[node]`; this is cheaper than checking all nodes."""
        if node in self._positions.nodes_with(pod):
            return False
        class_rules = self._rule_set.class_rules(pod)
        with self._ignoring_source(pod, class_rules, source_stays):
            return class_rules.fits_on(node)

    def load_with(self, pod: int, nodes: Indices) -> Floats:
        """Return the load of each of these nodes with the pod on it: cpu or memory, the higher one, in %."""
        load = self.load[nodes] + self.snapshot.pods.load[pod]
        shares = load / np.maximum(self.snapshot.nodes.allocatable[nodes], 1)
        highest: Floats = 100 * shares[:, [CPU, MEMORY]].max(axis=1)
        return highest

    def keeps_spread(self, pod: int) -> Flags:
        """Return [node]: a move there worsens no spread constraint of the pod."""
        found = np.ones(len(self.snapshot.nodes), np.bool_)
        source = int(self.position[pod])
        if source != NO_ROW:
            for spread_check in self._rule_set.spread_checks(pod):
                even = spread_check.fits_after_leaving(source)
                if even is not None:
                    found &= even
        return found

    def keeping_spread(self, pod: int, allowed: Flags) -> Flags:
        """Return the allowed nodes that worsen no spread constraint; all allowed nodes if there are none."""
        even = allowed & self.keeps_spread(pod)
        return even if even.any() else allowed

    def refusals(self, pod: int, node: int, *, source_stays: bool) -> list[NodeRefusal]:
        """Return all refusals of the node, in the scheduler's order; empty if the pod fits."""
        class_rules = self._rule_set.class_rules(pod)
        with self._ignoring_source(pod, class_rules, source_stays):
            found = class_rules.refusals(node)
        if node in self._positions.nodes_with(pod):
            found.append(NodeRefusal(SchedulerRule.ALREADY_HERE, ("the pod is already on that node",)))
        return found

    def place(self, pod: int, node: int) -> None:
        """Add one more copy of that pod to that node."""
        self._change((pod, node, self._positions.next_number(pod), 1))

    def reserve(self, asks: Ints, node: int) -> None:
        """Reserve room on the node for a pod that is not in the snapshot; negative amounts free it again."""
        self._free_on[node] -= asks
        if self._tried is not None:
            self._reserved.append((asks, node))

    def remove(self, pod: int, node: int) -> None:
        """Remove a copy of the pod, or the pod itself, from the node; raise `PodNotOnNodeError`."""
        self._change((pod, node, self._positions.find(pod, node), -1))

    def move(self, pod: int, node: int) -> None:
        """Move the pod from its current node to that node."""
        if (source := int(self.position[pod])) != NO_ROW:
            self.remove(pod, source)
        self.place(pod, node)

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Undo all changes of the body when it ends. May be nested."""
        outer, self._tried = self._tried, []
        reserved_before = len(self._reserved)
        try:
            yield
        finally:
            tried, self._tried = self._tried, None
            for pod, node, number, by in reversed(tried):
                self._change((pod, node, number, -by))
            for asks, node in self._reserved[reserved_before:]:
                self._free_on[node] += asks
            del self._reserved[reserved_before:]
            self._tried = outer

    def _ignoring_source(
        self, pod: int, class_rules: ClassRules, source_stays: bool
    ) -> AbstractContextManager[None]:
        """Ignore the pod itself while the body runs, if it leaves its node.

        Its own node is never a target, so this matters only to rules that consider several nodes.
        """
        return _UNCHANGED if source_stays or not class_rules.conflicts_with_itself else self._excluding(pod)

    @contextmanager
    def _excluding(self, pod: int) -> Iterator[None]:
        self._count_hypothetically(pod, -1)
        try:
            yield
        finally:
            self._count_hypothetically(pod, 1)

    def _count_hypothetically(self, pod: int, by: int) -> None:
        pod_class, home = int(self.snapshot.pods.pod_class[pod]), self._positions.home[pod]
        for place, node in enumerate(self._positions.nodes_with(pod)):
            is_ending = place == 0 and home != NO_ROW and self._is_ending(pod)
            self._rule_set.count_hypothetically(pod_class, node, by, is_ending=is_ending)

    def _is_ending(self, pod: int) -> bool:
        return self.snapshot.pods.records[pod].is_terminating

    def _change(self, change: _Change) -> None:
        pod, node, number, by = change
        amounts, load = self._requests_and_load(pod, number)
        # These are views that are changed in place, because a plan does this tens of thousands of times.
        requested, free, loaded = self.requested[node], self._free_on[node], self.load[node]
        if by > 0:
            self._positions.put(pod, node, number)
            requested += amounts
            free -= amounts
            loaded += load
        else:
            self._positions.take(pod, node, number)
            requested -= amounts
            free += amounts
            loaded -= load
        pod_class, is_ending = (
            int(self.snapshot.pods.pod_class[pod]),
            number == ITSELF and self._is_ending(pod),
        )
        self._rule_set.count(pod_class, node, by, is_ending=is_ending)
        if self._tried is not None:
            self._tried.append(change)

    def _requests_and_load(self, pod: int, number: int) -> tuple[Ints, Ints]:
        """Return the requests and the load of the pod or its copy.

        They differ during a resize: a copy requests what the spec says.
        """
        pods = self.snapshot.pods
        if number == ITSELF:
            return pods.requests[pod], pods.load[pod]
        asks = self.snapshot.classes[pods.pod_class[pod]].asks
        metrics = self.snapshot.nodes.metrics
        if not pods.measured[pod] and not metrics:
            return asks, asks
        load = asks.copy()
        if pods.measured[pod]:
            load[[CPU, MEMORY]] = pods.load[pod, [CPU, MEMORY]]
        if metrics:
            load[-metrics:] = pods.load[pod, -metrics:]
        return asks, load
