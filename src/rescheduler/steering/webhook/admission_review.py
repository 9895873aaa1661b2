"""Decode AdmissionReviews of pods, and encode the answers that allow or deny them."""

from base64 import b64encode
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from rescheduler.api.well_known_names import PROBE_ANSWERED, PROBE_LABEL
from rescheduler.steering.intents import PartialPod

__all__ = [
    "AdmissionRequest",
    "EvictionRequest",
    "PatchOperation",
    "UnreadableReview",
    "allowed_review",
    "denied_review",
    "is_probe",
    "printable",
    "probe_review",
    "read_eviction",
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


# -- evictions


class _Preconditions(msgspec.Struct):
    uid: str | None = None


class _DeleteOptions(msgspec.Struct, rename="camel"):
    dry_run: list[str] | None = None
    preconditions: _Preconditions | None = None


class _Eviction(msgspec.Struct, rename="camel"):
    delete_options: _DeleteOptions | None = None


class _ExtraOfUser(msgspec.Struct):
    pods: list[str] | None = msgspec.field(default=None, name="authentication.kubernetes.io/pod-name")


class _User(msgspec.Struct):
    username: str = ""
    extra: _ExtraOfUser | None = None


class _Options(msgspec.Struct, rename="camel"):
    field_manager: str = ""


class EvictionRequest(msgspec.Struct, rename="camel"):
    uid: str
    name: str
    namespace: str
    operation: str
    sub_resource: str | None = None
    object: _Eviction | None = None
    dry_run: bool | None = None
    user_info: _User = msgspec.field(default_factory=_User)
    options: _Options | None = None

    @property
    def is_dry_run(self) -> bool:
        """`kubectl drain --dry-run=server` says so in the options of the deletion, not of the request."""
        options = self.object.delete_options if self.object is not None else None
        return bool(self.dry_run) or (options is not None and "All" in (options.dry_run or ()))

    @property
    def pod_uid(self) -> str:
        options = self.object.delete_options if self.object is not None else None
        wanted = options.preconditions if options is not None else None
        return (wanted.uid or "") if wanted is not None else ""

    @property
    def client(self) -> str:
        """Return the user and what else the request says of the client. A review has no user agent."""
        pod = (self.user_info.extra.pods if self.user_info.extra is not None else None) or []
        manager = self.options.field_manager if self.options is not None else ""
        more = ", ".join([*(f"pod {name}" for name in pod[:1]), *filter(None, (manager,))])
        words = f"{self.user_info.username} ({more})" if more else self.user_info.username
        return printable(words)[:300]


class _EvictionReview(msgspec.Struct):
    request: EvictionRequest


_EVICTION_READER: Final = msgspec.json.Decoder(_EvictionReview)


def read_eviction(body: bytes) -> EvictionRequest:
    """Decode an AdmissionReview of `pods/eviction`; raise `UnreadableReview`."""
    try:
        return _EVICTION_READER.decode(body).request
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableReview(str(error)) from error


def printable(words: str) -> str:
    """Return the words without control characters: kubectl prints them, and tenants write some of them."""
    return "".join(each if each.isprintable() else "?" for each in words)
