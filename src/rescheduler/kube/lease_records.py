"""Who leads, decided from what a Lease says and when we saw it change. Pure; the same as client-go has it.

Clocks of other machines are not trusted. The times in a Lease are for people; that a holder is silent is
judged by how long *we* have not seen its Lease change, on our own clock. So a leader whose clock is hours off
keeps its Lease, and one that has died loses it after its own `leaseDurationSeconds`.

Whether somebody is at work who would make anew what is removed: a Lease that is still renewed.

As for leaders, only what *we* see change is a sign of life: the times in a Lease are of other clocks.

    first look ──given back, or no renewal for its own leaseDurationSeconds──▶ silent
               ──a renewal, after all who were told to end have had the time──▶ at work
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from rescheduler.config.policy import LeaderElection
from rescheduler.kube import errors
from rescheduler.kube.api_resources import LEASES
from rescheduler.kube.client import Client

__all__ = [
    "HeldLease",
    "LeaseObservation",
    "LeaseRecord",
    "claimed_record",
    "find_renewed_lease",
    "is_vacant",
    "lease_record_of",
    "lease_spec_of",
    "released_record",
]


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """What the `spec` of a Lease says."""

    holder: str = ""
    """Empty if it was given back."""
    lasts_s: int = 0
    acquired: datetime | None = None
    renewed: datetime | None = None
    transitions: int = 0


@dataclass(frozen=True, slots=True)
class LeaseObservation:
    """What was seen, and when it was first seen like that on our own clock."""

    record: LeaseRecord
    version: str
    seen_s: float

    def then(self, record: LeaseRecord, version: str, now_s: float) -> "LeaseObservation":
        """After another look. Only a change of the record is a sign of life, not one of the metadata."""
        seen_s = self.seen_s if record == self.record else now_s
        return LeaseObservation(record, version, seen_s)


def is_vacant(seen: LeaseObservation, me: str, now_s: float) -> bool:
    """Whether `me` may take it, or has it already."""
    record = seen.record
    return record.holder in ("", me) or now_s >= seen.seen_s + record.lasts_s


def claimed_record(seen: LeaseRecord | None, me: str, terms: LeaderElection, now: datetime) -> LeaseRecord:
    """The record with which `me` takes or renews it."""
    lasts_s = max(1, round(terms.lease_duration / timedelta(seconds=1)))
    if seen is None:
        return LeaseRecord(me, lasts_s, now, now)
    if seen.holder == me:
        return LeaseRecord(me, lasts_s, seen.acquired or now, now, seen.transitions)
    return LeaseRecord(me, lasts_s, now, now, seen.transitions + 1)


def released_record(seen: LeaseRecord, now: datetime) -> LeaseRecord:
    """Nobody's: the next one need not wait."""
    return LeaseRecord("", 1, now, now, seen.transitions)


# -- as the API has it


def lease_record_of(spec: dict[str, Any]) -> LeaseRecord:
    """What is missing or makes no sense is taken for nothing said: others may write Leases as they like."""
    return LeaseRecord(
        str(spec.get("holderIdentity") or ""),
        int(spec.get("leaseDurationSeconds") or 0),
        _time_of(spec.get("acquireTime")),
        _time_of(spec.get("renewTime")),
        int(spec.get("leaseTransitions") or 0),
    )


def lease_spec_of(record: LeaseRecord) -> dict[str, Any]:
    return {
        "holderIdentity": record.holder,
        "leaseDurationSeconds": record.lasts_s,
        "acquireTime": _micro_time(record.acquired),
        "renewTime": _micro_time(record.renewed),
        "leaseTransitions": record.transitions,
    }


def _time_of(written: object) -> datetime | None:
    return datetime.fromisoformat(written) if isinstance(written, str) else None


def _micro_time(moment: datetime | None) -> str | None:
    """A `MicroTime`: always six digits."""
    return None if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


_LOOK_EVERY_S: Final = 0.5


class HeldLease(NamedTuple):
    lease: str
    holder: str


async def find_renewed_lease(
    client: Client, leases: Iterable[str], *, patience_s: float = 0.0
) -> HeldLease | None:
    """The first of them that somebody renews even after so long; None when all are silent.

    Raises `KubeError`.
    """
    began_s = _loop_s()
    seen: dict[str, LeaseObservation] = {}
    waiting = set(leases)
    while waiting:
        for lease in sorted(waiting):
            found = await _look(client, lease, seen.get(lease))
            if found is None or is_vacant(found, "", _loop_s()):
                waiting.discard(lease)
                continue
            is_renewed = lease in seen and found.seen_s > seen[lease].seen_s
            if is_renewed and found.seen_s >= began_s + patience_s:
                return HeldLease(lease, found.record.holder)
            seen[lease] = found
        if waiting:
            await asyncio.sleep(_LOOK_EVERY_S)
    return None


async def _look(client: Client, lease: str, before: LeaseObservation | None) -> LeaseObservation | None:
    try:
        item = await client.get(LEASES, lease)
    except errors.NotFound:
        return None
    record, version = lease_record_of(item.get("spec") or {}), item["metadata"]["resourceVersion"]
    if before is None:
        return LeaseObservation(record, version, _loop_s())
    return before.then(record, version, _loop_s())


def _loop_s() -> float:
    return asyncio.get_running_loop().time()
