"""Intents: which node the next pod of a workload should prefer, and which nodes it must avoid.

They are derived from two records, and never stored:

- a running migration: the replacement of an evicted pod must not return to its source node. The intent exists
  from before the eviction until the migration ends, rolls back, or finds that the steered replacement can't
  be scheduled (condition `Steered` is False).
- the attempt ledger of a workload: new pods avoid the nodes of failed attempts as long as those are recorded.
  A pod of a StatefulSet avoids its own nodes. Elsewhere the replica of a new pod is unknown, so it avoids
  those of all replicas.

A replacement without a fixed name can't be distinguished from other new pods of its workload, so an intent
applies to each of them: also to pods of a scale-up during a migration. If several intents apply to a pod, all
exclusions count, and the preference is that of the migration that was used least, so that replacements go to
different targets.

Placement advice: the intent for one pod, the same for the webhook and the extender.

The `Partial` types are the fields of a pod that steering reads; all others are ignored.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final

import msgspec

from kubevalues.label_selectors import subdomain_error
from rescheduler.api.podmigration import ConditionType, ControllerReference, Handover, Migration
from rescheduler.api.well_known_names import AVOIDED_NODES_ANNOTATION, STEERED_BY_ANNOTATION
from rescheduler.migrations.labels_and_names import keeps_names
from rescheduler.migrations.transition_table import MigrationStep
from rescheduler.recovery.attempt_ledger import AttemptLedger

__all__ = [
    "NOTHING_USED",
    "PREFERRED",
    "REQUIRED",
    "Intent",
    "IntentIndex",
    "PartialAffinity",
    "PartialNodeSelector",
    "PartialOwnerReference",
    "PartialPod",
    "PartialPodMetadata",
    "PartialPodSpec",
    "PlacementAdvice",
    "advice_for",
    "intent_of_migration",
    "intents_of_ledger",
]


@dataclass(frozen=True, slots=True)
class Intent:
    """The node that a new pod should prefer, and those that it must avoid."""

    namespace: str
    workload: ControllerReference
    """The controller that creates the pod."""
    pod_name: str | None
    """The name of the pod, if successors keep it; None for any pod of the workload."""
    prefer: str
    """The preferred node; empty if there is none."""
    avoid: tuple[str, ...]
    """Nodes that it must not run on."""
    cause: str
    """The name of the migration; empty if the intent follows from failed attempts."""
    is_answered: bool = False
    """Whether the replacement exists already: other intents of the workload come first."""
    tried: tuple[str, ...] = ()
    """Nodes on which the pod failed: avoided as long as there are others."""

    @property
    def excluded(self) -> tuple[str, ...]:
        """Return all nodes to avoid, sorted."""
        return tuple(sorted({*self.avoid, *self.tried}))


NOTHING_USED: Final[Mapping[str, int]] = MappingProxyType({})


class IntentIndex:
    """All intents, by workload."""

    def __init__(self, intents: Iterable[Intent] = ()) -> None:
        self._by_workload: dict[str, dict[Intent, None]] = {}
        self.replace((), intents)

    def replace(self, before: Iterable[Intent], after: Iterable[Intent]) -> None:
        """Forget the intents that a record had before, and add those that it has now."""
        for intent in before:
            of_workload = self._by_workload.get(intent.workload.uid, {})
            of_workload.pop(intent, None)
            if not of_workload:
                self._by_workload.pop(intent.workload.uid, None)
        for intent in after:
            self._by_workload.setdefault(intent.workload.uid, {})[intent] = None

    def __len__(self) -> int:
        return sum(map(len, self._by_workload.values()))

    def intent_for(
        self,
        namespace: str,
        workload_uid: str,
        pod_name: str,
        *,
        used: Mapping[str, int] = NOTHING_USED,
        advised_by: str = "",
    ) -> Intent | None:
        """Return the combined intent for a pod; None if there is none.

        `used` says how often the intent of each migration was used, by `namespace/name`. `advised_by` is the
        migration whose intent this pod got before.
        """
        found = [
            intent
            for intent in self._by_workload.get(workload_uid, ())
            if intent.namespace == namespace and intent.pod_name in {None, pod_name}
        ]
        if not found:
            return None

        def rank(intent: Intent) -> tuple[bool, bool, int, str]:
            times = used.get(f"{namespace}/{intent.cause}", 0)
            return (intent.cause != advised_by, intent.is_answered, times, intent.cause)

        # Only migrations have a preferred node; failed attempts only exclude.
        chosen = min([intent for intent in found if intent.cause] or found, key=rank)
        avoid = {node for intent in found for node in intent.avoid}
        tried = {node for intent in found for node in intent.tried} - avoid
        # A node that other pods of the workload are moved away from is no target.
        prefer = "" if chosen.prefer in avoid | tried else chosen.prefer
        return replace(chosen, prefer=prefer, avoid=tuple(sorted(avoid)), tried=tuple(sorted(tried)))


_STEERED_STEPS: Final = frozenset(
    {MigrationStep.MARKING, MigrationStep.PROTECTING, MigrationStep.EVICTING, MigrationStep.REPLACING}
)
"""The steps in which replacements are steered. During a revalidation, the status is that of the last
attempt."""


def intent_of_migration(migration: Migration) -> Intent | None:
    """Return the intent of a running migration by Evict; None for all others."""
    status, owner = migration.status, migration.status.owner
    if status.handover is not Handover.EVICT or owner is None or status.step not in _STEERED_STEPS:
        return None
    if _is_withdrawn(migration) or not _has_valid_node_names(migration):
        return None
    return Intent(
        namespace=migration.namespace,
        workload=owner,
        pod_name=migration.spec.pod.name if keeps_names(owner) else None,
        prefer=migration.target_node,
        avoid=(migration.spec.source_node,),
        cause=migration.name,
        is_answered=status.target_pod is not None,
    )


def _has_valid_node_names(migration: Migration) -> bool:
    """Return whether the names are valid. An invalid one would make the API server refuse the pod."""
    named = (migration.spec.source_node, migration.target_node)
    return all(subdomain_error(node) is None for node in named if node)


def _is_withdrawn(migration: Migration) -> bool:
    steered = migration.status.condition(ConditionType.STEERED)
    return steered is not None and steered.status == "False"


def intents_of_ledger(
    ledger: AttemptLedger, namespace: str, controller: ControllerReference, open_nodes: Collection[str]
) -> Iterator[Intent]:
    """Yield the intents for new pods of that controller.

    `open_nodes` are the nodes that take pods, empty if unknown. If the pod failed on all of them, none is
    avoided."""
    for pod_name, nodes in _scopes(ledger, controller):
        tried = _avoidable(nodes, open_nodes)
        if tried:
            yield Intent(
                namespace=namespace,
                workload=controller,
                pod_name=pod_name,
                prefer="",
                avoid=(),
                cause="",
                tried=tried,
            )


def _scopes(ledger: AttemptLedger, controller: ControllerReference) -> Iterator[tuple[str | None, set[str]]]:
    """Yield the pod names, None for any pod, each with the nodes on which its replica failed."""
    if controller.kind == "StatefulSet":
        yield from ((name, set(lineage.nodes)) for name, lineage in ledger.lineages.items())
    else:
        yield None, {node for lineage in ledger.lineages.values() for node in lineage.nodes}


def _avoidable(nodes: Iterable[str], open_nodes: Collection[str]) -> tuple[str, ...]:
    # An invalid name would make the API server refuse the pod.
    named = {node for node in nodes if subdomain_error(node) is None}
    if open_nodes and named.issuperset(open_nodes):
        return ()
    return tuple(sorted(named))


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


class PartialLifecycle(msgspec.Struct, rename="camel"):
    pre_stop: dict[str, Any] | None = None


class PartialContainer(msgspec.Struct):
    lifecycle: PartialLifecycle | None = None


class PartialSchedulingGate(msgspec.Struct):
    name: str = ""


class PartialPodSpec(msgspec.Struct, rename="camel"):
    node_name: str | None = None
    affinity: PartialAffinity | None = None
    containers: list[PartialContainer] | None = None
    scheduling_gates: list[PartialSchedulingGate] | None = None
    termination_grace_period_seconds: int | None = None


class PartialOwnerReference(msgspec.Struct, gc=False):
    kind: str = ""
    name: str = ""
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
    annotations = metadata.annotations or {}
    advised_by = annotations.get(STEERED_BY_ANNOTATION, "")
    intent = intents.intent_for(
        namespace, controller.uid, metadata.name or "", used=used, advised_by=advised_by or given
    )
    if intent is None or not (intent.excluded or intent.prefer):
        return None
    # An intent from failed attempts leaves only the annotation with the nodes.
    was_advised = bool(advised_by) or AVOIDED_NODES_ANNOTATION in annotations
    return PlacementAdvice(intent, is_again=was_advised and intent.cause == advised_by)
