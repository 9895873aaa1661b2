"""All rules put together: what each of them has to say about the pods of a class."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kubevalues import SelectorError
from rescheduler.cluster.snapshot import NO_ROW, Flags, Ints, Snapshot
from rescheduler.rules.inter_pod_affinity import inter_pod_affinity
from rescheduler.rules.node_capacity import node_ports, node_resources_fit
from rescheduler.rules.node_labels import NodeLabels
from rescheduler.rules.node_volume_limits import AttachedVolumes, attachable_volumes, node_volume_limits
from rescheduler.rules.pod_class_index import PodClassIndex
from rescheduler.rules.pod_positions import DomainCountRegistry, NodeConflicts, PodPositions
from rescheduler.rules.pod_topology_spread import SpreadCheck, pod_topology_spread, spread_checks
from rescheduler.rules.rule_check import NodeRefusal, RuleCheck, SchedulerRule, StaticCheck
from rescheduler.rules.static_rules import StaticRules
from rescheduler.rules.volume_binding import claims_of, volume_binding
from rescheduler.rules.volume_provisioning import AvailableVolumes
from rescheduler.rules.volume_restrictions import is_single_pod_claim, volume_restrictions
from rescheduler.rules.volume_zone import volume_zone

__all__ = ["ClassRules", "RuleSet"]

_SCHEDULER_ORDER = {rule: place for place, rule in enumerate(SchedulerRule)}


@dataclass(frozen=True, slots=True, eq=False)
class ClassRules:
    """Everything that the rules ask of the pods of one class."""

    static_fits: Flags
    """[node]: where no rule forbids it whose answer stays the same."""
    fixed: list[RuleCheck]
    """Those rules."""
    live: list[RuleCheck]
    """The rules that look at other pods."""
    conflicts_with_itself: bool
    """Whether a pod of this class can be in the way of its own copy, even on another node."""

    def fits(self) -> Flags:
        found = self.static_fits.copy()
        for check in self.live:
            found &= check.fits()
        return found

    def fits_on(self, node: int) -> bool:
        return bool(self.static_fits[node]) and all(check.refusal(node) is None for check in self.live)

    def refusals(self, node: int) -> list[NodeRefusal]:
        """In the scheduler's order."""
        found = (check.refusal(node) for check in (*self.fixed, *self.live))
        return sorted(
            (refusal for refusal in found if refusal is not None), key=lambda r: _SCHEDULER_ORDER[r.rule]
        )


class RuleSet:
    """Build the rules of each class once; later moves change the counts that they read."""

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
        """Made when the first rule asks for it: it looks at every pod with volumes."""
        self._class_rules: dict[int, ClassRules] = {}
        self._spread_checks: dict[int, list[SpreadCheck]] = {}

    def class_rules(self, pod: int) -> ClassRules:
        number = int(self._snapshot.pods.pod_class[pod])
        found = self._class_rules.get(number)
        if found is None:
            found = self._class_rules[number] = self._build_class_rules(number, pod)
        return found

    def spread_checks(self, pod: int) -> Sequence[SpreadCheck]:
        """The topology spread constraints that it must keep; none if they can't be read."""
        number = int(self._snapshot.pods.pod_class[pod])
        found = self._spread_checks.get(number)
        if found is None:
            try:
                found = spread_checks(number, self._index, self._static_rules, self._count_registry)
            except SelectorError:
                found = []
            self._spread_checks[number] = found
        return found

    def count(self, pod_class: int, node: int, by: int, *, is_ending: bool) -> None:
        """Count so many more pods of that class on that node, for all rules."""
        self._count_registry.count(pod_class, node, by, is_ending=is_ending)
        if self._attached is not None:
            self._attached.count(pod_class, node, by)

    def count_hypothetically(self, pod_class: int, node: int, by: int, *, is_ending: bool) -> None:
        """The same only for rules that look beyond their node."""
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
        storage, node_labels, pod_class = (
            self._snapshot.storage,
            self._node_labels,
            self._snapshot.classes[number],
        )
        # A class with ephemeral volumes is that of one pod: their claims carry its name.
        record, is_placed = self._snapshot.pods.records[pod], self._snapshot.pods.node[pod] != NO_ROW
        claims = claims_of(pod_class, storage, is_placed=is_placed)
        fixed = (
            volume_binding(claims, self._available_volumes, node_labels, pod=record.key, uid=record.uid),
            volume_zone(claims, storage, node_labels),
        )
        attachable = attachable_volumes(pod_class, storage, is_placed=is_placed)
        return _VolumeChecks(
            fixed=[check for check in fixed if check is not None],
            live=[
                volume_restrictions(number, claims, self._index, self._node_conflicts),
                node_volume_limits(attachable, self._attachments, storage, node_labels)
                if attachable
                else None,
            ],
            conflicts_with_itself=any(map(is_single_pod_claim, claims)),
        )

    def _attachments(self) -> AttachedVolumes:
        if self._attached is None:
            self._attached = AttachedVolumes(self._snapshot, self._positions)
        return self._attached


class _VolumeChecks(NamedTuple):
    fixed: list[StaticCheck]
    live: list[RuleCheck | None]
    conflicts_with_itself: bool
