"""What a webhook answers, read with suspicion."""

from base64 import b64decode
from dataclasses import dataclass
from typing import Any

import msgspec

from rescheduler.simulator.exchange import Object
from rescheduler.simulator.failures import Failure

__all__ = ["REVIEW_VERSION", "NoReview", "Verdict", "denial", "read_verdict"]

REVIEW_VERSION = "admission.k8s.io/v1"


class NoReview(Exception):  # noqa: N818 - it becomes a refusal or is ignored, by the webhook's policy
    """No answer, or one that is none; the message is the real server's."""


@dataclass(frozen=True, slots=True)
class Verdict:
    allowed: bool
    operations: list[Object]
    """A JSON patch."""
    warnings: tuple[str, ...] = ()
    status: Object | None = None


class _Response(msgspec.Struct, rename="camel"):
    uid: str = ""
    allowed: bool = False
    status: dict[str, Any] | None = None
    patch: str | None = None
    patch_type: str | None = None
    warnings: list[str] | None = None


class _Review(msgspec.Struct, rename="camel"):
    kind: str = ""
    api_version: str = ""
    response: _Response | None = None


def read_verdict(body: bytes, uid: str, *, may_change: bool = True) -> Verdict:
    """Raises `NoReview`."""
    try:
        review = msgspec.json.decode(body, type=_Review)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NoReview(f"failed to call webhook: couldn't read the answer: {error}") from error
    response = review.response
    if response is None:
        raise _invalid("webhook response was absent")
    if response.uid != uid:
        raise _invalid(f'expected response.uid="{uid}", got "{response.uid}"')
    if (review.api_version, review.kind) != (REVIEW_VERSION, "AdmissionReview"):
        expected = "admission.k8s.io/v1, Kind=AdmissionReview"
        raise _invalid(
            f"expected webhook response of {expected}, got {review.api_version}, Kind={review.kind}"
        )
    for field, said in (("patch", response.patch), ("patchType", response.patch_type)):
        if said and not may_change:
            raise _invalid(f"validating webhook may not return response.{field}")
    return Verdict(
        allowed=response.allowed,
        operations=_operations(response),
        warnings=tuple(response.warnings or ()),
        status=response.status,
    )


def _invalid(why: str) -> NoReview:
    return NoReview(f"received invalid webhook response: {why}")


def _operations(response: _Response) -> list[Object]:
    if response.patch and response.patch_type is None:
        raise _invalid("webhook returned response.patch but not response.patchType")
    if response.patch_type is not None and not response.patch:
        raise _invalid("webhook returned response.patchType but not response.patch")
    if not response.patch:
        return []
    if response.patch_type != "JSONPatch":
        raise NoReview(f'unsupported patch type "{response.patch_type}"')
    try:
        return msgspec.json.decode(b64decode(response.patch, validate=True), type=list[dict[str, Any]])
    except (ValueError, msgspec.DecodeError) as error:
        raise NoReview(f"received undecodable patch in webhook response: {error}") from error


def denial(webhook_name: str, status: Object | None) -> Failure:
    """The webhook's own words, with its name in front."""
    told = status or {}
    why = told.get("message") or told.get("reason")
    message = f'admission webhook "{webhook_name}" denied the request'
    message += f": {why}" if why else " without explanation"
    code = told.get("code")
    code = code if isinstance(code, int) and 400 <= code <= 599 else 400
    return Failure(code, str(told.get("reason", "")), message, details=told.get("details"))
