"""Brings all migrations to their end: who has not begun is not begun, who is under way is cancelled.

A cancelled migration rolls back, or goes on to its end if its pod has gone already; whoever executes does
that. Here they are only asked, and awaited.
"""

import asyncio
import contextlib

from rescheduler.controller.followed import POD_MIGRATIONS, Followed
from rescheduler.kube import errors
from rescheduler.kube.client import Client
from rescheduler.kube.resources import Object
from rescheduler.model.migrations import FINALIZER, Migration

__all__ = ["end_all"]


async def end_all(client: Client, followed: Followed) -> None:
    """Returns when none is left that is not finished. Raises `KubeError`."""
    changed = asyncio.Event()

    def note(_old: Object | None, _new: Object | None) -> None:
        changed.set()

    end = followed.migrations.informer.subscribe(note)
    try:
        while running := _held(followed):
            changed.clear()
            for migration in running:
                if not migration.is_cancelled and not migration.is_finished:
                    with contextlib.suppress(errors.NotFound, errors.Conflict):
                        await client.delete(POD_MIGRATIONS, migration.key, uid=migration.uid)
            await changed.wait()
    finally:
        end()


def _held(followed: Followed) -> list[Migration]:
    """Not finished; or finished, and not let go of yet."""
    found = (followed.records.migration(item) for item in followed.migrations.informer)
    return [each for each in found if each and (not each.is_finished or FINALIZER in each.finalizers)]
