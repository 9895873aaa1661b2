"""Whether somebody is at work who would make anew what is removed: a Lease that is still renewed.

As for leaders, only what *we* see change is a sign of life: the times in a Lease are of other clocks.

    first look ──given back, or no renewal for its own leaseDurationSeconds──▶ silent
               ──a renewal, after all who were told to end have had the time──▶ at work
"""

import asyncio
from collections.abc import Iterable
from typing import Final, NamedTuple

from rescheduler.controller.leadership import Observation, is_vacant, record_of
from rescheduler.kube import errors
from rescheduler.kube.client import Client
from rescheduler.kube.resources import LEASES

__all__ = ["Holding", "still_renewed"]

_LOOK_EVERY_S: Final = 0.5


class Holding(NamedTuple):
    lease: str
    holder: str


async def still_renewed(client: Client, leases: Iterable[str], *, patience_s: float = 0.0) -> Holding | None:
    """The first of them that somebody renews even after so long; None when all are silent.

    Raises `KubeError`.
    """
    began_s = _loop_s()
    seen: dict[str, Observation] = {}
    waiting = set(leases)
    while waiting:
        for lease in sorted(waiting):
            found = await _look(client, lease, seen.get(lease))
            if found is None or is_vacant(found, "", _loop_s()):
                waiting.discard(lease)
                continue
            is_renewed = lease in seen and found.seen_s > seen[lease].seen_s
            if is_renewed and found.seen_s >= began_s + patience_s:
                return Holding(lease, found.record.holder)
            seen[lease] = found
        if waiting:
            await asyncio.sleep(_LOOK_EVERY_S)
    return None


async def _look(client: Client, lease: str, before: Observation | None) -> Observation | None:
    try:
        item = await client.get(LEASES, lease)
    except errors.NotFound:
        return None
    record, version = record_of(item.get("spec") or {}), item["metadata"]["resourceVersion"]
    if before is None:
        return Observation(record, version, _loop_s())
    return before.then(record, version, _loop_s())


def _loop_s() -> float:
    return asyncio.get_running_loop().time()
