"""One key: look, and go as far as that leads. Level-triggered: whatever came before, the cluster tells.

    look ─▶ Happened ─▶ the next step; on record first, where it is a checkpoint ─▶ look
         ─▶ Do       ─▶ perform it, once; before what can't be undone, read live and look again ─▶ look
         ─▶ Wait     ─▶ until something changes, or until a time

From the accepted eviction to the offer there is no queue in between: it is the next turn of this loop.
"""

import asyncio
from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from rescheduler.api.podmigration import ConditionType, Handover, Migration, decode_migration
from rescheduler.api.well_known_names import SCHEDULING_GATE
from rescheduler.cluster.codecs.record_resources import NODES
from rescheduler.cluster.node_record import NodeRecord
from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS, WatchedObjects
from rescheduler.kube import errors
from rescheduler.kube.client import Client
from rescheduler.kube.work_queue import RetryLater
from rescheduler.migrations.controller.dispatcher import Dispatcher
from rescheduler.migrations.controller.effect_performer import EffectOutcome, EffectPerformer
from rescheduler.migrations.controller.migration_log import MigrationLog
from rescheduler.migrations.controller.migration_removal import ForcedRemovalCleanup
from rescheduler.migrations.controller.observation_builder import DeletedPods, migration_at, observe
from rescheduler.migrations.effects import DeleteCopy, RecordEviction, UnlabelSource, WithdrawSteering
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
from rescheduler.migrations.transition_table import MigrationStep, Trigger
from rescheduler.steering.webhook.webhook_presence import SteeringPresence

__all__ = ["MayPreempt", "NoRoom", "Reconciler", "Revalidate"]

Revalidate = Callable[[Migration], RevalidationResult]
"""Is it still a good move, how, and where to? Asked just before anything is touched."""

MayPreempt = Callable[[Migration], str]
"""Whom one more pod like the migration's could preempt at its present step, in words; empty if nobody."""

NoRoom = Callable[[Migration], str]
"""Why the replacement of an evicted pod would find no node, in words; empty if it would find one."""

_MAX_DECISIONS: Final = 100
"""Far more than any migration has steps: whoever needs more goes in circles."""

_RECORD_WAIT_AFTER: Final = timedelta(seconds=30)
"""A step that lasts is put on record for people, though nothing needs it. Shorter ones cost no write."""


class Reconciler:
    def __init__(
        self,
        client: Client,
        seen: WatchedObjects,
        story: MigrationLog,
        dispatcher: Dispatcher,
        revalidate: Revalidate,
        now: Callable[[], datetime],
        *,
        webhook: SteeringPresence,
    ) -> None:
        self._client = client
        self._seen = seen
        self._migration_log = story
        self.is_winding_down: Callable[[], bool] = lambda: False
        self.may_preempt: MayPreempt = lambda _: ""
        self.no_room: NoRoom = lambda _: ""
        self._revalidate = revalidate
        self._now = now
        self._webhook = webhook
        self._performer = EffectPerformer(client, seen)
        self.forced_removals = ForcedRemovalCleanup(client, seen, story, now)
        self._departed = DeletedPods(seen)
        self._dispatcher = dispatcher

    async def reconcile(self, key: str) -> datetime | None:
        """When to look again, if nothing changes before. Raises `KubeError` or `TryAgain`: then after a
        pause, which is the queue's."""
        failed = True
        try:
            look_again = await self._reconcile(key)
            failed = False
        finally:
            self._dispatcher.looked_at(key, failed=failed)
        return look_again

    async def _reconcile(self, key: str) -> datetime | None:
        recorded = current = migration_at(key, self._seen)
        if recorded is None:
            return await self.forced_removals.handle(key)
        performed: set[Hashable] = set()
        for _ in range(_MAX_DECISIONS):
            if recorded is None or current is None:
                return None
            scene = self._scene(current)
            decision = await self._acted(scene, decide(scene), performed)
            match decision:
                case None:
                    recorded, current = self._newest(recorded, current)
                case Transition():
                    recorded, current = await self._next(scene, decision, recorded)
                case Wait():
                    return await self._waiting(scene, decision, recorded)
        raise RuntimeError(f"migration {key} goes in circles at {current.status.step if current else '?'}")

    def _scene(self, migration: Migration) -> Observation:
        group = self._dispatcher.group(migration)
        scene = replace(observe(migration, self._seen, self._dispatcher.policy, self._now()), group=group)
        if scene.source is None:
            scene = replace(scene, last_seen_source=self._departed.get(migration.spec.pod.uid))
        if invalid_status(migration):
            return scene
        step = step_of(migration)
        if step is MigrationStep.QUEUED:
            return replace(
                scene,
                has_turn=self._dispatcher.has_turn(migration),
                obstacle=self._dispatcher.obstacle(migration),
                is_winding_down=self.is_winding_down(),
            )
        if step is MigrationStep.CHECKING:
            return replace(scene, revalidation=self._revalidation_result(migration))
        return replace(
            scene,
            is_steered=self._webhook.steers,
            is_guarded=self._webhook.guards,
            webhook_problem=self._webhook.problem,
            may_preempt=self.may_preempt(migration) if _may_schedule_another_pod(scene, step) else "",
        )

    # -- performing

    async def _acted(self, scene: Observation, decision: Decision, performed: set[Hashable]) -> EffectOutcome:
        """`performed` are the effects of this reconciliation: what did not help is not repeated at once."""
        if _is_irreversible(scene, decision):
            confirmed, nodes = await asyncio.gather(self._confirmed(scene), self._read_live(scene))
            scene = replace(self._scene(scene.migration), nodes=nodes, **confirmed)
            if scene.migration.status.handover is Handover.EVICT:
                scene = replace(scene, no_room=self.no_room(scene.migration))
            decision = decide(scene)
        if not isinstance(decision, Perform):
            return decision
        same = scene.migration.status.step, decision.effect.without_version
        if same in performed:
            raise RetryLater(f"{type(decision.effect).__name__} changed nothing at {same[0]}")
        performed.add(same)
        if isinstance(decision.effect, WithdrawSteering):
            return await self._withdraw(scene)
        if isinstance(decision.effect, RecordEviction):
            await self._record(with_eviction_requested(scene))
            return None
        return await self._performer.perform(scene, decision.effect)

    async def _confirmed(self, scene: Observation) -> dict[str, Any]:
        """Whether the webhook answers right now, where the eviction depends on it: as fields of a scene."""
        if not depends_on_webhook(scene):
            return {}
        found = await self._webhook.confirm(scene.migration.namespace)
        return {
            "is_steered": bool(found.steers),
            "is_guarded": bool(found.guards),
            "webhook_problem": found.problem,
        }

    async def _read_live(self, scene: Observation) -> Mapping[str, NodeRecord]:
        """Both pods; and the nodes of the scene, with the target as it is now: a pod on a node that is gone
        still says that it is ready. On the way back that holds for the source, too."""
        migration = scene.migration
        reads = [self._seen.read_pod(migration.pod_key, migration.spec.pod.uid)]
        # As it is on record, if the cache does not know it: that may be a long way behind.
        copy = migration.status.target_pod if scene.target is None else scene.target_reference
        if copy is not None:
            reads.append(self._seen.read_pod(f"{migration.namespace}/{copy.name}", copy.uid))
        names = {migration.target_node if scene.target is None else scene.target.node}
        if migration.status.step == MigrationStep.ROLLING_BACK:
            names.add(migration.spec.source_node)
        names.discard("")
        nodes, _ = await asyncio.gather(asyncio.gather(*map(self._live_node, names)), asyncio.gather(*reads))
        others = {each: known for each, known in scene.nodes.items() if each not in names}
        return others | {node.name: node for node in nodes if node is not None}

    async def _live_node(self, name: str) -> NodeRecord | None:
        try:
            return await self._client.get(NODES, name)
        except errors.NotFound:
            return None

    async def _withdraw(self, scene: Observation) -> EffectOutcome:
        report = ConditionUpdate(ConditionType.STEERED, holds=False, reason="Withdrawn")
        wait = Wait(message="the replacement finds no place: it may go anywhere now", reports=(report,))
        after = with_wait_message(scene, wait)
        # Which one is to be made anew: clocks would not tell it from its successor.
        status = msgspec.structs.replace(after.status, target_pod=scene.target_reference)
        await self._record(msgspec.structs.replace(after, status=status))
        return None

    # -- going on

    async def _next(
        self, scene: Observation, transition: Transition, recorded: Migration
    ) -> tuple[Migration, Migration]:
        after = advance(scene, transition)
        if step_of(after) is MigrationStep.MARKING:
            self._dispatcher.begin(after)
        if is_checkpoint(scene.migration, after):
            # First on record, then told, then acted upon.
            recorded = after = await self._record(after)
        self._migration_log.tell(scene, after)
        return recorded, after

    async def _record(self, migration: Migration) -> Migration:
        """With the version as lock: whoever else goes on with it has to look again."""
        item = self._seen.migrations.get(migration.key)
        metadata = {} if item is None else item["metadata"]
        wanted = {
            "apiVersion": POD_MIGRATIONS.api_version,
            "kind": POD_MIGRATIONS.kind,
            **(item or {}),
            "metadata": {
                **metadata,
                "namespace": migration.namespace,
                "name": migration.name,
                "resourceVersion": migration.resource_version,
            },
            "status": msgspec.to_builtins(migration.status),
        }
        try:
            written = await self._client.replace(POD_MIGRATIONS.status, wanted)
        except (errors.Conflict, errors.NotFound):
            await self._seen.read_migration(migration.key, migration.uid)
            raise
        self._seen.migrations.learn(written)
        return decode_migration(written)

    def _newest(self, recorded: Migration, current: Migration) -> tuple[Migration | None, Migration | None]:
        """After an effect: the same step, with what has become of the object."""
        newest = migration_at(recorded.key, self._seen)
        if newest is None or newest.uid != recorded.uid:
            self._migration_log.forget(recorded.uid)
            return None, None
        if newest.resource_version == recorded.resource_version:
            return recorded, current
        if newest.status != recorded.status:
            # Somebody else goes on with it, or we have put something on record.
            return newest, newest
        return newest, msgspec.structs.replace(newest, status=current.status)

    # -- waiting

    async def _waiting(self, scene: Observation, wait: Wait, recorded: Migration) -> datetime | None:
        """Puts what it waits for on record, where that lasts."""
        if invalid_status(scene.migration):
            self._migration_log.left_alone(scene.migration, wait.message)
            return wait.until
        migration, step = with_wait_message(scene, wait), step_of(scene.migration)
        if migration.is_finished:
            self._migration_log.forget(migration.uid)
            return wait.until
        if step is MigrationStep.QUEUED and not migration.spec.group:
            # It is woken when its turn comes; a person sees that it is Pending.
            return wait.until
        if step is step_of(recorded) and migration.status.conditions == recorded.status.conditions:
            return wait.until
        shown_at = self._migration_log.since(migration, scene.now) + _RECORD_WAIT_AFTER
        if scene.now >= shown_at:
            await self._record(migration)
            return wait.until
        return shown_at if wait.until is None else min(wait.until, shown_at)

    # -- beginning

    def _revalidation_result(self, migration: Migration) -> RevalidationResult:
        revalidation = self._revalidate(migration)
        if revalidation.answer is not RevalidationOutcome.APPROVED:
            return revalidation
        if not revalidation.target and revalidation.handover.source_stays:
            return RevalidationResult(
                RevalidationOutcome.POSTPONED, reason="NoTarget", message="no node is chosen for it"
            )
        if not self._dispatcher.has_room_at(migration, revalidation.target):
            return RevalidationResult(
                RevalidationOutcome.POSTPONED, reason="NodeBusy", message=f"{revalidation.target} is busy"
            )
        return revalidation


def _may_schedule_another_pod(scene: Observation, step: MigrationStep) -> bool:
    """Whether the scheduler may see one more pod soon: the copy, or what its ReplicaSet creates beside it."""
    if step is MigrationStep.PLACING:
        return scene.target is not None and SCHEDULING_GATE in scene.target.shape.scheduling_gates
    return step is MigrationStep.EVICTING and scene.migration.status.handover is Handover.ADOPT


def _is_irreversible(scene: Observation, decision: Decision) -> bool:
    """The eviction; and to call it off, from the unlocking on: that rests on a source that stands, on a copy
    that does not, and in the end on a source that nobody can evict any more. And the removal of a ready copy,
    which rests on a ready source. All of it as it is now, not as a cache has it."""
    is_evicting = scene.migration.status.step == MigrationStep.EVICTING
    if isinstance(decision, Perform):
        if isinstance(decision.effect, DeleteCopy):
            return scene.target is not None and scene.target.is_ready
        return decision.effect.irreversible or (is_evicting and isinstance(decision.effect, UnlabelSource))
    return is_evicting and isinstance(decision, Transition) and decision.event is not Trigger.SOURCE_LEFT
