"""An AdmissionReview as bytes: what is read of one, and the answer that allows what it asks about."""

from base64 import b64encode
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from rescheduler.serving.asked_pods import AskedPod

__all__ = ["Operation", "Request", "Unreadable", "allowing", "read_request", "uid_of"]

Operation = dict[str, Any]
"""One of a JSON patch."""


class Unreadable(ValueError):  # noqa: N818 - says what it is
    """No review, or not of a pod."""


class Kind(msgspec.Struct):
    group: str = ""
    kind: str = ""


class Request(msgspec.Struct, rename="camel"):
    uid: str
    kind: Kind
    operation: str
    namespace: str
    object: AskedPod
    sub_resource: str | None = None
    dry_run: bool | None = None

    @property
    def is_for_new_pod(self) -> bool:
        return (self.kind, self.operation) == (Kind("", "Pod"), "CREATE") and not self.sub_resource


class _Review(msgspec.Struct):
    request: Request


class _AnyRequest(msgspec.Struct):
    uid: str = ""


class _AnyReview(msgspec.Struct):
    request: _AnyRequest


_READER: Final = msgspec.json.Decoder(_Review)
_READER_OF_ANY: Final = msgspec.json.Decoder(_AnyReview)
_FAULTS: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def read_request(body: bytes) -> Request:
    """Raises `Unreadable`."""
    try:
        return _READER.decode(body).request
    except _FAULTS as error:
        raise Unreadable(str(error)) from error


def uid_of(body: bytes) -> str:
    """Of a request of any kind, for without it no answer counts; empty if there is none."""
    try:
        return _READER_OF_ANY.decode(body).request.uid
    except _FAULTS:
        return ""


def allowing(uid: str, patch: Sequence[Operation] = ()) -> bytes:
    response: dict[str, Any] = {"uid": uid, "allowed": True}
    if patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = b64encode(msgspec.json.encode(patch)).decode()
    return msgspec.json.encode(
        {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
    )
