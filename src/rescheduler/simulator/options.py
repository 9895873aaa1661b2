"""What the query and the body say about how a write is to be done."""

from collections.abc import Mapping
from typing import Any

import msgspec

from rescheduler.simulator.exchange import Question
from rescheduler.simulator.failures import Failure

__all__ = ["Preconditions", "WriteOptions"]


class WriteOptions(msgspec.Struct, frozen=True):
    dry_run: bool = False
    manager: str = "unknown"
    """Who is recorded as owner of the fields that change."""
    named_manager: str = ""
    """The same, if the request named one."""
    force: bool = False
    """A server-side apply takes over the fields that others own."""
    applies: bool = False
    """It is a server-side apply, which records ownership itself."""
    field_validation: str = "Warn"
    """What happens to fields that a kind does not have: `Ignore`, `Warn` or `Strict`."""
    user: str = "system:admin"
    """Who asks, as webhooks are told."""
    warnings: list[str] = msgspec.field(default_factory=list)
    """Filled on the way: what webhooks want the client to hear."""
    groups: tuple[str, ...] = ("system:masters", "system:authenticated")

    @classmethod
    def parse(cls, question: Question, *, kind: str = "CreateOptions") -> "WriteOptions":
        asked = question.query.get("dryRun", "")
        validation = question.query.get("fieldValidation", "")
        if asked not in {"", "All"}:
            raise _unsupported(kind, "dryRun", f'["{asked}"]', '"All"')
        if validation not in {"", "Ignore", "Warn", "Strict"}:
            raise _unsupported(kind, "fieldValidation", f'"{validation}"', '"", "Ignore", "Strict", "Warn"')
        program = question.headers.get("user-agent", "unknown").partition("/")[0]
        return cls(
            dry_run=asked == "All",
            manager=question.query.get("fieldManager") or program,
            named_manager=question.query.get("fieldManager", ""),
            force=question.asks("force"),
            field_validation=validation or "Warn",
        )


def _unsupported(kind: str, field: str, value: str, supported: str) -> Failure:
    message = f"Unsupported value: {value}: supported values: {supported}"
    return Failure(
        422,
        "Invalid",
        f'{kind}.meta.k8s.io "" is invalid: {field}: {message}',
        details={
            "group": "meta.k8s.io",
            "kind": kind,
            "causes": [{"reason": "FieldValueNotSupported", "message": message, "field": field}],
        },
    )


class Preconditions(msgspec.Struct, frozen=True):
    uid: str | None = None
    resource_version: str | None = None

    @classmethod
    def parse(cls, content: Mapping[str, Any] | None) -> "Preconditions":
        content = content or {}
        return cls(content.get("uid") or None, content.get("resourceVersion") or None)
