"""Observe every state of an application's pods, by a watch that reports each single change in order."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterable

from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube.api_resources import DEPLOYMENTS, REPLICA_SETS, Object
from rescheduler.kube.client import Client
from rescheduler.kube.codecs.codec import ListPage
from rescheduler.kube.informer import Informer, ListOptions
from tests.stories.objects import ENDPOINT_SLICES, ready_since

__all__ = ["Observer", "observing", "revisions"]

CATCH_UP_S = 30.0


class Observer:
    """What was seen since it began. A pod on its way out is not ready, whatever its status says."""

    def __init__(self, client: Client, namespace: str, app: str) -> None:
        self._client = client
        self._namespace = namespace
        self._labels = f"app={app}"
        self.pods = Informer(
            client, PODS.as_json, ListOptions(namespace, labels=self._labels, start_from_cache=False)
        )
        self.slices = Informer(
            client,
            ENDPOINT_SLICES,
            ListOptions(namespace, labels=f"kubernetes.io/service-name={app}", start_from_cache=False),
        )
        self.ready: list[int] = []
        """How many were ready, after each change."""
        self._changed_s: list[float] = []
        """When each of these changes was seen."""
        self.serving: list[int] = []
        """How many the Service would send requests to, after each change."""
        self.created: list[str] = []
        """The pods that came, in that order."""
        self.deleted: list[str] = []
        """The pods that were asked to go, in that order."""
        self.was_ready: set[str] = set()
        """The pods that were ready at any time."""
        self._gone: set[str] = set()
        self._changed = asyncio.Event()

    def count(self) -> None:
        """Record everything from now on."""
        self.pods.subscribe(self._on_pod)
        self.slices.subscribe(self._on_slice)
        self._note_slices()
        self.created.clear()

    def lost_s(self, replicas: int) -> float:
        """How long pods were missing: the sum over all pods that were not ready, by our own clock."""
        ends = [*self._changed_s[1:], time.monotonic()]
        return sum(
            max(0, replicas - ready) * (until_s - since_s)
            for ready, since_s, until_s in zip(self.ready, self._changed_s, ends, strict=False)
        )

    async def caught_up(self) -> None:
        """All that has happened to the pods up to now is written down, and the Service has followed."""
        page = await self._client.list(PODS.as_json, namespace=self._namespace, labels=self._labels)
        async with asyncio.timeout(CATCH_UP_S):
            while not (self._knows(page) and self._service_has_followed()):
                self._changed.clear()
                await self._changed.wait()

    # -- what was observed

    def _on_pod(self, old: Object | None, new: Object | None) -> None:
        if old is None and new is not None:
            self.created.append(new["metadata"]["name"])
        if old is not None and _is_leaving(new) and not _is_leaving(old):
            self.deleted.append(old["metadata"]["name"])
        if old is not None and new is None:
            self._gone.add(old["metadata"]["uid"])
        self._note_pods()
        self._changed.set()

    def _on_slice(self, _old: Object | None, _new: Object | None) -> None:
        self._note_slices()
        self._changed.set()

    def _note_pods(self) -> None:
        ready = [pod for pod in self.pods if ready_since(pod)]
        self.was_ready |= {pod["metadata"]["name"] for pod in ready}
        self.ready.append(len(ready))
        self._changed_s.append(time.monotonic())

    def _note_slices(self) -> None:
        self.serving.append(len(self._served()))

    # -- whether it is all that there is to tell

    def _knows(self, page: ListPage[Object]) -> bool:
        listed, seen = _versions(page.items), _versions(self.pods)
        nothing_missing = all(
            uid in self._gone or seen.get(uid, 0) >= version for uid, version in listed.items()
        )
        nothing_outdated = all(
            uid in listed or version > int(page.resource_version) for uid, version in seen.items()
        )
        return nothing_missing and nothing_outdated

    def _service_has_followed(self) -> bool:
        ready = {pod["metadata"]["uid"] for pod in self.pods if ready_since(pod)}
        return len(self.slices) == 0 or self._served() == ready

    def _served(self) -> set[str]:
        endpoints = [each for found in self.slices for each in found.get("endpoints") or ()]
        return {each["targetRef"]["uid"] for each in endpoints if each["conditions"].get("ready")}


def _versions(pods: Iterable[Object]) -> dict[str, int]:
    return {pod["metadata"]["uid"]: int(pod["metadata"]["resourceVersion"]) for pod in pods}


def _is_leaving(pod: Object | None) -> bool:
    return pod is None or "deletionTimestamp" in pod["metadata"]


@contextlib.asynccontextmanager
async def observing(client: Client, namespace: str, app: str = "web") -> AsyncIterator[Observer]:
    """Observes while the body runs; afterwards nothing that happened in it is missing."""
    observer = Observer(client, namespace, app)
    async with observer.pods.running(), observer.slices.running():
        await observer.pods.synced()
        await observer.slices.synced()
        observer.count()
        yield observer
        await observer.caught_up()


async def revisions(client: Client, namespace: str) -> list[tuple[str, int, int]]:
    """What a rollout or a scaling would change: generation and replicas of Deployments and ReplicaSets."""
    found = []
    for resource in (DEPLOYMENTS, REPLICA_SETS):
        for item in (await client.list(resource, namespace=namespace)).items:
            metadata = item["metadata"]
            found.append((metadata["uid"], metadata["generation"], item["spec"]["replicas"]))
    return sorted(found)
