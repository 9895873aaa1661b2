"""Write AdmissionReview requests, and read the untrusted responses of webhooks."""

from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from kubesim.apiserver.api_messages import Object
from kubesim.apiserver.kind_registry import ResourceKind
from kubesim.apiserver.status_errors import StatusError

__all__ = [
    "REVIEW_VERSION",
    "AdmissionAttributes",
    "WebhookCallFailed",
    "WebhookVerdict",
    "denial",
    "read_verdict",
]

_GIVEN_LATER = frozenset({"uid", "creationTimestamp", "generation"})
"""Fields that a new object gets only when it is stored; also its status, unless a kubelet creates it."""
_OPTIONS = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}


@dataclass(frozen=True, slots=True)
class AdmissionAttributes:
    kind: ResourceKind
    operation: Literal["CREATE", "UPDATE", "DELETE"]
    object: Object | None
    """The object as it would be stored; None for a deletion."""
    old: Object | None = None
    name: str = ""
    namespace: str = ""
    subresource: str = ""
    content_kind: ResourceKind | None = None
    """The kind of `object`, if it is not that of the resource: an Eviction of a pod."""
    namespace_labels: Mapping[str, str] = field(default_factory=dict)
    dry_run: bool = False
    field_manager: str = ""
    user: str = "system:admin"
    groups: tuple[str, ...] = ("system:masters", "system:authenticated")

    def request(self, uid: str) -> Object:
        """Return the request in the form of an `AdmissionReview`."""
        kind, content = self.kind, self.content_kind or self.kind
        gvk = {"group": content.group, "version": content.version, "kind": content.name}
        resource = {"group": kind.group, "version": kind.version, "resource": kind.plural}
        request: Object = {
            "uid": uid,
            "kind": gvk,
            "resource": resource,
            "requestKind": gvk,
            "requestResource": resource,
            "operation": self.operation,
            "userInfo": {"username": self.user, "groups": list(self.groups)},
            "object": self._shown(self.object),
            "oldObject": self._shown(self.old),
            "dryRun": self.dry_run,
            "options": self._options(),
        }
        if self.name:
            request["name"] = self.name
        if kind.namespaced:
            request["namespace"] = self.namespace
        if self.subresource:
            request["subResource"] = request["requestSubResource"] = self.subresource
        return request

    def _options(self) -> Object:
        options: Object = {"kind": _OPTIONS[self.operation], "apiVersion": "meta.k8s.io/v1"}
        if self.dry_run:
            options["dryRun"] = ["All"]
        if self.field_manager:
            options["fieldManager"] = self.field_manager
        return options

    def _shown(self, obj: Object | None) -> Object | None:
        """Return the object with its kind and version, which stored objects don't repeat."""
        if obj is None:
            return None
        kind = self.content_kind or self.kind
        shown: Object = {"kind": kind.name, "apiVersion": kind.api_version} | obj
        if self.operation == "CREATE":
            shown["metadata"] = {k: v for k, v in obj["metadata"].items() if k not in _GIVEN_LATER}
            if "status" in shown and self.kind.name != "Node":
                shown["status"] = {}
        return shown


REVIEW_VERSION = "admission.k8s.io/v1"


class WebhookCallFailed(Exception):  # noqa: N818 - it becomes a refusal or is ignored, by the webhook's policy
    """The webhook gave no response or an invalid one; the message is that of the real server."""


@dataclass(frozen=True, slots=True)
class WebhookVerdict:
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


def read_verdict(body: bytes, uid: str, *, may_change: bool = True) -> WebhookVerdict:
    """Read the response of a webhook; raise `WebhookCallFailed` if it is invalid."""
    try:
        review = msgspec.json.decode(body, type=_Review)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise WebhookCallFailed(f"failed to call webhook: couldn't read the answer: {error}") from error
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
    for name, content in (("patch", response.patch), ("patchType", response.patch_type)):
        if content and not may_change:
            raise _invalid(f"validating webhook may not return response.{name}")
    return WebhookVerdict(
        allowed=response.allowed,
        operations=_operations(response),
        warnings=tuple(response.warnings or ()),
        status=response.status,
    )


def _invalid(why: str) -> WebhookCallFailed:
    return WebhookCallFailed(f"received invalid webhook response: {why}")


def _operations(response: _Response) -> list[Object]:
    if response.patch and response.patch_type is None:
        raise _invalid("webhook returned response.patch but not response.patchType")
    if response.patch_type is not None and not response.patch:
        raise _invalid("webhook returned response.patchType but not response.patch")
    if not response.patch:
        return []
    if response.patch_type != "JSONPatch":
        raise WebhookCallFailed(f'unsupported patch type "{response.patch_type}"')
    try:
        return msgspec.json.decode(b64decode(response.patch, validate=True), type=list[dict[str, Any]])
    except (ValueError, msgspec.DecodeError) as error:
        raise WebhookCallFailed(f"received undecodable patch in webhook response: {error}") from error


def denial(webhook_name: str, status: Object | None) -> StatusError:
    """Return the error of a denied request: the webhook's name and its message."""
    result = status or {}
    why = result.get("message") or result.get("reason")
    message = f'admission webhook "{webhook_name}" denied the request'
    message += f": {why}" if why else " without explanation"
    code = result.get("code")
    code = code if isinstance(code, int) and 400 <= code <= 599 else 400
    return StatusError(code, str(result.get("reason", "")), message, details=result.get("details"))
