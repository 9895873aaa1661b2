"""Call the admission webhooks that match a request.

Mutating webhooks run one after the other, in the order of their configurations' names. Validating webhooks
run concurrently on the final object. If a webhook fails, its `failurePolicy` decides. This module opens no
socket: the `caller` makes the calls (see `sockets.outbound_calls`).
"""

import asyncio
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from kubesim.admission import object_decoding
from kubesim.admission.cel_evaluation import UndefinedValue, compile_expression
from kubesim.admission.webhook_reviews import (
    REVIEW_VERSION,
    AdmissionAttributes,
    WebhookCallFailed,
    WebhookVerdict,
    denial,
    read_verdict,
)
from kubesim.apiserver.api_messages import Object, encode
from kubesim.apiserver.status_errors import StatusError, bad_request, internal_error
from kubesim.patches.json_patches import BadPatch, PatchFailed, json_patch
from kubevalues.selector_parsers import selector_from_object

__all__ = [
    "AdmissionAttributes",
    "MutationOutcome",
    "WebhookCallFailed",
    "WebhookCaller",
    "WebhookEndpoint",
    "concerns",
    "mutate",
    "validate",
]

_OWN_GROUP = "admissionregistration.k8s.io"
"""Kinds that webhooks never see: a broken webhook could otherwise not be fixed."""


def concerns(webhook: Object, attempt: AdmissionAttributes) -> bool:
    """Return whether the webhook matches; raise `UndefinedValue` if a match condition has no value."""
    return (
        attempt.kind.group != _OWN_GROUP
        and any(_rule_fits(rule, attempt) for rule in webhook.get("rules", ()))
        and _namespace_fits(webhook.get("namespaceSelector", {}), attempt)
        and _object_fits(webhook.get("objectSelector", {}), attempt)
        and _conditions_hold(webhook.get("matchConditions", []), attempt)
    )


def _rule_fits(rule: Object, attempt: AdmissionAttributes) -> bool:
    kind = attempt.kind
    return (
        _is_among(attempt.operation, rule.get("operations", []))
        and _is_among(kind.group, rule.get("apiGroups", []))
        and _is_among(kind.version, rule.get("apiVersions", []))
        and any(_resource_fits(resource, attempt) for resource in rule.get("resources", ()))
        and rule.get("scope", "*") in ("*", "Namespaced" if kind.namespaced else "Cluster")
    )


def _is_among(value: str, wanted: list[str]) -> bool:
    return value in wanted or "*" in wanted


def _resource_fits(wanted: str, attempt: AdmissionAttributes) -> bool:
    """Return whether a rule matches: `pods` excludes subresources, `pods/*` and `*/*` include them."""
    resource, _, subresource = wanted.partition("/")
    return resource in ("*", attempt.kind.plural) and subresource in ("*", attempt.subresource)


def _namespace_fits(selector: Object, attempt: AdmissionAttributes) -> bool:
    labels: Mapping[str, str] = attempt.namespace_labels
    if attempt.kind.name == "Namespace" and not attempt.kind.group:
        labels = _labels(attempt.object or attempt.old)
    elif not attempt.kind.namespaced:
        return True
    return selector_from_object(selector).matches(labels)


def _object_fits(selector: Object, attempt: AdmissionAttributes) -> bool:
    wanted = selector_from_object(selector)
    return any(
        wanted.matches(_labels(candidate))
        for candidate in (attempt.object, attempt.old)
        if candidate is not None
    )


def _labels(obj: Object | None) -> Mapping[str, str]:
    labels: Mapping[str, str] = (obj or {}).get("metadata", {}).get("labels") or {}
    return labels


def _conditions_hold(conditions: list[Object], attempt: AdmissionAttributes) -> bool:
    if not conditions:
        return True
    variables: dict[str, Any] = {
        "object": attempt.object,
        "oldObject": attempt.old,
        "request": attempt.request(uid=""),
    }
    return all(compile_expression(condition["expression"]).holds(variables) for condition in conditions)


_DRY_RUN_SAFE = ("None", "NoneOnDryRun")


@dataclass(frozen=True, slots=True)
class WebhookEndpoint:
    """The address of a webhook; `service` is `namespace/name` if its configuration names a service."""

    url: str
    service: str = ""
    ca_bundle: bytes = b""

    @classmethod
    def of(cls, client: Object) -> "WebhookEndpoint":
        ca_bundle = b64decode(client.get("caBundle", ""))
        if "url" in client:
            return cls(url=client["url"], ca_bundle=ca_bundle)
        service = client["service"]
        host = f"{service['name']}.{service['namespace']}.svc:{service.get('port', 443)}"
        path = "/" + service.get("path", "").lstrip("/")
        return cls(f"https://{host}{path}", f"{service['namespace']}/{service['name']}", ca_bundle)


class WebhookCaller(Protocol):
    async def call(self, endpoint: WebhookEndpoint, body: bytes, timeout_s: float) -> bytes:
        """Return the body of the response; raise `WebhookCallFailed` if there is none in time."""
        ...


@dataclass(frozen=True, slots=True)
class MutationOutcome:
    object: Object | None
    changed: bool = False
    """Whether the object changed, so that defaults must be applied again."""
    warnings: tuple[str, ...] = ()


async def mutate(
    configurations: Iterable[Object],
    attempt: AdmissionAttributes,
    caller: WebhookCaller,
    new_uid: Callable[[], str],
) -> MutationOutcome:
    """Return the object after all mutating webhooks; raise `StatusError` if one denies it or fails."""
    warnings: list[str] = []
    original = attempt.object
    called: list[tuple[Object, Object | None]] = []
    for webhook in _in_order(configurations):
        if _wants(webhook, attempt):
            attempt = await _call_webhook(webhook, attempt, caller, new_uid(), warnings)
            called.append((webhook, attempt.object))
    for webhook, seen in called:
        # With reinvocationPolicy, a webhook is called once more if later webhooks changed the object.
        if (
            webhook.get("reinvocationPolicy") == "IfNeeded"
            and attempt.object != seen
            and _wants(webhook, attempt)
        ):
            attempt = await _call_webhook(webhook, attempt, caller, new_uid(), warnings)
    return MutationOutcome(attempt.object, attempt.object != original, tuple(warnings))


async def validate(
    configurations: Iterable[Object],
    attempt: AdmissionAttributes,
    caller: WebhookCaller,
    new_uid: Callable[[], str],
) -> tuple[str, ...]:
    """Return the warnings of webhooks that allow the object; raise `StatusError` if one denies it.

    If several deny it, the first in order counts; in a real server it is the first to respond.
    """
    asked = [
        _verdict(webhook, attempt, caller, new_uid(), may_change=False)
        for webhook in _in_order(configurations)
        if _wants(webhook, attempt)
    ]
    warnings: list[str] = []
    for found in await asyncio.gather(*asked, return_exceptions=True):
        if isinstance(found, BaseException):
            raise found
        warnings.extend(found.warnings if found is not None else ())
    return tuple(warnings)


def _in_order(configurations: Iterable[Object]) -> Iterator[Object]:
    for configuration in sorted(configurations, key=lambda c: str(c["metadata"]["name"])):
        yield from configuration.get("webhooks", ())


def _fails_open(webhook: Object) -> bool:
    return webhook.get("failurePolicy") == "Ignore"


def _wants(webhook: Object, attempt: AdmissionAttributes) -> bool:
    try:
        return concerns(webhook, attempt)
    except UndefinedValue as undefined:
        if _fails_open(webhook):
            return False
        raise _failed(webhook, f"match conditions have no value: {undefined}") from undefined


async def _call_webhook(
    webhook: Object, attempt: AdmissionAttributes, caller: WebhookCaller, uid: str, warnings: list[str]
) -> AdmissionAttributes:
    verdict = await _verdict(webhook, attempt, caller, uid)
    if verdict is None:
        return attempt
    warnings.extend(verdict.warnings)
    return replace(attempt, object=_patched(webhook, attempt, verdict))


async def _verdict(
    webhook: Object, attempt: AdmissionAttributes, caller: WebhookCaller, uid: str, *, may_change: bool = True
) -> WebhookVerdict | None:
    """Return the verdict, or None for an ignored failure; raise `StatusError` on denial."""
    name = webhook["name"]
    if attempt.dry_run and webhook.get("sideEffects") not in _DRY_RUN_SAFE:
        raise bad_request(f'admission webhook "{name}" does not support dry run')
    review = {"kind": "AdmissionReview", "apiVersion": REVIEW_VERSION, "request": attempt.request(uid)}
    try:
        endpoint = WebhookEndpoint.of(webhook["clientConfig"])
        answer = await caller.call(endpoint, encode(review), float(webhook.get("timeoutSeconds", 10)))
        verdict = read_verdict(answer, uid, may_change=may_change)
    except WebhookCallFailed as no_review:
        if _fails_open(webhook):
            return None
        raise _failed(webhook, str(no_review)) from no_review
    if not verdict.allowed:
        raise denial(name, verdict.status)
    return verdict


def _patched(webhook: Object, attempt: AdmissionAttributes, verdict: WebhookVerdict) -> Object | None:
    if not verdict.operations:
        return attempt.object
    if attempt.object is None:
        raise internal_error(
            f'admission webhook "{webhook["name"]}" attempted to modify the object, '
            "which is not supported for this operation"
        )
    try:
        patched = json_patch(attempt.object, verdict.operations)
    except (BadPatch, PatchFailed) as error:
        raise internal_error(str(error)) from error
    try:
        return object_decoding.decode_object(attempt.kind, patched)
    except StatusError as unreadable:
        # The webhook is at fault, not the client's request.
        raise internal_error(unreadable.message) from unreadable


def _failed(webhook: Object, why: str) -> StatusError:
    return internal_error(f'failed calling webhook "{webhook["name"]}": {why}')
