"""Custom resource definitions for scenarios, in a group that no other scenario has."""

from typing import Any

from rescheduler.kube.api_resources import CUSTOM_RESOURCE_DEFINITIONS, ApiResource, Object, api_resource
from rescheduler.kube.errors import NotFound
from tests.conformance.cluster_under_test import ClusterUnderTest

__all__ = ["define", "definition", "version", "widgets"]


def widgets(cluster: ClusterUnderTest, name: str = "v1") -> ApiResource[Object]:
    return api_resource(f"{cluster.namespace}.example.com", name, "widgets", "Widget")


def version(
    name: str = "v1", *, storage: bool = True, more: Object | None = None, **properties: Any
) -> Object:
    """`properties` of the spec; `more` beside the schema: subresources, columns."""
    schema = {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": properties},
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
    }
    return {
        "name": name,
        "served": True,
        "storage": storage,
        "schema": {"openAPIV3Schema": schema},
        **(more or {}),
    }


def definition(cluster: ClusterUnderTest, *versions: Object) -> Object:
    group = f"{cluster.namespace}.example.com"
    return {
        "metadata": {"name": f"widgets.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"]},
            "versions": list(versions),
        },
    }


async def define(cluster: ClusterUnderTest, *versions: Object) -> ApiResource[Object]:
    """Makes the kind `Widget` and waits until it is served."""
    await cluster.create(CUSTOM_RESOURCE_DEFINITIONS, definition(cluster, *versions))
    name = f"widgets.{cluster.namespace}.example.com"
    await cluster.until(CUSTOM_RESOURCE_DEFINITIONS, lambda found: _established(found[name]))
    # Established, and yet it takes another moment until the handlers are in place.
    for each in versions:
        while not await _served(cluster, widgets(cluster, each["name"])):
            pass
    return widgets(cluster, versions[0]["name"])


async def _served(cluster: ClusterUnderTest, resource: ApiResource[Object]) -> bool:
    try:
        await cluster.client.list(resource, namespace=cluster.namespace)
    except NotFound:
        return False
    return True


def _established(found: Object) -> bool:
    conditions = found.get("status", {}).get("conditions") or []
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)
