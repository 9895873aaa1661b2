"""Hand-written migrations as the webhook or extender sees them, and the pods created meanwhile."""

import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from rescheduler.api.well_known_names import STEERED_BY_ANNOTATION
from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.cluster.pod_constraints import avoided_nodes
from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS
from rescheduler.kube.api_resources import Object
from rescheduler.kube.client import Client
from tests.stories.sandbox import Sandbox, node_of

__all__ = ["PROBE", "Ask", "Extended", "MakeSteered", "Serving", "Steered"]

Serving = Callable[[], contextlib.AbstractAsyncContextManager[None]]
MakeSteered = Callable[..., Awaitable["Steered"]]
Ask = Callable[[str, bytes], Awaitable[bytes]]
"""Verb and arguments → the answer of the extender."""

PROBE = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "probe", "uid": "probe"}
"""A workload that there isn't."""


@dataclass
class Steered:
    """A sandbox beside which a webhook can run that the API server asks about every new pod."""

    sandbox: Sandbox
    serving: Serving
    """async with serving(): a webhook that is registered; or an extender that can be asked."""
    eventually: Callable[..., Awaitable[Any]]
    leaves_marks: ClassVar[bool] = True
    """Whether the pod's spec says where it should go, and where not."""

    @property
    def client(self) -> Client:
        return self.sandbox.client

    @contextlib.asynccontextmanager
    async def moving(self, *pods: Object, to: str = "") -> AsyncIterator[None]:
        """Migrations of the pods are about to evict them, and the webhook or extender knows."""
        async with contextlib.AsyncExitStack() as stack:
            for number, pod in enumerate(pods, start=1):
                (owner,) = pod["metadata"]["ownerReferences"]
                reference = {key: owner[key] for key in ("apiVersion", "kind", "name", "uid")}
                moved = self._migration(
                    f"move-{number}", pod["metadata"]["name"], node_of(pod), to, reference
                )
                await stack.enter_async_context(moved)
            await stack.enter_async_context(self.probing())
            yield

    @contextlib.asynccontextmanager
    async def probing(self) -> AsyncIterator[None]:
        """Pods of `PROBE` are steered, and so all is known that was written before."""
        async with self._migration("probe", "probe", "nowhere", "elsewhere", PROBE):
            await self.eventually(self.steers)
            yield

    async def steers(self) -> bool:
        """Whether a pod of `PROBE` would be steered if it were created."""
        owner = {**PROBE, "controller": True}
        metadata = {"namespace": self.sandbox.namespace, "name": "probe", "ownerReferences": [owner]}
        spec = {"containers": [{"name": "main", "image": "shop/web:1"}]}
        item = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        made = await self.client.create(PODS.as_json, item, dry_run=True)
        return STEERED_BY_ANNOTATION in made["metadata"].get("annotations", {})

    def must_avoid(self, pod: Object, *nodes: str) -> None:
        """It avoids these nodes, if pods are steered at all; without nodes: it avoids none."""
        reported = nodes if self.leaves_marks else ()
        annotations = pod["metadata"].get("annotations", {})
        assert avoided_nodes(annotations) == tuple(sorted(reported))
        assert (STEERED_BY_ANNOTATION in annotations) == bool(reported)
        assert ("affinity" in pod["spec"]) == bool(reported)

    async def evict(self, pod: Object, replicas: int) -> Object:
        """The pod that its controller has made in its place, once all are ready again."""
        known = {each["metadata"]["uid"] for each in await self.sandbox.pods()}
        await self.client.evict(self.sandbox.key(pod["metadata"]["name"]))
        ready = await self.sandbox.until_ready(replicas)
        (replacement,) = (each for each in ready if each["metadata"]["uid"] not in known)
        return replacement

    @contextlib.asynccontextmanager
    async def _migration(
        self, name: str, pod: str, source: str, target: str, owner: Object
    ) -> AsyncIterator[None]:
        item = {
            "apiVersion": POD_MIGRATIONS.api_version,
            "kind": POD_MIGRATIONS.kind,
            "metadata": {"namespace": self.sandbox.namespace, "name": name},
            "spec": {"pod": {"name": pod, "uid": f"uid-of-{pod}"}, "sourceNode": source},
        }
        made = await self.client.create(POD_MIGRATIONS, item)
        made["status"] = {
            "phase": "InProgress",
            "step": "Evicting",
            "handover": "Evict",
            "targetNode": target,
            "owner": owner,
        }
        await self.client.replace(POD_MIGRATIONS.status, made)
        try:
            yield
        finally:
            await self.client.delete(POD_MIGRATIONS, self.sandbox.key(name))


@dataclass
class Extended(Steered):
    """A sandbox beside which an extender can run that the scheduler asks about every pod."""

    ask: Ask
    leaves_marks = False

    async def steers(self) -> bool:
        """Whether a pod of `PROBE` would be kept off a node if it were placed."""
        owner = {**PROBE, "controller": True}
        metadata = {"namespace": self.sandbox.namespace, "name": "probe", "ownerReferences": [owner]}
        asked = {"Pod": {"metadata": metadata}, "NodeNames": ["nowhere", "anywhere"]}
        answer = json.loads(await self.ask("filter", json.dumps(asked).encode()))
        return bool(answer["NodeNames"] == ["anywhere"])
