"""Reconcile one PodMigration as far as it can go. Level-triggered: only the state of the cluster counts.

    decide ─▶ Transition ─▶ the next step; written to the status first if it is a checkpoint ─▶ decide
           ─▶ Perform    ─▶ the effect, once; before an irreversible one, read live and decide again ─▶ decide
           ─▶ Wait       ─▶ until something changes, or until a time

No queue separates the accepted eviction from the next step: both happen in one loop.
"""

import asyncio
from collections.abc import Callable, Hashable
from dataclasses import fields, replace
from datetime import datetime, timedelta
from typing import Any, Final, Protocol

import msgspec

from rescheduler.api.podmigration import ConditionType, Handover, Migration, decode_migration
from rescheduler.api.well_known_names import SCHEDULING_GATE
from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS, WatchedObjects
from rescheduler.kube import errors
from rescheduler.kube.client import Client
from rescheduler.kube.work_queue import RetryLater
from rescheduler.migrations.controller.dispatcher import Dispatcher
from rescheduler.migrations.controller.effect_performer import EffectPerformer
from rescheduler.migrations.controller.live_reads import (
    LiveReads,
    ends_rollback_without_copy,
    is_irreversible,
)
from rescheduler.migrations.controller.migration_log import MigrationLog
from rescheduler.migrations.controller.migration_removal import ForcedRemovalCleanup, remove_foreign_metadata
from rescheduler.migrations.controller.observation_builder import DeletedPods, migration_at, observe
from rescheduler.migrations.effects import Effect, RecordEviction, WithdrawSteering
from rescheduler.migrations.observation import (
    ConditionUpdate,
    Decision,
    Observation,
    Perform,
    RevalidationOutcome,
    RevalidationResult,
    Transition,
    Wait,
)
from rescheduler.migrations.source_eviction import depends_on_webhook, with_eviction_requested
from rescheduler.migrations.state_machine import (
    advance,
    decide,
    invalid_status,
    is_checkpoint,
    step_of,
    with_wait_message,
)
from rescheduler.migrations.transition_table import MigrationStep
from rescheduler.steering.webhook.webhook_presence import SteeringProbe

__all__ = ["Reconciler", "Revalidator"]


class Revalidator(Protocol):
    """Checks a move against the cluster as it is now."""

    async def prepare(self, migration: Migration) -> None:
        """Update the data for the next calls about the migration. Make them before you wait for anything
        else."""
        ...

    def revalidate(self, migration: Migration, has_room_at: Callable[[str], bool]) -> RevalidationResult:
        """Return whether the move is still good, by which handover, and to which node. `has_room_at` says
        whether the limits allow another move to a node now."""
        ...

    def may_preempt(self, migration: Migration) -> str:
        """Return which pod one more pod like the source could preempt now; empty if none."""
        ...

    def no_room(self, migration: Migration) -> str:
        """Return why the replacement of the pod would fit on no node now; empty if it would fit."""
        ...


_MAX_DECISIONS: Final = 100
"""Far more than a migration has steps; one that needs more is in a loop."""

_RECORD_WAIT_AFTER: Final = timedelta(seconds=30)
"""A wait of this length is written to the status for people, though no decision needs it. Shorter ones cost
no write."""


class Reconciler:
    def __init__(
        self,
        client: Client,
        watched: WatchedObjects,
        migration_log: MigrationLog,
        dispatcher: Dispatcher,
        revalidator: Revalidator,
        now: Callable[[], datetime],
        *,
        webhook: SteeringProbe,
    ) -> None:
        self._client = client
        self._watched = watched
        self._migration_log = migration_log
        self._runtime = dispatcher.runtime
        self._revalidator = revalidator
        self._now = now
        self._webhook = webhook
        self._live_reads = LiveReads(client, watched)
        self._performer = EffectPerformer(client, watched)
        self.forced_removals = ForcedRemovalCleanup(client, watched, migration_log, now)
        self._deleted_pods = DeletedPods(watched)
        self._dispatcher = dispatcher

    async def reconcile(self, key: str) -> datetime | None:
        """Reconcile once, and return when to do so again if nothing changes before.

        Raises `KubeError` or `RetryLater` for a retry after the queue's delay.
        """
        failed = True
        try:
            retry_at = await self._reconcile(key)
            failed = False
        finally:
            self._dispatcher.reconciled(key, failed=failed)
        return retry_at

    async def _reconcile(self, key: str) -> datetime | None:
        recorded = current = migration_at(key, self._watched)
        if recorded is None:
            return await self.forced_removals.handle(key)
        performed: set[Hashable] = set()
        for _ in range(_MAX_DECISIONS):
            if recorded is not None and current is not None and self._asks_rules(current):
                await self._revalidator.prepare(current)
                recorded, current = self._newest(recorded, current)
            if recorded is None or current is None:
                return None
            observation = self._observe(current)
            self._migration_log.intercepted(observation)
            decision = await self._acted(observation, decide(observation), performed)
            match decision:
                case None:
                    recorded, current = self._newest(recorded, current)
                case Transition():
                    recorded, current = await self._next(observation, decision, recorded)
                case Wait():
                    return await self._waiting(observation, decision, recorded)
        raise RuntimeError(f"migration {key} makes no progress at {current.status.step if current else '?'}")

    def _asks_rules(self, migration: Migration) -> bool:
        """Return whether the next decisions depend on other pods and nodes.

        A queued migration counts, too, because it is checked and started as soon as it gets its turn.
        """
        if invalid_status(migration):
            return False
        step = step_of(migration)
        if step is MigrationStep.QUEUED:
            return self._dispatcher.has_turn(migration)
        return step in {MigrationStep.PLACING, MigrationStep.EVICTING}

    def _observe(self, migration: Migration) -> Observation:
        state, group = self._runtime.current, self._dispatcher.group(migration)
        observation = replace(observe(migration, self._watched, state.policy, self._now()), group=group)
        if observation.source is None:
            observation = replace(
                observation, last_seen_source=self._deleted_pods.get(migration.spec.pod.uid)
            )
        if invalid_status(migration):
            return observation
        step = step_of(migration)
        if step is MigrationStep.QUEUED:
            return replace(
                observation,
                has_turn=self._dispatcher.has_turn(migration),
                obstacle=self._dispatcher.obstacle(migration),
                is_winding_down=state.is_winding_down,
            )
        if step is MigrationStep.CHECKING:
            return replace(observation, revalidation=self._revalidation_result(migration))
        return replace(
            observation,
            is_steered=state.steers,
            is_guarded=state.guards,
            webhook_problem=state.steering.problem,
            may_preempt=(
                self._revalidator.may_preempt(migration)
                if _may_schedule_another_pod(observation, step)
                else ""
            ),
        )

    # -- performing

    async def _acted(
        self, observation: Observation, decision: Decision, performed: set[Hashable]
    ) -> Transition | Wait | None:
        """Perform the effect of the decision, and return what follows from it; None means to decide again.
        `performed` are the effects of this reconciliation: one that changed nothing is not repeated at
        once."""
        if is_irreversible(observation, decision):
            confirmed, nodes = await asyncio.gather(
                self._confirmed(observation), self._live_reads.read(observation)
            )
            await self._revalidator.prepare(observation.migration)
            observation = replace(self._observe(observation.migration), nodes=nodes, **confirmed)
            if observation.migration.status.handover is Handover.EVICT:
                observation = replace(observation, no_room=self._revalidator.no_room(observation.migration))
            decision = decide(observation)
        if ends_rollback_without_copy(observation, decision):
            await self._live_reads.read_copy(observation.migration)
            observation = self._observe(observation.migration)
            decision = decide(observation)
        if not isinstance(decision, Perform):
            return decision
        same = observation.migration.status.step, _without_version(decision.effect)
        if same in performed:
            raise RetryLater(f"{type(decision.effect).__name__} changed nothing at {same[0]}")
        performed.add(same)
        if isinstance(decision.effect, WithdrawSteering):
            await self._withdraw(observation)
            return None
        if isinstance(decision.effect, RecordEviction):
            await self._record(with_eviction_requested(observation))
            return None
        outcome = await self._performer.perform(observation, decision.effect)
        if isinstance(outcome, Migration):
            await self._record(outcome)
            return None
        return outcome

    async def _confirmed(self, observation: Observation) -> dict[str, Any]:
        """Probe the webhook if the eviction depends on it; return the result as fields of an observation."""
        if not depends_on_webhook(observation):
            return {}
        found = await self._webhook.confirm(observation.migration.namespace)
        return {"is_steered": found.steers, "is_guarded": found.guards, "webhook_problem": found.problem}

    async def _withdraw(self, observation: Observation) -> None:
        report = ConditionUpdate(ConditionType.STEERED, holds=False, reason="Withdrawn")
        wait = Wait(
            message="the replacement fits on no steered node: it may go to any node now", reports=(report,)
        )
        after = with_wait_message(observation, wait)
        # Record the pod to replace: clocks would not distinguish it from its successor.
        status = msgspec.structs.replace(after.status, target_pod=observation.target_reference)
        await self._record(msgspec.structs.replace(after, status=status))

    # -- transitions

    async def _next(
        self, observation: Observation, transition: Transition, recorded: Migration
    ) -> tuple[Migration, Migration]:
        after = advance(observation, transition)
        if step_of(after) is MigrationStep.MARKING:
            self._dispatcher.begin(after)
        if is_checkpoint(observation.migration, after):
            # The status is written first, then logged, then acted upon.
            recorded = after = await self._record(after)
        self._migration_log.record(observation, after)
        return recorded, after

    async def _record(self, migration: Migration) -> Migration:
        """Write the status with the version as precondition, so that another process has to read it again."""
        wanted = {
            "apiVersion": POD_MIGRATIONS.api_version,
            "kind": POD_MIGRATIONS.kind,
            "metadata": {
                "namespace": migration.namespace,
                "name": migration.name,
                "uid": migration.uid,
                "resourceVersion": migration.resource_version,
            },
            "spec": msgspec.to_builtins(migration.spec),
            "status": msgspec.to_builtins(migration.status),
        }
        try:
            written = await self._client.replace(POD_MIGRATIONS.status, wanted)
        except (errors.Conflict, errors.NotFound):
            await self._watched.read_migration(migration.key, migration.uid)
            raise
        except errors.TooLarge:
            await remove_foreign_metadata(self._client, self._watched, migration)
            raise
        self._watched.migrations.observe(written)
        return decode_migration(written)

    def _newest(self, recorded: Migration, current: Migration) -> tuple[Migration | None, Migration | None]:
        """Return the recorded and the current migration after an effect: the same step, with the newest
        version of the object."""
        newest = migration_at(recorded.key, self._watched)
        if newest is None or newest.uid != recorded.uid:
            self._migration_log.forget(recorded.uid)
            return None, None
        if newest.resource_version == recorded.resource_version:
            return recorded, current
        if newest.status != recorded.status or step_of(current) is MigrationStep.CHECKING:
            # Another process continues it, or this one has written its status. Or its finalizer was added,
            # which may take long: it is checked again, against the cluster as it is now.
            return newest, newest
        return newest, msgspec.structs.replace(newest, status=current.status)

    # -- waiting

    async def _waiting(self, observation: Observation, wait: Wait, recorded: Migration) -> datetime | None:
        """Write what it waits for into the status, if the wait lasts."""
        if invalid_status(observation.migration):
            self._migration_log.left_alone(observation.migration, wait.message)
            return wait.until
        migration, step = with_wait_message(observation, wait), step_of(observation.migration)
        if migration.is_finished:
            self._migration_log.forget(migration.uid)
            return wait.until
        if step is MigrationStep.QUEUED and not migration.spec.group:
            # It is woken when its turn comes; a person sees that it is Pending.
            return wait.until
        if step is step_of(recorded) and migration.status.conditions == recorded.status.conditions:
            return wait.until
        shown_at = self._migration_log.since(migration, observation.now) + _RECORD_WAIT_AFTER
        if observation.now >= shown_at:
            await self._record(migration)
            return wait.until
        return shown_at if wait.until is None else min(wait.until, shown_at)

    # -- revalidation

    def _revalidation_result(self, migration: Migration) -> RevalidationResult:
        revalidation = self._revalidator.revalidate(
            migration, lambda node: self._dispatcher.has_room_at(migration, node)
        )
        if revalidation.outcome is not RevalidationOutcome.APPROVED:
            return revalidation
        if revalidation.waits_for_room:
            if self._dispatcher.may_wait_for_room(migration):
                return revalidation
            words = "no node has room, and as many copies as allowed wait Pending already"
            return RevalidationResult(RevalidationOutcome.POSTPONED, reason="NoTarget", message=words)
        if not revalidation.target and revalidation.handover.source_stays:
            return RevalidationResult(
                RevalidationOutcome.POSTPONED, reason="NoTarget", message="no target node was found"
            )
        if not self._dispatcher.has_room_at(migration, revalidation.target):
            return RevalidationResult(
                RevalidationOutcome.POSTPONED, reason="NodeBusy", message=f"{revalidation.target} is busy"
            )
        return revalidation


def _may_schedule_another_pod(observation: Observation, step: MigrationStep) -> bool:
    """Return whether the scheduler may see one more pod soon: the copy, or a surplus pod of its
    ReplicaSet."""
    if step is MigrationStep.PLACING:
        return observation.target is not None and SCHEDULING_GATE in observation.target.shape.scheduling_gates
    return step is MigrationStep.EVICTING and observation.migration.status.handover is Handover.ADOPT


def _without_version(effect: Effect) -> tuple[Any, ...]:
    """Return what the effect does and to which object, however often that object has changed since."""
    named = (each.name for each in fields(effect) if each.name != "version")
    return (type(effect), *(getattr(effect, name) for name in named))
