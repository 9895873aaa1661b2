"""An AdmissionReview in, an AdmissionReview out: where a new pod should go is put into its own affinity.

    required     one exclusion per node to avoid, in the fields of every term: terms are alternatives, so
                 only then does each keep its meaning but for these nodes
    preferred    one more term, for the node where it should go
    annotations  which nodes were excluded, and on whose behalf

Whatever comes in, the answer is a review that allows it: a pod that is not understood is not touched. Only
additions are made, so all that is there stays, also what this program knows nothing of. (Only a probe is
denied: nobody wants that to be created.)

A pod that another webhook has changed after us comes again; its annotations say what it was told, and only
what that webhook's changes lack is added.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from rescheduler.api.well_known_names import AVOIDED_NODES_ANNOTATION, STEERED_BY_ANNOTATION, STEERING_WEBHOOK
from rescheduler.cluster.node_exclusions import (
    avoided_nodes,
    encode_avoided_nodes,
    exclusion_requirements,
    preferred_node_term,
)
from rescheduler.steering.intents import NOTHING_USED, Intent, IntentIndex
from rescheduler.steering.placement_advice import (
    PREFERRED,
    REQUIRED,
    PartialAffinity,
    PartialNodeSelector,
    advice_for,
)
from rescheduler.steering.webhook.admission_review import (
    AdmissionRequest,
    PatchOperation,
    UnreadableReview,
    allowed_review,
    is_probe,
    probe_review,
    read_request,
    uid_of,
)

__all__ = ["MutationAnswer", "SteeredPod", "answer_review"]

_MAX_REQUIREMENTS: Final = 2_000
"""Exclusions that are written into one pod, in all terms together: about 160 KB. A record of failed attempts
that we have written ourselves has 600 at most."""


@dataclass(frozen=True, slots=True)
class SteeredPod:
    """Which pod was told what."""

    pod: str
    intent: Intent
    is_again: bool
    """It comes for another time, and has been told already."""
    is_dry_run: bool


@dataclass(frozen=True, slots=True)
class MutationAnswer:
    body: bytes
    steered: SteeredPod | None = None


def answer_review(
    body: bytes, book: IntentIndex | None, used: Mapping[str, int] = NOTHING_USED
) -> MutationAnswer:
    """Without a `book`, nothing is known yet, or no more. `used` is that of `IntentBook.intent_for`. Never
    raises, whatever `body` is."""
    try:
        request = read_request(body)
    except UnreadableReview:
        return MutationAnswer(allowed_review(uid_of(body)))
    if book is None:
        return MutationAnswer(allowed_review(request.uid))
    if is_probe(request, STEERING_WEBHOOK):
        return MutationAnswer(probe_review(request))
    steered = _steered_pod(request, book, used)
    if steered is None:
        return MutationAnswer(allowed_review(request.uid))
    pod = request.object
    patch = [
        *_affinity_patch(pod.spec.affinity, steered),
        *_annotations_patch(pod.metadata.annotations, steered),
    ]
    return MutationAnswer(allowed_review(request.uid, patch), steered)


# -- deciding


def _steered_pod(request: AdmissionRequest, book: IntentIndex, used: Mapping[str, int]) -> SteeredPod | None:
    metadata, spec = request.object.metadata, request.object.spec
    # A pod that comes with its node is past all scheduling: an exclusion could only make the kubelet
    # refuse it.
    if not request.is_for_new_pod or spec.node_name or not _accepts_terms(spec.affinity):
        return None
    found = advice_for(metadata, request.namespace, book, used)
    if found is None:
        return None
    intent = found.intent
    if found.is_again:
        # What it was told stands, even if more is known since: the annotation must stay true.
        before = avoided_nodes(metadata.annotations or {})
        intent = replace(intent, avoid=tuple(node for node in before if node in intent.excluded), tried=())
    intent = _bounded(intent, spec.affinity)
    if not (intent.excluded or intent.prefer):
        return None
    key = f"{request.namespace}/{metadata.name or metadata.generate_name or ''}"
    return SteeredPod(key, intent, found.is_again, is_dry_run=bool(request.dry_run))


def _bounded(intent: Intent, affinity: PartialAffinity | None) -> Intent:
    """Return the intent with as many exclusions as may be written into this pod.

    Every term gets every exclusion. Tenants write the terms, and with the record of failed attempts most of
    the exclusions, too: without a limit, 130 KB of theirs become a patch of hundreds of megabytes. What a
    migration must avoid comes first.
    """
    own = affinity.node_affinity if affinity is not None else None
    required = own.required if own is not None else None
    terms = len(required.node_selector_terms or ()) if required is not None else 1
    most = _MAX_REQUIREMENTS // max(1, terms)
    if len(intent.excluded) <= most:
        return intent
    avoid = intent.avoid if len(intent.avoid) <= most else ()
    return replace(intent, avoid=avoid, tried=intent.tried[: most - len(avoid)])


def _accepts_terms(affinity: PartialAffinity | None) -> bool:
    """Required terms of which there is none are refused by the server, and its owner should hear of that."""
    if affinity is None or affinity.node_affinity is None or affinity.node_affinity.required is None:
        return True
    return bool(affinity.node_affinity.required.node_selector_terms)


# -- patching


def _affinity_patch(affinity: PartialAffinity | None, steered: SteeredPod) -> Iterator[PatchOperation]:
    own = affinity.node_affinity if affinity is not None else None
    if own is not None:
        if steered.intent.excluded:
            yield from _required_patch(own.required, steered)
        if steered.intent.prefer:
            yield from _preferred_patch(own.preferred, steered)
    elif whole := _new_node_affinity(steered.intent):
        if affinity is None:
            yield _add("/spec/affinity", {"nodeAffinity": whole})
        else:
            yield _add("/spec/affinity/nodeAffinity", whole)


def _new_node_affinity(intent: Intent) -> dict[str, Any]:
    """The node affinity of a pod that has none of its own."""
    parts: dict[str, Any] = {}
    if intent.excluded:
        parts[REQUIRED] = _only_term(intent)
    if intent.prefer:
        parts[PREFERRED] = [_preferred(intent)]
    return parts


def _required_patch(required: PartialNodeSelector | None, steered: SteeredPod) -> Iterator[PatchOperation]:
    path = f"/spec/affinity/nodeAffinity/{REQUIRED}"
    own = _exclusions(steered.intent)
    if required is None:
        yield _add(path, _only_term(steered.intent))
        return
    for number, term in enumerate(required.node_selector_terms or ()):
        fields = f"{path}/nodeSelectorTerms/{number}/matchFields"
        if term.match_fields:
            if not steered.is_again or term.match_fields[-len(own) :] != own:
                yield from (_add(f"{fields}/-", each) for each in own)
        elif term.match_expressions:
            yield _add(fields, own)
        # An empty term matches no node; with exclusions in it, it would match nearly all.


def _preferred_patch(preferred: list[Any] | None, steered: SteeredPod) -> Iterator[PatchOperation]:
    path = f"/spec/affinity/nodeAffinity/{PREFERRED}"
    own = _preferred(steered.intent)
    if preferred is None:
        yield _add(path, [own])
    elif not steered.is_again or own not in preferred:
        yield _add(f"{path}/-", own)


def _annotations_patch(there: Mapping[str, str] | None, steered: SteeredPod) -> Iterator[PatchOperation]:
    marks = {STEERED_BY_ANNOTATION: steered.intent.cause} if steered.intent.cause else {}
    if steered.intent.excluded:
        marks[AVOIDED_NODES_ANNOTATION] = encode_avoided_nodes(steered.intent.excluded)
    if there is None:
        yield _add("/metadata/annotations", marks)
        return
    for key, value in marks.items():
        if there.get(key) != value:
            yield _add(f"/metadata/annotations/{_escaped(key)}", value)


def _only_term(intent: Intent) -> dict[str, Any]:
    return {"nodeSelectorTerms": [{"matchFields": _exclusions(intent)}]}


def _exclusions(intent: Intent) -> list[Any]:
    return list(_as_json(exclusion_requirements(intent.excluded)))


def _preferred(intent: Intent) -> Any:
    term = _as_json(preferred_node_term(intent.prefer))
    # As the server itself writes it: without lists that are empty.
    return {**term, "preference": {"matchFields": term["preference"]["matchFields"]}}


def _as_json(value: Any) -> Any:
    """With lists where we have tuples, so that it equals what is read of a pod."""
    return msgspec.json.decode(msgspec.json.encode(value))


def _add(path: str, value: Any) -> PatchOperation:
    return {"op": "add", "path": path, "value": value}


def _escaped(key: str) -> str:
    """As a part of a JSON pointer."""
    return key.replace("~", "~0").replace("/", "~1")
