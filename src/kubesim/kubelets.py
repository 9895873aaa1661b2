"""The kubelets of all nodes: they apply `behaviour.advance` to the pods in the store, and measure usage.

They are optional: without them, pods stay as they were written. Usage is computed only when it is read.
"""

from datetime import UTC, datetime, timedelta

from kubesim.apiserver.api_messages import Object
from kubesim.apiserver.kind_registry import ResourceKind
from kubesim.apiserver.metrics_server import MeasuredUsage, PodUsage
from kubesim.apiserver.object_deletion import DeleteOptions
from kubesim.apiserver.object_store import StoreChange, StoredObject
from kubesim.apiserver.simulated_cluster import SimulatedCluster
from kubesim.apiserver.write_options import Preconditions
from kubesim.behaviour import (
    Behaviour,
    ContainerDraw,
    HostFacts,
    PodRemoval,
    SimulatedUsage,
    StatusUpdate,
    advance,
    node_usage,
    of_node,
    pod_draws,
)
from kubesim.delayed_queue import DelayedQueue
from kubesim.virtual_time import Timer

__all__ = ["KubeletMeter", "Kubelets"]

_REACTION_S = 0.01


class Kubelets:
    def __init__(
        self, cluster: SimulatedCluster, behaviour: Behaviour | None = None, *, began: datetime | None = None
    ) -> None:
        """Run the kubelets; outages are counted from `began`, by default from now."""
        self._cluster = cluster
        self._behaviour = behaviour or Behaviour()
        self._began = began or cluster.clock.now()
        self._pods = cluster.kind("v1", "Pod")
        self._nodes = cluster.kind("v1", "Node")
        self._killed: set[str] = set()
        self._placed: dict[str, dict[str, None]] = {}
        """The uids of the pods on each node."""
        self._timers: dict[str, Timer] = {}
        self._queue = DelayedQueue(cluster.clock, _REACTION_S, self._sync_pod)
        cluster.store.observers.append(self._changed)
        for pod in cluster.store.collection(self._pods).ordered():
            self._enqueue(pod)

    @property
    def behaviour(self) -> Behaviour:
        return self._behaviour

    def behave(self, behaviour: Behaviour) -> None:
        """Replace the behaviour; outages are still counted from the beginning."""
        self._behaviour = behaviour
        for node in self._placed:
            self._enqueue_pods_of(node)

    def add_rules_first(self, rules: Behaviour) -> None:
        """Add rules with precedence over all existing ones."""
        before = self._behaviour
        self.behave(
            Behaviour(pods=rules.pods + before.pods, nodes=rules.nodes + before.nodes, seed=before.seed)
        )

    def kill(self, node: str) -> None:
        """Stop the kubelet of a node until `revive`."""
        self._killed.add(node)

    def revive(self, node: str) -> None:
        self._killed.discard(node)
        self._enqueue_pods_of(node)

    def is_dead(self, node: str) -> bool:
        """Return whether the node was killed, is in an outage of the scenario, or does not exist."""
        found = self._cluster.store.find(self._nodes, "", node)
        if found is None or node in self._killed:
            return True
        elapsed = self._cluster.clock.now() - self._began
        return of_node(self._behaviour, node, found.labels).dead(elapsed)

    def pods_of(self, node: str) -> list[StoredObject]:
        found = (self._cluster.store.by_uid(uid) for uid in self._placed.get(node, ()))
        return [entry[1] for entry in found if entry is not None]

    # -- which pods to sync

    def _changed(self, kind: ResourceKind, change: StoreChange) -> None:
        after = change.after
        if kind is self._nodes and change.before is None and after is not None:
            self._enqueue_pods_of(after.name)
        elif kind is self._pods:
            if after is not None:
                self._enqueue(after)
            elif (gone := change.before) is not None:
                self._set_timer(gone.uid, None)
                self._placed.get(gone.fields["spec.nodeName"], {}).pop(gone.uid, None)

    def _enqueue(self, pod: StoredObject) -> None:
        if node := pod.fields["spec.nodeName"]:
            self._placed.setdefault(node, {})[pod.uid] = None
            self._queue.add(pod.uid)

    def _enqueue_pods_of(self, node: str) -> None:
        for uid in self._placed.get(node, ()):
            self._queue.add(uid)

    # -- sync a pod

    def _sync_pod(self, uid: str) -> None:
        found = self._cluster.store.by_uid(uid)
        if found is None:
            return
        record = found[1]
        node = record.fields["spec.nodeName"]
        if self.is_dead(node):
            self._set_timer(uid, self._end_of_outage(node))
            return
        pod = record.object
        action, wake_at = advance(pod, self._behaviour, self._cluster.clock.now(), self._host(node))
        self._set_timer(uid, wake_at)
        match action:
            case StatusUpdate(status):
                self._cluster.store.put(self._pods, pod | {"status": status})
            case PodRemoval(uid):
                options = DeleteOptions(grace_s=0, preconditions=Preconditions(uid=uid))
                self._cluster.deletion.delete(self._pods, record.namespace, record.name, options)

    def _host(self, name: str) -> HostFacts:
        node = self._cluster.expect(self._nodes, "", name)
        return HostFacts(_internal_ip(node.object), of_node(self._behaviour, name, node.labels).slow)

    def _end_of_outage(self, name: str) -> datetime | None:
        """Return the end of a node's outage; a killed node has none."""
        node = self._cluster.store.find(self._nodes, "", name)
        if node is None or name in self._killed:
            return None
        elapsed = self._cluster.clock.now() - self._began
        change = of_node(self._behaviour, name, node.labels).next_change(elapsed)
        return None if change is None else self._began + change

    def _set_timer(self, uid: str, at: datetime | None) -> None:
        """Set the timer of a pod, which replaces an earlier one."""
        if (timer := self._timers.pop(uid, None)) is not None:
            timer.cancel()
        if at is not None:
            delay = max(at - self._cluster.clock.now(), timedelta())
            self._timers[uid] = self._cluster.clock.call_later(
                delay.total_seconds(), lambda: self._queue.add(uid)
            )


def _internal_ip(node: Object) -> str:
    addresses = (node.get("status") or {}).get("addresses") or []
    return next((each["address"] for each in addresses if each["type"] == "InternalIP"), "")


_EVERY_S = 15
"""The interval in seconds at which a metrics server reads its kubelets."""


class KubeletMeter:
    """A `UsageMeter` that reads the kubelets; the usage on dead nodes is unknown."""

    def __init__(self, cluster: SimulatedCluster, kubelets: Kubelets) -> None:
        self._cluster = cluster
        self._kubelets = kubelets
        self._pods, self._nodes = cluster.kind("v1", "Pod"), cluster.kind("v1", "Node")
        self._draws: dict[str, tuple[int, list[ContainerDraw]]] = {}
        """The usage patterns of each pod by uid, with the version of the pod."""
        self._draws_behaviour = kubelets.behaviour

    def node(self, name: str) -> tuple[MeasuredUsage, datetime] | None:
        record = self._cluster.store.find(self._nodes, "", name)
        if record is None or self._kubelets.is_dead(name):
            return None
        at = self._read_at()
        behaviour = self._kubelets.behaviour
        drawn = [used for pod in self._kubelets.pods_of(name) for used in self._used(pod, at).values()]
        allocatable = (record.object.get("status") or {}).get("allocatable") or {}
        how = of_node(behaviour, name, record.labels)
        return _usage(node_usage(name, allocatable, how, drawn, now=at, seed=behaviour.seed)), at

    def pod(self, namespace: str, name: str) -> tuple[PodUsage, datetime] | None:
        record = self._cluster.store.find(self._pods, namespace, name)
        if record is None or self._kubelets.is_dead(record.fields["spec.nodeName"]):
            return None
        at = self._read_at()
        used = self._used(record, at)
        return ({name: _usage(each) for name, each in used.items()}, at) if used else None

    def _used(self, pod: StoredObject, at: datetime) -> dict[str, SimulatedUsage]:
        behaviour = self._kubelets.behaviour
        if behaviour is not self._draws_behaviour or len(self._draws) > self._most_remembered():
            self._draws.clear()
            self._draws_behaviour = behaviour
        version, draws = self._draws.get(pod.uid, (0, []))
        if version != pod.version:
            draws = pod_draws(pod.object, behaviour)
            self._draws[pod.uid] = (pod.version, draws)
        return {draw.container: draw.at(at, behaviour.seed) for draw in draws}

    def _most_remembered(self) -> int:
        """Return the size at which the cache is cleared, because deleted pods are not removed singly."""
        return 2 * len(self._cluster.store.collection(self._pods).records) + 100

    def _read_at(self) -> datetime:
        seconds = int(self._cluster.clock.now().timestamp())
        return datetime.fromtimestamp(seconds - seconds % _EVERY_S, UTC)


def _usage(used: SimulatedUsage) -> MeasuredUsage:
    return MeasuredUsage(used.cpu_millis / 1000, used.memory_bytes)
