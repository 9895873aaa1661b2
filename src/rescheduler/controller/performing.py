"""Effects → requests. Each may be performed twice without harm, and says what it rests on.

What comes of one: None (done, or somebody was faster: look again), something that `Happened` in the terms of
the table, or a reason to `Wait`. All other errors are for the queue, which tries again by their type.
"""

import contextlib
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any, Final

from rescheduler.controller.copy_maker import REFUSED, CopyMaker, lacks_permission
from rescheduler.controller.followed import POD_MIGRATIONS, Followed
from rescheduler.controller.observing import covering, scene_of
from rescheduler.controller.patching import (
    gate_opened,
    marked,
    nominated,
    offered,
    released,
    returned,
    sync_requested,
    unmarked,
)
from rescheduler.controller.temporary_budget import temporary_budget
from rescheduler.kube import errors
from rescheduler.kube.client import Client
from rescheduler.kube.patches import Patch, merge_patch
from rescheduler.kube.resources import POD_DISRUPTION_BUDGETS, PODS, Resource
from rescheduler.migrations import effects
from rescheduler.migrations.effects import Effect
from rescheduler.migrations.evicting import refused
from rescheduler.migrations.marks import lock_of, unmarked_labels
from rescheduler.migrations.scene import Happened, Report, Scene, Wait
from rescheduler.migrations.steps import Event
from rescheduler.model.migrations import FINALIZER, ConditionType, PodReference
from rescheduler.model.pods import PodRecord

__all__ = ["Outcome", "Performer"]

Outcome = Happened | Wait | None

_ASK_AGAIN: Final = timedelta(seconds=30)
"""After a refusal whose end nobody would tell us of."""

_FAILURES: Final[Mapping[type[Effect], str]] = {
    effects.HoldMigration: "FinalizerRefused",
    effects.MarkSource: "MarkRefused",
    effects.Nominate: "PlacementRefused",
    effects.OpenGate: "PlacementRefused",
    effects.CreateBudget: "BudgetRefused",
}
"""How an attempt ends whose request the server refuses for good. Other effects undo or finish something:
there is nothing else to do, so they are tried again, with a pause that doubles."""


class Performer:
    def __init__(self, client: Client, seen: Followed) -> None:
        self._client = client
        self._seen = seen
        self._copies = CopyMaker(client, seen)
        self._handlers: Mapping[type[Effect], Callable[[Scene, Any], Awaitable[Outcome]]] = {
            effects.HoldMigration: self._hold,
            effects.LetGoMigration: self._let_go,
            effects.CallOffMigration: self._call_off,
            effects.DeleteMigration: self._delete_migration,
            effects.MarkSource: self._mark,
            effects.UnmarkSource: self._unmark,
            effects.CreateCopy: self._create_copy,
            effects.Nominate: self._nominate,
            effects.OpenGate: self._open_gate,
            effects.EvictSource: self._evict,
            effects.RequestBudgetSync: self._request_budget_sync,
            effects.OfferCopy: self._offer,
            effects.ReleaseTarget: self._release,
            effects.ReturnCopy: self._return,
            effects.DeleteCopy: self._delete_copy,
            effects.DeleteReplacement: self._delete_replacement,
            effects.CreateBudget: self._create_budget,
            effects.DeleteBudget: self._delete_budget,
        }

    async def perform(self, scene: Scene, effect: Effect) -> Outcome:
        """Raises `KubeError` for what may help later, and for what is refused where no step leads back."""
        try:
            return await self._handlers[type(effect)](scene, effect)
        except REFUSED as refusal:
            failure = _FAILURES.get(type(effect))
            if failure is None or lacks_permission(refusal):
                raise
            return Happened(Event.WRITE_REFUSED, str(refusal), failure, final=True)

    # -- the migration itself

    async def _hold(self, scene: Scene, _: effects.HoldMigration) -> Outcome:
        return await self._with_finalizers(scene, [*scene.migration.finalizers, FINALIZER])

    async def _let_go(self, scene: Scene, _: effects.LetGoMigration) -> Outcome:
        return await self._with_finalizers(
            scene, [each for each in scene.migration.finalizers if each != FINALIZER]
        )

    async def _with_finalizers(self, scene: Scene, finalizers: list[str]) -> Outcome:
        migration = scene.migration
        metadata = {"resourceVersion": migration.resource_version, "finalizers": finalizers}
        try:
            written = await self._client.patch(
                POD_MIGRATIONS, migration.key, merge_patch({"metadata": metadata})
            )
        except errors.NotFound:
            self._seen.migrations.learn_gone(migration.key, migration.uid)
            return None
        if migration.is_cancelled and not finalizers:
            # The answer is the last that there was of it.
            self._seen.migrations.learn_gone(migration.key, migration.uid)
        else:
            self._seen.migrations.learn(written)
        return None

    async def _call_off(self, scene: Scene, _: effects.CallOffMigration) -> Outcome:
        migration = scene.migration
        with contextlib.suppress(errors.NotFound, errors.Conflict):
            await self._client.delete(
                POD_MIGRATIONS, migration.key, uid=migration.uid, version=migration.resource_version
            )
        await self._seen.read_migration(migration.key, migration.uid)
        return None

    async def _delete_migration(self, scene: Scene, _: effects.DeleteMigration) -> Outcome:
        with contextlib.suppress(errors.NotFound, errors.Conflict):
            await self._client.delete(POD_MIGRATIONS, scene.migration.key, uid=scene.migration.uid)
        self._seen.migrations.learn_gone(scene.migration.key, scene.migration.uid)
        return None

    # -- the source

    async def _mark(self, scene: Scene, effect: effects.MarkSource) -> Outcome:
        assert scene.source is not None
        if lock_of(scene.source):
            # Read live: the migration that this lock names may have come a moment ago.
            await self._seen.read_migrations(scene.migration.namespace)
            if scene_of(scene.migration, self._seen, scene.policy, scene.now).locked_by:
                return None
        return await self._patch(scene, effect.pod, marked(scene, scene.source, effect.version))

    async def _unmark(self, scene: Scene, effect: effects.UnmarkSource) -> Outcome:
        assert scene.source is not None
        return await self._patch(scene, effect.pod, unmarked(scene.source, effect.version))

    async def _evict(self, scene: Scene, effect: effects.EvictSource) -> Outcome:
        key = scene.migration.pod_key
        grace_s = scene.policy.grace_period_seconds
        try:
            await self._client.evict(key, uid=effect.pod.uid, version=effect.version, grace_s=grace_s)
        except errors.BudgetPending as pending:
            return refused(scene, pending.why, timedelta(seconds=pending.delay_s))
        except (errors.NotFound, errors.Conflict):
            await self._seen.read_pod(key, effect.pod.uid)
            return None
        except (errors.BudgetRefused, errors.SeveralBudgets, *REFUSED) as refusal:
            return refused(scene, refusal.why, _ASK_AGAIN)
        report = Report(ConditionType.BUDGET_ALLOWS, holds=True, reason="Evicted")
        return Happened(Event.SOURCE_LEFT, "the source is evicted", reports=(report,))

    # -- the copy

    async def _create_copy(self, scene: Scene, effect: effects.CreateCopy) -> Outcome:
        return await self._copies.create(scene, effect.name)

    async def _nominate(self, scene: Scene, effect: effects.Nominate) -> Outcome:
        different = await self._copies.difference(scene)
        if different is not None:
            return different
        await self._patch(scene, effect.pod, nominated(effect.pod.uid, effect.node), PODS.status)
        return self._copies.ignored(scene, effect.node)

    async def _open_gate(self, scene: Scene, effect: effects.OpenGate) -> Outcome:
        return await self._patch(scene, effect.pod, gate_opened(effect.pod.uid))

    async def _request_budget_sync(self, scene: Scene, effect: effects.RequestBudgetSync) -> Outcome:
        return await self._patch(scene, effect.pod, sync_requested(effect.pod.uid, effect.value))

    async def _offer(self, scene: Scene, effect: effects.OfferCopy) -> Outcome:
        return await self._patch(scene, effect.pod, offered(scene.migration, effect.pod.uid))

    async def _release(self, scene: Scene, effect: effects.ReleaseTarget) -> Outcome:
        assert scene.target is not None
        return await self._patch(scene, effect.pod, released(scene, scene.target))

    async def _return(self, scene: Scene, effect: effects.ReturnCopy) -> Outcome:
        # Read live: those that its controller left behind show that the copy is to stay, too.
        assert scene.target is not None
        await self._seen.read_pods(scene.migration.namespace, unmarked_labels(scene.target))
        if scene_of(scene.migration, self._seen, scene.policy, scene.now).pods_are_orphaned:
            return None
        return await self._patch(scene, effect.pod, returned(scene.migration, effect.pod.uid, effect.owner))

    async def _delete_copy(self, scene: Scene, effect: effects.DeleteCopy) -> Outcome:
        assert scene.target is not None
        # Unchanged: else it may have begun to serve, and others may have gone because of that; or its
        # ReplicaSet may have adopted it, and removes another pod.
        key, version = _key(scene, effect.pod), scene.target.resource_version
        try:
            if effect.within_budget:
                await self._client.evict(key, uid=effect.pod.uid, version=version)
            else:
                await self._client.delete(PODS, key, uid=effect.pod.uid, version=version)
        except errors.BudgetRefused as refusal:
            return Wait(scene.now + _ASK_AGAIN, f"the copy is needed until others are back: {refusal.why}")
        except errors.SeveralBudgets:
            with contextlib.suppress(errors.NotFound, errors.Conflict):
                await self._client.delete(PODS, key, uid=effect.pod.uid, version=version)
        except (errors.NotFound, errors.Conflict):
            pass
        await self._seen.read_pod(key, effect.pod.uid)
        return None

    async def _delete_replacement(self, scene: Scene, effect: effects.DeleteReplacement) -> Outcome:
        """Only if it still has no node: it never ran."""
        key = _key(scene, effect.pod)
        await self._seen.read_pod(key, effect.pod.uid)
        pod = self._seen.pods.get(key)
        if pod is None or pod.uid != effect.pod.uid or pod.node or pod.is_terminating:
            return None
        with contextlib.suppress(errors.NotFound, errors.Conflict):
            await self._client.delete(PODS, key, uid=pod.uid, version=pod.resource_version)
        await self._seen.read_pod(key, effect.pod.uid)
        return None

    # -- the temporary budget

    async def _create_budget(self, scene: Scene, effect: effects.CreateBudget) -> Outcome:
        # Read live: a second budget would block every eviction of these pods.
        await self._seen.read_budgets(scene.migration.namespace)
        assert scene.source is not None
        if covering(scene.source, self._seen):
            return None
        try:
            made = await self._client.create(POD_DISRUPTION_BUDGETS, temporary_budget(scene, effect.name))
        except errors.AlreadyExists:
            return Wait(scene.now + _ASK_AGAIN, f"another budget is called {effect.name}")
        self._seen.budgets.learn(made)
        return None

    async def _delete_budget(self, scene: Scene, effect: effects.DeleteBudget) -> Outcome:
        key = f"{scene.migration.namespace}/{effect.name}"
        with contextlib.suppress(errors.NotFound, errors.Conflict):
            await self._client.delete(POD_DISRUPTION_BUDGETS, key, uid=effect.uid)
        self._seen.budgets.learn_gone(key, effect.uid)
        return None

    # -- common to all patches of pods

    async def _patch(
        self, scene: Scene, pod: PodReference, patch: Patch, resource: Resource[PodRecord] = PODS
    ) -> Outcome:
        """If another client was faster, what that made of the pod is looked at next."""
        key = _key(scene, pod)
        before = self._seen.pods.get(key)
        try:
            self._seen.pods.learn(await self._client.patch(resource, key, patch))
        except (errors.NotFound, errors.Conflict):
            await self._seen.read_pod(key, pod.uid)
        except errors.Invalid:
            # So is a patch of another pod of the same name, and some of a pod that has changed since.
            await self._seen.read_pod(key, pod.uid)
            if self._seen.pods.get(key) == before:
                raise
        return None


def _key(scene: Scene, pod: PodReference) -> str:
    return f"{scene.migration.namespace}/{pod.name}"
