"""Refusals of the API server, worded as the real one words them.

Each is raised where the request is refused and becomes one `Status` object in the answer; nothing else does.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from rescheduler.simulator.exchange import Object
from rescheduler.simulator.kinds import Kind

__all__ = [
    "Cause",
    "Failure",
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
    "too_many_requests",
    "unsupported_media_type",
]


class Cause(NamedTuple):
    """One fault in one field of an object."""

    field: str
    reason: str
    """`FieldValueInvalid`, `FieldValueRequired`, `FieldValueNotSupported`, …"""
    message: str


class Failure(Exception):  # noqa: N818 - a refusal is an answer, not an error of ours
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


def _about(kind: Kind, name: str, **more: object) -> dict[str, Any]:
    about: dict[str, Any] = {"name": name, "kind": kind.plural} if name else {"kind": kind.plural}
    if kind.group:
        about["group"] = kind.group
    return about | more


def not_found(kind: Kind, name: str) -> Failure:
    return Failure(404, "NotFound", f'{kind.resource} "{name}" not found', details=_about(kind, name))


def no_such_path() -> Failure:
    return Failure(404, "NotFound", "the server could not find the requested resource", details={})


def already_exists(kind: Kind, name: str) -> Failure:
    message = f'{kind.resource} "{name}" already exists'
    return Failure(409, "AlreadyExists", message, details=_about(kind, name))


OUTDATED = "the object has been modified; please apply your changes to the latest version and try again"


def conflict(kind: Kind, name: str, why: str = OUTDATED) -> Failure:
    message = f'Operation cannot be fulfilled on {kind.resource} "{name}": {why}'
    return Failure(409, "Conflict", message, details=_about(kind, name))


def invalid(kind: Kind, name: str, causes: Iterable[Cause]) -> Failure:
    found = list(causes)
    faults = [f"{cause.field}: {cause.message}" for cause in found]
    told = faults[0] if len(faults) == 1 else f"[{', '.join(faults)}]"
    details = _about(kind, name) | {"kind": kind.name}
    details["causes"] = [
        {"reason": cause.reason, "message": cause.message, "field": cause.field} for cause in found
    ]
    shown = f"{kind.name}.{kind.group}" if kind.group else kind.name
    return Failure(422, "Invalid", f'{shown} "{name}" is invalid: {told}', details=details)


def forbidden(kind: Kind, name: str, why: str) -> Failure:
    message = f'{kind.resource} "{name}" is forbidden: {why}'
    return Failure(403, "Forbidden", message, details=_about(kind, name))


def bad_request(message: str) -> Failure:
    return Failure(400, "BadRequest", message)


def expired(message: str) -> Failure:
    return Failure(410, "Expired", message)


def method_not_allowed() -> Failure:
    message = "the server does not allow this method on the requested resource"
    return Failure(405, "MethodNotAllowed", message, details={})


def unsupported_media_type(accepted: Iterable[str]) -> Failure:
    message = "the body of the request was in an unknown format - accepted media types include: " + ", ".join(
        accepted
    )
    return Failure(415, "UnsupportedMediaType", message)


def too_many_requests(message: str, *, retry_after_s: int | None = None) -> Failure:
    details = {"retryAfterSeconds": retry_after_s} if retry_after_s else {}
    headers = {"retry-after": str(retry_after_s)} if retry_after_s else {}
    return Failure(429, "TooManyRequests", message, details=details, headers=headers)


def internal_error(message: str) -> Failure:
    details = {"causes": [{"message": message}]}
    return Failure(500, "InternalError", f"Internal error occurred: {message}", details=details)
