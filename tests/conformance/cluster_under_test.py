"""The API server of a scenario, real or simulated, through our own client.

A scenario notes what it sees; the notes of two servers must be equal (see `notes`).
"""

import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube.api_resources import NAMESPACES, ApiResource, Object, Patch, key_of
from rescheduler.kube.client import Client
from rescheduler.kube.codecs.codec import WatchEvent
from rescheduler.kube.errors import KubeError, NotFound
from rescheduler.kube.transport import ApiRequest
from tests.conformance.notes import at, normalised

__all__ = ["WHOLE", "ClusterUnderTest", "Seen"]

WHOLE = ""
"""The path of all of an object."""


class ClusterUnderTest:
    """The server under test, a namespace of the scenario's own, and the notes."""

    def __init__(self, client: Client, namespace: str, *, forget: Callable[[], Awaitable[None]]) -> None:
        self.client = client
        self.namespace = namespace
        self.forget_history = forget
        """What etcd does every five minutes; for the API server's own memory it takes a restart."""
        self.notes: list[list[Any]] = []
        self._to_remove: list[tuple[ApiResource[Any], str]] = []

    def saw(self, what: str, value: object) -> None:
        self.notes.append([normalised(what, self.namespace), normalised(value, self.namespace)])

    async def tried(self, what: str, call: Awaitable[Any], *fields: str) -> Any:
        """Notes whether a call is accepted or refused, how, and the fields asked for; its result, if any.

        `WHOLE` asks for all of the object.
        """
        try:
            result = await call
        except KubeError as error:
            refused = {"code": error.code, "reason": error.status.reason, "message": error.status.message}
            causes = [[cause.field, cause.reason, cause.message] for cause in error.causes]
            self.saw(what, {"refused": refused | ({"causes": causes} if causes else {})})
            return None
        self.saw(what, {"accepted": {field or "object": at(result, field) for field in fields}})
        return result

    async def created(self, what: str, resource: ApiResource[Any], item: Object, *fields: str) -> Any:
        """`tried` for a creation."""
        if not resource.namespaced and "name" in item["metadata"]:
            self.removes_later(resource, item["metadata"]["name"])
        return await self.tried(
            what, self.client.create(resource.as_json, self.placed(resource, item)), *fields
        )

    async def patched(
        self, what: str, resource: ApiResource[Any], name: str, patch: Patch, *fields: str
    ) -> Any:
        """`tried` for a patch."""
        key = self.key(name) if resource.namespaced else name
        return await self.tried(what, self.client.patch(resource.as_json, key, patch), *fields)

    # --- acting ---

    async def enter(self) -> None:
        """Makes the namespace that everything of the scenario lives in."""
        await self.client.create(NAMESPACES, {"metadata": {"name": self.namespace}})

    async def leave(self) -> None:
        """Remove objects without a namespace, and request the namespace's deletion without waiting for it."""
        for resource, name in reversed(self._to_remove):
            with contextlib.suppress(NotFound):
                await self.client.delete(resource, name, grace_s=0)
        # No kubelet runs the pods, so none would end them.
        await self.asked("", "DELETE", PODS.collection_path(self.namespace), body={"gracePeriodSeconds": 0})
        with contextlib.suppress(NotFound):
            await self.client.delete(NAMESPACES, self.namespace)

    def unique(self, name: str) -> str:
        """Return a unique name for a cluster-scoped object."""
        return f"{self.namespace}-{name}"

    def key(self, name: str) -> str:
        return key_of(self.namespace, name)

    async def create(self, resource: ApiResource[Any], item: Object) -> Object:
        """Something the scenario needs; a refusal is a fault of the scenario."""
        if not resource.namespaced:
            self.removes_later(resource, item["metadata"]["name"])
        made: Object = await self.client.create(resource.as_json, self.placed(resource, item))
        return made

    def removes_later(self, resource: ApiResource[Any], name: str) -> None:
        """Delete a cluster-scoped object when the scenario is over."""
        self._to_remove.append((resource, name))

    async def asked(
        self,
        what: str,
        method: str,
        path: str,
        *,
        body: object = None,
        query: Mapping[str, str] | None = None,
        **headers: str,
    ) -> "Seen":
        """Any request at all, for what our client would never send. If refused, notes that under `what`.

        Headers are given as `content_type="…"`; bytes are sent as they are, all else as JSON.
        """
        content = body if isinstance(body, bytes) else b"" if body is None else msgspec.json.encode(body)
        sent = {"accept": "application/json", "content-type": "application/json"}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        request = ApiRequest(method, path, tuple((query or {}).items()), sent, content)
        async with await self.client.transport.send(request) as response:
            seen = Seen(response.status, response.headers, await response.read())
        if what and seen.code >= 400:
            reported = seen.json or {}
            said = {"code": seen.code, "reason": reported.get("reason"), "message": reported.get("message")}
            self.saw(what, {"refused": said})
        return seen

    def placed(self, resource: ApiResource[Any], item: Object) -> Object:
        """`item` with what every object must say of itself."""
        metadata = dict(item["metadata"])
        if resource.namespaced:
            metadata["namespace"] = self.namespace
        return {"apiVersion": resource.api_version, "kind": resource.kind, **item, "metadata": metadata}

    # --- looking ---

    async def read(self, resource: ApiResource[Any], name: str) -> Object | None:
        key = self.key(name) if resource.namespaced else name
        try:
            found: Object = await self.client.get(resource.as_json, key)
        except NotFound:
            return None
        return found

    async def until(
        self, resource: ApiResource[Any], holds: Callable[[dict[str, Object]], bool], *, within_s: float = 30
    ) -> dict[str, Object]:
        """Follows the namespace's objects by a watch until a condition holds; the objects by name."""
        namespace = self.namespace if resource.namespaced else ""
        page = await self.client.list(resource.as_json, namespace=namespace)
        found = {item["metadata"]["name"]: item for item in page.items}
        if holds(found):
            return found
        watch = self.client.watch(
            resource.as_json, namespace=namespace, version=page.resource_version, timeout_s=within_s
        )
        async with watch as events:
            async for event in events:
                _replay(found, event)
                if holds(found):
                    return found
        raise AssertionError(f"{resource.label} did not become as expected in {within_s} s: {sorted(found)}")

    async def gone(self, resource: ApiResource[Any], name: str) -> None:
        await self.until(resource, lambda found: name not in found)

    async def events(
        self, resource: ApiResource[Any], count: int, *, version: str, labels: str = "", fields: str = ""
    ) -> list[list[str]]:
        """The type and the object's name of the first `count` events of a watch, bookmarks left out."""
        reported: list[list[str]] = []
        watch = self.client.watch(
            resource.as_json,
            namespace=self.namespace if resource.namespaced else "",
            version=version,
            labels=labels,
            fields=fields,
            timeout_s=20,
        )
        async with watch as events:
            async for event in events:
                if event.type == "BOOKMARK":
                    continue
                assert event.object is not None
                reported.append([event.type, event.object["metadata"]["name"]])
                if len(reported) == count:
                    return reported
        return [*reported, ["ENDED", ""]]


class Seen(NamedTuple):
    """An answer as it came."""

    code: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """None if it is something else."""
        try:
            return msgspec.json.decode(self.body)
        except msgspec.DecodeError:
            return None


def _replay(found: dict[str, Object], event: WatchEvent[Object]) -> None:
    if event.type == "BOOKMARK":
        return
    assert event.object is not None
    name = event.object["metadata"]["name"]
    if event.type == "DELETED":
        found.pop(name, None)
    else:
        found[name] = event.object
