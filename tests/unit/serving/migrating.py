"""Migrations under way, and pods that are created meanwhile."""

from collections.abc import Awaitable, Callable
from typing import Any

from rescheduler.kube.client import Client
from rescheduler.kube.resources import PODS, custom
from rescheduler.migrations.definition import PLURAL
from rescheduler.model.migrations import GROUP, KIND, VERSION
from rescheduler.model.steering import STEERED_BY
from tests.unit.serving.reviews import OWNER, pod_of

__all__ = ["MIGRATIONS", "Eventually", "begin", "created", "is_steered", "steering"]

Eventually = Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]]
MIGRATIONS = custom(GROUP, VERSION, PLURAL, KIND)


async def begin(client: Client, name: str = "move-1", **status: Any) -> None:
    """A migration that is about to evict a pod of the workload."""
    item = {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": KIND,
        "metadata": {"namespace": "shop", "name": name},
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
    return STEERED_BY in pod["metadata"].get("annotations", {})


def steering(client: Client) -> Callable[[], Awaitable[bool]]:
    async def look() -> bool:
        return is_steered(await created(client))

    return look
