"""Write the placement advice for a new pod into its node affinity: AdmissionReview in, AdmissionReview out.
Pure.

    required     one exclusion per node to avoid, in the fields of every term: terms are alternatives, so each
                 one must exclude the nodes
    preferred    one more term, for the preferred node
    annotations  the excluded nodes, and the migration

Every request is allowed: a pod that can't be decoded is not changed. Only additions are made, so unknown
fields stay. (Only probes are denied, because they must not be created.)

A pod also gets a shutdown delay if its workload or namespace requests one. A pod that ends gets SIGTERM when
it is removed from the endpoints of its Services. Proxies that have not observed that yet still send it
requests. `preStop.sleep` lets it serve until they have. The annotation of the pod itself comes first, then
that of its workload, then that of its namespace. Copies are not changed: each has the delay of its source
pod.

If another webhook changes the pod later, the API server sends it again. Its annotations show the earlier
additions, and only missing ones are added.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from kubevalues.duration import DurationError, parse_duration
from rescheduler.api.well_known_names import (
    AVOIDED_NODES_ANNOTATION,
    SCHEDULING_GATE,
    SHUTDOWN_DELAY_ANNOTATION,
    STEERED_BY_ANNOTATION,
    STEERING_WEBHOOK,
)
from rescheduler.cluster.pod_constraints import (
    avoided_nodes,
    encode_avoided_nodes,
    exclusion_requirements,
    preferred_node_term,
)
from rescheduler.steering.intents import (
    NOTHING_USED,
    PREFERRED,
    REQUIRED,
    Intent,
    IntentIndex,
    PartialAffinity,
    PartialNodeSelector,
    PartialOwnerReference,
    PartialPodSpec,
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

__all__ = ["MutationAnswer", "RequestedAnnotations", "SteeredPod", "answer_review"]

RequestedAnnotations = Callable[[str, PartialOwnerReference | None], Iterator[Mapping[str, str]]]
"""Yields the annotations of a pod's workload and of its namespace, by namespace and controller."""


def _no_annotations(
    _namespace: str, _controller: PartialOwnerReference | None
) -> Iterator[Mapping[str, str]]:
    yield from ()


_MAX_REQUIREMENTS: Final = 2_000
"""The most exclusions in one pod, in all terms together: about 160 KB. A ledger that rescheduler has written
has at most 600 attempts."""


@dataclass(frozen=True, slots=True)
class SteeredPod:
    """A pod, and the intent that was added to it."""

    pod: str
    intent: Intent
    is_again: bool
    """Whether the intent was added before, and the API server sent the pod again."""
    is_dry_run: bool


@dataclass(frozen=True, slots=True)
class MutationAnswer:
    body: bytes
    steered: SteeredPod | None = None


def answer_review(
    body: bytes,
    intents: IntentIndex | None,
    used: Mapping[str, int] = NOTHING_USED,
    annotations: RequestedAnnotations = _no_annotations,
) -> MutationAnswer:
    """Answer an AdmissionReview. Never raises, whatever `body` is.

    `intents` is None while the caches are not synced. `used` as in `IntentIndex.intent_for`."""
    try:
        request = read_request(body)
    except UnreadableReview:
        return MutationAnswer(allowed_review(uid_of(body)))
    if intents is None:
        return MutationAnswer(allowed_review(request.uid))
    if is_probe(request, STEERING_WEBHOOK):
        return MutationAnswer(probe_review(request))
    steered = _steered_pod(request, intents, used)
    delay = _shutdown_delay(request, annotations)
    pod = request.object
    patch = list(_shutdown_delay_patch(pod.spec, delay))
    if steered is not None:
        patch += _affinity_patch(pod.spec.affinity, steered)
        patch += _annotations_patch(pod.metadata.annotations, steered)
    warnings = (delay.problem,) if delay.problem else ()
    return MutationAnswer(allowed_review(request.uid, patch, warnings=warnings), steered)


def _steered_pod(
    request: AdmissionRequest, intents: IntentIndex, used: Mapping[str, int]
) -> SteeredPod | None:
    metadata, spec = request.object.metadata, request.object.spec
    # A pod with a node is not scheduled: an exclusion could only make its kubelet refuse it.
    if not request.is_for_new_pod or spec.node_name or not _accepts_terms(spec.affinity):
        return None
    found = advice_for(metadata, request.namespace, intents, used)
    if found is None:
        return None
    intent = found.intent
    if found.is_again:
        # Earlier exclusions stay, even if there are more now: the annotation must stay true.
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
    the exclusions, too: without a limit, 130 KB of theirs become a patch of hundreds of megabytes. Nodes that
    a migration must avoid come first.
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
    """Return whether terms can be added. The API server refuses an empty list, and the owner of the pod
    should see that."""
    if affinity is None or affinity.node_affinity is None or affinity.node_affinity.required is None:
        return True
    return bool(affinity.node_affinity.required.node_selector_terms)


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
    """Return the node affinity for a pod that has none."""
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
    additions = {STEERED_BY_ANNOTATION: steered.intent.cause} if steered.intent.cause else {}
    if steered.intent.excluded:
        additions[AVOIDED_NODES_ANNOTATION] = encode_avoided_nodes(steered.intent.excluded)
    if there is None:
        yield _add("/metadata/annotations", additions)
        return
    for key, value in additions.items():
        if there.get(key) != value:
            yield _add(f"/metadata/annotations/{_escaped(key)}", value)


def _only_term(intent: Intent) -> dict[str, Any]:
    return {"nodeSelectorTerms": [{"matchFields": _exclusions(intent)}]}


def _exclusions(intent: Intent) -> list[Any]:
    return list(_as_json(exclusion_requirements(intent.excluded)))


def _preferred(intent: Intent) -> Any:
    term = _as_json(preferred_node_term(intent.prefer))
    # Without empty lists, as the API server writes it.
    return {**term, "preference": {"matchFields": term["preference"]["matchFields"]}}


def _as_json(value: Any) -> Any:
    """Convert tuples to lists, so that the value equals what is decoded from a pod."""
    return msgspec.json.decode(msgspec.json.encode(value))


def _add(path: str, value: Any) -> PatchOperation:
    return {"op": "add", "path": path, "value": value}


def _escaped(key: str) -> str:
    """Escape a part of a JSON pointer."""
    return key.replace("~", "~0").replace("/", "~1")


# -- shutdown delays

_DEFAULT_GRACE_PERIOD_S: Final = 30


@dataclass(frozen=True, slots=True)
class _ShutdownDelay:
    seconds: int = 0
    """0 adds nothing."""
    problem: str = ""
    """Why a request was ignored, for the user who creates the pod."""


_NO_DELAY: Final = _ShutdownDelay()


def _shutdown_delay(request: AdmissionRequest, annotations: RequestedAnnotations) -> _ShutdownDelay:
    if not request.is_for_new_pod:
        return _NO_DELAY
    metadata = request.object.metadata
    above = annotations(request.namespace, metadata.controller)
    return _requested_delay((metadata.annotations or {}, *above), request.object.spec)


def _requested_delay(annotations: Iterable[Mapping[str, str]], spec: PartialPodSpec) -> _ShutdownDelay:
    """Return the delay that the first annotation requests, in whole seconds."""
    value = next(
        (each[SHUTDOWN_DELAY_ANNOTATION] for each in annotations if SHUTDOWN_DELAY_ANNOTATION in each), ""
    )
    if not value or any(gate.name == SCHEDULING_GATE for gate in spec.scheduling_gates or ()):
        return _NO_DELAY
    try:
        seconds = math.ceil(parse_duration(value).total_seconds())
    except DurationError as error:
        return _ShutdownDelay(problem=_ignored(str(error)))
    if seconds < 0:
        return _ShutdownDelay(problem=_ignored(f"{value!r} is negative"))
    grace_s = spec.termination_grace_period_seconds
    if grace_s is None:
        grace_s = _DEFAULT_GRACE_PERIOD_S
    # The API server refuses a longer sleep, and one that is as long leaves no time to end.
    if seconds and seconds >= grace_s:
        return _ShutdownDelay(
            problem=_ignored(f"{value!r} is not less than terminationGracePeriodSeconds ({grace_s})")
        )
    return _ShutdownDelay(seconds)


def _shutdown_delay_patch(spec: PartialPodSpec, delay: _ShutdownDelay) -> Iterator[PatchOperation]:
    """Yield the additions to containers without a preStop hook."""
    if not delay.seconds:
        return
    hook = {"sleep": {"seconds": delay.seconds}}
    for number, container in enumerate(spec.containers or ()):
        path = f"/spec/containers/{number}/lifecycle"
        if container.lifecycle is None:
            yield {"op": "add", "path": path, "value": {"preStop": hook}}
        elif container.lifecycle.pre_stop is None:
            yield {"op": "add", "path": f"{path}/preStop", "value": hook}


def _ignored(why: str) -> str:
    return f"{SHUTDOWN_DELAY_ANNOTATION} is ignored: {why}"
