"""Merge patch (RFC 7386): maps are merged, null removes, everything else is replaced."""

from copy import deepcopy
from typing import Any

__all__ = ["merge_patch"]


def merge_patch(document: Any, patch: Any) -> Any:
    """Neither argument is changed."""
    if not isinstance(patch, dict):
        return deepcopy(patch)
    merged = dict(document) if isinstance(document, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patch(merged.get(name), value)
    return merged
