"""Nulls in JSON mean "absent"; the API server hardly ever writes them, files made by hand do."""

from typing import Any

__all__ = ["without_nulls"]


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(part) for key, part in value.items() if part is not None}
    if isinstance(value, list):
        return [without_nulls(part) for part in value]
    return value
