"""Which kinds of namespaced objects the server has, by its aggregated discovery (since Kubernetes 1.30)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from rescheduler.kube.client import Client
from rescheduler.kube.resources import Object, Resource, custom

__all__ = ["NamespacedKinds", "namespaced_kinds"]

_AGGREGATED: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


@dataclass(frozen=True, slots=True)
class NamespacedKinds:
    resources: tuple[Resource[Object], ...]
    """Those that can be listed, each in the version that the server prefers."""
    unknown_groups: tuple[str, ...]
    """Groups of extension API servers that don't answer now."""


async def namespaced_kinds(client: Client) -> NamespacedKinds:
    """Raises `KubeError`."""
    documents = [await client.document(path, accept=_AGGREGATED) for path in ("/api", "/apis")]
    found: dict[tuple[str, str], Resource[Object]] = {}
    unknown = []
    for document in documents:
        for group in document["items"]:
            name = group["metadata"].get("name", "")
            for version in group.get("versions") or ():
                if version.get("freshness") == "Stale":
                    unknown.append(name)
                for resource in _listed(name, version):
                    found.setdefault((name, resource.plural), resource)
    return NamespacedKinds(tuple(found.values()), tuple(sorted(set(unknown))))


def _listed(group: str, version: Object) -> Iterator[Resource[Object]]:
    for each in version.get("resources") or ():
        if each["scope"] == "Namespaced" and "list" in each["verbs"]:
            yield custom(group, version["version"], each["resource"], each["responseKind"]["kind"])
