"""Small clusters for the simulated scheduler, and a way to ask its filters about one pod and one node."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from kubesim import ApiServer
from kubesim.apiserver.api_messages import encode
from kubesim.scheduler import Extender, Scheduler
from kubesim.scheduler.node_filtering import prepare
from kubesim.scheduler.node_info import PodInfo
from kubesim.scheduler.scheduler_cache import SchedulerCache
from kubesim.virtual_time import ManualClock

Object = dict[str, Any]


def node(name: str = "n1", *, taints: Sequence[Object] = (), cordoned: bool = False, **sizes: str) -> Object:
    """Labels are its name as host and `zone` if given; `a__b` in a size's name stands for `a/b`."""
    labels = {"kubernetes.io/hostname": name}
    if zone := sizes.pop("zone", ""):
        labels["topology.kubernetes.io/zone"] = zone
    if disk := sizes.pop("disk", ""):
        labels["disk"] = disk
    allocatable = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    allocatable |= {size.replace("__", "/").replace("_", "-"): amount for size, amount in sizes.items()}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": list(taints), "unschedulable": cordoned},
        "status": {"allocatable": allocatable, "capacity": allocatable},
    }


def pod(
    name: str = "asking",
    *,
    on: str = "",
    cpu: str = "",
    labels: dict[str, str] | None = None,
    namespace: str = "default",
    priority: int = 0,
    **spec: Any,
) -> Object:
    container: Object = {"name": "main", "image": "none"}
    if cpu:
        container["resources"] = {"requests": {"cpu": cpu}}
    content: Object = {"containers": [container], "priority": priority, **spec}
    if on:
        content["nodeName"] = on
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-of-{name}",
            "labels": labels or {},
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": content,
        "status": {"phase": "Running" if on else "Pending"},
    }


def required(kind: str, *terms: Object) -> Object:
    """An affinity of the given kind; for nodes the terms are node selector terms."""
    listed: Any = list(terms)
    if kind == "nodeAffinity":
        listed = {"nodeSelectorTerms": listed}
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": listed}}


def why_not(asking: Object, *objects: Object, on: str = "n1") -> list[str]:
    """What the filters say against the node, all of them."""
    cluster = SchedulerCache.of(objects)
    refusals = prepare(PodInfo(asking), cluster).refusals(cluster.nodes[on])
    return [reason for refusal in refusals for reason in refusal.reasons]


class Stage:
    """A cluster with a scheduler, on a clock that tests move; no kubelets, no controllers."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.server = ApiServer(clock=clock, seed=1)
        self.pods = self.server.cluster.kind("v1", "Pod")

    def begin(self, *objects: Object, extenders: Sequence[Extender] = (), name: str = "") -> None:
        self.server.load(objects)
        self.scheduler = Scheduler(
            self.server.cluster, extenders=extenders, **({"name": name} if name else {})
        )
        self.clock.advance(5)

    def add(self, *objects: Object, wait_s: float = 5.0) -> None:
        for item in objects:
            kind = self.server.cluster.kind(item["apiVersion"], item["kind"])
            metadata = {"uid": f"uid-of-{item['metadata']['name']}", **item["metadata"]}
            self.server.store.put(kind, {**item, "metadata": metadata})
        self.clock.advance(wait_s)

    def get(self, name: str) -> Object:
        record = self.server.store.find(self.pods, "default", name)
        assert record is not None, f"no pod {name}"
        return record.object

    def node_of(self, name: str) -> str:
        return self.get(name)["spec"].get("nodeName", "")

    def says(self, name: str) -> str:
        """The message of the pod's condition that it is not scheduled."""
        conditions = self.get(name)["status"].get("conditions", ())
        return next((item.get("message", "") for item in conditions if item["type"] == "PodScheduled"), "")

    def gone(self, name: str, wait_s: float = 5.0) -> None:
        record = self.server.store.find(self.pods, "default", name)
        assert record is not None
        self.server.store.remove(self.pods, record)
        self.clock.advance(wait_s)

    def patch(self, name: str, change: Object, subresource: str = "") -> None:
        """Create it through the API, as any client would."""
        path = f"/api/v1/namespaces/default/pods/{name}{subresource}"
        headers = {"content-type": "application/merge-patch+json"}
        answer = asyncio.run(self.server.handle("PATCH", path, headers, encode(change)))
        assert answer.status == 200, answer
        self.clock.advance(5)

    def events(self) -> list[tuple[str, str]]:
        events = self.server.cluster.kind("v1", "Event")
        found = (record.object for record in self.server.store.collection(events).ordered())
        return [(event["reason"], event["message"]) for event in sorted(found, key=lambda e: e["eventTime"])]


@pytest.fixture
def stage() -> Stage:
    return Stage(ManualClock())
