"""The four ways to change a part of an object, each as bytes with the content type that names it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

__all__ = ["Patch", "apply_patch", "json_patch", "merge_patch", "strategic_patch"]


@dataclass(frozen=True, slots=True)
class Patch:
    content_type: str
    body: bytes
    field_manager: str = ""
    """Who owns the fields; empty for the client's own name."""
    force: bool = False
    """Take fields over from other owners (server-side apply only)."""


def json_patch(operations: Sequence[Mapping[str, Any]]) -> Patch:
    """RFC 6902: a list of operations, done all or not at all. A `test` that fails is answered `Invalid`."""
    return Patch("application/json-patch+json", msgspec.json.encode(operations))


def merge_patch(change: Mapping[str, Any]) -> Patch:
    """RFC 7386: given fields are set, null removes, lists are replaced whole. For custom resources too.

    With `metadata.resourceVersion` in it, the patch is refused with `Conflict` if that differs; with
    `metadata.uid`, with `Invalid`.
    """
    return Patch("application/merge-patch+json", msgspec.json.encode(change))


def strategic_patch(change: Mapping[str, Any]) -> Patch:
    """Kubernetes' own: lists of built-in types are merged by key. Not for custom resources."""
    return Patch("application/strategic-merge-patch+json", msgspec.json.encode(change))


def apply_patch(wanted: Mapping[str, Any], *, field_manager: str = "", force: bool = False) -> Patch:
    """Server-side apply: creates the object, or sets exactly the fields given and owns them.

    Fields that another manager owns are refused with `Conflict` unless `force`. `wanted` needs its
    `apiVersion`, `kind` and `metadata.name`.
    """
    # JSON is YAML, and every server takes it under this name.
    return Patch("application/apply-patch+yaml", msgspec.json.encode(wanted), field_manager, force)
