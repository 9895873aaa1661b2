"""Act as the kubelets of all nodes that carry its label, and of no other.

What is to be done is decided by the pure `advance`, on what the API holds; this does it. A decision made on
an old view of a pod is refused by the server (its resourceVersion is part of each write) and repeated when
the newer view arrives, so several of these, or one that was restarted, do no harm.
"""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Self

from kubesim.behaviour import Behaviour, HostFacts, NodeBehaviour, PodRemoval, StatusUpdate, advance, of_node
from rescheduler.cluster.codecs.record_resources import NODES, PODS
from rescheduler.kube import errors
from rescheduler.kube.api_resources import LEASES, key_of, merge_patch, strategic_patch
from rescheduler.kube.client import Client
from rescheduler.kube.informer import Informer, ListOptions
from tests.testbed.fake_kubelet.heartbeats import Heartbeats
from tests.testbed.fake_kubelet.held import HELD_PODS, HeldPod
from tests.testbed.fake_kubelet.nodes import (
    KUBELET_LABEL,
    LEASE_NAMESPACE,
    NodeShape,
    is_ready,
    node_object,
    ready_conditions,
)
from tests.testbed.fake_kubelet.queue import WorkQueue
from tests.testbed.fake_kubelet.wakes import Wakes

__all__ = ["FakeKubelet", "FakeNode"]

log = logging.getLogger(__name__)

Object = dict[str, Any]
RETRY_AFTER = timedelta(seconds=1)
REGISTRATIONS_AT_ONCE = 16


@dataclass(frozen=True)
class FakeNode:
    """A node that we speak for."""

    node: Object
    behaviour: NodeBehaviour
    host: HostFacts


class FakeKubelet:
    def __init__(
        self,
        client: Client,
        behaviour: Behaviour | None = None,
        *,
        name: str = "fake",
        beat_every_s: float | None = None,
        workers: int = 16,
        namespace: str = "",
    ) -> None:
        """`namespace`: it handles pods of this one only, and watches no others."""
        self.name = name
        self.behaviour = behaviour or Behaviour()
        self.done: Counter[str] = Counter()
        """How often it did what, by the verb."""
        self.nodes = Informer(client, NODES.as_json, ListOptions(labels=f"{KUBELET_LABEL}={name}"))
        self.pods = Informer(
            client,
            HELD_PODS,
            ListOptions(namespace=namespace, fields="spec.nodeName!="),
            indices={"node": lambda pod: [pod.node]},
        )
        self._client = client
        self._began = datetime.now(UTC)
        self._played: dict[str, FakeNode] = {}
        self._killed: set[str] = set()
        self._seen_dead: set[str] = set()
        self._registered: list[str] = []
        self._queue = WorkQueue()
        self._wakes = Wakes(self._queue.put)
        self._heartbeats = Heartbeats(client, self._alive_nodes, beat_every_s)
        self._workers = workers

    # -- running

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        """Returns when it knows all nodes and pods. The nodes stay when it ends; see `remove_registered`."""
        self._began = datetime.now(UTC)
        self.nodes.subscribe(self._on_node)
        self.pods.subscribe(self._on_pod)
        jobs = [self.nodes.run(), self.pods.run(), self._wakes.run(), self._heartbeats.run()]
        jobs += [self._work() for _ in range(self._workers)]
        tasks = [asyncio.create_task(job) for job in jobs]
        try:
            await self.nodes.synced()
            await self.pods.synced()
            yield self
        finally:
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
            for failure in ended:
                if isinstance(failure, Exception):
                    raise failure

    # -- what the one who runs it may ask for

    async def register(self, shapes: Iterable[NodeShape]) -> None:
        """Makes these nodes, ready at once. A node of that name that is there already is taken as it is."""
        at_once = asyncio.Semaphore(REGISTRATIONS_AT_ONCE)

        async def register(shape: NodeShape) -> None:
            async with at_once:
                now = datetime.now(UTC)
                with contextlib.suppress(errors.AlreadyExists):
                    node = await self._client.create(NODES.as_json, node_object(shape, self.name, now))
                    self._registered.append(shape.name)
                    await self._heartbeats.beat(node)

        async with asyncio.TaskGroup() as group:
            for shape in shapes:
                group.create_task(register(shape))

    async def remove_registered(self) -> None:
        """Removes the nodes that this one made, and their leases."""
        for name in self._registered:
            for resource, key in ((NODES.as_json, name), (LEASES, key_of(LEASE_NAMESPACE, name))):
                with contextlib.suppress(errors.NotFound):
                    await self._client.delete(resource, key)
        self._registered.clear()

    def behave(self, behaviour: Behaviour) -> None:
        """Set the behaviour from now on. Outages still count from the start."""
        self.behaviour = behaviour
        for played in list(self._played.values()):
            self._on_node(None, played.node)
        for pod in self.pods:
            self._queue.put(pod.key)

    def kill(self, node: str) -> None:
        """No heartbeat and no work for its pods, until `revive`."""
        self._killed.add(node)
        self._queue.put(node)

    def revive(self, node: str) -> None:
        self._killed.discard(node)
        # It may not have been seen dead, and yet changes of its pods were ignored in between.
        self._seen_dead.add(node)
        self._queue.put(node)

    def is_dead(self, node: str) -> bool:
        played = self._played.get(node)
        return node in self._killed or played is None or played.behaviour.dead(self._elapsed())

    @property
    def idle(self) -> bool:
        """Nothing is to be done right now; something may be, later."""
        return len(self._queue) == 0

    @property
    def played(self) -> dict[str, FakeNode]:
        return self._played

    # -- what needs work

    def _on_node(self, old: Object | None, new: Object | None) -> None:
        if new is None:
            assert old is not None
            self._played.pop(old["metadata"]["name"], None)
            return
        name = new["metadata"]["name"]
        behaviour = of_node(self.behaviour, name, new["metadata"].get("labels") or {})
        known = self._played.get(name)
        self._played[name] = FakeNode(new, behaviour, HostFacts(_internal_ip(new), behaviour.slow))
        if known is None:
            self._put_pods_of(name)
        self._queue.put(name)

    def _on_pod(self, old: HeldPod | None, new: HeldPod | None) -> None:
        if new is not None:
            self._queue.put(new.key)
        elif old is not None:
            self._wakes.at(old.key, None)

    def _put_pods_of(self, node: str) -> None:
        for pod in self.pods.find("node", node):
            self._queue.put(pod.key)

    # -- the work

    async def _work(self) -> None:
        while True:
            key = await self._queue.take()
            try:
                await (self._reconcile_pod(key) if "/" in key else self._reconcile_node(key))
            except (errors.Conflict, errors.NotFound):
                self.done["outdated"] += 1  # the newer state is on its way to us
                self._wakes.at(key, datetime.now(UTC) + RETRY_AFTER)
            except errors.KubeError as failed:
                # Whatever the error: a kubelet never stops trying, and no other event may come for this pod.
                log.warning("%s; trying again", failed)
                self._wakes.at(key, datetime.now(UTC) + RETRY_AFTER)
            finally:
                self._queue.done(key)

    async def _reconcile_pod(self, key: str) -> None:
        held = self.pods.get(key)
        if held is None or self.is_dead(held.node):
            return
        pod = held.whole()
        action, wake_at = advance(pod, self.behaviour, datetime.now(UTC), self._played[held.node].host)
        self._wakes.at(key, wake_at)
        match action:
            case StatusUpdate(status):
                self.done["update"] += 1
                await self._client.patch(PODS.as_json.status, key, merge_patch(_change(pod, status)))
            case PodRemoval(uid):
                self.done["delete"] += 1
                await self._client.delete(PODS, key, uid=uid, grace_s=0)

    async def _reconcile_node(self, name: str) -> None:
        played = self._played.get(name)
        if played is None:
            return
        elapsed = self._elapsed()
        if change := played.behaviour.next_change(elapsed):
            self._wakes.at(name, self._began + change)
        if self.is_dead(name):
            self._seen_dead.add(name)
            return
        if name in self._seen_dead:
            self._seen_dead.discard(name)
            await self._heartbeats.beat(played.node)
            self._put_pods_of(name)
        if not is_ready(played.node):
            conditions = ready_conditions(played.node["status"].get("conditions") or [], datetime.now(UTC))
            patch = strategic_patch({"status": {"conditions": conditions}})
            await self._client.patch(NODES.as_json.status, name, patch)

    def _alive_nodes(self) -> list[Object]:
        return [played.node for name, played in self._played.items() if not self.is_dead(name)]

    def _elapsed(self) -> timedelta:
        return datetime.now(UTC) - self._began


def _change(pod: Object, status: Object) -> Object:
    """The fields that differ, for exactly this state of this pod."""
    before = pod.get("status") or {}
    metadata = {"uid": pod["metadata"]["uid"], "resourceVersion": pod["metadata"]["resourceVersion"]}
    changed = {name: value for name, value in status.items() if before.get(name) != value}
    return {"metadata": metadata, "status": changed}


def _internal_ip(node: Object) -> str:
    addresses = node.get("status", {}).get("addresses") or ()
    return next((each["address"] for each in addresses if each["type"] == "InternalIP"), "")
