"""A namespace with a few nodes of its own, in which a story creates what it needs."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kubesim.behaviour import load_behaviour
from rescheduler.cluster.codecs.record_resources import NODES, PODS
from rescheduler.kube.api_resources import (
    DEPLOYMENTS,
    POD_DISRUPTION_BUDGETS,
    REPLICA_SETS,
    Object,
    key_of,
    merge_patch,
)
from rescheduler.kube.client import Client
from tests.stories import objects
from tests.stories.objects import ENDPOINT_SLICES, SERVICES, key, ready_since
from tests.stories.waiting import until, until_object, wall_clock
from tests.testbed.fake_kubelet import FakeKubelet
from tests.testbed.fake_kubelet.nodes import KUBELET_LABEL

__all__ = ["AT_ONCE", "MakeSandbox", "Sandbox", "node_of", "until_usable"]

AT_ONCE = {"startup": "0s", "termination": "0s"}
"""Of a pod that is ready as soon as it is bound, and gone as soon as it is deleted."""
SLOWLY = {"startup": "1h", "termination": "0s"}
"""As if its image had to be pulled."""

MakeSandbox = Callable[..., Awaitable["Sandbox"]]


@dataclass
class Sandbox:
    client: Client
    namespace: str
    kubelet: FakeKubelet
    nodes: list[str]
    now: Callable[[], datetime] = wall_clock
    """The time in the cluster."""

    # -- workloads

    async def deployment(
        self, replicas: int, *, app: str = "web", pod: Object | None = None, **more: Any
    ) -> None:
        """All replicas ready and served. `pod` says more about each pod, the rest about the Deployment."""
        spec = objects.pod_spec(self.kubelet.name, **(pod or {}))
        await self.client.create(DEPLOYMENTS, objects.deployment(self.namespace, app, replicas, spec, **more))
        await self._served(app, replicas)

    async def replica_set(self, replicas: int, *, app: str = "web") -> None:
        spec = objects.pod_spec(self.kubelet.name)
        await self.client.create(REPLICA_SETS, objects.replica_set(self.namespace, app, replicas, spec))
        await self._served(app, replicas)

    async def _served(self, app: str, replicas: int) -> None:
        await self.client.create(SERVICES, objects.service(self.namespace, app))
        await self.until_ready(replicas, app=app)

        def all_served(slices: Mapping[str, Object]) -> bool:
            endpoints = [each for found in slices.values() for each in found.get("endpoints") or ()]
            return len([each for each in endpoints if each["conditions"].get("ready")]) == replicas

        labels = f"kubernetes.io/service-name={app}"
        await until(self.client, ENDPOINT_SLICES, self.namespace, all_served, labels=labels)

    async def budget(self, name: str = "budget", *, app: str = "web", **spec: Any) -> str:
        """Its key, once the disruption controller has computed it."""
        await self.client.create(POD_DISRUPTION_BUDGETS, objects.budget(self.namespace, name, app, **spec))
        await until_object(
            self.client,
            POD_DISRUPTION_BUDGETS,
            self.key(name),
            lambda found: (
                found.get("status", {}).get("observedGeneration") == found["metadata"]["generation"]
            ),
        )
        return self.key(name)

    async def pod(self, name: str, *, metadata: Object | None = None, **spec: Any) -> Object:
        """Create a bare pod."""
        wanted = objects.pod(
            self.namespace, name, objects.pod_spec(self.kubelet.name, **spec), **(metadata or {})
        )
        return await self.client.create(PODS.as_json, wanted)

    # -- what is there

    def key(self, name: str) -> str:
        return key_of(self.namespace, name)

    async def pods(self, app: str = "web") -> list[Object]:
        """Those that stay, oldest first."""
        page = await self.client.list(PODS.as_json, namespace=self.namespace, labels=f"app={app}")
        staying = [pod for pod in page.items if "deletionTimestamp" not in pod["metadata"]]
        return sorted(
            staying, key=lambda pod: (pod["metadata"]["creationTimestamp"], pod["metadata"]["name"])
        )

    async def free_node(self, app: str = "web") -> str:
        """A node without such a pod."""
        taken = {node_of(pod) for pod in await self.pods(app)}
        return next(node for node in self.nodes if node not in taken)

    async def until_ready(self, count: int, *, app: str = "web") -> list[Object]:
        """Exactly so many, all of them ready, and none on its way out."""

        def all_ready(pods: Mapping[str, Object]) -> list[Object]:
            ready = [pod for pod in pods.values() if ready_since(pod)]
            return ready if len(ready) == len(pods) == count else []

        return await until(self.client, PODS.as_json, self.namespace, all_ready, labels=f"app={app}")

    async def until_pod_ready(self, pod: Object) -> Object:
        return await until_object(self.client, PODS.as_json, key(pod), ready_since)

    # -- behaviour

    def behave(self, *rules: Object) -> None:
        """Set the behaviour from now on, as in `kubesim.behaviour`; without rules, pods are ready at once."""
        self.kubelet.behave(load_behaviour({"pods": [*rules, AT_ONCE]}))

    def start_slowly(self) -> None:
        """Pods that run already go on; no new one is ready before the test is over."""
        self.kubelet.behave(load_behaviour({"pods": [SLOWLY]}))

    async def cordon(self, *nodes: str, on: bool = True) -> None:
        for node in nodes:
            await self.client.patch(NODES, node, merge_patch({"spec": {"unschedulable": on or None}}))


def node_of(pod: Object) -> str:
    return str(pod["spec"].get("nodeName", ""))


async def until_usable(client: Client, kubelet: FakeKubelet, count: int) -> list[str]:
    """The kubelet's nodes, once nothing keeps pods away from them."""

    def usable(nodes: Mapping[str, Object]) -> list[str]:
        free = sorted(name for name, node in nodes.items() if not node["spec"].get("taints"))
        return free if len(free) == count else []

    return await until(client, NODES.as_json, "", usable, labels=f"{KUBELET_LABEL}={kubelet.name}")
