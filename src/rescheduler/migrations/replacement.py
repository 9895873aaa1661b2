"""Which pod a controller made in the place of an evicted one.

Not by its age: times are told in whole seconds, and by other clocks than ours. Before the eviction it is put
on record which pods the controller had; whoever is not among them has come since.
"""

from collections.abc import Container, Iterable, Sequence
from typing import Final

from rescheduler.model.migrations import MOST_SIBLINGS, Migration, OwnerReference
from rescheduler.model.ordinals import ordinal_in
from rescheduler.model.pods import PodRecord
from rescheduler.model.steering import STEERED_BY
from rescheduler.model.workloads import WorkloadRecord

__all__ = ["is_scaled_away", "keeps_names", "replacement_of", "worth_recording"]

_SCALED: Final = frozenset({"ReplicaSet", "StatefulSet"})
"""Those of which somebody says how many pods they have."""


def keeps_names(owner: OwnerReference | None) -> bool:
    """Whether a successor is called like the pod that it replaces, and needs no other sign."""
    return owner is not None and owner.kind == "StatefulSet"


def is_scaled_away(migration: Migration, owner: WorkloadRecord | None) -> bool:
    """Whether its controller wants no pod in its place any more: it was scaled to nothing, or a StatefulSet
    to fewer pods than the number of this one."""
    if owner is None or owner.kind not in _SCALED:
        return False
    ordinal = ordinal_in(migration.spec.pod.name, owner.name) if owner.kind == "StatefulSet" else None
    return owner.replicas == 0 or (
        ordinal is not None
        and ordinal not in range(owner.first_ordinal, owner.first_ordinal + owner.replicas)
    )


def worth_recording(siblings: Iterable[PodRecord]) -> tuple[str, ...]:
    """Their uids. Of very many only the youngest: older ones are known by their age, far from any doubt."""
    youngest = sorted(siblings, key=lambda pod: (-pod.created_s, pod.uid))[:MOST_SIBLINGS]
    return tuple(pod.uid for pod in youngest)


def replacement_of(
    migration: Migration, siblings: Sequence[PodRecord], spoken_for: Container[str]
) -> PodRecord | None:
    """Of the pods of the same controller: the one of the same name, the one that was steered for this
    migration, or else the first that came after the eviction and is nobody else's (`spoken_for`, by uid)."""
    is_named = keeps_names(migration.status.owner)
    known = frozenset(migration.status.siblings)
    oldest_s = _oldest_s(migration, [pod for pod in siblings if pod.uid in known])
    found = [
        pod
        for pod in siblings
        if pod.uid != migration.spec.pod.uid
        and pod.uid not in known
        and pod.uid not in spoken_for
        and (pod.name == migration.spec.pod.name if is_named else pod.created_s >= oldest_s)
    ]
    return min(found, key=lambda pod: _preference(migration, pod), default=None)


def _oldest_s(migration: Migration, recorded: Sequence[PodRecord]) -> float:
    """Nobody older than this has come since, if not all could be recorded."""
    if len(migration.status.siblings) < MOST_SIBLINGS:
        return 0.0
    return min((pod.created_s for pod in recorded), default=_evicted_s(migration))


def _evicted_s(migration: Migration) -> float:
    return (migration.status.handed_over_at or migration.created).timestamp() // 1


def _preference(migration: Migration, pod: PodRecord) -> tuple[bool, bool, bool, bool, int, str]:
    steered_for = pod.marks.get(STEERED_BY)
    return (
        pod.name != migration.spec.pod.name,
        steered_for != migration.name,
        # One that another migration steered, and one on its way out, only for want of any other.
        pod.is_terminating or (steered_for is not None and steered_for != migration.name),
        # One that came while we waited for the eviction, if there is one that came because of it.
        pod.created_s < _evicted_s(migration),
        pod.created_s,
        pod.name,
    )
