"""The writes of the Deployment controller: ReplicaSets, their sizes, revisions and conditions."""

from kubesim.apiserver.api_messages import Object
from kubesim.apiserver.status_errors import StatusError
from kubesim.common_fields import condition
from kubesim.controllers import deployment_sizes
from kubesim.controllers.controller_base import ControllerContext, ControllerWrites
from kubesim.controllers.deployment_sizes import (
    DESIRED,
    MAXIMUM,
    REVISION,
    TEMPLATE_HASH,
    DeploymentReplicaSets,
    actual_of,
    annotations_for,
    by_age,
    revision_of,
    size_of,
)
from kubesim.controllers.deployment_status import has_deadline, is_complete, put_condition
from kubesim.controllers.owned_objects import controller_reference, is_deleting, template_hash
from kubesim.controllers.replica_set_controller import is_namespace_terminating

__all__ = ["DeploymentRollout"]

_LONGEST_NAME = 253
_NO_LIMIT = 2**31 - 1


class DeploymentRollout:
    def __init__(self, context: ControllerContext, writes: ControllerWrites) -> None:
        self.context = context
        self.writes = writes
        self._deployments = context.cluster.kind("apps/v1", "Deployment")
        self._replica_sets = context.cluster.kind("apps/v1", "ReplicaSet")

    # -- the ReplicaSet with the present template

    async def with_revision(self, sets: DeploymentReplicaSets) -> DeploymentReplicaSets:
        """Copy the Deployment's annotations to its new ReplicaSet, and the revision to the Deployment."""
        if sets.new is None:
            return sets
        annotations = annotations_for(sets, sets.new)
        min_ready_s = sets.deployment["spec"].get("minReadySeconds", 0)
        is_recorded = annotations == (sets.new["metadata"].get("annotations") or {})
        if not is_recorded or min_ready_s != sets.new["spec"].get("minReadySeconds", 0):

            def edit(live: Object) -> None:
                live["metadata"]["annotations"] = annotations
                if min_ready_s != live["spec"].get("minReadySeconds", 0):
                    live["spec"]["minReadySeconds"] = min_ready_s

            sets = sets.with_new(await self.writes.change(self._replica_sets, sets.new, edit))
        assert sets.new is not None
        deployment = await self._note_revision(sets.deployment, str(revision_of(sets.new)))
        if has_deadline(deployment) and condition(deployment.get("status", {}), "Progressing") is None:
            message = f'Found new replica set "{sets.new["metadata"]["name"]}"'
            deployment = await self._note_progress(deployment, "True", "FoundNewReplicaSet", message)
        return sets.with_deployment(deployment)

    async def created(self, sets: DeploymentReplicaSets) -> DeploymentReplicaSets:
        """Create the new ReplicaSet if there is none."""
        if sets.new is not None:
            return sets
        deployment, namespace = sets.deployment, sets.deployment["metadata"]["namespace"]
        wanted = self._new_replica_set(sets)
        name = wanted["metadata"]["name"]
        try:
            new = await self.writes.create(self._replica_sets, namespace, wanted)
        except StatusError as failure:
            if failure.reason == "AlreadyExists":
                await self._count_collision(deployment)
            elif has_deadline(deployment) and not is_namespace_terminating(failure):
                message = f'Failed to create new replica set "{name}": {failure.message}'
                await self._note_progress(deployment, "False", "ReplicaSetCreateError", message)
            raise
        deployment = await self._note_revision(deployment, str(sets.next_revision))
        if has_deadline(deployment):
            message = f'Created new replica set "{name}"'
            deployment = await self._note_progress(deployment, "True", "NewReplicaSetCreated", message)
        return sets.with_deployment(deployment).with_new(new)

    def _new_replica_set(self, sets: DeploymentReplicaSets) -> Object:
        deployment, spec = sets.deployment, sets.deployment["spec"]
        template = spec["template"]
        hash_ = template_hash(template, deployment.get("status", {}).get("collisionCount", 0))
        labels = {**(template["metadata"].get("labels") or {}), TEMPLATE_HASH: hash_}
        selector = dict(spec["selector"])
        selector["matchLabels"] = {**(selector.get("matchLabels") or {}), TEMPLATE_HASH: hash_}
        name = deployment["metadata"]["name"][: _LONGEST_NAME - len(hash_) - 1]
        new: Object = {
            "metadata": {
                "name": f"{name}-{hash_}",
                "labels": labels,
                "ownerReferences": [controller_reference(self._deployments, deployment)],
            },
            "spec": {
                "replicas": deployment_sizes.new_size(sets),
                "selector": selector,
                "template": {**template, "metadata": {**template["metadata"], "labels": labels}},
            },
        }
        if spec.get("minReadySeconds"):
            new["spec"]["minReadySeconds"] = spec["minReadySeconds"]
        new["metadata"]["annotations"] = annotations_for(sets, new) | _size_annotations(deployment)
        return new

    async def _count_collision(self, deployment: Object) -> None:
        status = dict(deployment.get("status", {}))
        status["collisionCount"] = status.get("collisionCount", 0) + 1
        await self.write_status(deployment, status)

    # -- writes

    async def resize(
        self, sets: DeploymentReplicaSets, wanted: deployment_sizes.Sizes, *, sizes_only: bool = True
    ) -> bool:
        """Resize ReplicaSets and return whether a size changed; update annotations unless `sizes_only`."""
        annotations, resized = _size_annotations(sets.deployment), False
        for each in sets.all:
            name = each["metadata"]["name"]
            size = wanted.get(name)
            recorded = each["metadata"].get("annotations") or {}
            is_recorded = all(recorded.get(field) == text for field, text in annotations.items())
            if size is None or (size == size_of(each) and (sizes_only or is_recorded)):
                continue

            def edit(live: Object, size: int = size) -> None:
                live["spec"]["replicas"] = size
                live["metadata"]["annotations"] = {
                    **(live["metadata"].get("annotations") or {}),
                    **annotations,
                }

            await self.writes.change(self._replica_sets, each, edit)
            resized |= size != size_of(each)
        return resized

    async def clean_up_when_complete(self, sets: DeploymentReplicaSets) -> None:
        if is_complete(sets.deployment, sets.deployment.get("status", {})):
            await self.clean_up(sets)

    async def clean_up(self, sets: DeploymentReplicaSets) -> None:
        limit = sets.deployment["spec"].get("revisionHistoryLimit", _NO_LIMIT)
        old = sorted(
            (each for each in sets.old if not is_deleting(each)),
            key=lambda each: (revision_of(each), by_age(each)),
        )
        for each in old[: max(0, len(old) - limit)]:
            seen = each.get("status", {}).get("observedGeneration", 0)
            if actual_of(each) or size_of(each) or each["metadata"].get("generation", 0) > seen:
                continue
            metadata = each["metadata"]
            await self.writes.delete(
                self._replica_sets, metadata["namespace"], metadata["name"], metadata["uid"]
            )

    async def _note_revision(self, deployment: Object, revision: str) -> Object:
        if (deployment["metadata"].get("annotations") or {}).get(REVISION) == revision:
            return deployment

        def edit(live: Object) -> None:
            live["metadata"]["annotations"] = {
                **(live["metadata"].get("annotations") or {}),
                REVISION: revision,
            }

        return await self.writes.change(self._deployments, deployment, edit)

    async def _note_progress(self, deployment: Object, value: str, reason: str, message: str) -> Object:
        status = dict(deployment.get("status", {}))
        if not put_condition(status, "Progressing", value, reason, message, self.context.now()):
            return deployment
        return await self.write_status(deployment, status)

    async def write_status(self, deployment: Object, status: Object) -> Object:
        return await self.writes.set_status(self._deployments, deployment, status)


def _size_annotations(deployment: Object) -> dict[str, str]:
    wanted = size_of(deployment)
    return {DESIRED: str(wanted), MAXIMUM: str(wanted + deployment_sizes.max_surge(deployment))}
