"""What migrations tell about pods: which were moved lately, which are being moved."""

from collections.abc import Iterable, Iterator, Mapping

from rescheduler.model.migrations import Migration

__all__ = ["moves_of"]


def moves_of(migrations: Iterable[Migration]) -> tuple[Mapping[str, float], frozenset[str]]:
    """When pods were last moved, and which are being moved: by uid, of the pod and of its successor.

    A migration that failed counts as well: what did not work a minute ago will hardly work now.
    """
    recent: dict[str, float] = {}
    moving: set[str] = set()
    for migration in migrations:
        finished = migration.status.finished_at
        if not migration.is_finished:
            moving.update(_pods_of(migration))
        elif finished is not None:
            for uid in _pods_of(migration):
                recent[uid] = max(finished.timestamp(), recent.get(uid, 0.0))
    return dict(sorted(recent.items())), frozenset(moving)


def _pods_of(migration: Migration) -> Iterator[str]:
    yield migration.spec.pod.uid
    if migration.status.target_pod is not None:
        yield migration.status.target_pod.uid
