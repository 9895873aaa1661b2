"""Who leads, decided from what a Lease says and when we saw it change. Pure; the same as client-go has it.

Clocks of other machines are not trusted. The times in a Lease are for people; that a holder is silent is
judged by how long *we* have not seen its Lease change, on our own clock. So a leader whose clock is hours off
keeps its Lease, and one that has died loses it after its own `leaseDurationSeconds`.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from rescheduler.config.policy import LeaderElection

__all__ = ["Observation", "Record", "claim", "is_vacant", "record_of", "released", "spec_of"]


@dataclass(frozen=True, slots=True)
class Record:
    """What the `spec` of a Lease says."""

    holder: str = ""
    """Empty if it was given back."""
    lasts_s: int = 0
    acquired: datetime | None = None
    renewed: datetime | None = None
    transitions: int = 0


@dataclass(frozen=True, slots=True)
class Observation:
    """What was seen, and when it was first seen like that on our own clock."""

    record: Record
    version: str
    seen_s: float

    def then(self, record: Record, version: str, now_s: float) -> "Observation":
        """After another look. Only a change of the record is a sign of life, not one of the metadata."""
        seen_s = self.seen_s if record == self.record else now_s
        return Observation(record, version, seen_s)


def is_vacant(seen: Observation, me: str, now_s: float) -> bool:
    """Whether `me` may take it, or has it already."""
    record = seen.record
    return record.holder in ("", me) or now_s >= seen.seen_s + record.lasts_s


def claim(seen: Record | None, me: str, terms: LeaderElection, now: datetime) -> Record:
    """The record with which `me` takes or renews it."""
    lasts_s = max(1, round(terms.lease_duration / timedelta(seconds=1)))
    if seen is None:
        return Record(me, lasts_s, now, now)
    if seen.holder == me:
        return Record(me, lasts_s, seen.acquired or now, now, seen.transitions)
    return Record(me, lasts_s, now, now, seen.transitions + 1)


def released(seen: Record, now: datetime) -> Record:
    """Nobody's: the next one need not wait."""
    return Record("", 1, now, now, seen.transitions)


# -- as the API has it


def record_of(spec: dict[str, Any]) -> Record:
    """What is missing or makes no sense is taken for nothing said: others may write Leases as they like."""
    return Record(
        str(spec.get("holderIdentity") or ""),
        int(spec.get("leaseDurationSeconds") or 0),
        _moment(spec.get("acquireTime")),
        _moment(spec.get("renewTime")),
        int(spec.get("leaseTransitions") or 0),
    )


def spec_of(record: Record) -> dict[str, Any]:
    return {
        "holderIdentity": record.holder,
        "leaseDurationSeconds": record.lasts_s,
        "acquireTime": _micro(record.acquired),
        "renewTime": _micro(record.renewed),
        "leaseTransitions": record.transitions,
    }


def _moment(written: object) -> datetime | None:
    return datetime.fromisoformat(written) if isinstance(written, str) else None


def _micro(moment: datetime | None) -> str | None:
    """A `MicroTime`: always six digits."""
    return None if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
