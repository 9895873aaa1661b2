"""Effects → requests. Each may be performed twice without harm, and says what it rests on.

What comes of one: None (done, or somebody was faster: look again), something that `Happened` in the terms of
the table, or a reason to `Wait`. All other errors are for the queue, which tries again by their type.
"""

import contextlib
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any, Final

from rescheduler.api.podmigration import ConditionType, PodReference
from rescheduler.api.well_known_names import FINALIZER
from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.cluster.pod_record import PodRecord
from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS, WatchedObjects
from rescheduler.kube import errors
from rescheduler.kube.api_resources import POD_DISRUPTION_BUDGETS, ApiResource
from rescheduler.kube.client import Client
from rescheduler.kube.patches import Patch, merge_patch
from rescheduler.migrations import effects
from rescheduler.migrations.controller.copy_creation import REFUSAL_ERRORS, CopyCreator, lacks_permission
from rescheduler.migrations.controller.observation_builder import budgets_covering, observe
from rescheduler.migrations.controller.pod_patches import (
    mark_source_patch,
    nominate_node_patch,
    offer_for_adoption_patch,
    release_target_patch,
    remove_gate_patch,
    request_budget_sync_patch,
    return_to_owner_patch,
    unmark_source_patch,
)
from rescheduler.migrations.disruption_budgets import temporary_budget_manifest
from rescheduler.migrations.effects import Effect
from rescheduler.migrations.labels_and_names import labels_of_template, lock_of
from rescheduler.migrations.observation import ConditionUpdate, Observation, Transition, Wait
from rescheduler.migrations.source_eviction import eviction_refused
from rescheduler.migrations.transition_table import Trigger

__all__ = ["EffectOutcome", "EffectPerformer"]

EffectOutcome = Transition | Wait | None

_RETRY_AFTER: Final = timedelta(seconds=30)
"""After a refusal whose end nobody would tell us of."""

_FAILURE_OF_EFFECT: Final[Mapping[type[Effect], str]] = {
    effects.AddFinalizer: "FinalizerRefused",
    effects.LabelSource: "MarkRefused",
    effects.NominateNode: "PlacementRefused",
    effects.RemoveSchedulingGate: "PlacementRefused",
    effects.CreateBudget: "BudgetRefused",
}
"""How an attempt ends whose request the server refuses for good. Other effects undo or finish something:
there is nothing else to do, so they are tried again, with a pause that doubles."""


class EffectPerformer:
    def __init__(self, client: Client, seen: WatchedObjects) -> None:
        self._client = client
        self._seen = seen
        self._copies = CopyCreator(client, seen)
        self._handlers: Mapping[type[Effect], Callable[[Observation, Any], Awaitable[EffectOutcome]]] = {
            effects.AddFinalizer: self._hold,
            effects.RemoveFinalizer: self._let_go,
            effects.CancelMigration: self._call_off,
            effects.DeleteMigration: self._delete_migration,
            effects.LabelSource: self._mark,
            effects.UnlabelSource: self._unmark,
            effects.CreateCopy: self._create_copy,
            effects.NominateNode: self._nominate,
            effects.RemoveSchedulingGate: self._open_gate,
            effects.EvictSource: self._evict,
            effects.RequestBudgetSync: self._request_budget_sync,
            effects.OfferCopyForAdoption: self._offer,
            effects.ReleaseTarget: self._release,
            effects.RestoreCopyOwner: self._return,
            effects.DeleteCopy: self._delete_copy,
            effects.DeleteReplacement: self._delete_replacement,
            effects.CreateBudget: self._create_budget,
            effects.DeleteBudget: self._delete_budget,
        }

    async def perform(self, scene: Observation, effect: Effect) -> EffectOutcome:
        """Raises `KubeError` for what may help later, and for what is refused where no step leads back."""
        try:
            return await self._handlers[type(effect)](scene, effect)
        except REFUSAL_ERRORS as refusal:
            failure = _FAILURE_OF_EFFECT.get(type(effect))
            if failure is None or lacks_permission(refusal):
                raise
            return Transition(Trigger.WRITE_REFUSED, str(refusal), failure, final=True)

    # -- the migration itself

    async def _hold(self, scene: Observation, _: effects.AddFinalizer) -> EffectOutcome:
        return await self._with_finalizers(scene, [*scene.migration.finalizers, FINALIZER])

    async def _let_go(self, scene: Observation, _: effects.RemoveFinalizer) -> EffectOutcome:
        return await self._with_finalizers(
            scene, [each for each in scene.migration.finalizers if each != FINALIZER]
        )

    async def _with_finalizers(self, scene: Observation, finalizers: list[str]) -> EffectOutcome:
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

    async def _call_off(self, scene: Observation, _: effects.CancelMigration) -> EffectOutcome:
        migration = scene.migration
        with contextlib.suppress(errors.NotFound, errors.Conflict):
            await self._client.delete(
                POD_MIGRATIONS, migration.key, uid=migration.uid, version=migration.resource_version
            )
        await self._seen.read_migration(migration.key, migration.uid)
        return None

    async def _delete_migration(self, scene: Observation, _: effects.DeleteMigration) -> EffectOutcome:
        with contextlib.suppress(errors.NotFound, errors.Conflict):
            await self._client.delete(POD_MIGRATIONS, scene.migration.key, uid=scene.migration.uid)
        self._seen.migrations.learn_gone(scene.migration.key, scene.migration.uid)
        return None

    # -- the source

    async def _mark(self, scene: Observation, effect: effects.LabelSource) -> EffectOutcome:
        assert scene.source is not None
        if lock_of(scene.source):
            # Read live: the migration that this lock names may have come a moment ago.
            await self._seen.read_migrations(scene.migration.namespace)
            if observe(scene.migration, self._seen, scene.policy, scene.now).locked_by:
                return None
        return await self._patch(scene, effect.pod, mark_source_patch(scene, scene.source, effect.version))

    async def _unmark(self, scene: Observation, effect: effects.UnlabelSource) -> EffectOutcome:
        assert scene.source is not None
        return await self._patch(scene, effect.pod, unmark_source_patch(scene.source, effect.version))

    async def _evict(self, scene: Observation, effect: effects.EvictSource) -> EffectOutcome:
        key = scene.migration.pod_key
        grace_s = scene.policy.grace_period_seconds
        try:
            await self._client.evict(key, uid=effect.pod.uid, version=effect.version, grace_s=grace_s)
        except errors.BudgetPending as pending:
            return eviction_refused(scene, pending.why, timedelta(seconds=pending.delay_s))
        except (errors.NotFound, errors.Conflict):
            await self._seen.read_pod(key, effect.pod.uid)
            return None
        except (errors.BudgetRefused, errors.MultipleBudgets, *REFUSAL_ERRORS) as refusal:
            return eviction_refused(scene, refusal.why, _RETRY_AFTER)
        report = ConditionUpdate(ConditionType.BUDGET_ALLOWS, holds=True, reason="Evicted")
        return Transition(Trigger.SOURCE_LEFT, "the source is evicted", reports=(report,))

    # -- the copy

    async def _create_copy(self, scene: Observation, effect: effects.CreateCopy) -> EffectOutcome:
        return await self._copies.create(scene, effect.name)

    async def _nominate(self, scene: Observation, effect: effects.NominateNode) -> EffectOutcome:
        different = await self._copies.difference(scene)
        if different is not None:
            return different
        await self._patch(scene, effect.pod, nominate_node_patch(effect.pod.uid, effect.node), PODS.status)
        return self._copies.ignored(scene, effect.node)

    async def _open_gate(self, scene: Observation, effect: effects.RemoveSchedulingGate) -> EffectOutcome:
        return await self._patch(scene, effect.pod, remove_gate_patch(effect.pod.uid))

    async def _request_budget_sync(
        self, scene: Observation, effect: effects.RequestBudgetSync
    ) -> EffectOutcome:
        return await self._patch(scene, effect.pod, request_budget_sync_patch(effect.pod.uid, effect.value))

    async def _offer(self, scene: Observation, effect: effects.OfferCopyForAdoption) -> EffectOutcome:
        return await self._patch(scene, effect.pod, offer_for_adoption_patch(scene.migration, effect.pod.uid))

    async def _release(self, scene: Observation, effect: effects.ReleaseTarget) -> EffectOutcome:
        assert scene.target is not None
        return await self._patch(scene, effect.pod, release_target_patch(scene, scene.target))

    async def _return(self, scene: Observation, effect: effects.RestoreCopyOwner) -> EffectOutcome:
        # Read live: those that its controller left behind show that the copy is to stay, too.
        assert scene.target is not None
        await self._seen.read_pods(scene.migration.namespace, labels_of_template(scene.target))
        if observe(scene.migration, self._seen, scene.policy, scene.now).pods_are_orphaned:
            return None
        return await self._patch(
            scene, effect.pod, return_to_owner_patch(scene.migration, effect.pod.uid, effect.owner)
        )

    async def _delete_copy(self, scene: Observation, effect: effects.DeleteCopy) -> EffectOutcome:
        assert scene.target is not None
        # Unchanged: else it may have begun to serve, and others may have gone because of that; or its
        # ReplicaSet may have adopted it, and removes another pod.
        key, version = _pod_key(scene, effect.pod), scene.target.resource_version
        try:
            if effect.within_budget:
                await self._client.evict(key, uid=effect.pod.uid, version=version)
            else:
                await self._client.delete(PODS, key, uid=effect.pod.uid, version=version)
        except errors.BudgetRefused as refusal:
            return Wait(scene.now + _RETRY_AFTER, f"the copy is needed until others are back: {refusal.why}")
        except errors.MultipleBudgets:
            with contextlib.suppress(errors.NotFound, errors.Conflict):
                await self._client.delete(PODS, key, uid=effect.pod.uid, version=version)
        except (errors.NotFound, errors.Conflict):
            pass
        await self._seen.read_pod(key, effect.pod.uid)
        return None

    async def _delete_replacement(
        self, scene: Observation, effect: effects.DeleteReplacement
    ) -> EffectOutcome:
        """Only if it still has no node: it never ran."""
        key = _pod_key(scene, effect.pod)
        await self._seen.read_pod(key, effect.pod.uid)
        pod = self._seen.pods.get(key)
        if pod is None or pod.uid != effect.pod.uid or pod.node or pod.is_terminating:
            return None
        with contextlib.suppress(errors.NotFound, errors.Conflict):
            await self._client.delete(PODS, key, uid=pod.uid, version=pod.resource_version)
        await self._seen.read_pod(key, effect.pod.uid)
        return None

    # -- the temporary budget

    async def _create_budget(self, scene: Observation, effect: effects.CreateBudget) -> EffectOutcome:
        # Read live: a second budget would block every eviction of these pods.
        await self._seen.read_budgets(scene.migration.namespace)
        assert scene.source is not None
        if budgets_covering(scene.source, self._seen):
            return None
        try:
            made = await self._client.create(
                POD_DISRUPTION_BUDGETS, temporary_budget_manifest(scene, effect.name)
            )
        except errors.AlreadyExists:
            return Wait(scene.now + _RETRY_AFTER, f"another budget is called {effect.name}")
        self._seen.budgets.learn(made)
        return None

    async def _delete_budget(self, scene: Observation, effect: effects.DeleteBudget) -> EffectOutcome:
        key = f"{scene.migration.namespace}/{effect.name}"
        with contextlib.suppress(errors.NotFound, errors.Conflict):
            await self._client.delete(POD_DISRUPTION_BUDGETS, key, uid=effect.uid)
        self._seen.budgets.learn_gone(key, effect.uid)
        return None

    # -- common to all patches of pods

    async def _patch(
        self, scene: Observation, pod: PodReference, patch: Patch, resource: ApiResource[PodRecord] = PODS
    ) -> EffectOutcome:
        """If another client was faster, what that made of the pod is looked at next."""
        key = _pod_key(scene, pod)
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


def _pod_key(scene: Observation, pod: PodReference) -> str:
    return f"{scene.migration.namespace}/{pod.name}"
