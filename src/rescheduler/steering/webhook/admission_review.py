"""Decode AdmissionReviews of pods, and encode the answers that allow or deny them."""

from base64 import b64encode
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from rescheduler.api.well_known_names import PROBE_ANSWERED, PROBE_LABEL
from rescheduler.steering.intents import PartialPod

__all__ = [
    "AdmissionRequest",
    "PatchOperation",
    "UnreadableReview",
    "allowed_review",
    "denied_review",
    "is_probe",
    "probe_review",
    "read_request",
    "uid_of",
]

PatchOperation = dict[str, Any]
"""One operation of a JSON patch."""


class UnreadableReview(ValueError):  # noqa: N818 - says what it is
    """The body is not an AdmissionReview of a pod."""


class AdmissionKind(msgspec.Struct):
    group: str = ""
    kind: str = ""


class AdmissionUser(msgspec.Struct):
    username: str = ""


class AdmissionRequest(msgspec.Struct, rename="camel"):
    uid: str
    kind: AdmissionKind
    operation: str
    namespace: str
    object: PartialPod
    sub_resource: str | None = None
    dry_run: bool | None = None
    user_info: AdmissionUser = msgspec.field(default_factory=AdmissionUser)

    @property
    def is_for_new_pod(self) -> bool:
        return (self.kind, self.operation) == (AdmissionKind("", "Pod"), "CREATE") and not self.sub_resource


class _Review(msgspec.Struct):
    request: AdmissionRequest


class _AnyRequest(msgspec.Struct):
    uid: str = ""


class _AnyReview(msgspec.Struct):
    request: _AnyRequest


_MAX_WARNING: Final = 250
"""API servers truncate longer warnings."""

_READER: Final = msgspec.json.Decoder(_Review)
_READER_OF_ANY: Final = msgspec.json.Decoder(_AnyReview)
_FAULTS: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def read_request(body: bytes) -> AdmissionRequest:
    """Decode the request. Raises `UnreadableReview`."""
    try:
        return _READER.decode(body).request
    except _FAULTS as error:
        raise UnreadableReview(str(error)) from error


def uid_of(body: bytes) -> str:
    """Return the uid of a request of any kind, which every answer needs; empty if there is none."""
    try:
        return _READER_OF_ANY.decode(body).request.uid
    except _FAULTS:
        return ""


def allowed_review(uid: str, patch: Sequence[PatchOperation] = (), *, warnings: Sequence[str] = ()) -> bytes:
    """Return a review that allows the request. kubectl prints the `warnings`."""
    response: dict[str, Any] = {"uid": uid, "allowed": True}
    if warnings:
        response["warnings"] = [each[:_MAX_WARNING] for each in warnings]
    if patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = b64encode(msgspec.json.encode(patch)).decode()
    return _review(response)


def denied_review(uid: str, code: int, reason: str, message: str) -> bytes:
    status = {"status": "Failure", "code": code, "reason": reason, "message": message}
    return _review({"uid": uid, "allowed": False, "status": status})


def is_probe(request: AdmissionRequest, webhook: str) -> bool:
    """Return whether the request is a probe of the webhook with that name."""
    return (request.object.metadata.labels or {}).get(PROBE_LABEL) == webhook


def probe_review(request: AdmissionRequest) -> bytes:
    """Answer a probe with a denial, so that nothing is ever created. Any answer shows that the webhook
    works."""
    return denied_review(request.uid, 403, PROBE_ANSWERED, "the webhook answers; probes are never created")


def _review(response: dict[str, Any]) -> bytes:
    return msgspec.json.encode(
        {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
    )
