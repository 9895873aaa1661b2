"""What a pod is to know: one answer for both who ask, the API server when it is created and the scheduler.

What is read of a pod that others ask about: only what steering needs; the rest may be as it likes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from rescheduler.api.well_known_names import AVOIDED_NODES_ANNOTATION, STEERED_BY_ANNOTATION
from rescheduler.steering.intents import NOTHING_USED, Intent, IntentIndex

__all__ = [
    "PREFERRED",
    "REQUIRED",
    "PartialAffinity",
    "PartialNodeSelector",
    "PartialPod",
    "PartialPodMetadata",
    "PlacementAdvice",
    "advice_for",
]

REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


class PartialNodeSelectorTerm(msgspec.Struct, rename="camel"):
    match_expressions: list[Any] | None = None
    match_fields: list[Any] | None = None


class PartialNodeSelector(msgspec.Struct, rename="camel"):
    node_selector_terms: list[PartialNodeSelectorTerm] | None = None


class PartialNodeAffinity(msgspec.Struct, rename={"required": REQUIRED, "preferred": PREFERRED}):
    required: PartialNodeSelector | None = None
    preferred: list[Any] | None = None


class PartialAffinity(msgspec.Struct, rename="camel"):
    node_affinity: PartialNodeAffinity | None = None


class PartialPodSpec(msgspec.Struct, rename="camel"):
    node_name: str | None = None
    affinity: PartialAffinity | None = None


class PartialOwnerReference(msgspec.Struct):
    uid: str = ""
    controller: bool | None = None


class PartialPodMetadata(msgspec.Struct, rename="camel"):
    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    generate_name: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[PartialOwnerReference] | None = None

    @property
    def controller(self) -> PartialOwnerReference | None:
        return next((owner for owner in self.owner_references or () if owner.controller), None)


class PartialPod(msgspec.Struct):
    metadata: PartialPodMetadata
    spec: PartialPodSpec


@dataclass(frozen=True, slots=True)
class PlacementAdvice:
    intent: Intent
    is_again: bool
    """It was asked about before, and its annotations say what it was told."""


def advice_for(
    metadata: PartialPodMetadata,
    namespace: str,
    book: IntentIndex,
    used: Mapping[str, int] = NOTHING_USED,
    *,
    given: str = "",
) -> PlacementAdvice | None:
    """None if nothing concerns it. `used` is that of `IntentBook.intent_for`; `given`, the migration that it
    was told of without an annotation that says so."""
    controller = metadata.controller
    if controller is None:
        return None
    marks = metadata.annotations or {}
    told_before = marks.get(STEERED_BY_ANNOTATION, "")
    intent = book.intent_for(
        namespace, controller.uid, metadata.name or "", used=used, told_before=told_before or given
    )
    if intent is None or not (intent.excluded or intent.prefer):
        return None
    # What follows from failed attempts only leaves no other mark than the nodes.
    has_marks = bool(told_before) or AVOIDED_NODES_ANNOTATION in marks
    return PlacementAdvice(intent, is_again=has_marks and intent.cause == told_before)
