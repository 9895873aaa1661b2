"""Check a move again right before it starts: is it still good, by which handover, and to which node?

The planner's rules decide on the cluster as it is now, including all running migrations: a copy that is not
bound yet counts on its target. A temporary reason postpones the move, any other reason refuses it.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final, TypedDict

from rescheduler.api.podmigration import (
    MANUAL,
    ControllerReference,
    Handover,
    Migration,
    MigrationPhase,
    traits_of,
)
from rescheduler.api.well_known_names import CONTINUES_ANNOTATION, INCLUDES_SYSTEM_ANNOTATION
from rescheduler.cluster.pod_record import PodRecord
from rescheduler.cluster.snapshot import NO_ROW, Ints, MoveRecord, Snapshot, open_nodes, profile_of
from rescheduler.cluster.sources.watched_cluster import WatchedCluster
from rescheduler.cluster.sources.watched_objects import WatchedObjects, nested_field
from rescheduler.config.policy import Policy, SafeEvictionMode
from rescheduler.config.profiles import replace_settings
from rescheduler.kube.informer import Informer
from rescheduler.migrations.controller.observation_builder import migration_at, running_migrations, target_of
from rescheduler.migrations.observation import RevalidationOutcome, RevalidationResult
from rescheduler.migrations.runtime_state import RuntimeStateHolder
from rescheduler.planner.available_nodes import least_loaded_node
from rescheduler.planner.handover_choice import HandoverChoice
from rescheduler.planner.plan import Move, Rejection
from rescheduler.planner.plan_builder import validate_move
from rescheduler.planner.protections.eligibility import Eligibility
from rescheduler.planner.reasons import Reason
from rescheduler.planner.workload_availability import Preemption
from rescheduler.rules.placement import Placement

__all__ = [
    "TEMPORARY_REASONS",
    "PodPriorities",
    "Revalidation",
    "policy_for_manual_move",
]


class PodPriorities:
    def __init__(self, pods: Informer[PodRecord]) -> None:
        self._counts: Counter[int] = Counter()
        pods.subscribe(self._on_change)

    def any_below(self, priority: int) -> bool:
        return any(each < priority for each in self._counts)

    def _on_change(self, old: PodRecord | None, new: PodRecord | None) -> None:
        if old is not None and old.node:
            self._counts[old.priority] -= 1
            if not self._counts[old.priority]:
                del self._counts[old.priority]
        if new is not None and new.node:
            self._counts[new.priority] += 1


TEMPORARY_REASONS: Final = frozenset(
    {
        Reason.BUDGET_SPENT,
        Reason.HOURLY_LIMIT,
        Reason.OUTSIDE_WINDOW,
        Reason.ROLLING_OUT,
        Reason.SIBLING_NOT_READY,
    }
)
_ROOM_REASONS: Final = frozenset({Reason.TARGET_UNFIT, Reason.NO_TARGET})
"""Reasons that are temporary, too, if a pod is about to leave a node."""

_WAITED_FOR: Final = TEMPORARY_REASONS | _ROOM_REASONS | {Reason.ALREADY_MOVING}
"""Reasons for which a move on eviction waits until its deadline."""

_HANDOVER_KINDS: Final = ("Pod", "ReplicaSet", "Deployment", "StatefulSet", "Job")


def policy_for_manual_move(policy: Policy, handover: Handover = Handover.AUTO) -> Policy:
    """Return the policy without the limits on how often a pod moves: they don't apply to manual moves."""
    handovers = policy.handovers
    if handover is not Handover.AUTO:
        handovers = {**handovers, **dict.fromkeys(_HANDOVER_KINDS, handover)}
    return replace_settings(policy, min_pod_age=timedelta(), pod_cooldown=timedelta(), handovers=handovers)


class _PlannerTerms(TypedDict):
    urgent: bool
    recovering: bool
    steered: bool
    guarded: bool


class Revalidation:
    """Implements `Revalidator` with the planner's rules."""

    def __init__(
        self, cluster: WatchedCluster, runtime: RuntimeStateHolder, now: Callable[[], datetime]
    ) -> None:
        self._cluster = cluster
        self._runtime = runtime
        self._now = now
        self._approved: dict[str, tuple[str, str]] = {}
        """Pod and target of migrations that were approved a moment ago and are not on record yet, by key."""
        self._asks: dict[str, Ints] = {}
        """The requests of the pods of running migrations, by key, for when neither pod nor successor
        exists."""
        self._priorities = PodPriorities(cluster.watched.pods.informer)

    async def prepare(self, migration: Migration) -> None:
        """Freeze the cluster as it is now, unless no decision will need it."""
        begins = migration.status.phase is MigrationPhase.PENDING
        if begins or migration.status.handover is Handover.EVICT or self._is_above_others(migration):
            await self._cluster.refresh()

    def revalidate(
        self, migration: Migration, has_room_at: Callable[[str], bool] = lambda _: True
    ) -> RevalidationResult:
        snapshot = self._without(migration, self._cluster.present())
        row = snapshot.pods.row.get(migration.pod_key)
        if row is None or snapshot.pods.records[row].uid != migration.spec.pod.uid:
            return _refused(Rejection(migration.pod_key, Reason.GONE, "", "the pod no longer exists"))
        pod = snapshot.pods.records[row]
        state = self._runtime.current
        if self._waits(migration) and state.policy.safe_evictions.mode is SafeEvictionMode.OFF:
            words = "safeEvictions.mode is off"
            return RevalidationResult(RevalidationOutcome.REFUSED, reason="SafeEvictionsOff", message=words)
        profile = profile_of(snapshot, state.policy, pod.namespace, pod.node)
        policy = self._policy_for(migration, profile)
        traits = traits_of(migration.spec.strategy)
        terms: _PlannerTerms = {
            "urgent": traits.urgent,
            "recovering": traits.recovers,
            "steered": state.steers,
            "guarded": state.guards,
        }
        eligibility = Eligibility(snapshot, policy, **terms)
        choice = eligibility.choice(row)
        if not isinstance(choice, HandoverChoice):
            return self._postponed_or_refused(
                migration, snapshot, Rejection(pod.key, choice.reason, choice.by, choice.detail)
            )
        placement = self._with_others(migration, Placement(snapshot))
        move = _move(migration, choice.handover)
        rejection = validate_move(move, snapshot, policy, **terms, placement=placement)
        if rejection is not None and rejection.reason is Reason.NO_TARGET and self._waits(migration):
            return self._without_target(placement, row, choice)
        if rejection is not None:
            return self._postponed_or_refused(migration, snapshot, rejection)
        target = move.target or least_loaded_node(placement, row, choice.handover, policy, has_room_at)
        self._approved[migration.key] = pod.key, target
        return RevalidationResult(
            RevalidationOutcome.APPROVED, choice.handover, target, _controller_of(pod), message=choice.why
        )

    def _waits(self, migration: Migration) -> bool:
        """Return whether the migration waits for room, instead of failing."""
        return traits_of(migration.spec.strategy).on_eviction

    def _without_target(self, placement: Placement, row: int, choice: HandoverChoice) -> RevalidationResult:
        """Approve a copy that waits Pending, unless the scheduler would put it beside its source."""
        snapshot = placement.snapshot
        pod = snapshot.pods.records[row]
        source = snapshot.nodes.row.get(pod.node)
        if source is not None and placement.fits_another(row)[source]:
            return RevalidationResult(
                RevalidationOutcome.POSTPONED,
                reason=Reason.NO_TARGET,
                message="no other node has room; waiting for one",
            )
        return RevalidationResult(
            RevalidationOutcome.APPROVED,
            choice.handover,
            "",
            _controller_of(pod),
            message="no node has room: the copy waits Pending, so that an autoscaler can provide one",
            waits_for_room=True,
        )

    def may_preempt(self, migration: Migration) -> str:
        """Return which pod one more pod like the source could preempt now; empty if none. Until the copy is
        placed, that pod is the copy itself, which must not be scheduled if its room was taken."""
        if not self._is_above_others(migration):
            return ""
        snapshot = self._cluster.present()
        row = snapshot.pods.row.get(migration.pod_key)
        if row is None or snapshot.pods.records[row].uid != migration.spec.pod.uid:
            return ""
        copy = migration.status.target_pod
        pending = snapshot.pods.row.get(f"{migration.namespace}/{copy.name}") if copy is not None else None
        if pending is None or snapshot.pods.node[pending] != NO_ROW:
            pending = NO_ROW
        return Preemption(snapshot, unreserved=pending).by_another(row)

    def _is_above_others(self, migration: Migration) -> bool:
        """Return whether a pod like the source could preempt any pod at all."""
        pod = self._cluster.watched.pods.get(migration.pod_key)
        return pod is not None and not pod.shape.never_preempts and self._priorities.any_below(pod.priority)

    def no_room(self, migration: Migration) -> str:
        """Return why the replacement of the pod would find no node now, in words; empty if it would find one.

        The eviction may have waited long for its budget, and room may be gone. Then the replacement would
        stay Pending, or preempt other pods. The source node does not count: the pod is to leave it.
        """
        snapshot = self._without(migration, self._cluster.present())
        row = snapshot.pods.row.get(migration.pod_key)
        if row is None or snapshot.pods.records[row].uid != migration.spec.pod.uid:
            return ""
        placement = self._with_others(migration, Placement(snapshot))
        fits = placement.fits(row, source_stays=False) & open_nodes(snapshot, self._runtime.current.policy)
        source = snapshot.nodes.row.get(migration.spec.source_node)
        if source is not None:
            fits[source] = False
        return "" if fits.any() else "no other node has room for its replacement"

    def _policy_for(self, migration: Migration, policy: Policy) -> Policy:
        if traits_of(migration.spec.strategy).requested:
            # A handover that was requested on eviction is not forced: the pod's owner decides.
            is_manual = migration.spec.strategy == MANUAL
            return policy_for_manual_move(policy, migration.spec.handover if is_manual else Handover.AUTO)
        if self._continues(migration):
            # The cooldown applies at the final target, not at the stop between two hops.
            return policy_for_manual_move(policy)
        item = self._cluster.watched.migrations.get(migration.key) or {}
        if nested_field(item, "metadata", "annotations", INCLUDES_SYSTEM_ANNOTATION) == "true":
            return replace(policy, maintenance_includes_system=True)
        return policy

    def _without(self, migration: Migration, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot in which the pod is not moving because of this migration.

        Another migration of the pod that has started still counts. One that starts at the same moment is
        stopped by the lock.
        """
        uid = migration.spec.pod.uid
        watched = self._cluster.watched
        snapshot = replace(snapshot, move_records=self._begun_before(migration, snapshot))
        of_pod = watched.migrations.find("pod", (migration.namespace, migration.spec.pod.name))
        others = (found for item in of_pod if (found := watched.records.migration(item)) is not None)
        if any(
            each.key != migration.key and each.spec.pod.uid == uid and self._has_begun(each)
            for each in others
        ):
            return snapshot
        return replace(snapshot, moving=snapshot.moving - {uid})

    def _begun_before(self, migration: Migration, snapshot: Snapshot) -> tuple[MoveRecord, ...]:
        """Return the moves that count for limits per hour.

        Migrations that wait, like this one, don't count: otherwise none would ever start. The second hop of a
        move was counted with the first, and a limit must not leave the pod at its stop.
        """
        if self._continues(migration):
            return ()
        # The snapshot may not show yet what started a moment ago.
        begun = self._approved.keys() | {each.key for each in running_migrations(self._cluster.watched)}
        return tuple(
            each
            for each in snapshot.move_records
            if each.migration != migration.key and (each.started_s is not None or each.migration in begun)
        )

    def _continues(self, migration: Migration) -> bool:
        """Return whether the migration is the second hop of a move."""
        item = self._cluster.watched.migrations.get(migration.key) or {}
        return bool(nested_field(item, "metadata", "annotations", CONTINUES_ANNOTATION))

    def _has_begun(self, migration: Migration) -> bool:
        phase = migration.status.phase
        return phase is MigrationPhase.IN_PROGRESS or (
            phase is MigrationPhase.PENDING and migration.key in self._approved
        )

    def _with_others(self, migration: Migration, placement: Placement) -> Placement:
        """Add the copies that don't exist yet, so that an approved move finds room beside them."""
        snapshot, known = placement.snapshot, self._asks
        self._asks = {}
        for key, pod, target in (
            (migration.key, migration.pod_key, ""),
            *self._under_way(migration, snapshot),
        ):
            row, node = snapshot.pods.row.get(pod), snapshot.nodes.row.get(target)
            asks = known.get(key) if row is None else snapshot.classes[snapshot.pods.pod_class[row]].asks
            if asks is not None:
                self._asks[key] = asks
            if node is not None and row is not None:
                placement.place(row, node)
            elif node is not None and asks is not None:
                # The pod is evicted, and its controller has not replaced it yet.
                placement.reserve(asks, node)
        return placement

    def _under_way(self, migration: Migration, snapshot: Snapshot) -> list[tuple[str, str, str]]:
        """Return migrations, their pods and the nodes of copies and replacements that are not seen there yet.

        The replacement stands for a pod that was evicted; it may still wait for the scheduler.
        """
        watched = self._cluster.watched
        self._approved = {
            key: at
            for key, at in self._approved.items()
            if key != migration.key
            and (known := migration_at(key, watched)) is not None
            and known.status.phase is MigrationPhase.PENDING
        }
        on_record = [
            (each.key, _equivalent_pod(each, snapshot, watched), each.target_node)
            for each in running_migrations(watched)
            if each.key != migration.key and not self._is_bound(each, snapshot)
        ]
        return [*on_record, *((key, *at) for key, at in self._approved.items())]

    def _is_bound(self, migration: Migration, snapshot: Snapshot) -> bool:
        """Return whether the snapshot, which may be older than the caches, has the pod on its node."""
        copy = target_of(migration, self._cluster.watched)
        row = None if copy is None else snapshot.pods.row.get(copy.key)
        return row is not None and bool(snapshot.pods.node[row] != NO_ROW)

    def _postponed_or_refused(
        self, migration: Migration, snapshot: Snapshot, rejection: Rejection
    ) -> RevalidationResult:
        policy = self._runtime.current.policy
        is_patient = self._now() - migration.created < policy.migration_timeout
        if self._waits(migration):
            is_temporary = rejection.reason in _WAITED_FOR
        else:
            is_temporary = is_patient and self._may_disappear(snapshot, rejection)
        if is_temporary:
            return RevalidationResult(
                RevalidationOutcome.POSTPONED, reason=rejection.reason, message=_rejection_message(rejection)
            )
        return _refused(rejection)

    def _may_disappear(self, snapshot: Snapshot, rejection: Rejection) -> bool:
        """Return whether the reason may soon disappear."""
        if rejection.reason in TEMPORARY_REASONS:
            return True
        if rejection.reason not in _ROOM_REASONS:
            return False
        leaving = {pod.node for pod in snapshot.pods.records if pod.is_terminating and pod.node}
        return rejection.by in leaving if rejection.by else bool(leaving)


def _equivalent_pod(migration: Migration, snapshot: Snapshot, watched: WatchedObjects) -> str:
    """Return the key of a pod with the requests of its copy or replacement."""
    successor = None if migration.pod_key in snapshot.pods.row else target_of(migration, watched)
    return migration.pod_key if successor is None else successor.key


def _move(migration: Migration, present: Handover) -> Move:
    spec = migration.spec
    return Move(
        pod=migration.pod_key,
        uid=spec.pod.uid,
        source=spec.source_node,
        target=spec.target_node or None,
        strategy=spec.strategy,
        handover=present if spec.handover is Handover.AUTO else spec.handover,
        reason=spec.reason,
        gain=0.0,
    )


def _controller_of(pod: PodRecord) -> ControllerReference | None:
    owner = pod.owner
    if owner is None:
        return None
    return ControllerReference(owner.api_version, owner.kind, owner.name, owner.uid)


def _refused(rejection: Rejection) -> RevalidationResult:
    return RevalidationResult(
        RevalidationOutcome.REFUSED, reason=rejection.reason, message=_rejection_message(rejection)
    )


def _rejection_message(rejection: Rejection) -> str:
    return rejection.detail or rejection.reason
