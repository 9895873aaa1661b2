"""Turn effects into API requests.

The result of an effect is None (done, or another client was faster: decide again), a `Transition`, a `Wait`,
or the migration with a status to record before the next decision. The work queue handles all other errors and
retries by their type. Requests name the version of a pod where only one of two clients may win, and its uid
elsewhere.
"""

import contextlib
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any, Final

import msgspec

from rescheduler.api.podmigration import ConditionType, Migration, PodReference
from rescheduler.api.well_known_names import FINALIZER
from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.cluster.pod_record import PodRecord
from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS, WatchedObjects
from rescheduler.kube import errors
from rescheduler.kube.api_resources import POD_DISRUPTION_BUDGETS, Patch, merge_patch
from rescheduler.kube.client import Client
from rescheduler.migrations import effects
from rescheduler.migrations.controller import pod_writes
from rescheduler.migrations.controller.observation_builder import budgets_covering, observe
from rescheduler.migrations.controller.pod_writes import REFUSAL_ERRORS, CopyCreator, lacks_permission
from rescheduler.migrations.effects import FAILURE_OF_REFUSED_EFFECT, Effect
from rescheduler.migrations.labels_and_names import is_owned, labels_of_template, lock_of
from rescheduler.migrations.observation import ConditionUpdate, Observation, Transition, Wait
from rescheduler.migrations.source_eviction import eviction_refused, temporary_budget_manifest
from rescheduler.migrations.state_machine import with_wait_message
from rescheduler.migrations.transition_table import Trigger

__all__ = ["EffectOutcome", "EffectPerformer"]

EffectOutcome = Transition | Wait | Migration | None

_RETRY_AFTER: Final = timedelta(seconds=30)
"""When to retry after a refusal whose end causes no event."""


class EffectPerformer:
    def __init__(self, client: Client, watched: WatchedObjects) -> None:
        self._client = client
        self._watched = watched
        self._copies = CopyCreator(client, watched)
        self._handlers: Mapping[type[Effect], Callable[[Observation, Any], Awaitable[EffectOutcome]]] = {
            effects.AddFinalizer: self._add_finalizer,
            effects.RemoveFinalizer: self._remove_finalizer,
            effects.CancelMigration: self._cancel_migration,
            effects.DeleteMigration: self._delete_migration,
            effects.LabelSource: self._label_source,
            effects.UnlabelSource: self._unlabel_source,
            effects.CreateCopy: self._create_copy,
            effects.NominateNode: self._nominate,
            effects.RemoveSchedulingGate: self._remove_gate,
            effects.ProtectSource: self._protect_source,
            effects.EvictSource: self._evict,
            effects.RequestBudgetSync: self._request_budget_sync,
            effects.OfferCopyForAdoption: self._offer_copy,
            effects.ReleaseTarget: self._release_target,
            effects.RestoreCopyOwner: self._restore_copy_owner,
            effects.DeleteCopy: self._delete_copy,
            effects.DeleteReplacement: self._delete_replacement,
            effects.CreateBudget: self._create_budget,
            effects.DeleteBudget: self._delete_budget,
        }

    async def perform(self, observation: Observation, effect: Effect) -> EffectOutcome:
        """Perform the effect; raise `KubeError` if a retry may help, or if the server refuses and no step
        leads back."""
        try:
            return await self._handlers[type(effect)](observation, effect)
        except REFUSAL_ERRORS as refusal:
            failure = FAILURE_OF_REFUSED_EFFECT.get(type(effect))
            if failure is None or lacks_permission(refusal):
                raise
            return Transition(Trigger.WRITE_REFUSED, str(refusal), failure, final=True)

    # -- the migration itself

    async def _add_finalizer(self, observation: Observation, _: effects.AddFinalizer) -> EffectOutcome:
        return await self._with_finalizers(observation, [*observation.migration.finalizers, FINALIZER])

    async def _remove_finalizer(self, observation: Observation, _: effects.RemoveFinalizer) -> EffectOutcome:
        return await self._with_finalizers(
            observation, [each for each in observation.migration.finalizers if each != FINALIZER]
        )

    async def _with_finalizers(self, observation: Observation, finalizers: list[str]) -> EffectOutcome:
        migration = observation.migration
        metadata = {"resourceVersion": migration.resource_version, "finalizers": finalizers}
        try:
            written = await self._client.patch(
                POD_MIGRATIONS, migration.key, merge_patch({"metadata": metadata})
            )
        except errors.NotFound:
            self._watched.migrations.observe_deleted(migration.key, migration.uid)
            return None
        if migration.is_cancelled and not finalizers:
            # This answer has the last state of the object.
            self._watched.migrations.observe_deleted(migration.key, migration.uid)
        else:
            self._watched.migrations.observe(written)
        return None

    async def _cancel_migration(self, observation: Observation, _: effects.CancelMigration) -> EffectOutcome:
        migration = observation.migration
        with contextlib.suppress(errors.NotFound, errors.Conflict):
            await self._client.delete(
                POD_MIGRATIONS, migration.key, uid=migration.uid, version=migration.resource_version
            )
        await self._watched.read_migration(migration.key, migration.uid)
        return None

    async def _delete_migration(self, observation: Observation, _: effects.DeleteMigration) -> EffectOutcome:
        with contextlib.suppress(errors.NotFound, errors.Conflict):
            await self._client.delete(
                POD_MIGRATIONS, observation.migration.key, uid=observation.migration.uid
            )
        self._watched.migrations.observe_deleted(observation.migration.key, observation.migration.uid)
        return None

    # -- the source

    async def _label_source(self, observation: Observation, effect: effects.LabelSource) -> EffectOutcome:
        assert observation.source is not None
        if lock_of(observation.source):
            # Read live: the migration that this lock names may have been created a moment ago.
            await self._watched.read_migrations(observation.migration.namespace)
            if observe(observation.migration, self._watched, observation.policy, observation.now).locked_by:
                return None
        patch = pod_writes.mark_source_patch(
            observation.migration, observation.source, effect.version, observation.now
        )
        await self._try_patch(observation, effect.pod, self._copies.mark(observation, patch))
        return None

    async def _unlabel_source(self, observation: Observation, effect: effects.UnlabelSource) -> EffectOutcome:
        assert observation.source is not None
        return await self._patch(
            observation, effect.pod, pod_writes.unmark_source_patch(observation.source, effect.version)
        )

    async def _protect_source(self, observation: Observation, effect: effects.ProtectSource) -> EffectOutcome:
        return await self._patch(observation, effect.pod, pod_writes.protect_source_patch(effect))

    async def _evict(self, observation: Observation, effect: effects.EvictSource) -> EffectOutcome:
        key = observation.migration.pod_key
        grace_s = observation.policy.grace_period_seconds
        try:
            await self._client.evict(key, uid=effect.pod.uid, version=effect.version, grace_s=grace_s)
        except errors.BudgetPending as pending:
            return eviction_refused(observation, pending.why, timedelta(seconds=pending.delay_s))
        except (errors.NotFound, errors.Conflict):
            await self._watched.read_pod(key, effect.pod.uid)
            return None
        except (errors.BudgetRefused, errors.MultipleBudgets, *REFUSAL_ERRORS) as refusal:
            return eviction_refused(observation, refusal.why, _RETRY_AFTER)
        report = ConditionUpdate(ConditionType.BUDGET_ALLOWS, holds=True, reason="Evicted")
        return Transition(Trigger.SOURCE_LEFT, "the source is evicted", reports=(report,))

    # -- the copy

    async def _create_copy(self, observation: Observation, effect: effects.CreateCopy) -> EffectOutcome:
        return await self._copies.create(observation, effect.name)

    async def _nominate(self, observation: Observation, effect: effects.NominateNode) -> EffectOutcome:
        different = await self._copies.difference(observation)
        if different is not None:
            return different
        nomination = pod_writes.nominate_node_patch(effect.pod.uid, effect.node)
        written = self._client.patch(PODS.status, _pod_key(observation, effect.pod), nomination)
        if not await self._try_patch(observation, effect.pod, written):
            return None
        return self._copies.ignored(observation, effect.node)

    async def _remove_gate(
        self, observation: Observation, effect: effects.RemoveSchedulingGate
    ) -> EffectOutcome:
        return await self._patch(observation, effect.pod, pod_writes.remove_gate_patch(effect.pod.uid))

    async def _request_budget_sync(
        self, observation: Observation, effect: effects.RequestBudgetSync
    ) -> EffectOutcome:
        requested = pod_writes.request_budget_sync_patch(effect.pod.uid, effect.value)
        return await self._patch(observation, effect.pod, requested)

    async def _offer_copy(
        self, observation: Observation, effect: effects.OfferCopyForAdoption
    ) -> EffectOutcome:
        offer = pod_writes.offer_for_adoption_patch(observation.migration, effect.pod.uid)
        return await self._patch(observation, effect.pod, offer)

    async def _release_target(self, observation: Observation, effect: effects.ReleaseTarget) -> EffectOutcome:
        assert observation.target is not None
        *fuller, least = pod_writes.release_target_patches(
            observation.migration, observation.target, observation.now
        )
        for patch in fuller:
            try:
                return await self._patch(observation, effect.pod, patch)
            except REFUSAL_ERRORS as refusal:
                if lacks_permission(refusal):
                    raise
        try:
            return await self._patch(observation, effect.pod, least)
        except REFUSAL_ERRORS as refusal:
            if lacks_permission(refusal) or is_owned(observation.target, observation.migration):
                raise
            # No labels are better than those of a running move.
            with contextlib.suppress(*REFUSAL_ERRORS):
                await self._patch(observation, effect.pod, pod_writes.remove_labels_patch(effect.pod.uid))
            return _with_labels_refused(observation, refusal.why)

    async def _restore_copy_owner(
        self, observation: Observation, effect: effects.RestoreCopyOwner
    ) -> EffectOutcome:
        # Read live: if the controller has orphaned its other pods, the copy must stay, too.
        assert observation.target is not None
        await self._watched.read_pods(observation.migration.namespace, labels_of_template(observation.target))
        if observe(
            observation.migration, self._watched, observation.policy, observation.now
        ).pods_are_orphaned:
            return None
        return await self._patch(
            observation,
            effect.pod,
            pod_writes.return_to_owner_patch(observation.migration, effect.pod.uid, effect.owner),
        )

    async def _delete_copy(self, observation: Observation, effect: effects.DeleteCopy) -> EffectOutcome:
        assert observation.target is not None
        # Only if it is unchanged: otherwise it may serve by now, and other pods may have been removed because
        # of that; or its ReplicaSet may have adopted it, and removes another pod.
        key, version = _pod_key(observation, effect.pod), observation.target.resource_version
        try:
            if effect.within_budget:
                await self._client.evict(key, uid=effect.pod.uid, version=version)
            else:
                await self._client.delete(PODS, key, uid=effect.pod.uid, version=version)
        except errors.BudgetRefused as refusal:
            return Wait(
                observation.now + _RETRY_AFTER,
                f"the copy is needed until other pods are ready: {refusal.why}",
            )
        except errors.MultipleBudgets:
            with contextlib.suppress(errors.NotFound, errors.Conflict):
                await self._client.delete(PODS, key, uid=effect.pod.uid, version=version)
        except (errors.NotFound, errors.Conflict):
            pass
        await self._watched.read_pod(key, effect.pod.uid)
        return None

    async def _delete_replacement(
        self, observation: Observation, effect: effects.DeleteReplacement
    ) -> EffectOutcome:
        """Delete the replacement only if it still has no node: it never ran. Its controller makes another."""
        key, owner = _pod_key(observation, effect.pod), observation.migration.status.owner
        await self._watched.read_pod(key, effect.pod.uid)
        pod = self._watched.pods.get(key)
        if pod is None or pod.uid != effect.pod.uid or pod.node or pod.is_terminating:
            return None
        if owner is None or pod.owner is None or pod.owner.uid != owner.uid:
            return None
        with contextlib.suppress(errors.NotFound, errors.Conflict):
            await self._client.delete(PODS, key, uid=pod.uid, version=pod.resource_version)
        await self._watched.read_pod(key, effect.pod.uid)
        return None

    # -- the temporary budget

    async def _create_budget(self, observation: Observation, effect: effects.CreateBudget) -> EffectOutcome:
        # Read live: a second budget would block every eviction of these pods.
        await self._watched.read_budgets(observation.migration.namespace)
        assert observation.source is not None
        if budgets_covering(observation.source, self._watched):
            return None
        try:
            made = await self._client.create(
                POD_DISRUPTION_BUDGETS, temporary_budget_manifest(observation, effect.name)
            )
        except errors.AlreadyExists:
            return Wait(observation.now + _RETRY_AFTER, f"another budget already has the name {effect.name}")
        self._watched.budgets.observe(made)
        return None

    async def _delete_budget(self, observation: Observation, effect: effects.DeleteBudget) -> EffectOutcome:
        key = f"{observation.migration.namespace}/{effect.name}"
        with contextlib.suppress(errors.NotFound, errors.Conflict):
            await self._client.delete(POD_DISRUPTION_BUDGETS, key, uid=effect.uid)
        self._watched.budgets.observe_deleted(key, effect.uid)
        return None

    # -- common to all patches of pods

    async def _patch(self, observation: Observation, pod: PodReference, patch: Patch) -> EffectOutcome:
        await self._try_patch(observation, pod, self._client.patch(PODS, _pod_key(observation, pod), patch))
        return None

    async def _try_patch(
        self, observation: Observation, pod: PodReference, written: Awaitable[PodRecord]
    ) -> bool:
        """Await the patch of a pod; return false, with the pod read again, if it has changed since it was
        observed."""
        key = _pod_key(observation, pod)
        # The cache may know more by now: that the pod was read meanwhile must not hide its change.
        observed = (observation.target, observation.source)
        before = next((each for each in observed if each is not None and each.uid == pod.uid), None)
        try:
            self._watched.pods.observe(await written)
        except (errors.NotFound, errors.Conflict):
            await self._watched.read_pod(key, pod.uid)
            return False
        except errors.Invalid:
            # So is a patch of another pod of the same name, and some of a pod that has changed since.
            await self._watched.read_pod(key, pod.uid)
            if before is None or self._watched.pods.get(key) == before:
                raise
            return False
        return True


def _with_labels_refused(observation: Observation, why: str) -> Migration:
    """Return the migration with the condition that its pod lacks the labels of a completed move."""
    report = ConditionUpdate(ConditionType.MARKED, holds=False, reason="MarkRefused")
    message = f"the labels of the completed move were refused: {why}"
    changed = with_wait_message(observation, Wait(message=message, reports=(report,))).status
    status = msgspec.structs.replace(changed, message=observation.migration.status.message)
    return msgspec.structs.replace(observation.migration, status=status)


def _pod_key(observation: Observation, pod: PodReference) -> str:
    return f"{observation.migration.namespace}/{pod.name}"
