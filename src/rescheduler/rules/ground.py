"""What no move changes: where a pod may go by the nodes alone, whoever else is on them.

Many classes have the same tolerations and ask for the same nodes, so each question is answered once.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rescheduler.model.constraints import NodeSelector, SpreadConstraint
from rescheduler.rules.check import Fixed
from rescheduler.rules.declared_features import declared_features
from rescheduler.rules.node_affinity import Labels, node_affinity
from rescheduler.rules.node_ready import node_ready
from rescheduler.rules.taints import Tolerations, taint_toleration, unschedulable
from rescheduler.rules.terrain import Terrain
from rescheduler.snapshot.snapshot import NOWHERE, Flags, PodClass, Rows

__all__ = ["CountedDomains", "Ground"]


_Wish = tuple[Labels, NodeSelector | None]


class CountedDomains(NamedTuple):
    of: Rows
    """[node]: its domain; `NOWHERE` if its pods don't count."""
    number: int
    """How many domains have a node that counts."""


class Ground:
    def __init__(self, terrain: Terrain) -> None:
        self.terrain = terrain
        self._ready = node_ready(terrain)
        self._tolerating: dict[Tolerations, tuple[Fixed | None, Fixed | None]] = {}
        self._wishing: dict[_Wish, Fixed | None] = {}
        self._needing: dict[tuple[str, ...], Fixed | None] = {}
        self._masks: dict[tuple[int, ...], Flags] = {}
        self._counted: dict[tuple[object, ...], CountedDomains] = {}

    def checks(self, pod_class: PodClass) -> list[Fixed]:
        """Those that have something to say about pods of that class."""
        found = (
            *self._tolerance(pod_class.constraints.tolerations),
            self._wish(pod_class),
            self._need(pod_class.constraints.needed_features),
            self._ready,
        )
        return [check for check in found if check is not None]

    def mask(self, checks: Sequence[Fixed]) -> Flags:
        """[node]: where all of these `checks` pass. Not to be written to."""
        question = tuple(map(id, checks))  # they are kept here, so their ids stay taken
        found = self._masks.get(question)
        if found is None:
            found = np.ones(len(self.terrain), np.bool_)
            for check in checks:
                found &= check.passes
            self._masks[question] = found
        return found

    def counted_domains(
        self, constraint: SpreadConstraint, keys: tuple[str, ...], pod_class: PodClass
    ) -> CountedDomains:
        """Nodes count that have the labels of all constraints, and that its policies don't leave out."""
        honors_affinity = (constraint.node_affinity_policy or "Honor") == "Honor"
        honors_taints = constraint.node_taints_policy == "Honor"
        wish = _wish_of(pod_class) if honors_affinity else None
        tolerations = pod_class.constraints.tolerations if honors_taints else None
        question = (constraint.topology_key, frozenset(keys), wish, tolerations)
        found = self._counted.get(question)
        if found is None:
            counts = np.ones(len(self.terrain), np.bool_)
            for key in keys:
                counts &= self.terrain.domains(key).of != NOWHERE
            for check in (
                self._wish(pod_class) if honors_affinity else None,
                self._tolerance(tolerations)[1] if tolerations is not None else None,
            ):
                if check is not None:
                    counts &= check.passes
            domains = self.terrain.domains(constraint.topology_key)
            counted = np.where(counts, domains.of, np.int32(NOWHERE))
            number = int(np.count_nonzero(np.bincount(domains.of[counts])))
            found = self._counted[question] = CountedDomains(counted, number)
        return found

    def _tolerance(self, tolerations: Tolerations) -> tuple[Fixed | None, Fixed | None]:
        found = self._tolerating.get(tolerations)
        if found is None:
            terrain = self.terrain
            found = (unschedulable(tolerations, terrain), taint_toleration(tolerations, terrain))
            self._tolerating[tolerations] = found
        return found

    def _wish(self, pod_class: PodClass) -> Fixed | None:
        wish = _wish_of(pod_class)
        if wish not in self._wishing:
            self._wishing[wish] = node_affinity(*wish, self.terrain)
        return self._wishing[wish]

    def _need(self, features: tuple[str, ...]) -> Fixed | None:
        if features not in self._needing:
            self._needing[features] = declared_features(features, self.terrain)
        return self._needing[features]


def _wish_of(pod_class: PodClass) -> _Wish:
    return pod_class.constraints.node_selector, pod_class.affinity.node_affinity.required
