"""What a scenario uses on a cluster with controllers: nodes of its own, and how their pods behave."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from kubesim.behaviour import Behaviour, load_behaviour
from rescheduler.cluster.codecs.record_resources import NODES, PODS
from rescheduler.kube.api_resources import ApiResource, Object
from tests.conformance.cluster_under_test import ClusterUnderTest
from tests.conformance.notes import without_made_names
from tests.testbed.fake_kubelet.nodes import KUBELET_LABEL, NodeShape, node_shapes

__all__ = [
    "AT_ONCE",
    "Machines",
    "RunningCluster",
    "condition",
    "conditions",
    "is_ready",
    "numbers",
    "staying",
]

AT_ONCE = {"startup": "0s", "termination": "0s"}
"""Of a pod that is ready as soon as it is bound, and gone as soon as it is deleted."""


class Machines(Protocol):
    """The nodes of one scenario, and who plays their kubelets."""

    async def add(self, shapes: Iterable[NodeShape]) -> None: ...

    def behave(self, behaviour: Behaviour) -> None: ...

    def kill(self, node: str) -> None: ...

    def revive(self, node: str) -> None: ...


class RunningCluster(ClusterUnderTest):
    """Pods are ready as soon as they are bound and gone as soon as they are deleted, unless set otherwise."""

    machines: Machines

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self.nodes: list[str] = []

    def saw(self, what: str, value: object) -> None:
        super().saw(what, without_made_names(value))

    # --- the stage

    async def begin(self, machines: Machines, nodes: int) -> None:
        self.machines = machines
        self.behave()
        await self.add_nodes(*node_shapes(nodes, self.namespace))

    async def leave(self) -> None:
        """Waits for the pods to go: afterwards their kubelets are no more."""
        for node in self.nodes:
            self.machines.revive(node)
        self.behave()
        await super().leave()
        await self.until(PODS, lambda found: not found)

    async def add_nodes(self, *shapes: NodeShape) -> None:
        """Usable when this returns: nothing is wrong with them but the taints they were given."""
        if not shapes:
            return
        self.nodes += [shape.name for shape in shapes]
        await self.machines.add(shapes)
        wanted = {shape.name: {taint["key"] for taint in shape.taints} for shape in shapes}

        def usable(found: dict[str, Object]) -> bool:
            return all(name in found and _taints(found[name]) == keys for name, keys in wanted.items())

        await self.until(NODES, usable)

    def behave(self, *rules: Object) -> None:
        """Set the behaviour from now on, as in `kubesim.behaviour`; what no rule says happens at once."""
        self.machines.behave(load_behaviour({"pods": [*rules, AT_ONCE]}))

    # --- objects for these nodes

    def pod(self, name: str, *, app: str = "", cpu: str = "100m", **more: Any) -> Object:
        """Create a pod without an owner, for this scenario's nodes only."""
        metadata = {"name": name, "labels": {"app": app or name}, **more.pop("metadata", {})}
        return {"metadata": metadata, "spec": self.pod_spec(cpu=cpu, **more)}

    def pod_spec(self, *, cpu: str = "100m", image: str = "example.com/app:1", **more: Any) -> Object:
        requests = {"cpu": cpu, "memory": "64Mi"}
        container = {"name": "main", "image": image, "resources": {"requests": requests}}
        return {"nodeSelector": {KUBELET_LABEL: self.namespace}, "containers": [container], **more}

    def template(self, app: str, **pod: Any) -> Object:
        return {"metadata": {"labels": {"app": app}}, "spec": self.pod_spec(**pod)}

    def workload(
        self, name: str, replicas: int | None = None, *, pod: Object | None = None, **spec: Any
    ) -> Object:
        """Return a workload of any kind that has a selector and a template."""
        body = {"selector": {"matchLabels": {"app": name}}, "template": self.template(name, **(pod or {}))}
        counted = {} if replicas is None else {"replicas": replicas}
        return {"metadata": {"name": name}, "spec": body | counted | spec}

    # --- looking

    async def until_one(
        self,
        resource: ApiResource[Any],
        name: str,
        holds: Callable[[Object], object],
        *,
        within_s: float = 60,
    ) -> Object:
        """The object, once it is there and `holds` is true of it."""

        def found(seen: dict[str, Object]) -> bool:
            return name in seen and bool(holds(seen[name]))

        return (await self.until(resource, found, within_s=within_s))[name]

    async def settled(self, resource: ApiResource[Any], name: str, **counts: int) -> Object:
        """The workload, once its controller has seen its latest version and its status has these counts."""

        def so(found: Object) -> bool:
            status = found.get("status") or {}
            seen = status.get("observedGeneration") == found["metadata"]["generation"]
            return seen and all(status.get(field, 0) == count for field, count in counts.items())

        return await self.until_one(resource, name, so)

    async def until_pods(
        self, count: int, *, app: str = "", ready: bool = True, within_s: float = 60
    ) -> list[Object]:
        """Exactly so many that stay and none that goes, by name; all of them ready if not said otherwise."""

        def so(found: dict[str, Object]) -> bool:
            mine = _of_app(found, app)
            staying_ones = staying(mine)
            return len(staying_ones) == len(mine) == count and (not ready or all(map(is_ready, mine)))

        return _of_app(await self.until(PODS, so, within_s=within_s), app)


def _of_app(found: Mapping[str, Object], app: str) -> list[Object]:
    mine = [pod for pod in found.values() if not app or pod["metadata"].get("labels", {}).get("app") == app]
    return sorted(mine, key=lambda pod: str(pod["metadata"]["name"]))


def _taints(node: Object) -> set[str]:
    return {taint["key"] for taint in node["spec"].get("taints") or ()}


# --- what an object reports


def staying(pods: Iterable[Object]) -> list[Object]:
    return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]


def condition(item: Object, type_: str) -> Object:
    """Empty if it has none of that type."""
    found = (item.get("status") or {}).get("conditions") or ()
    return next((each for each in found if each["type"] == type_), {})


def is_ready(pod: Object) -> bool:
    return condition(pod, "Ready").get("status") == "True"


def conditions(item: Object) -> list[list[Any]]:
    """Type, status, reason and message of each, by type: in which order they came is chance."""
    found = (item.get("status") or {}).get("conditions") or ()
    words = ("type", "status", "reason", "message")
    return sorted(([each.get(word) for word in words] for each in found), key=lambda each: str(each[0]))


def numbers(item: Object) -> Object:
    """All counts in a status."""
    return {name: value for name, value in (item.get("status") or {}).items() if isinstance(value, int)}
