"""DaemonSets: run one pod on every eligible node."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from kubesim.apiserver.api_messages import Object
from kubesim.apiserver.kind_registry import ResourceKind
from kubesim.apiserver.object_store import StoreChange
from kubesim.apiserver.status_errors import StatusError
from kubesim.common_fields import scaled
from kubesim.controllers.controller_base import ChangeHandler, ControllerContext, split_key
from kubesim.controllers.controller_revisions import REVISION_HASH, ControllerRevisions
from kubesim.controllers.node_matching import (
    NOT_READY,
    UNREACHABLE,
    IndexedNode,
    node_is_selected,
    node_of,
    untolerated,
)
from kubesim.controllers.owned_objects import PodOwnerController, is_deleting
from kubesim.controllers.pod_index import IndexedPod
from kubesim.controllers.replica_set_controller import is_namespace_terminating
from kubesim.controllers.selector_index import read_selector

__all__ = ["DaemonSetController"]

_PRESSURES = ("disk-pressure", "memory-pressure", "pid-pressure", "unschedulable")
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 900.0
_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def _tolerations(spec: Object) -> list[Object]:
    """Return the tolerations with which a daemon stays on its node in all conditions."""
    taints = [(NOT_READY, "NoExecute"), (UNREACHABLE, "NoExecute")]
    taints += [(f"node.kubernetes.io/{name}", "NoSchedule") for name in _PRESSURES]
    if spec.get("hostNetwork"):
        taints.append(("node.kubernetes.io/network-unavailable", "NoSchedule"))
    added = [{"key": key, "operator": "Exists", "effect": effect} for key, effect in taints]
    own = list(spec.get("tolerations") or ())
    return own + [each for each in added if each not in own]


def _pinned(template: Object, node: str) -> Object:
    """Return the template for one node; node affinity leaves the binding to the scheduler."""
    spec = dict(template["spec"])
    affinity = dict(spec.get("affinity") or {})
    node_affinity = dict(affinity.get("nodeAffinity") or {})
    by_name = {"key": "metadata.name", "operator": "In", "values": [node]}
    node_affinity[_REQUIRED] = {"nodeSelectorTerms": [{"matchFields": [by_name]}]}
    spec["affinity"] = {**affinity, "nodeAffinity": node_affinity}
    spec["tolerations"] = _tolerations(template["spec"])
    return {**template, "spec": spec}


def _place_of(pod: IndexedPod) -> str:
    """Return the node of a pod, or the node it is meant for."""
    if pod.node:
        return pod.node
    affinity = (pod.spec.affinity or {}).get("nodeAffinity") or {}
    for term in (affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or ():
        for field in term.get("matchFields") or ():
            if field["key"] == "metadata.name" and field["operator"] == "In" and len(field["values"]) == 1:
                return str(field["values"][0])
    return ""


@dataclass(frozen=True)
class _Daemons:
    """The pods of one DaemonSet, by node."""

    content: Object
    by_node: dict[str, list[IndexedPod]]
    wanted: list[str]
    """Nodes that should have a pod."""
    kept: frozenset[str]
    """Nodes whose pod may stay, even if it would not be created there now."""
    hash: str
    now: datetime

    def is_available(self, pod: IndexedPod) -> bool:
        min_ready_s = self.content["spec"].get("minReadySeconds", 0)
        return not pod.deleting and pod.available_in(min_ready_s, self.now) == 0

    def is_updated(self, pod: IndexedPod) -> bool:
        return pod.labels.get(REVISION_HASH) == self.hash

    def on(self, node: str) -> list[IndexedPod]:
        return self.by_node.get(node, [])


class DaemonSetController(PodOwnerController):
    name = "daemon-set-controller"
    owner = ("apps/v1", "DaemonSet")

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._nodes = self.kind("v1", "Node")
        self._revisions = ControllerRevisions(context, self.writes, self.owner_kind, REVISION_HASH)
        self._failures: dict[tuple[str, str], tuple[int, datetime]] = {}

    def watches(self) -> Mapping[ResourceKind, ChangeHandler]:
        return {**super().watches(), self._nodes: self._node_changed}

    def _node_changed(self, change: StoreChange) -> None:
        if change.before is not None and change.after is not None:
            before, after = node_of(change.before), node_of(change.after)
            if (before.labels, before.spec) == (after.labels, after.spec):
                return  # a heartbeat
        for record in self.context.store.collection(self.owner_kind).ordered():
            self.queue.add(record.key)

    async def reconcile(self, key: str) -> float | None:
        content = self.context.read(self.owner_kind, *split_key(key))
        if content is None:
            return None
        selector = read_selector(content["spec"].get("selector"))
        pods = await self.claim(content, selector, self.candidates(content))
        history = await self._revisions.of(content, pods)
        daemons = self._inspect(content, pods, history.latest["metadata"]["labels"][REVISION_HASH])
        wait_s = None
        if not is_deleting(content):
            wait_s = await self._manage(daemons)
            if wait_s is None and content["spec"]["updateStrategy"]["type"] == "RollingUpdate":
                for pod in _to_update(daemons):
                    await self.delete_pod(pod)
        await self.writes.set_status(self.owner_kind, content, _status(daemons))
        in_use = {f"{content['metadata']['name']}-{pod.labels.get(REVISION_HASH)}" for pod in pods}
        await self._revisions.truncate(history, in_use, content["spec"].get("revisionHistoryLimit", 10))
        return wait_s if wait_s is not None else _requeue_after_s(daemons)

    def _inspect(self, content: Object, pods: list[IndexedPod], hash_: str) -> _Daemons:
        by_node: dict[str, list[IndexedPod]] = {}
        for pod in sorted(pods, key=lambda pod: (pod.metadata.creation_timestamp, pod.name)):
            by_node.setdefault(_place_of(pod), []).append(pod)
        spec = content["spec"]["template"]["spec"]
        tolerations = _tolerations(spec)
        wanted, kept = [], []
        for record in self.context.store.collection(self._nodes).ordered():
            node: IndexedNode = node_of(record)
            if node_is_selected(spec, node):
                left = untolerated(tolerations, node)
                wanted += [node.name] if not left & {"NoSchedule", "NoExecute"} else []
                kept += [node.name] if "NoExecute" not in left else []
        return _Daemons(content, by_node, wanted, frozenset(kept), hash_, self.context.now())

    async def _manage(self, daemons: _Daemons) -> float | None:
        """Create and delete pods; return the seconds until a waiting failed pod can be replaced, if any."""
        waits = []
        for node, pods in daemons.by_node.items():
            if node not in daemons.kept:
                for pod in pods:
                    await self._delete_once(pod)
        for node in [*daemons.wanted, *(each for each in daemons.by_node if each not in daemons.wanted)]:
            finished = [pod for pod in daemons.on(node) if pod.finished]
            for pod in finished:
                if (wait := self._pause(daemons, node)) > 0:
                    waits.append(wait)
                else:
                    await self._delete_once(pod)
            active = [pod for pod in daemons.on(node) if pod.active]
            for pod in active[1:]:
                await self._delete_once(pod)  # the oldest stays
        for node in daemons.wanted:
            if not daemons.on(node):
                await self._create(daemons, node)
        return min(waits, default=None)

    async def _delete_once(self, pod: IndexedPod) -> None:
        if not pod.deleting:
            await self.delete_pod(pod)

    def _pause(self, daemons: _Daemons, node: str) -> float:
        """Return the seconds until a failed pod is replaced, with back-off per node."""
        key = (daemons.content["metadata"]["uid"], node)
        count, since = self._failures.get(key, (0, daemons.now))
        pause_s = min(_FIRST_PAUSE_S * 2**count, _LONGEST_PAUSE_S) if count else 0.0
        left_s = pause_s - (daemons.now - since).total_seconds()
        if left_s <= 0:
            self._failures[key] = (count + 1, daemons.now)
        return left_s

    async def _create(self, daemons: _Daemons, node: str) -> None:
        template = _pinned(daemons.content["spec"]["template"], node)
        described = template.get("metadata") or {}
        labels = {**(described.get("labels") or {}), REVISION_HASH: daemons.hash}
        annotations = daemons.content["metadata"].get("annotations") or {}
        if _TEMPLATE_GENERATION in annotations:
            labels["pod-template-generation"] = annotations[_TEMPLATE_GENERATION]
        try:
            await self.create_pod(daemons.content, {**template, "metadata": {**described, "labels": labels}})
        except StatusError as failure:
            if not is_namespace_terminating(failure):
                raise


def _to_update(daemons: _Daemons) -> list[IndexedPod]:
    """Return old pods to delete: all unavailable ones, and as many others as may be unavailable."""
    rolling = daemons.content["spec"]["updateStrategy"].get("rollingUpdate") or {}
    most = max(1, scaled(rolling.get("maxUnavailable", 1), len(daemons.wanted), round_up=True))
    missing = 0
    broken: list[IndexedPod] = []
    healthy: list[IndexedPod] = []
    for node in daemons.wanted:
        pods = daemons.on(node)
        if not any(daemons.is_available(pod) for pod in pods):
            missing += 1
        for pod in pods:
            if not daemons.is_updated(pod) and not pod.deleting:
                (healthy if daemons.is_available(pod) else broken).append(pod)
    return broken + healthy[: max(0, most - missing)]


def _status(daemons: _Daemons) -> Object:
    first = {node: pods[0] for node, pods in daemons.by_node.items() if pods and node}
    placed = {node: first[node] for node in daemons.wanted if node in first}
    available = sum(1 for pod in placed.values() if daemons.is_available(pod))
    counts = {
        "updatedNumberScheduled": sum(1 for pod in placed.values() if daemons.is_updated(pod)),
        "numberAvailable": available,
        "numberUnavailable": len(daemons.wanted) - available,
    }
    return {
        "currentNumberScheduled": len(placed),
        "desiredNumberScheduled": len(daemons.wanted),
        "numberMisscheduled": sum(1 for node in first if node not in daemons.wanted),
        "numberReady": sum(1 for pod in placed.values() if pod.ready),
        "observedGeneration": daemons.content["metadata"].get("generation", 0),
        **{name: count for name, count in counts.items() if count},
    }


def _requeue_after_s(daemons: _Daemons) -> float | None:
    min_ready_s = daemons.content["spec"].get("minReadySeconds", 0)
    pods = [pod for pods in daemons.by_node.values() for pod in pods]
    waits = [wait for pod in pods if (wait := pod.available_in(min_ready_s, daemons.now))]
    return min(waits, default=None)
