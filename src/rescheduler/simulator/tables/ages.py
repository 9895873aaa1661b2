"""Times as people read them: `45s`, `5m30s`, `3d4h`, `2y10d`."""

from datetime import UTC, datetime, timedelta

from rescheduler.simulator.exchange import Object

__all__ = ["UNKNOWN", "age", "human_duration", "moment", "since"]

UNKNOWN = "<unknown>"
INVALID = "<invalid>"

_MINUTE = 60
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR
_YEAR = 365 * _DAY

# Up to this many seconds a duration is shown in these units: a second, smaller unit only while it still says
# something about a number that small. (limit, unit, its letter, second unit, its letter)
_SCALES = (
    (2 * _MINUTE, 1, "s", 0, ""),
    (10 * _MINUTE, _MINUTE, "m", 1, "s"),
    (3 * _HOUR, _MINUTE, "m", 0, ""),
    (8 * _HOUR, _HOUR, "h", _MINUTE, "m"),
    (2 * _DAY, _HOUR, "h", 0, ""),
    (8 * _DAY, _DAY, "d", _HOUR, "h"),
    (2 * _YEAR, _DAY, "d", 0, ""),
    (8 * _YEAR, _YEAR, "y", _DAY, "d"),
)


def human_duration(duration: timedelta) -> str:
    """Two or three significant figures, whole units only, as the real server rounds them: down.

    Clocks differ a little between machines, so less than two seconds in the future counts as now.
    """
    seconds = int(duration.total_seconds())
    if seconds < -1:
        return INVALID
    seconds = max(seconds, 0)
    for limit, unit, letter, second_unit, second_letter in _SCALES:
        if seconds < limit:
            whole, rest = divmod(seconds, unit)
            second = rest // second_unit if second_unit else 0
            return f"{whole}{letter}{second}{second_letter}" if second else f"{whole}{letter}"
    return f"{seconds // _YEAR}y"


def moment(timestamp: str) -> datetime:
    """RFC 3339, with or without fractions; raises ValueError on anything else."""
    found = datetime.fromisoformat(timestamp)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def since(timestamp: str | None, now: datetime) -> str:
    if not timestamp:
        return UNKNOWN
    try:
        return human_duration(now - moment(timestamp))
    except ValueError:
        return INVALID


def age(obj: Object, now: datetime) -> str:
    return since(obj["metadata"].get("creationTimestamp"), now)
