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

from rescheduler.controller.departed_pods import DepartedPods
from rescheduler.controller.dispatcher import Dispatcher
from rescheduler.controller.followed import POD_MIGRATIONS, Followed
from rescheduler.controller.forced_removal import ForcedRemovals
from rescheduler.controller.observing import migration_at, scene_of
from rescheduler.controller.performing import Outcome, Performer
from rescheduler.controller.story import Story
from rescheduler.controller.webhook_presence import Presence
from rescheduler.controller.workers import TryAgain
from rescheduler.kube import errors
from rescheduler.kube.client import Client
from rescheduler.kube.resources import NODES
from rescheduler.migrations.advance import advanced, is_checkpoint, look, senseless, shown, step_of
from rescheduler.migrations.copies import GATE
from rescheduler.migrations.effects import DeleteCopy, RecordEviction, UnmarkSource, WithdrawSteering
from rescheduler.migrations.evicting import depends_on_webhook, with_eviction_requested
from rescheduler.migrations.scene import Answer, Do, Happened, Report, Scene, Sight, Verdict, Wait
from rescheduler.migrations.steps import Event, Step
from rescheduler.model.migrations import ConditionType, Migration, migration_of
from rescheduler.model.nodes import NodeRecord
from rescheduler.model.plan import Handover

__all__ = ["Judge", "MayPreempt", "NoRoom", "Reconciler"]

Judge = Callable[[Migration], Verdict]
"""Is it still a good move, how, and where to? Asked just before anything is touched."""

MayPreempt = Callable[[Migration], str]
"""Whom one more pod like the migration's could preempt at its present step, in words; empty if nobody."""

NoRoom = Callable[[Migration], str]
"""Why the replacement of an evicted pod would find no node, in words; empty if it would find one."""

_MOST_LOOKS: Final = 100
"""Far more than any migration has steps: whoever needs more goes in circles."""

_SHOWN_AFTER: Final = timedelta(seconds=30)
"""A step that lasts is put on record for people, though nothing needs it. Shorter ones cost no write."""


class Reconciler:
    def __init__(
        self,
        client: Client,
        seen: Followed,
        story: Story,
        dispatcher: Dispatcher,
        judge: Judge,
        now: Callable[[], datetime],
        *,
        webhook: Presence,
    ) -> None:
        self._client = client
        self._seen = seen
        self._story = story
        self.is_winding_up: Callable[[], bool] = lambda: False
        self.may_preempt: MayPreempt = lambda _: ""
        self.no_room: NoRoom = lambda _: ""
        self._judge = judge
        self._now = now
        self._webhook = webhook
        self._performer = Performer(client, seen)
        self.forced_removals = ForcedRemovals(client, seen, story, now)
        self._departed = DepartedPods(seen)
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
        for _ in range(_MOST_LOOKS):
            if recorded is None or current is None:
                return None
            scene = self._scene(current)
            sight = await self._acted(scene, look(scene), performed)
            match sight:
                case None:
                    recorded, current = self._newest(recorded, current)
                case Happened():
                    recorded, current = await self._next(scene, sight, recorded)
                case Wait():
                    return await self._waiting(scene, sight, recorded)
        raise RuntimeError(f"migration {key} goes in circles at {current.status.step if current else '?'}")

    def _scene(self, migration: Migration) -> Scene:
        group = self._dispatcher.group(migration)
        scene = replace(scene_of(migration, self._seen, self._dispatcher.policy, self._now()), group=group)
        if scene.source is None:
            scene = replace(scene, last_seen_source=self._departed.get(migration.spec.pod.uid))
        if senseless(migration):
            return scene
        step = step_of(migration)
        if step is Step.QUEUED:
            return replace(
                scene,
                has_turn=self._dispatcher.has_turn(migration),
                obstacle=self._dispatcher.obstacle(migration),
                is_winding_up=self.is_winding_up(),
            )
        if step is Step.CHECKING:
            return replace(scene, verdict=self._verdict(migration))
        return replace(
            scene,
            is_steered=self._webhook.steers,
            is_guarded=self._webhook.guards,
            webhook_problem=self._webhook.problem,
            may_preempt=self.may_preempt(migration) if _lets_pods_loose(scene, step) else "",
        )

    # -- performing

    async def _acted(self, scene: Scene, sight: Sight, performed: set[Hashable]) -> Outcome:
        """`performed` are the effects of this reconciliation: what did not help is not repeated at once."""
        if _can_not_be_undone(scene, sight):
            confirmed, nodes = await asyncio.gather(self._confirmed(scene), self._read_live(scene))
            scene = replace(self._scene(scene.migration), nodes=nodes, **confirmed)
            if scene.migration.status.handover is Handover.EVICT:
                scene = replace(scene, no_room=self.no_room(scene.migration))
            sight = look(scene)
        if not isinstance(sight, Do):
            return sight
        same = scene.migration.status.step, sight.effect.without_version
        if same in performed:
            raise TryAgain(f"{type(sight.effect).__name__} changed nothing at {same[0]}")
        performed.add(same)
        if isinstance(sight.effect, WithdrawSteering):
            return await self._withdraw(scene)
        if isinstance(sight.effect, RecordEviction):
            await self._record(with_eviction_requested(scene))
            return None
        return await self._performer.perform(scene, sight.effect)

    async def _confirmed(self, scene: Scene) -> dict[str, Any]:
        """Whether the webhook answers right now, where the eviction depends on it: as fields of a scene."""
        if not depends_on_webhook(scene):
            return {}
        found = await self._webhook.confirm(scene.migration.namespace)
        return {
            "is_steered": bool(found.steers),
            "is_guarded": bool(found.guards),
            "webhook_problem": found.problem,
        }

    async def _read_live(self, scene: Scene) -> Mapping[str, NodeRecord]:
        """Both pods; and the nodes of the scene, with the target as it is now: a pod on a node that is gone
        still says that it is ready. On the way back that holds for the source, too."""
        migration = scene.migration
        reads = [self._seen.read_pod(migration.pod_key, migration.spec.pod.uid)]
        # As it is on record, if the cache does not know it: that may be a long way behind.
        copy = migration.status.target_pod if scene.target is None else scene.target_reference
        if copy is not None:
            reads.append(self._seen.read_pod(f"{migration.namespace}/{copy.name}", copy.uid))
        names = {migration.target_node if scene.target is None else scene.target.node}
        if migration.status.step == Step.ROLLING_BACK:
            names.add(migration.spec.source_node)
        names.discard("")
        nodes, *_ = await asyncio.gather(asyncio.gather(*map(self._live_node, names)), *reads)
        others = {each: known for each, known in scene.nodes.items() if each not in names}
        return others | {node.name: node for node in nodes if node is not None}

    async def _live_node(self, name: str) -> NodeRecord | None:
        try:
            return await self._client.get(NODES, name)
        except errors.NotFound:
            return None

    async def _withdraw(self, scene: Scene) -> Outcome:
        report = Report(ConditionType.STEERED, holds=False, reason="Withdrawn")
        wait = Wait(message="the replacement finds no place: it may go anywhere now", reports=(report,))
        after = shown(scene, wait)
        # Which one is to be made anew: clocks would not tell it from its successor.
        status = msgspec.structs.replace(after.status, target_pod=scene.target_reference)
        await self._record(msgspec.structs.replace(after, status=status))
        return None

    # -- going on

    async def _next(
        self, scene: Scene, happened: Happened, recorded: Migration
    ) -> tuple[Migration, Migration]:
        after = advanced(scene, happened)
        if step_of(after) is Step.MARKING:
            self._dispatcher.begin(after)
        if is_checkpoint(scene.migration, after):
            # First on record, then told, then acted upon.
            recorded = after = await self._record(after)
        self._story.tell(scene, after)
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
        return migration_of(written)

    def _newest(self, recorded: Migration, current: Migration) -> tuple[Migration | None, Migration | None]:
        """After an effect: the same step, with what has become of the object."""
        newest = migration_at(recorded.key, self._seen)
        if newest is None or newest.uid != recorded.uid:
            self._story.forget(recorded.uid)
            return None, None
        if newest.resource_version == recorded.resource_version:
            return recorded, current
        if newest.status != recorded.status:
            # Somebody else goes on with it, or we have put something on record.
            return newest, newest
        return newest, msgspec.structs.replace(newest, status=current.status)

    # -- waiting

    async def _waiting(self, scene: Scene, wait: Wait, recorded: Migration) -> datetime | None:
        """Puts what it waits for on record, where that lasts."""
        if senseless(scene.migration):
            self._story.left_alone(scene.migration, wait.message)
            return wait.until
        migration, step = shown(scene, wait), step_of(scene.migration)
        if migration.is_finished:
            self._story.forget(migration.uid)
            return wait.until
        if step is Step.QUEUED and not migration.spec.group:
            # It is woken when its turn comes; a person sees that it is Pending.
            return wait.until
        if step is step_of(recorded) and migration.status.conditions == recorded.status.conditions:
            return wait.until
        shown_at = self._story.since(migration, scene.now) + _SHOWN_AFTER
        if scene.now >= shown_at:
            await self._record(migration)
            return wait.until
        return shown_at if wait.until is None else min(wait.until, shown_at)

    # -- beginning

    def _verdict(self, migration: Migration) -> Verdict:
        verdict = self._judge(migration)
        if verdict.answer is not Answer.APPROVED:
            return verdict
        if not verdict.target and verdict.handover.source_stays:
            return Verdict(Answer.POSTPONED, reason="NoTarget", message="no node is chosen for it")
        if not self._dispatcher.has_room_at(migration, verdict.target):
            return Verdict(Answer.POSTPONED, reason="NodeBusy", message=f"{verdict.target} is busy")
        return verdict


def _lets_pods_loose(scene: Scene, step: Step) -> bool:
    """Whether the scheduler may see one more pod soon: the copy, or what its ReplicaSet creates beside it."""
    if step is Step.PLACING:
        return scene.target is not None and GATE in scene.target.shape.scheduling_gates
    return step is Step.EVICTING and scene.migration.status.handover is Handover.ADOPT


def _can_not_be_undone(scene: Scene, sight: Sight) -> bool:
    """The eviction; and to call it off, from the unlocking on: that rests on a source that stands, on a copy
    that does not, and in the end on a source that nobody can evict any more. And the removal of a ready copy,
    which rests on a ready source. All of it as it is now, not as a cache has it."""
    is_evicting = scene.migration.status.step == Step.EVICTING
    if isinstance(sight, Do):
        if isinstance(sight.effect, DeleteCopy):
            return scene.target is not None and scene.target.is_ready
        return sight.effect.irreversible or (is_evicting and isinstance(sight.effect, UnmarkSource))
    return is_evicting and isinstance(sight, Happened) and sight.event is not Event.SOURCE_LEFT
