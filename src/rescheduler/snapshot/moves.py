"""What migrations tell about pods: which were moved lately, which are being moved."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from rescheduler.model.migrations import COPY_FAILING, Migration, Phase

__all__ = ["Moves", "moves_of"]


class Moves(NamedTuple):
    """All by uid, of the pod and of its successor."""

    recent: Mapping[str, float]
    """When it was last moved. A migration that failed counts as well: what did not work a minute ago will
    hardly work now."""
    in_vain: Mapping[str, float]
    """When moving it last failed."""
    moving: frozenset[str]
    failed_on: Mapping[str, tuple[str, ...]]
    """Nodes on which a copy of the pod could not run, sorted."""


def moves_of(migrations: Iterable[Migration]) -> Moves:
    recent: dict[str, float] = {}
    in_vain: dict[str, float] = {}
    moving: set[str] = set()
    failed_on: dict[str, set[str]] = {}
    for migration in migrations:
        if migration.is_finished and migration.status.failure == COPY_FAILING and migration.target_node:
            failed_on.setdefault(migration.spec.pod.uid, set()).add(migration.target_node)
        finished = migration.status.finished_at
        if not migration.is_finished:
            moving.update(_pods_of(migration))
        elif finished is not None:
            for uid in _pods_of(migration):
                recent[uid] = max(finished.timestamp(), recent.get(uid, 0.0))
                if migration.status.phase is Phase.FAILED:
                    in_vain[uid] = max(finished.timestamp(), in_vain.get(uid, 0.0))
    return Moves(
        dict(sorted(recent.items())),
        dict(sorted(in_vain.items())),
        frozenset(moving),
        {uid: tuple(sorted(nodes)) for uid, nodes in sorted(failed_on.items())},
    )


def _pods_of(migration: Migration) -> Iterator[str]:
    yield migration.spec.pod.uid
    if migration.status.target_pod is not None:
        yield migration.status.target_pod.uid
