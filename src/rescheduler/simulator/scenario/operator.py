"""The operator of a scenario: uses the API as somebody with kubectl would, and may be refused."""

from typing import Any, NamedTuple

from rescheduler.simulator.exchange import JSON, Object, decode, encode
from rescheduler.simulator.kinds import Kind
from rescheduler.simulator.scenario.words import Reference
from rescheduler.simulator.server import ApiServer

__all__ = ["Operator", "Refused", "Target"]

_MERGE = "application/merge-patch+json"
_STRATEGIC = "application/strategic-merge-patch+json"
_APPLY = "application/apply-patch+yaml"
_WHO = "operator"


class Refused(Exception):  # noqa: N818 - says what happened to a request
    """What the API server said instead of doing it."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Target(NamedTuple):
    """One object that something is to be done to, whether it is there or not."""

    kind: Kind
    namespace: str
    name: str

    @property
    def path(self) -> str:
        return _path(self.kind, self.namespace, self.name)


class Operator:
    def __init__(self, server: ApiServer) -> None:
        self._server = server

    async def create(self, content: Object) -> Object:
        kind, metadata = self._kind_of(content), content["metadata"]
        return await self._send("POST", _path(kind, _namespace(kind, metadata)), content)

    async def apply(self, content: Object) -> Object:
        kind, metadata = self._kind_of(content), content["metadata"]
        path = _path(kind, _namespace(kind, metadata), metadata["name"])
        return await self._send("PATCH", f"{path}?fieldManager={_WHO}&force=true", content, _APPLY)

    def find(self, reference: Reference) -> list[Target]:
        """All that match and stay, by name; one that is named in full is not looked for."""
        kind = self._kind_named(reference.kind)
        if reference.names_one():
            return [Target(kind, reference.namespace, reference.name)]
        # Like looking at a list, without the work of making one of thousands.
        records = self._server.store.collection(kind).ordered()
        return [
            Target(kind, record.namespace, record.name)
            for record in records
            if not record.deleting and reference.fits(record.namespace, record.name)
        ]

    async def get(self, target: Target) -> Object:
        return await self._send("GET", target.path)

    async def patch(self, target: Target, patch: Any, subresource: str = "") -> Object:
        path = f"{target.path}/{subresource}" if subresource else target.path
        return await self._send("PATCH", path, patch, _MERGE)

    async def merge(self, target: Target, patch: Any) -> Object:
        """A strategic merge, which finds containers by their names."""
        return await self._send("PATCH", target.path, patch, _STRATEGIC)

    async def delete(self, target: Target) -> Object:
        return await self._send("DELETE", target.path)

    async def evict(self, target: Target) -> Object:
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": target.name, "namespace": target.namespace},
        }
        return await self._send("POST", f"{target.path}/eviction", eviction)

    async def _send(self, method: str, target: str, body: Any = None, content_type: str = JSON) -> Object:
        headers = {"content-type": content_type, "accept": JSON, "user-agent": _WHO}
        try:
            answer = await self._server.handle(method, target, headers, b"" if body is None else encode(body))
            content: Object = decode(b"".join([chunk async for chunk in answer.chunks]))
        except ConnectionError as error:
            raise Refused(0, str(error)) from error
        if answer.status >= 400:
            raise Refused(answer.status, content.get("message", ""))
        return content

    def _kind_of(self, content: Object) -> Kind:
        found = self._server.kinds.named(content["apiVersion"], content["kind"])
        if found is None:
            message = f'no matches for kind "{content["kind"]}" in version "{content["apiVersion"]}"'
            raise Refused(404, message)
        return found

    def _kind_named(self, text: str) -> Kind:
        """`Pod`, or with its group: `Gadget.example.com`; of several the first that was defined."""
        name, _, group = text.partition(".")
        for kind in self._server.kinds:
            if kind.name == name and group in ("", kind.group):
                return kind
        raise Refused(404, f'the server doesn\'t have a resource type "{text}"')


def _namespace(kind: Kind, metadata: Object) -> str:
    return metadata.get("namespace", "default") if kind.namespaced else ""


def _path(kind: Kind, namespace: str, name: str = "") -> str:
    base = f"/apis/{kind.api_version}" if kind.group else f"/api/{kind.version}"
    inside = f"/namespaces/{namespace}" if namespace else ""
    return f"{base}{inside}/{kind.plural}" + (f"/{name}" if name else "")
