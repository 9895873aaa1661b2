"""Placement advice: the intent for one pod, the same for the webhook and the extender.

The `Partial` types are the fields of a pod that steering reads; all others are ignored.
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
    """The intent for one pod."""

    intent: Intent
    is_again: bool
    """Whether the pod got this intent before, and its annotations say so."""


def advice_for(
    metadata: PartialPodMetadata,
    namespace: str,
    intents: IntentIndex,
    used: Mapping[str, int] = NOTHING_USED,
    *,
    given: str = "",
) -> PlacementAdvice | None:
    """Return the advice for a pod; None if no intent applies.

    `used` as in `IntentIndex.intent_for`. `given` is the migration whose intent the pod got before, where no
    annotation says so.
    """
    controller = metadata.controller
    if controller is None:
        return None
    marks = metadata.annotations or {}
    advised_by = marks.get(STEERED_BY_ANNOTATION, "")
    intent = intents.intent_for(
        namespace, controller.uid, metadata.name or "", used=used, advised_by=advised_by or given
    )
    if intent is None or not (intent.excluded or intent.prefer):
        return None
    # An intent from failed attempts leaves only the annotation with the nodes.
    has_marks = bool(advised_by) or AVOIDED_NODES_ANNOTATION in marks
    return PlacementAdvice(intent, is_again=has_marks and intent.cause == advised_by)
