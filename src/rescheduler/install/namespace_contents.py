"""Whether a namespace can go together with rescheduler: who created it, and what else is in it."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

from rescheduler.kube import errors
from rescheduler.kube.client import Client
from rescheduler.kube.discovery import namespaced_kinds
from rescheduler.kube.resources import Object, Resource
from rescheduler.model.installation import INSTALL_ID

__all__ = ["other_contents", "was_created_with_id"]

_MADE_FOR_EVERY_NAMESPACE: Final = {("ConfigMap", "kube-root-ca.crt"), ("ServiceAccount", "default")}
_FOLLOW_OTHERS: Final = {"Event", "Endpoints", "EndpointSlice", "PodMetrics"}
"""Kinds of objects that controllers write about other objects, which are looked at themselves."""

_SAME_MOMENT_S: Final = 1.0
"""The server takes the time twice while it creates an object, and writes whole seconds."""


def was_created_with_id(namespace: Object) -> bool:
    """Return whether the install id has been there from the beginning.

    `kubectl apply` on a namespace that exists adds the label, too. The server records when a field was set:
    if that was later than the creation, or can't be told, somebody else has created the namespace.
    """
    metadata = namespace["metadata"]
    created = datetime.fromisoformat(metadata["creationTimestamp"])
    for entry in metadata.get("managedFields") or ():
        labels = entry.get("fieldsV1", {}).get("f:metadata", {}).get("f:labels", {})
        if f"f:{INSTALL_ID}" in labels and "time" in entry:
            set_at = datetime.fromisoformat(entry["time"])
            return abs((set_at - created).total_seconds()) <= _SAME_MOMENT_S
    return False


async def other_contents(
    client: Client, namespace: str, is_own: Callable[[Resource[Any], Object], bool]
) -> list[str]:
    """Return everything in the namespace that is not our own, in words; also what can't be listed.

    Raises `KubeError` if the server does not say which kinds it has.
    """
    kinds = await namespaced_kinds(client)
    found = [f"objects of group {group}, which does not answer" for group in kinds.unknown_groups]
    for resource in kinds.resources:
        if resource.kind in _FOLLOW_OTHERS:
            continue
        try:
            items = (await client.list(resource, namespace=namespace)).items
        except errors.KubeError as error:
            found.append(f"{resource.label}, which can't be listed ({error})")
            continue
        found += [
            f"{resource.kind} {item['metadata']['name']}"
            for item in items
            if (resource.kind, item["metadata"]["name"]) not in _MADE_FOR_EVERY_NAMESPACE
            and not is_own(resource, item)
        ]
    return found
