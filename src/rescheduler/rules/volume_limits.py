"""How many volumes of a CSI driver a node can have attached, and whether the driver runs there at all."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from rescheduler.model.storage import Storage
from rescheduler.rules.attached_volumes import Attachable, AttachedVolumes
from rescheduler.rules.check import Check, Fixed, InTurn
from rescheduler.rules.refusal import Refusal, Rule
from rescheduler.rules.terrain import Terrain
from rescheduler.snapshot.snapshot import Flags, Ints

__all__ = ["volume_limits"]

_TOO_MANY: Final = "node(s) exceed max volume count"
_NO_LIMIT: Final = np.iinfo(np.int64).max


def volume_limits(
    volumes: Sequence[Attachable],
    attached: Callable[[], AttachedVolumes],
    storage: Storage,
    terrain: Terrain,
) -> Check | None:
    """What is attached is only counted if some node has a limit."""
    by_driver: defaultdict[str, list[Attachable]] = defaultdict(list)
    for volume in volumes:
        by_driver[volume.driver].append(volume)
    checks: list[Check] = []
    for driver, of_driver in by_driver.items():
        known = storage.csi_drivers.get(driver)
        if known is not None and known.must_be_installed:
            checks.append(_installed(driver, of_driver, storage, terrain))
    for driver, of_driver in by_driver.items():
        limits = _limits(driver, storage, terrain)
        if (limits != _NO_LIMIT).any():
            checks.append(_Limit(driver, of_driver, limits, attached()))
    return InTurn(checks) if checks else None


def _installed(driver: str, volumes: Sequence[Attachable], storage: Storage, terrain: Terrain) -> Fixed:
    reason = f"{driver} CSI driver is not installed on the node"
    refusal = Refusal(Rule.VOLUME_LIMITS, (reason,), f"wants {volumes[0].handle}")
    # Without a word of its drivers, nobody on the node has taken over volumes that were no CSI volumes once.
    counts_anywhere = not all(volume.is_translated for volume in volumes)
    told = (storage.csi_nodes.get(record.name) for record in terrain.records)
    passes = [not counts_anywhere if node is None else driver in node.drivers for node in told]
    return Fixed(np.array(passes, np.bool_), lambda _: refusal)


def _limits(driver: str, storage: Storage, terrain: Terrain) -> Ints:
    found = np.full(len(terrain), _NO_LIMIT, np.int64)
    for name, node in storage.csi_nodes.items():
        row, limit = terrain.nodes.row.get(name), node.drivers.get(driver)
        if row is not None and limit is not None:
            found[row] = limit
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _Limit:
    driver: str
    volumes: Sequence[Attachable]
    limits: Ints
    attached: AttachedVolumes

    def fits(self) -> Flags:
        room = self.limits - self.attached.count_of(self.driver)
        found: Flags = room >= len(self.volumes)
        for node in {node for volume in self.volumes for node in self.attached.users_of(volume)}:
            found[node] = not (new := self._new_on(node)) or room[node] >= new
        return found

    def refusal(self, node: int) -> Refusal | None:
        new, limit = self._new_on(node), int(self.limits[node])
        there = int(self.attached.count_of(self.driver)[node])
        if not new or limit - there >= new:
            return None
        detail = f"asks {new} volumes of {self.driver}, {there} of {limit} are attached"
        return Refusal(Rule.VOLUME_LIMITS, (_TOO_MANY,), detail)

    def _new_on(self, node: int) -> int:
        """A volume that another pod uses there is no new one.

        One that is still attached without a pod counts twice, as in the real scheduler: once as attached,
        once as new.
        """
        return sum(node not in self.attached.users_of(volume) for volume in self.volumes)
