"""What migrations tell about pods: which were moved lately, which are being moved."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from rescheduler.model.migrations import COPY_FAILING, FAILED_PODS, Migration, Phase

__all__ = ["Moves", "failures_seen", "moves_of"]


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
    left_failing: Mapping[str, tuple[str, ...]]
    """Nodes from which a migration has moved the pod because it failed there, sorted."""


def moves_of(migrations: Iterable[Migration]) -> Moves:
    recent: dict[str, float] = {}
    in_vain: dict[str, float] = {}
    moving: set[str] = set()
    failed_on: dict[str, set[str]] = {}
    left_failing: dict[str, set[str]] = {}
    for migration in migrations:
        for uid, node in failures_seen(migration):
            left_failing.setdefault(uid, set()).add(node)
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
        {uid: tuple(sorted(nodes)) for uid, nodes in sorted(left_failing.items())},
    )


def failures_seen(migration: Migration) -> Iterator[tuple[str, str]]:
    """Uids of pods, each with a node on which it failed: as far as executing this migration has shown it."""
    status = migration.status
    if migration.spec.strategy != FAILED_PODS or status.started_at is None:
        return
    yield migration.spec.pod.uid, migration.spec.source_node
    if status.failure == COPY_FAILING and status.target_pod is not None:
        yield status.target_pod.uid, migration.target_node


def _pods_of(migration: Migration) -> Iterator[str]:
    yield migration.spec.pod.uid
    if migration.status.target_pod is not None:
        yield migration.status.target_pod.uid
