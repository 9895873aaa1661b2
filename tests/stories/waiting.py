"""Wait for changes of the API server by watching, without polling or sleeping."""

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TypeVar

from rescheduler.kube import errors
from rescheduler.kube.api_resources import ApiResource, Object, split_key
from rescheduler.kube.client import Client

__all__ = ["TIMEOUT_S", "until", "until_gone", "until_object", "wall_clock"]

A = TypeVar("A")
TIMEOUT_S = 60.0


def wall_clock() -> datetime:
    return datetime.now(UTC)


async def until(
    client: Client,
    resource: ApiResource[Object],
    namespace: str,
    holds: Callable[[Mapping[str, Object]], A],
    *,
    labels: str = "",
    fields: str = "",
    timeout_s: float = TIMEOUT_S,
) -> A:
    """Asks `holds` about the objects by name, again after each change, and returns its first true answer."""
    seen: dict[str, Object] = {}
    try:
        async with asyncio.timeout(timeout_s):
            while True:  # a watch that ends is started again
                page = await client.list(resource, namespace=namespace, labels=labels, fields=fields)
                seen = {item["metadata"]["name"]: item for item in page.items}
                if answer := holds(seen):
                    return answer
                watch = client.watch(
                    resource,
                    namespace=namespace,
                    labels=labels,
                    fields=fields,
                    version=page.resource_version,
                )
                async with watch as events:
                    async for event in events:
                        if event.object is None or event.type == "BOOKMARK":
                            continue
                        name = event.object["metadata"]["name"]
                        if event.type == "DELETED":
                            seen.pop(name, None)
                        else:
                            seen[name] = event.object
                        if answer := holds(seen):
                            return answer
    except (TimeoutError, errors.Gone) as never:
        raise AssertionError(
            f"not so within {timeout_s:g} s; last seen of {resource.label}: {seen}"
        ) from never


async def until_object(
    client: Client,
    resource: ApiResource[Object],
    key: str,
    holds: Callable[[Object], object],
    *,
    timeout_s: float = TIMEOUT_S,
) -> Object:
    """The object, once it is there and `holds` is true of it."""
    namespace, name = split_key(key)

    def found(seen: Mapping[str, Object]) -> Object | None:
        return seen[name] if name in seen and holds(seen[name]) else None

    answer = await until(
        client, resource, namespace, found, fields=f"metadata.name={name}", timeout_s=timeout_s
    )
    assert answer is not None
    return answer


async def until_gone(
    client: Client, resource: ApiResource[Object], key: str, *, uid: str = "", timeout_s: float = TIMEOUT_S
) -> None:
    """Returns when no object of that name (and uid) is there."""
    namespace, name = split_key(key)

    def gone(seen: Mapping[str, Object]) -> bool:
        return name not in seen or bool(uid and seen[name]["metadata"]["uid"] != uid)

    await until(client, resource, namespace, gone, fields=f"metadata.name={name}", timeout_s=timeout_s)
