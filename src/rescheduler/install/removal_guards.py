"""What `uninstall` must not remove: namespaces and labels that belong to others.

If a label that a selector uses is removed from a pod, the controller releases the pod and creates another
one.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

from rescheduler.api.well_known_names import INSTALL_ID
from rescheduler.cluster.object_meta import OwnerKey, UnreadableObject
from rescheduler.cluster.workload_record import WORKLOAD_KINDS, decode_workload
from rescheduler.kube import api_resources, errors
from rescheduler.kube.api_resources import ApiResource, Object
from rescheduler.kube.client import Client
from rescheduler.kube.server_capabilities import namespaced_kinds

__all__ = ["WorkloadLabels", "other_contents", "was_created_with_id"]

_DEFAULT_NAMESPACE_OBJECTS: Final = {("ConfigMap", "kube-root-ca.crt"), ("ServiceAccount", "default")}
_DERIVED_KINDS: Final = {"Event", "Endpoints", "EndpointSlice", "PodMetrics"}
"""Kinds that controllers derive from other objects."""

_CREATION_TOLERANCE_S: Final = 1.0
"""The server reads the clock twice while it creates an object, and writes whole seconds."""


def was_created_with_id(namespace: Object) -> bool:
    """Return whether the install id has been there from the beginning.

    `kubectl apply` on a namespace that exists adds the label, too. The server records when a field was set:
    if that was later than the creation, or is unknown, the namespace was created without rescheduler.
    """
    metadata = namespace["metadata"]
    created = datetime.fromisoformat(metadata["creationTimestamp"])
    for entry in metadata.get("managedFields") or ():
        labels = entry.get("fieldsV1", {}).get("f:metadata", {}).get("f:labels", {})
        if f"f:{INSTALL_ID}" in labels and "time" in entry:
            set_at = datetime.fromisoformat(entry["time"])
            return abs((set_at - created).total_seconds()) <= _CREATION_TOLERANCE_S
    return False


async def other_contents(
    client: Client, namespace: str, is_own: Callable[[ApiResource[Any], Object], bool]
) -> list[str]:
    """Return everything in the namespace that is not ours, as text; also what can't be listed.

    Raises `KubeError` if the server does not say which kinds it has.
    """
    kinds = await namespaced_kinds(client)
    found = [f"objects of API group {group}, which does not respond" for group in kinds.unknown_groups]
    for resource in kinds.resources:
        if resource.kind in _DERIVED_KINDS:
            continue
        try:
            items = (await client.list(resource, namespace=namespace)).items
        except errors.KubeError as error:
            found.append(f"{resource.label}, which can't be listed ({error})")
            continue
        found += [
            f"{resource.kind} {item['metadata']['name']}"
            for item in items
            if (resource.kind, item["metadata"]["name"]) not in _DEFAULT_NAMESPACE_OBJECTS
            and not is_own(resource, item)
        ]
    return found


_CONTROLLERS: Final[dict[str, ApiResource[Object]]] = {
    each.kind: each
    for each in (
        api_resources.REPLICA_SETS,
        api_resources.STATEFUL_SETS,
        api_resources.DAEMON_SETS,
        api_resources.JOBS,
    )
}


class WorkloadLabels:
    """Finds out whether pods get migration labels from their workload; reads each controller once."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: dict[OwnerKey, bool] = {}

    async def include_marks(self, pod: Object) -> bool:
        """Return whether the pod has its migration labels from its workload, or may have: then they stay.

        Labels of pods with an unknown kind of controller stay. Raises `KubeError`.
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

    async def _read(self, resource: ApiResource[Object], owner: OwnerKey) -> bool:
        try:
            item = await self._client.get(resource, f"{owner.namespace}/{owner.name}")
            record = decode_workload(item, owner.kind)
        except (errors.NotFound, errors.InvalidName):
            return False
        except UnreadableObject:
            return True
        return record.uid == owner.uid and bool(record.own_migration_labels)
