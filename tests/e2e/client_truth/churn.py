"""Writers that change a cluster all the time, whatever happens to its API server."""

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Self

from rescheduler.cluster.codecs.record_resources import NODES, PODS
from rescheduler.kube import errors
from rescheduler.kube.api_resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    ApiResource,
    Object,
    api_resource,
    merge_patch,
)
from rescheduler.kube.client import Client

__all__ = ["COLOURS", "WIDGETS", "Churn", "define_widgets"]

WIDGETS = api_resource("example.com", "v1", "widgets", "Widget")
COLOURS = ("red", "green", "blue")
PLACES = ("node-1", "node-2", "")
NAMES = 60
"""Few, so that objects are deleted and created again under the same name."""
PAUSE_S = 0.02

DEFINITION: Object = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                },
            }
        ],
    },
}


async def define_widgets(client: Client) -> None:
    """Returns when the server knows them."""
    with contextlib.suppress(errors.AlreadyExists):
        await client.create(CUSTOM_RESOURCE_DEFINITIONS, DEFINITION)
    async with asyncio.timeout(30):
        while True:
            with contextlib.suppress(errors.NotFound):
                await client.list(WIDGETS)
                return
            await asyncio.sleep(0.1)


class Churn:
    """Creates, changes, relabels and deletes pods, nodes and widgets, a writer for each kind."""

    def __init__(self, client: Client, seed: int = 0) -> None:
        self._client = client
        self._rng = random.Random(seed)
        self.done: Counter[str] = Counter()
        """How often each verb succeeded, and how often one failed."""

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        writers = [
            asyncio.create_task(self._write(resource, make))
            for resource, make in ((PODS, self._pod), (NODES, self._node), (WIDGETS, self._widget))
        ]
        try:
            yield self
        finally:
            for writer in writers:
                writer.cancel()
            ends = await asyncio.gather(*writers, return_exceptions=True)
            assert all(isinstance(end, asyncio.CancelledError) for end in ends), ends

    async def _write(self, resource: ApiResource[Any], make: Callable[[str], Object]) -> None:
        while True:
            name = f"churn-{self._rng.randrange(NAMES)}"
            verb = self._rng.choices(("create", "patch", "delete"), (4, 5, 2))[0]
            try:
                await self._change(verb, resource, make(name))
                self.done[verb] += 1
            except (errors.NotFound, errors.AlreadyExists):
                pass  # that is for chance to say
            except errors.Retriable:
                self.done["failed"] += 1
                await asyncio.sleep(0.2)
            await asyncio.sleep(PAUSE_S)

    def _change(self, verb: str, resource: ApiResource[Any], item: Object) -> Coroutine[Any, Any, Any]:
        if verb == "create":
            return self._client.create(resource, item)
        metadata = item["metadata"]
        key = "/".join(filter(None, (metadata.get("namespace"), metadata["name"])))
        if verb == "delete":
            return self._client.delete(resource, key, grace_s=0)
        return self._client.patch(resource, key, merge_patch({"metadata": {"labels": metadata["labels"]}}))

    def _labels(self) -> dict[str, str]:
        # Relabelling moves objects into and out of what a selector sees.
        return {"colour": self._rng.choice(COLOURS), "round": str(self._rng.randrange(10**9))}

    def _pod(self, name: str) -> Object:
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "labels": self._labels()},
            "spec": {
                "nodeName": self._rng.choice(PLACES),
                "containers": [{"name": "main", "image": "registry.example.com/main:1"}],
            },
        }

    def _node(self, name: str) -> Object:
        return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": self._labels()}}

    def _widget(self, name: str) -> Object:
        return {
            "apiVersion": "example.com/v1",
            "kind": "Widget",
            "metadata": {"name": name, "namespace": "default", "labels": self._labels()},
            "spec": {"size": self._rng.randrange(100)},
        }
