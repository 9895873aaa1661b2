"""Moments as objects have them, and how far apart they are."""

from datetime import UTC, datetime
from functools import lru_cache

__all__ = ["moment", "seconds_since"]


@lru_cache(maxsize=4096)
def moment(text: str) -> datetime:
    """From RFC 3339, with or without fractions of a second."""
    return datetime.fromisoformat(text).astimezone(UTC)


def seconds_since(text: str, now: datetime) -> float:
    return (now - moment(text)).total_seconds()
