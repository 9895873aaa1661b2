"""All rules put together: what each of them has to say about the pods of a class."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rescheduler.model.selectors import SelectorError
from rescheduler.rules.attached_volumes import AttachedVolumes, attachable_of
from rescheduler.rules.check import Check, Fixed
from rescheduler.rules.claims import claims_of
from rescheduler.rules.class_index import ClassIndex
from rescheduler.rules.ground import Ground
from rescheduler.rules.host_ports import host_ports
from rescheduler.rules.matching_volumes import Stock
from rescheduler.rules.neighbours import Neighbours
from rescheduler.rules.pod_affinity import pod_affinity
from rescheduler.rules.positions import Positions
from rescheduler.rules.refusal import Refusal, Rule
from rescheduler.rules.resources import resources_fit
from rescheduler.rules.tallies import Tallies
from rescheduler.rules.terrain import Terrain
from rescheduler.rules.topology_spread import Spreading, spreadings, topology_spread
from rescheduler.rules.volume_binding import volume_binding
from rescheduler.rules.volume_limits import volume_limits
from rescheduler.rules.volume_restrictions import is_for_one_pod, volume_restrictions
from rescheduler.rules.volume_zone import volume_zone
from rescheduler.snapshot.snapshot import NOWHERE, Flags, Ints, Snapshot

__all__ = ["Judgement", "Rulebook"]

_ORDER = {rule: place for place, rule in enumerate(Rule)}


@dataclass(frozen=True, slots=True, eq=False)
class Judgement:
    """Everything that the rules ask of the pods of one class."""

    ground: Flags
    """[node]: where no rule forbids it whose answer stays the same."""
    fixed: list[Check]
    """Those rules."""
    live: list[Check]
    """The rules that look at other pods."""
    sees_itself: bool
    """Whether a pod of this class can be in the way of its own copy, even on another node."""

    def fits(self) -> Flags:
        found = self.ground.copy()
        for check in self.live:
            found &= check.fits()
        return found

    def fits_on(self, node: int) -> bool:
        return bool(self.ground[node]) and all(check.refusal(node) is None for check in self.live)

    def refusals(self, node: int) -> list[Refusal]:
        """In the scheduler's order."""
        found = (check.refusal(node) for check in (*self.fixed, *self.live))
        return sorted((refusal for refusal in found if refusal is not None), key=lambda r: _ORDER[r.rule])


class Rulebook:
    """Judges each class once; later moves reach the judgement through tallies."""

    def __init__(self, snapshot: Snapshot, positions: Positions, free: Ints) -> None:
        self._snapshot = snapshot
        self._positions = positions
        self._free = free
        self._index = ClassIndex(snapshot)
        self._terrain = Terrain(snapshot.nodes)
        self._ground = Ground(self._terrain)
        self._tallies = Tallies(positions)
        self._neighbours = Neighbours(snapshot.pods, positions, self._terrain, self._tallies)
        self._stock = Stock(snapshot.storage)
        self._attached: AttachedVolumes | None = None
        """Made when the first rule asks for it: it looks at every pod with volumes."""
        self._judgements: dict[int, Judgement] = {}
        self._spreadings: dict[int, list[Spreading]] = {}

    def judgement(self, pod: int) -> Judgement:
        number = int(self._snapshot.pods.pod_class[pod])
        found = self._judgements.get(number)
        if found is None:
            found = self._judgements[number] = self._judge(number, pod)
        return found

    def spreadings(self, pod: int) -> Sequence[Spreading]:
        """The topology spread constraints that it must keep; none if they can't be read."""
        number = int(self._snapshot.pods.pod_class[pod])
        found = self._spreadings.get(number)
        if found is None:
            try:
                found = spreadings(number, self._index, self._ground, self._tallies)
            except SelectorError:
                found = []
            self._spreadings[number] = found
        return found

    def count(self, pod_class: int, node: int, by: int, *, is_ending: bool) -> None:
        """So many pods of that class more on that node, for everybody."""
        self._tallies.count(pod_class, node, by, is_ending=is_ending)
        if self._attached is not None:
            self._attached.count(pod_class, node, by)

    def think(self, pod_class: int, node: int, by: int, *, is_ending: bool) -> None:
        """The same only for rules that look beyond their node."""
        self._tallies.count(pod_class, node, by, is_ending=is_ending)

    def _judge(self, number: int, pod: int) -> Judgement:
        pod_class = self._snapshot.classes[number]
        of_nodes = self._ground.checks(pod_class)
        ground = self._ground.mask(of_nodes)
        live: list[Check | None] = [
            resources_fit(pod_class, self._free, self._snapshot.nodes.allocatable, self._snapshot.resources),
            host_ports(number, self._index, self._neighbours),
            topology_spread(number, self._index, self._ground, self._tallies),
            pod_affinity(number, self._index, self._terrain, self._tallies),
        ]
        constraints, affinity = pod_class.constraints, pod_class.affinity
        sees_itself = bool(
            constraints.spread or affinity.pod_affinity.required or affinity.pod_anti_affinity.required
        )
        fixed: list[Check] = [*of_nodes]
        if pod_class.volumes:
            volumes = self._judge_volumes(number, pod)
            for check in volumes.fixed:
                ground = ground & check.passes
            fixed += volumes.fixed
            live += volumes.live
            sees_itself |= volumes.sees_itself
        return Judgement(ground, fixed, [check for check in live if check is not None], sees_itself)

    def _judge_volumes(self, number: int, pod: int) -> "_OfVolumes":
        storage, terrain, pod_class = self._snapshot.storage, self._terrain, self._snapshot.classes[number]
        # A class with ephemeral volumes is that of one pod: their claims carry its name.
        record, is_placed = self._snapshot.pods.records[pod], self._snapshot.pods.node[pod] != NOWHERE
        claims = claims_of(pod_class, storage, is_placed=is_placed)
        fixed = (
            volume_binding(claims, self._stock, terrain, pod=record.key, uid=record.uid),
            volume_zone(claims, storage, terrain),
        )
        attachable = attachable_of(pod_class, storage, is_placed=is_placed)
        return _OfVolumes(
            fixed=[check for check in fixed if check is not None],
            live=[
                volume_restrictions(number, claims, self._index, self._neighbours),
                volume_limits(attachable, self._attachments, storage, terrain) if attachable else None,
            ],
            sees_itself=any(map(is_for_one_pod, claims)),
        )

    def _attachments(self) -> AttachedVolumes:
        if self._attached is None:
            self._attached = AttachedVolumes(self._snapshot, self._positions)
        return self._attached


class _OfVolumes(NamedTuple):
    fixed: list[Fixed]
    live: list[Check | None]
    sees_itself: bool
