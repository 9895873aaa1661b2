"""The four kinds of patches, each as a body with its content type."""

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
    """The owner of the fields; empty for the client's field manager."""
    force: bool = False
    """Take fields over from other owners (server-side apply only)."""


def json_patch(operations: Sequence[Mapping[str, Any]]) -> Patch:
    """RFC 6902: a list of operations, all or none. The server answers a failed `test` with `Invalid`."""
    return Patch("application/json-patch+json", msgspec.json.encode(operations))


def merge_patch(change: Mapping[str, Any]) -> Patch:
    """RFC 7386: sets the given fields, removes fields that are null, replaces lists. Also for custom
    resources.

    If `metadata.resourceVersion` is given and differs, the server answers `Conflict`; if `metadata.uid`
    differs, `Invalid`.
    """
    return Patch("application/merge-patch+json", msgspec.json.encode(change))


def strategic_patch(change: Mapping[str, Any]) -> Patch:
    """Strategic merge patch: merges lists of built-in types by key. Not for custom resources."""
    return Patch("application/strategic-merge-patch+json", msgspec.json.encode(change))


def apply_patch(wanted: Mapping[str, Any], *, field_manager: str = "", force: bool = False) -> Patch:
    """Server-side apply: creates the object, or sets exactly the given fields and owns them.

    If another manager owns a field, the server answers `Conflict` unless `force`. `wanted` needs
    `apiVersion`, `kind` and `metadata.name`.
    """
    # JSON is YAML, and every server accepts it with this content type.
    return Patch("application/apply-patch+yaml", msgspec.json.encode(wanted), field_manager, force)
