"""Which marks on pods are not ours: labels that the pod's own workload gives it.

A label that a selector uses must not be removed from a pod: its controller would let the pod go and create
another, without end.
"""

from typing import Final

from rescheduler.kube import errors, resources
from rescheduler.kube.client import Client
from rescheduler.kube.resources import Object, Resource
from rescheduler.model.metadata import OwnerKey
from rescheduler.model.objects import UnreadableObject
from rescheduler.model.workloads import WORKLOAD_KINDS, workload_of

__all__ = ["WorkloadLabels"]

_CONTROLLERS: Final[dict[str, Resource[Object]]] = {
    each.kind: each
    for each in (resources.REPLICA_SETS, resources.STATEFUL_SETS, resources.DAEMON_SETS, resources.JOBS)
}


class WorkloadLabels:
    """Reads each controller once."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: dict[OwnerKey, bool] = {}

    async def include_marks(self, pod: Object) -> bool:
        """Return whether the pod has its migration labels from its workload, or may have: then they stay.

        Nobody can tell for controllers of kinds that we don't know. Raises `KubeError`.
        """
        metadata = pod["metadata"]
        for owner in metadata.get("ownerReferences") or ():
            if owner.get("controller"):
                resource = _CONTROLLERS.get(owner["kind"])
                if resource is None or WORKLOAD_KINDS[owner["kind"]] != owner["apiVersion"]:
                    return True
                key = OwnerKey(metadata["namespace"], owner["kind"], owner["name"], owner["uid"])
                if key not in self._known:
                    self._known[key] = await self._read(resource, key)
                return self._known[key]
        return False

    async def _read(self, resource: Resource[Object], owner: OwnerKey) -> bool:
        try:
            item = await self._client.get(resource, f"{owner.namespace}/{owner.name}")
            record = workload_of(item, owner.kind)
        except (errors.NotFound, errors.InvalidName):
            return False
        except UnreadableObject:
            return True
        return record.uid == owner.uid and bool(record.own_migration_labels)
