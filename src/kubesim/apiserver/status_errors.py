"""Errors of the API server, in the words of the real one.

Each becomes one `Status` object in the response.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kubesim.apiserver.api_messages import Object
from kubesim.apiserver.kind_registry import ResourceKind

__all__ = [
    "FieldError",
    "StatusError",
    "already_exists",
    "bad_request",
    "conflict",
    "expired",
    "forbidden",
    "internal_error",
    "invalid",
    "method_not_allowed",
    "no_such_path",
    "not_found",
    "unsupported_media_type",
]


class FieldError(NamedTuple):
    """One fault in one field of an object."""

    field: str
    reason: str
    """`FieldValueInvalid`, `FieldValueRequired`, `FieldValueNotSupported`, …"""
    message: str


class StatusError(Exception):
    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.headers = headers or {}
        self.metadata: Mapping[str, Any] = {}

    @property
    def status(self) -> Object:
        body: Object = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": dict(self.metadata),
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            body["reason"] = self.reason
        if self.details is not None:
            body["details"] = dict(self.details)
        body["code"] = self.code
        return body


def _about(kind: ResourceKind, name: str, **more: object) -> dict[str, Any]:
    about: dict[str, Any] = {"name": name, "kind": kind.plural} if name else {"kind": kind.plural}
    if kind.group:
        about["group"] = kind.group
    return about | more


def not_found(kind: ResourceKind, name: str) -> StatusError:
    return StatusError(404, "NotFound", f'{kind.resource} "{name}" not found', details=_about(kind, name))


def no_such_path() -> StatusError:
    return StatusError(404, "NotFound", "the server could not find the requested resource", details={})


def already_exists(kind: ResourceKind, name: str) -> StatusError:
    message = f'{kind.resource} "{name}" already exists'
    return StatusError(409, "AlreadyExists", message, details=_about(kind, name))


OUTDATED = "the object has been modified; please apply your changes to the latest version and try again"


def conflict(kind: ResourceKind, name: str, why: str = OUTDATED) -> StatusError:
    message = f'Operation cannot be fulfilled on {kind.resource} "{name}": {why}'
    return StatusError(409, "Conflict", message, details=_about(kind, name))


def invalid(kind: ResourceKind, name: str, causes: Iterable[FieldError]) -> StatusError:
    found = list(causes)
    faults = [f"{cause.field}: {cause.message}" for cause in found]
    summary = faults[0] if len(faults) == 1 else f"[{', '.join(faults)}]"
    details = _about(kind, name) | {"kind": kind.name}
    details["causes"] = [
        {"reason": cause.reason, "message": cause.message, "field": cause.field} for cause in found
    ]
    shown = f"{kind.name}.{kind.group}" if kind.group else kind.name
    return StatusError(422, "Invalid", f'{shown} "{name}" is invalid: {summary}', details=details)


def forbidden(kind: ResourceKind, name: str, why: str) -> StatusError:
    message = f'{kind.resource} "{name}" is forbidden: {why}'
    return StatusError(403, "Forbidden", message, details=_about(kind, name))


def bad_request(message: str) -> StatusError:
    return StatusError(400, "BadRequest", message)


def expired(message: str) -> StatusError:
    return StatusError(410, "Expired", message)


def method_not_allowed() -> StatusError:
    message = "the server does not allow this method on the requested resource"
    return StatusError(405, "MethodNotAllowed", message, details={})


def unsupported_media_type(accepted: Iterable[str]) -> StatusError:
    message = "the body of the request was in an unknown format - accepted media types include: " + ", ".join(
        accepted
    )
    return StatusError(415, "UnsupportedMediaType", message)


def internal_error(message: str) -> StatusError:
    details = {"causes": [{"message": message}]}
    return StatusError(500, "InternalError", f"Internal error occurred: {message}", details=details)
