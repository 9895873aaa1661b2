"""Times as the API holds them: whole seconds, UTC."""

from datetime import UTC, datetime

__all__ = ["earliest", "read", "whole_second", "written"]


def read(text: str) -> datetime:
    return datetime.fromisoformat(text)


def whole_second(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(microsecond=0)


def written(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def earliest(*moments: datetime | None) -> datetime | None:
    return min((moment for moment in moments if moment is not None), default=None)
