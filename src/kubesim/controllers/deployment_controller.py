"""Deployments: roll out from one ReplicaSet to the next."""

from collections.abc import Mapping

import msgspec

from kubesim.apiserver.api_messages import Object
from kubesim.apiserver.kind_registry import ResourceKind
from kubesim.apiserver.object_store import StoreChange, StoredObject, key_of
from kubesim.controllers import deployment_sizes
from kubesim.controllers.controller_base import (
    ChangeHandler,
    ControllerContext,
    SelectingController,
    split_key,
)
from kubesim.controllers.deployment_rollout import DeploymentRollout
from kubesim.controllers.deployment_sizes import DeploymentReplicaSets, actual_of, size_of
from kubesim.controllers.deployment_status import (
    counted_status,
    pause_condition,
    rollout_status,
    seconds_to_deadline,
)
from kubesim.controllers.owned_objects import OwnershipClaims, is_deleting
from kubesim.controllers.pod_index import IndexedObject
from kubesim.controllers.selector_index import SelectorIndex, read_selector

__all__ = ["DeploymentController"]


_decode_owned = msgspec.json.Decoder(IndexedObject).decode


class DeploymentController(SelectingController):
    name = "deployment-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._deployments = self.kind("apps/v1", "Deployment")
        self._replica_sets = self.kind("apps/v1", "ReplicaSet")
        self.selectors = SelectorIndex(context.store.collection(self._deployments).ordered())
        self._steps = DeploymentRollout(context, self.writes)

    # -- which objects to reconcile

    def watches(self) -> Mapping[ResourceKind, ChangeHandler]:
        return {self._deployments: self.own_changed, self._replica_sets: self._replica_set_changed}

    def _replica_set_changed(self, change: StoreChange) -> None:
        for record in (change.before, change.after):
            if record is None:
                continue
            owner = _decode_owned(record.raw).controller
            if owner is None:
                for key in self.selectors.matching(record.namespace, record.labels):
                    self.queue.add(key)
            elif owner.kind == self._deployments.name:
                self.queue.add(key_of(record.namespace, owner.name))

    # -- what to do

    async def reconcile(self, key: str) -> float | None:
        deployment = self.context.read(self._deployments, *split_key(key))
        if deployment is None:
            return None
        replica_sets = await self._claim(deployment)
        if is_deleting(deployment):
            await self._steps.write_status(
                deployment,
                counted_status(DeploymentReplicaSets.of(deployment, replica_sets), self.context.now()),
            )
            return None
        if (status := pause_condition(deployment, self.context.now())) is not None:
            deployment = await self._steps.write_status(deployment, status)
        sets = await self._steps.with_revision(DeploymentReplicaSets.of(deployment, replica_sets))
        if deployment["spec"].get("paused") or deployment_sizes.is_scaling(sets):
            return await self._scale(sets)
        if deployment_sizes.is_rolling(deployment):
            return await self._roll(sets)
        return await self._recreate(sets)

    async def _claim(self, deployment: Object) -> list[Object]:
        claims = OwnershipClaims(
            self.writes,
            self.context.store,
            owner_kind=self._deployments,
            owner=deployment,
            claimed_kind=self._replica_sets,
        )
        selector = read_selector(deployment["spec"].get("selector"))
        own = []
        for record in self._candidates(deployment):
            if await claims.settle(_decode_owned(record.raw), selector):
                content = self.context.read(self._replica_sets, record.namespace, record.name)
                own += [content] if content is not None else []
        return own

    def _candidates(self, deployment: Object) -> list[StoredObject]:
        uid, namespace = deployment["metadata"]["uid"], deployment["metadata"]["namespace"]
        store = self.context.store
        owned = [record for kind, record in store.dependents(uid) if kind == self._replica_sets]
        ownerless = [
            record for record in store.collection(self._replica_sets).ordered(namespace) if not record.owners
        ]
        return owned + ownerless

    # -- the ways to roll out

    async def _scale(self, sets: DeploymentReplicaSets) -> float | None:
        """Scale ReplicaSets without rolling out: the Deployment is paused or was scaled."""
        await self._steps.resize(sets, deployment_sizes.proportional(sets), sizes_only=len(sets.active) <= 1)
        if sets.deployment["spec"].get("paused"):
            await self._steps.clean_up(sets)
        sets = self._reread(sets)
        await self._steps.write_status(sets.deployment, counted_status(sets, self.context.now()))
        return None

    async def _roll(self, sets: DeploymentReplicaSets) -> float | None:
        sets = await self._steps.created(sets)
        assert sets.new is not None
        grown = {sets.new["metadata"]["name"]: deployment_sizes.new_size(sets)}
        resized = await self._steps.resize(sets, grown)
        if not resized and not await self._steps.resize(sets, deployment_sizes.rolled_down(sets)):
            await self._steps.clean_up_when_complete(sets)
        return await self._finish(sets)

    async def _recreate(self, sets: DeploymentReplicaSets) -> float | None:
        old = {each["metadata"]["name"]: 0 for each in sets.old if size_of(each) > 0}
        if not await self._steps.resize(sets, old) and not self._old_pods_run(sets):
            sets = await self._steps.created(sets)
            assert sets.new is not None
            await self._steps.resize(sets, {sets.new["metadata"]["name"]: size_of(sets.deployment)})
            await self._steps.clean_up_when_complete(sets)
        return await self._finish(sets)

    def _old_pods_run(self, sets: DeploymentReplicaSets) -> bool:
        return any(
            actual_of(each) > 0
            or any(not pod.finished for pod in self.context.pods.controlled_by(each["metadata"]["uid"]))
            for each in sets.old
        )

    async def _finish(self, sets: DeploymentReplicaSets) -> float | None:
        sets = self._reread(sets)
        status = rollout_status(sets, self.context.now())
        if not status["conditions"]:
            del status["conditions"]
        deployment = await self._steps.write_status(sets.deployment, status)
        return seconds_to_deadline(deployment, self.context.now())

    def _reread(self, sets: DeploymentReplicaSets) -> DeploymentReplicaSets:
        """Read the objects again, because unavailable replicas depend on current sizes."""
        found = (
            self.context.read(self._replica_sets, each["metadata"]["namespace"], each["metadata"]["name"])
            for each in sets.all
        )
        return DeploymentReplicaSets.of(sets.deployment, [each for each in found if each is not None])
