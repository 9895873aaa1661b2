"""A simulated cluster with controllers, kubelets and a simple scheduler, in time that jumps when idle."""

import asyncio
import itertools
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from kubesim import ApiServer
from kubesim.apiserver.object_store import StoredObject
from kubesim.behaviour import load_behaviour
from kubesim.cluster_components import ControllerManager
from kubesim.common_fields import set_pod_condition
from kubesim.kubelets import Kubelets
from kubesim.virtual_time import LoopClock, VirtualLoop

Object = dict[str, Any]

MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"
START = datetime(2026, 1, 1, tzinfo=UTC)
GROUPS = {
    "pods": "/api/v1", "services": "/api/v1", "resourcequotas": "/api/v1",
    "persistentvolumeclaims": "/api/v1",
    "replicasets": "/apis/apps/v1", "deployments": "/apis/apps/v1", "statefulsets": "/apis/apps/v1",
    "daemonsets": "/apis/apps/v1", "controllerrevisions": "/apis/apps/v1", "jobs": "/apis/batch/v1",
    "cronjobs": "/apis/batch/v1", "poddisruptionbudgets": "/apis/policy/v1",
    "endpointslices": "/apis/discovery.k8s.io/v1", "horizontalpodautoscalers": "/apis/autoscaling/v2",
}  # fmt: skip
CLUSTER_WIDE = {
    "nodes": "/api/v1/nodes", "persistentvolumes": "/api/v1/persistentvolumes",
    "namespaces": "/api/v1/namespaces",
    "storageclasses": "/apis/storage.k8s.io/v1/storageclasses",
    "leases": "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases",
    "customresourcedefinitions": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "mutatingwebhookconfigurations":
        "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
    "validatingwebhookconfigurations":
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
}  # fmt: skip


class ObservedLoop(VirtualLoop):
    """Keeps what breaks in the background, so that a test can say so."""

    def __init__(self):
        super().__init__()
        self.broken: list[Any] = []
        self.set_exception_handler(lambda _, context: self.broken.append(context))


def pytest_asyncio_loop_factories(config, item):
    return {"virtual": ObservedLoop}


class Refused(AssertionError):  # noqa: N818 - what happened
    def __init__(self, status: int, body: Object) -> None:
        super().__init__(f"{status}: {body.get('message')}")
        self.status, self.body = status, body


class Sim:
    """Short words for what tests do to a cluster. Objects are in the namespace `default`."""

    def __init__(self, server: ApiServer, kubelets: Kubelets, controllers: ControllerManager) -> None:
        self.server, self.kubelets, self.controllers = server, kubelets, controllers

    # -- requests

    async def send(self, method: str, target: str, body: Any = None, content_type: str = "application/json"):
        raw = b"" if body is None else json.dumps(body).encode()
        answer = await self.server.handle(method, target, {"content-type": content_type}, raw)
        content = json.loads(b"".join([chunk async for chunk in answer.chunks]))
        if answer.status >= 400:
            raise Refused(answer.status, content)
        return content

    @staticmethod
    def path(plural: str, name: str = "") -> str:
        base = CLUSTER_WIDE.get(plural) or f"{GROUPS[plural]}/namespaces/default/{plural}"
        return f"{base}/{name}" if name else base

    async def create(self, plural: str, content: Object) -> Object:
        return await self.send("POST", self.path(plural), content)

    async def get(self, plural: str, name: str) -> Object:
        return await self.send("GET", self.path(plural, name))

    async def all(self, plural: str) -> list[Object]:
        return (await self.send("GET", self.path(plural)))["items"]

    async def patch(self, plural: str, name: str, body: Any, kind: str = MERGE) -> Object:
        return await self.send("PATCH", self.path(plural, name), body, kind)

    async def status(self, plural: str, name: str, status: Object) -> Object:
        return await self.patch(plural, f"{name}/status", {"status": status})

    async def delete(self, plural: str, name: str, **options: Any) -> Object:
        return await self.send("DELETE", self.path(plural, name), options or None)

    async def evict(self, name: str) -> Object:
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
        return await self.send("POST", self.path("pods", f"{name}/eviction"), body)

    async def refusal(self, attempt) -> Refused:
        with pytest.raises(Refused) as caught:
            await attempt
        return caught.value

    # -- what is there

    async def pods(self, app: str | None = None) -> list[Object]:
        """Those that stay, by name."""
        found = [pod for pod in await self.all("pods") if "deletionTimestamp" not in pod["metadata"]]
        return [pod for pod in found if app is None or pod["metadata"].get("labels", {}).get("app") == app]

    async def until(self, check: Callable[[], Any], seconds: float = 60.0) -> Any:
        """Looks again and again, for so long in the cluster's time."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while (found := await check()) in (None, False):
            assert loop.time() < end, "it did not happen"
            await asyncio.sleep(0.05)
        return found

    async def until_ready(self, count: int, app: str | None = None) -> list[Object]:
        async def all_ready():
            pods = await self.pods(app)
            return pods if len(pods) == count == sum(map(is_ready, pods)) else None

        return await self.until(all_ready)

    async def add_node(self, name: str, *, ready: bool = True, **metadata: Any) -> Object:
        status = {
            "capacity": {"cpu": "8", "memory": "16Gi", "pods": "110"},
            "allocatable": {"cpu": "8", "memory": "16Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
        }
        labels = {"kubernetes.io/hostname": name, **metadata.pop("labels", {})}
        return await self.create(
            "nodes", {"metadata": {"name": name, "labels": labels}, "status": status, **metadata}
        )


def is_ready(pod: Object) -> bool:
    conditions = pod.get("status", {}).get("conditions") or ()
    return any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)


def names(objects: list[Object]) -> list[str]:
    return [item["metadata"]["name"] for item in objects]


class RoundRobin:
    """A minimal scheduler: nominated node, DaemonSet's node, else in turn."""

    def __init__(self, server: ApiServer) -> None:
        self._cluster = server.cluster
        self._pods, self._nodes = self._cluster.kind("v1", "Pod"), self._cluster.kind("v1", "Node")
        self._turn = itertools.count()
        self.stopped = False
        server.store.observers.append(self._changed)

    def _changed(self, kind, change):
        if kind == self._pods and change.after is not None and not change.after.fields["spec.nodeName"]:
            uid = change.after.uid
            self._cluster.clock.call_later(0.01, lambda: self._bind(uid))

    def resume(self):
        self.stopped = False
        for record in self._cluster.store.collection(self._pods).ordered():
            self._bind(record.uid)

    def _bind(self, uid):
        found = self._cluster.store.by_uid(uid)
        if found is None or found[1].deleting or self.stopped:
            return
        pod = found[1].object
        if pod["spec"].get("nodeName") or pod["spec"].get("schedulingGates"):
            return
        node = self._choose(pod)
        if node is None:
            return
        pod["spec"]["nodeName"] = node
        pod["status"].pop("nominatedNodeName", None)
        set_pod_condition(pod["status"], "PodScheduled", "True", now=self._cluster.clock.now())
        self._cluster.store.put(self._pods, pod)

    def _choose(self, pod):
        if nominated := pod.get("status", {}).get("nominatedNodeName"):
            return nominated
        required = pod["spec"].get("affinity", {}).get("nodeAffinity", {})
        terms = required.get("requiredDuringSchedulingIgnoredDuringExecution", {}).get(
            "nodeSelectorTerms", []
        )
        fields = [field for term in terms for field in term.get("matchFields", [])]
        if fields:
            return fields[0]["values"][0]
        nodes = [node for node in self._cluster.store.collection(self._nodes).ordered() if _usable(node)]
        return nodes[next(self._turn) % len(nodes)].name if nodes else None


def _usable(node: StoredObject) -> bool:
    return node.fields["spec.unschedulable"] == "false" and b'"taints"' not in node.raw


@pytest.fixture
async def sim():
    """Three nodes; pods are ready a second after they are bound and gone as soon as they are deleted."""
    server = ApiServer(clock=LoopClock(START), seed=7)
    controllers = ControllerManager(server.cluster, usage=server.usage)
    kubelets = Kubelets(server.cluster, load_behaviour({"pods": [{"startup": "1s", "termination": "0s"}]}))
    made = Sim(server, kubelets, controllers)
    made.scheduler = RoundRobin(server)
    for number in (1, 2, 3):
        await made.add_node(f"n{number}")
    await asyncio.sleep(0.1)
    yield made
    assert not asyncio.get_running_loop().broken, "a controller crashed"


# -- objects


def template(app: str = "web", *, image: str = "i:1", **more: Any) -> Object:
    spec = {"containers": [{"name": "c", "image": image, "resources": more.pop("resources", {})}], **more}
    return {"metadata": {"labels": {"app": app}}, "spec": spec}


def workload(name: str = "web", replicas: int | None = 3, **spec: Any) -> Object:
    content = {"selector": {"matchLabels": {"app": name}}, "template": template(name), **spec}
    if replicas is not None:
        content["replicas"] = replicas
    return {"metadata": {"name": name}, "spec": content}
