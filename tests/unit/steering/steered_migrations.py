"""Migrations under way, and pods that are created meanwhile."""

from collections.abc import Awaitable, Callable
from typing import Any

from rescheduler.api.podmigration_crd import POD_MIGRATION_PLURAL
from rescheduler.api.well_known_names import GROUP, POD_MIGRATION_KIND, STEERED_BY_ANNOTATION, VERSION
from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube.api_resources import api_resource
from rescheduler.kube.client import Client
from tests.unit.steering.reviews import OWNER, pod_of

__all__ = ["MIGRATIONS", "Eventually", "begin", "created", "is_steered", "steering"]

Eventually = Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]]
MIGRATIONS = api_resource(GROUP, VERSION, POD_MIGRATION_PLURAL, POD_MIGRATION_KIND)


async def begin(client: Client, name: str = "move-1", namespace: str = "shop", **status: Any) -> None:
    """A migration that is about to evict a pod of the workload."""
    item = {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": POD_MIGRATION_KIND,
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"pod": {"name": "web-1", "uid": "p-1"}, "sourceNode": "old"},
    }
    made = await client.create(MIGRATIONS, item)
    owner = {key: value for key, value in OWNER.items() if key != "controller"}
    made["status"] = {
        "phase": "InProgress",
        "step": "Evicting",
        "handover": "Evict",
        "targetNode": "new",
        "owner": owner,
        **status,
    }
    await client.replace(MIGRATIONS.status, made)


async def created(client: Client, **more: Any) -> dict[str, Any]:
    return await client.create(PODS.as_json, pod_of(**more), dry_run=True)


def is_steered(pod: dict[str, Any]) -> bool:
    return STEERED_BY_ANNOTATION in pod["metadata"].get("annotations", {})


def steering(client: Client) -> Callable[[], Awaitable[bool]]:
    async def look() -> bool:
        return is_steered(await created(client))

    return look
