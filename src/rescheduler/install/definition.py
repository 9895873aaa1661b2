"""Brings the definition of PodMigration into a cluster."""

import asyncio
from typing import Final

from rescheduler.kube.client import Client
from rescheduler.kube.patches import apply_patch
from rescheduler.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, Object
from rescheduler.migrations.definition import NAME, definition

__all__ = ["install_definition"]

_AT_MOST_S: Final = 30.0


async def install_definition(client: Client) -> None:
    """Applied, so that an older one is brought up to date; returns when the server knows the kind.

    Raises `KubeError`, and TimeoutError if the server accepts it and does not establish it.
    """
    made = await client.patch(CUSTOM_RESOURCE_DEFINITIONS, NAME, apply_patch(definition(), force=True))
    if _is_established(made):
        return
    version = made["metadata"]["resourceVersion"]
    watch = client.watch(CUSTOM_RESOURCE_DEFINITIONS, fields=f"metadata.name={NAME}", version=version)
    async with asyncio.timeout(_AT_MOST_S), watch as events:
        async for event in events:
            if event.object is not None and _is_established(event.object):
                return
    raise TimeoutError


def _is_established(item: Object) -> bool:
    conditions = (item.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)
