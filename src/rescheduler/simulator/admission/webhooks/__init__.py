"""Webhooks: others may look at an object before it is stored, and change it or say no.

Those that may change it are called one after the other, in the order of their configurations' names;
those that only judge it are called all at once, when it is as it will be stored. One that can't be
reached, answers too late or answers nonsense is passed over or stops the request, as its
`failurePolicy` says. No socket here: the call itself is made by what is given as `caller`, such as
`shells.webhook_caller`.
"""

import asyncio
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol

from rescheduler.simulator.admission import decoding
from rescheduler.simulator.admission.expressions import Undefined
from rescheduler.simulator.admission.webhooks.attempt import Attempt
from rescheduler.simulator.admission.webhooks.matching import concerns
from rescheduler.simulator.admission.webhooks.reviews import (
    REVIEW_VERSION,
    NoReview,
    Verdict,
    denial,
    read_verdict,
)
from rescheduler.simulator.exchange import Object, encode
from rescheduler.simulator.failures import Failure, bad_request, internal_error
from rescheduler.simulator.patches.json_patch import BadPatch, PatchFailed, json_patch

__all__ = ["Attempt", "Caller", "Endpoint", "Mutated", "NoReview", "mutate", "validate"]

_DRY_RUN_SAFE = ("None", "NoneOnDryRun")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a webhook is; `service` is `namespace/name` if its configuration names one."""

    url: str
    service: str = ""
    ca_bundle: bytes = b""

    @classmethod
    def of(cls, client: Object) -> "Endpoint":
        ca_bundle = b64decode(client.get("caBundle", ""))
        if "url" in client:
            return cls(url=client["url"], ca_bundle=ca_bundle)
        service = client["service"]
        host = f"{service['name']}.{service['namespace']}.svc:{service.get('port', 443)}"
        path = "/" + service.get("path", "").lstrip("/")
        return cls(f"https://{host}{path}", f"{service['namespace']}/{service['name']}", ca_bundle)


class Caller(Protocol):
    async def call(self, endpoint: Endpoint, body: bytes, timeout_s: float) -> bytes:
        """The body of the answer; raises `NoReview` if there is none, or none in time."""
        ...


@dataclass(frozen=True, slots=True)
class Mutated:
    object: Object | None
    changed: bool = False
    """Then defaults have to be filled in anew."""
    warnings: tuple[str, ...] = ()


async def mutate(
    configurations: Iterable[Object], attempt: Attempt, caller: Caller, new_uid: Callable[[], str]
) -> Mutated:
    """The object as the webhooks leave it; raises `Failure` if one denies it or fails."""
    warnings: list[str] = []
    original = attempt.object
    called: list[tuple[Object, Object | None]] = []
    for webhook in _in_order(configurations):
        if _wants(webhook, attempt):
            attempt = await _ask(webhook, attempt, caller, new_uid(), warnings)
            called.append((webhook, attempt.object))
    for webhook, seen in called:
        # Whoever asked for it has a second look at what others changed after it, once.
        if (
            webhook.get("reinvocationPolicy") == "IfNeeded"
            and attempt.object != seen
            and _wants(webhook, attempt)
        ):
            attempt = await _ask(webhook, attempt, caller, new_uid(), warnings)
    return Mutated(attempt.object, attempt.object != original, tuple(warnings))


async def validate(
    configurations: Iterable[Object], attempt: Attempt, caller: Caller, new_uid: Callable[[], str]
) -> tuple[str, ...]:
    """The warnings of webhooks that have nothing against it; raises `Failure` if one has.

    If several have, the first counts: whose answer comes first in a real server is chance.
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


def _wants(webhook: Object, attempt: Attempt) -> bool:
    try:
        return concerns(webhook, attempt)
    except Undefined as undefined:
        if _fails_open(webhook):
            return False
        raise _failed(webhook, f"match conditions have no value: {undefined}") from undefined


async def _ask(webhook: Object, attempt: Attempt, caller: Caller, uid: str, warnings: list[str]) -> Attempt:
    verdict = await _verdict(webhook, attempt, caller, uid)
    if verdict is None:
        return attempt
    warnings.extend(verdict.warnings)
    return replace(attempt, object=_patched(webhook, attempt, verdict))


async def _verdict(
    webhook: Object, attempt: Attempt, caller: Caller, uid: str, *, may_change: bool = True
) -> Verdict | None:
    """None if it gave no answer and need not; raises `Failure` if it says no."""
    name = webhook["name"]
    if attempt.dry_run and webhook.get("sideEffects") not in _DRY_RUN_SAFE:
        raise bad_request(f'admission webhook "{name}" does not support dry run')
    review = {"kind": "AdmissionReview", "apiVersion": REVIEW_VERSION, "request": attempt.request(uid)}
    try:
        endpoint = Endpoint.of(webhook["clientConfig"])
        answer = await caller.call(endpoint, encode(review), float(webhook.get("timeoutSeconds", 10)))
        verdict = read_verdict(answer, uid, may_change=may_change)
    except NoReview as no_review:
        if _fails_open(webhook):
            return None
        raise _failed(webhook, str(no_review)) from no_review
    if not verdict.allowed:
        raise denial(name, verdict.status)
    return verdict


def _patched(webhook: Object, attempt: Attempt, verdict: Verdict) -> Object | None:
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
        return decoding.read(attempt.kind, patched)
    except Failure as unreadable:
        # Whose fault it is matters: the client's request was in order.
        raise internal_error(unreadable.message) from unreadable


def _failed(webhook: Object, why: str) -> Failure:
    return internal_error(f'failed calling webhook "{webhook["name"]}": {why}')
