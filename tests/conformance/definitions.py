"""Custom resource definitions for scenarios, in a group that no other scenario has."""

from typing import Any

from rescheduler.kube.api_resources import CUSTOM_RESOURCE_DEFINITIONS, ApiResource, Object, api_resource
from rescheduler.kube.errors import NotFound
from tests.conformance.world import World

__all__ = ["define", "definition", "version", "widgets"]


def widgets(world: World, name: str = "v1") -> ApiResource[Object]:
    return api_resource(f"{world.namespace}.example.com", name, "widgets", "Widget")


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


def definition(world: World, *versions: Object) -> Object:
    group = f"{world.namespace}.example.com"
    return {
        "metadata": {"name": f"widgets.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"]},
            "versions": list(versions),
        },
    }


async def define(world: World, *versions: Object) -> ApiResource[Object]:
    """Makes the kind `Widget` and waits until it is served."""
    await world.create(CUSTOM_RESOURCE_DEFINITIONS, definition(world, *versions))
    name = f"widgets.{world.namespace}.example.com"
    await world.until(CUSTOM_RESOURCE_DEFINITIONS, lambda found: _established(found[name]))
    # Established, and yet it takes another moment until the handlers are in place.
    for each in versions:
        while not await _served(world, widgets(world, each["name"])):
            pass
    return widgets(world, versions[0]["name"])


async def _served(world: World, resource: ApiResource[Object]) -> bool:
    try:
        await world.client.list(resource, namespace=world.namespace)
    except NotFound:
        return False
    return True


def _established(found: Object) -> bool:
    conditions = found.get("status", {}).get("conditions") or []
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)
