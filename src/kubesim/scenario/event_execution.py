"""Execute the events of a scenario through the API, as an operator with kubectl would."""

import random
from collections.abc import Awaitable, Callable
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from kubesim.apiserver.api_messages import JSON, Object, decode, encode
from kubesim.apiserver.api_server import ApiServer
from kubesim.apiserver.kind_registry import ResourceKind
from kubesim.behaviour import Behaviour
from kubesim.kubelets import Kubelets
from kubesim.scenario.scenario_events import MetadataChange, ObjectChange, ObjectChoice, RollOut, Scaling
from kubesim.scenario.scenario_values import ObjectReference, ScenarioFault

__all__ = ["EventExecutor", "OperatorRefused", "OperatorTarget", "ScenarioOperator"]

_MERGE = "application/merge-patch+json"
_STRATEGIC = "application/strategic-merge-patch+json"
_APPLY = "application/apply-patch+yaml"
_WHO = "operator"


class OperatorRefused(Exception):  # noqa: N818 - says what happened to a request
    """The API server rejected the request of an event."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class OperatorTarget(NamedTuple):
    """One object that an event applies to, whether it exists or not."""

    kind: ResourceKind
    namespace: str
    name: str

    @property
    def path(self) -> str:
        return _path(self.kind, self.namespace, self.name)


class ScenarioOperator:
    def __init__(self, server: ApiServer) -> None:
        self._server = server

    async def create(self, content: Object) -> Object:
        kind, metadata = self._kind_of(content), content["metadata"]
        return await self._send("POST", _path(kind, _namespace(kind, metadata)), content)

    async def apply(self, content: Object) -> Object:
        kind, metadata = self._kind_of(content), content["metadata"]
        path = _path(kind, _namespace(kind, metadata), metadata["name"])
        return await self._send("PATCH", f"{path}?fieldManager={_WHO}&force=true", content, _APPLY)

    def find(self, reference: ObjectReference) -> list[OperatorTarget]:
        """Return all matching objects that are not being deleted, by name; a full name is not looked up."""
        kind = self._kind_named(reference.kind)
        if reference.names_one():
            return [OperatorTarget(kind, reference.namespace, reference.name)]
        # Read the store directly: a list response of thousands of objects takes long.
        records = self._server.store.collection(kind).ordered()
        return [
            OperatorTarget(kind, record.namespace, record.name)
            for record in records
            if not record.deleting and reference.fits(record.namespace, record.name)
        ]

    async def get(self, target: OperatorTarget) -> Object:
        return await self._send("GET", target.path)

    async def patch(self, target: OperatorTarget, patch: Any, subresource: str = "") -> Object:
        path = f"{target.path}/{subresource}" if subresource else target.path
        return await self._send("PATCH", path, patch, _MERGE)

    async def merge(self, target: OperatorTarget, patch: Any) -> Object:
        """Apply a strategic merge patch, which finds containers by their names."""
        return await self._send("PATCH", target.path, patch, _STRATEGIC)

    async def delete(self, target: OperatorTarget) -> Object:
        return await self._send("DELETE", target.path)

    async def evict(self, target: OperatorTarget) -> Object:
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
            raise OperatorRefused(0, str(error)) from error
        if answer.status >= 400:
            raise OperatorRefused(answer.status, content.get("message", ""))
        return content

    def _kind_of(self, content: Object) -> ResourceKind:
        found = self._server.kinds.named(content["apiVersion"], content["kind"])
        if found is None:
            message = f'no matches for kind "{content["kind"]}" in version "{content["apiVersion"]}"'
            raise OperatorRefused(404, message)
        return found

    def _kind_named(self, text: str) -> ResourceKind:
        """Return the kind named `Pod`, or with its group `Gadget.example.com`; the first of several."""
        name, _, group = text.partition(".")
        for kind in self._server.kinds:
            if kind.name == name and group in ("", kind.group):
                return kind
        raise OperatorRefused(404, f'the server doesn\'t have a resource type "{text}"')


def _namespace(kind: ResourceKind, metadata: Object) -> str:
    return metadata.get("namespace", "default") if kind.namespaced else ""


def _path(kind: ResourceKind, namespace: str, name: str = "") -> str:
    base = f"/apis/{kind.api_version}" if kind.group else f"/api/{kind.version}"
    inside = f"/namespaces/{namespace}" if namespace else ""
    return f"{base}{inside}/{kind.plural}" + (f"/{name}" if name else "")


_NODE = "Node"


class EventExecutor:
    def __init__(self, server: ApiServer, kubelets: Kubelets, seed: int) -> None:
        self._server = server
        self._kubelets = kubelets
        self._operator = ScenarioOperator(server)
        self._random = random.Random(seed)  # noqa: S311 - not used for secrets
        self._refusals: list[str] = []
        self._actions: dict[str, Callable[[Any], Awaitable[None]]] = {
            "cordon": self._cordon,
            "uncordon": self._uncordon,
            "label": self._label,
            "annotate": self._annotate,
            "patch": self._patch,
            "scale": self._scale,
            "roll_out": self._roll_out,
            "delete": self._delete,
            "evict": self._evict,
            "apply": self._apply,
            "kill": self._kill,
            "revive": self._revive,
            "fault": self._fault,
            "behaviour": self._behaviour,
        }

    async def do(self, action: str, given: Any) -> list[str]:
        """Execute an event and return all errors, in the words of the API server."""
        self._refusals = []
        try:
            await self._actions[action](given)
        except OperatorRefused as refused:
            self._refusals.append(str(refused))
        return self._refusals

    # -- through the API

    async def _cordon(self, names: tuple[str, ...]) -> None:
        await self._set_unschedulable(names, True)

    async def _uncordon(self, names: tuple[str, ...]) -> None:
        await self._set_unschedulable(names, None)

    async def _set_unschedulable(self, names: tuple[str, ...], value: bool | None) -> None:
        for name in names:
            nodes = ObjectReference(_NODE, "", name)
            await self._patch_all(nodes, {"spec": {"unschedulable": value}})

    async def _label(self, marks: MetadataChange) -> None:
        await self._patch_all(marks.what, {"metadata": {"labels": dict(marks.set)}})

    async def _annotate(self, marks: MetadataChange) -> None:
        await self._patch_all(marks.what, {"metadata": {"annotations": dict(marks.set)}})

    async def _patch(self, change: ObjectChange) -> None:
        await self._patch_all(change.what, dict(change.patch))

    async def _scale(self, scaling: Scaling) -> None:
        await self._patch_all(scaling.what, {"spec": {"replicas": scaling.replicas}}, "scale")

    async def _roll_out(self, wanted: RollOut) -> None:
        async def change(target: OperatorTarget) -> None:
            found = await self._operator.get(target)
            name = wanted.container or found["spec"]["template"]["spec"]["containers"][0]["name"]
            pod = {"spec": {"containers": [{"name": name, "image": wanted.image}]}}
            await self._operator.merge(target, {"spec": {"template": pod}})

        await self._each(self._operator.find(wanted.what), change)

    async def _delete(self, choice: ObjectChoice) -> None:
        await self._each(self._chosen(choice), self._operator.delete)

    async def _evict(self, choice: ObjectChoice) -> None:
        await self._each(self._chosen(choice), self._operator.evict)

    async def _apply(self, content: Object) -> None:
        await self._operator.apply(content)

    async def _patch_all(self, what: ObjectReference, patch: Object, subresource: str = "") -> None:
        async def change(target: OperatorTarget) -> None:
            await self._operator.patch(target, patch, subresource)

        await self._each(self._operator.find(what), change)

    def _chosen(self, choice: ObjectChoice) -> list[OperatorTarget]:
        found = self._operator.find(choice.what)
        if choice.count is None or choice.count >= len(found):
            return found
        return self._random.sample(found, choice.count)

    async def _each(
        self, targets: list[OperatorTarget], run_action: Callable[[OperatorTarget], Awaitable[object]]
    ) -> None:
        """Run an action for each object; an error does not stop the others."""
        for target in targets:
            try:
                await run_action(target)
            except OperatorRefused as refused:
                self._refusals.append(f"{target.name}: {refused}")

    # -- outside the API

    async def _kill(self, names: tuple[str, ...]) -> None:
        for node in self._nodes(names):
            self._kubelets.kill(node)

    async def _revive(self, names: tuple[str, ...]) -> None:
        for node in self._nodes(names):
            self._kubelets.revive(node)

    async def _fault(self, scheduled: ScenarioFault) -> None:
        number = self._server.inject(scheduled.fault).get("number")
        if number is not None and scheduled.lasts is not None:
            self._server.clock.call_later(
                scheduled.lasts.total_seconds(), lambda: self._server.faults.remove(number)
            )

    async def _behaviour(self, rules: Behaviour) -> None:
        self._kubelets.add_rules_first(rules)

    def _nodes(self, names: tuple[str, ...]) -> list[str]:
        kind = self._server.cluster.kind("v1", _NODE)
        return [
            record.name
            for record in self._server.store.collection(kind).ordered()
            if any(fnmatchcase(record.name, name) for name in names)
        ]
