"""The values from which the state machine decides (cluster, policy and time), and its decisions."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, auto

from rescheduler.api.podmigration import (
    ConditionType,
    ControllerReference,
    Handover,
    Migration,
    PodReference,
    label_value,
)
from rescheduler.api.well_known_names import DO_NOT_DISRUPT_ADDED_ANNOTATION
from rescheduler.cluster.budget_record import BudgetRecord
from rescheduler.cluster.node_record import NodeRecord
from rescheduler.cluster.pod_record import PodRecord
from rescheduler.cluster.workload_record import WorkloadRecord
from rescheduler.config.policy import Policy
from rescheduler.migrations.effects import Effect
from rescheduler.migrations.labels_and_names import (
    MIGRATION_ID_LABEL,
    ORIGINAL_POD_ANNOTATION,
    STATUS_LABEL,
    MigrationLabelStatus,
    lock_of,
)
from rescheduler.migrations.transition_table import Trigger

__all__ = [
    "ConditionUpdate",
    "Decision",
    "Observation",
    "Perform",
    "RevalidationOutcome",
    "RevalidationResult",
    "Transition",
    "Wait",
]


class RevalidationOutcome(Enum):
    APPROVED = auto()
    POSTPONED = auto()
    REFUSED = auto()


@dataclass(frozen=True, slots=True)
class RevalidationResult:
    """The planner's result: whether the move is good now, by which handover, and to which node."""

    outcome: RevalidationOutcome
    handover: Handover = Handover.AUTO
    target: str = ""
    owner: ControllerReference | None = None
    """The controller that the pod has now."""
    reason: str = ""
    """The reason in one word, for programs."""
    message: str = ""
    """The reason in words, for people."""
    waits_for_room: bool = False
    """Whether the move is approved without a target: the copy waits Pending until a node has room."""


@dataclass(frozen=True, slots=True)
class Observation:
    migration: Migration
    now: datetime
    policy: Policy
    source: PodRecord | None
    """The pod to move; None once it is gone. Never another pod of the same name."""
    last_seen_source: PodRecord | None = None
    """The last state of a source that is gone; None if that was not seen."""
    target: PodRecord | None = None
    """Our copy, or the controller's replacement of an evicted pod."""
    siblings: tuple[PodRecord, ...] = ()
    """The other pods of the source's controller, where a replacement is recognised only because it is new."""
    owner: WorkloadRecord | None = None
    """The controller of the source, as it is now; None if it is gone, was recreated, or is of a kind that is
    not watched."""
    owner_is_watched: bool = True
    """False for kinds that are not watched: then a missing owner means nothing."""
    deployment: WorkloadRecord | None = None
    """The controller above the owner: the Deployment of a ReplicaSet."""
    pods_are_orphaned: bool = False
    """Whether the controller was deleted without its pods, as with `--cascade=orphan`."""
    workload_is_gone: bool = False
    """Whether the Deployment above existed and was deleted."""
    is_superseded: bool = False
    """Whether the Deployment wants another template than that of the source's ReplicaSet."""
    locked_by: str = ""
    """The name of another running migration that has locked the source."""
    budgets: tuple[BudgetRecord, ...] = ()
    """The budgets that cover the source, including the temporary one."""
    nodes: Mapping[str, NodeRecord] = field(default_factory=dict)
    """The source node, the target node and the node of the successor, if they exist."""
    group: tuple[Migration, ...] = ()
    """The members of its group. The migration itself is missing if it came too late to be one."""
    revalidation: RevalidationResult | None = None
    """The result of the revalidation; requested at the step Checking only."""
    has_turn: bool = True
    """Whether the limits allow it to start."""
    obstacle: str = ""
    """Why the limits will never let its group start; empty if they may."""
    is_winding_down: bool = False
    """Whether queued migrations are cancelled, because a dry run executes none."""
    is_steered: bool = False
    """Whether the webhook or the extender sends replacements to their target."""
    is_guarded: bool = False
    """Whether the webhook keeps the ReplicaSet from creating a pod while it adopts the copy."""
    webhook_problem: str = ""
    """Why the webhook does not steer or does not guard, in words."""
    may_preempt: str = ""
    """The pod that one more pod like the source could preempt now; empty if there is none."""

    no_room: str = ""
    """Why the replacement of the source would find no node now, in words; empty if it would find one. Set
    only right before the eviction (Evict)."""

    @property
    def source_is_active(self) -> bool:
        return self.source is not None and self.source.is_active

    @property
    def source_serves(self) -> bool:
        """Return whether the source is ready, on a node that is there and ready."""
        source = self.source
        return (
            source is not None
            and self.source_is_active
            and source.is_ready
            and not self.node_is_lost(source.node)
        )

    @property
    def source_was_deleted(self) -> bool:
        """Return whether a client deleted the source on purpose (`kubectl delete`), or it has completed.

        Everything else that ends a pod (eviction, preemption, a taint, the kubelet, pod garbage collection)
        sets its condition DisruptionTarget, or marks the pod as Failed. False if its end was not seen.
        """
        source = self.source or self.last_seen_source
        if source is None or _is_disrupted(source):
            return False
        return source.is_terminating or source.phase == "Succeeded"

    @property
    def source_end(self) -> str:
        """Describe how the source ended."""
        source = self.source or self.last_seen_source
        if source is None:
            return "gone for an unknown reason"
        if _is_disrupted(source):
            disruption = source.condition("DisruptionTarget")
            return f"disrupted ({disruption.reason if disruption is not None else ''})"
        if source.is_finished:
            return f"{source.phase} ({source.reason or 'its containers ended'})"
        return "deleted" if source.is_terminating else "gone for an unknown reason"

    @property
    def source_state(self) -> str:
        """Return why the source does not serve."""
        if self.source is None or not self.source_is_active:
            return self.source_end
        if self.node_is_lost(self.source.node):
            return f"on node {self.source.node}, which is not ready"
        return "not ready"

    @property
    def copy_is_all_that_is_left(self) -> bool:
        """Return whether a source without a controller was lost, not deleted, so that only its copy
        remains."""
        return (
            self.migration.status.handover is Handover.COPY
            and not self.source_is_active
            and not self.source_was_deleted
            and self.target_remains
        )

    @property
    def source_is_ours(self) -> bool:
        return self.source is not None and lock_of(self.source) == label_value(self.migration.name)

    @property
    def source_is_marked(self) -> bool:
        """Return whether our labels and annotations are on the source, or what other clients left of them."""
        if self.source is None or self.locked_by:
            return False
        labels, annotations = self.source.labels, self.source.annotations
        return self.source_is_ours or (
            MIGRATION_ID_LABEL not in labels
            and (
                labels.get(STATUS_LABEL, MigrationLabelStatus.COMPLETED) != MigrationLabelStatus.COMPLETED
                # A copy names another pod here.
                or annotations.get(ORIGINAL_POD_ANNOTATION) == self.source.uid
                or DO_NOT_DISRUPT_ADDED_ANNOTATION in annotations
            )
        )

    @property
    def target_remains(self) -> bool:
        """Return whether the successor exists and is not being deleted."""
        return self.target is not None and not self.target.is_terminating

    @property
    def owner_is_gone(self) -> bool:
        return self.owner_is_watched and (self.owner is None or self.owner.deleted_s is not None)

    @property
    def target_reference(self) -> PodReference:
        assert self.target is not None
        return PodReference(self.target.name, self.target.uid)

    def node_is_lost(self, name: str) -> bool:
        return name not in self.nodes or not self.nodes[name].is_ready


def _is_disrupted(pod: PodRecord) -> bool:
    condition = pod.condition("DisruptionTarget")
    return condition is not None and condition.status == "True"


@dataclass(frozen=True, slots=True)
class ConditionUpdate:
    """A condition of the migration, as it is now."""

    kind: ConditionType
    holds: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Transition:
    """A transition of the table, to another step."""

    trigger: Trigger
    message: str = ""
    failure: str = ""
    """The cause in one word, if the transition leads to a rollback."""
    final: bool = False
    """Whether no retry can help."""
    reports: tuple[ConditionUpdate, ...] = ()


@dataclass(frozen=True, slots=True)
class Perform:
    """An effect to perform; then the migration is observed again."""

    effect: Effect


@dataclass(frozen=True, slots=True)
class Wait:
    """Do nothing until something changes, or until that time."""

    until: datetime | None = None
    message: str = ""
    reports: tuple[ConditionUpdate, ...] = ()


Decision = Transition | Perform | Wait
