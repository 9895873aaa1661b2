"""Plays a plan back and says what is wrong with it, without asking the code that made it.

    assert replay(shop.objects, plan, policy) == []

Everything is checked on the plain objects: the rules by the simulator's scheduler, which was written
independently and is held to the real one; limits, budgets and protections by a few lines of their own. Two
ways of executing are tried: wave by wave with all sources of a wave in place, whichever move comes first; and
one by one in order.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

from kubesim.scheduler.node_filtering import prepare
from kubesim.scheduler.node_info import PodInfo
from kubesim.scheduler.scheduler_cache import SchedulerCache
from rescheduler.api.podmigration import Handover
from rescheduler.cluster.node_record import NodeChange
from rescheduler.config.policy import Policy
from rescheduler.planner.plan import Move, Plan

__all__ = ["replay"]

Json = dict[str, Any]

_MAINTENANCE = "scheduler.alpha.kubernetes.io/maintenance"


def replay(
    objects: Iterable[Json],
    plan: Plan,
    policy: Policy,
    *,
    urgent: frozenset[str] = frozenset({"NodeMaintenance"}),
) -> list[str]:
    """All faults, in words. `urgent` are the strategies that may move what others may not."""
    cluster = _Cluster(objects)
    return [
        *_faults_of_moves(cluster, plan, policy),
        *_faults_of_protection(cluster, plan, policy, urgent),
        *_faults_of_limits(cluster, plan, policy),
        *_Play(cluster, together=True).faults(plan),
        *_Play(cluster, together=False).faults(plan),
    ]


class _Cluster:
    def __init__(self, objects: Iterable[Json]) -> None:
        self.by_kind: dict[str, dict[str, Json]] = defaultdict(dict)
        for item in objects:
            self.by_kind[item["kind"]][_key(item)] = item

    @property
    def all(self) -> Iterator[Json]:
        return (item for items in self.by_kind.values() for item in items.values())

    def pod(self, key: str) -> Json:
        return self.by_kind["Pod"][key]

    def workload(self, pod: Json) -> str:
        """The topmost controller; a pod without one is its own."""
        owner = _owner(pod)
        while owner is not None:
            key = f"{pod['metadata']['namespace']}/{owner['name']}"
            above = _owner(self.by_kind[owner["kind"]].get(key, {"metadata": {}}))
            if above is None:
                return f"{owner['kind']} {key}"
            owner = above
        return f"Pod {_key(pod)}"

    def budgets(self, pod: Json) -> list[Json]:
        labels = pod["metadata"].get("labels") or {}
        return [
            budget
            for budget in self.by_kind["PodDisruptionBudget"].values()
            if budget["metadata"]["namespace"] == pod["metadata"]["namespace"]
            and (selector := budget["spec"].get("selector")) is not None
            and all(labels.get(key) == value for key, value in (selector.get("matchLabels") or {}).items())
        ]


def _faults_of_moves(cluster: _Cluster, plan: Plan, policy: Policy) -> Iterator[str]:
    if len(plan.moves) > policy.max_reschedule_pods:
        yield f"{len(plan.moves)} moves, of {policy.max_reschedule_pods} at most"
    if [move.wave for move in plan.moves] != sorted(move.wave for move in plan.moves):
        yield "waves out of order"
    cordoned = {change.node for change in plan.changes if change.change is NodeChange.CORDON}
    moves_by_pod: dict[str, list[Move]] = defaultdict(list)
    for move in plan.moves:
        moves_by_pod[move.uid].append(move)
        pod = cluster.by_kind["Pod"].get(move.pod)
        if pod is None or pod["metadata"]["uid"] != move.uid:
            yield f"{move.pod} is no pod of the cluster"
            return
        node = cluster.by_kind["Node"].get(move.target or "")
        if node is None or _is_closed(node) or move.target in cordoned:
            yield f"{move.pod} may not be sent to {move.target}"
    for hops in moves_by_pod.values():
        yield from _faults_of_hops(cluster, hops)


def _faults_of_hops(cluster: _Cluster, hops: Sequence[Move]) -> Iterator[str]:
    pod = hops[0].pod
    if [hop.hop for hop in hops] not in ([False], [True, False]):
        yield f"{pod} is moved {len(hops)} times"
    nodes_visited = [cluster.pod(pod)["spec"]["nodeName"], *(hop.target for hop in hops)]
    if [hop.source for hop in hops] != nodes_visited[:-1]:
        yield f"{pod} is not where a move of it begins"
    if len(set(nodes_visited)) != len(nodes_visited):
        yield f"{pod} comes back to a node that it left: {nodes_visited}"
    if len({hop.wave for hop in hops}) != len(hops):
        yield f"{pod} goes on in the wave in which it stops"


def _faults_of_protection(
    cluster: _Cluster, plan: Plan, policy: Policy, urgent: frozenset[str]
) -> Iterator[str]:
    for move in plan.moves:
        pod = cluster.pod(move.pod)
        for fault in _protected_by(cluster, pod, move, policy, urgent=move.strategy in urgent):
            yield f"{move.pod} is moved by {move.strategy} although {fault}"


def _protected_by(cluster: _Cluster, pod: Json, move: Move, policy: Policy, *, urgent: bool) -> Iterator[str]:
    metadata, spec = pod["metadata"], pod["spec"]
    labels, marks = metadata.get("labels") or {}, metadata.get("annotations") or {}
    owner = _owner(pod)
    kind = owner["kind"] if owner is not None else ""
    system = metadata["namespace"] in policy.excluded_namespaces or "-critical" in spec.get(
        "priorityClassName", ""
    )
    faults = {
        "it belongs to its node": kind in {"DaemonSet", "Node"} or "kubernetes.io/config.mirror" in marks,
        "it is the system's": system and not (urgent and policy.maintenance_includes_system),
        "it opted out": labels.get("scheduler.alpha.kubernetes.io/rescheduling") == "disabled",
        "it is not safe to evict": marks.get("cluster-autoscaler.kubernetes.io/safe-to-evict") == "false",
        "it must not be disrupted": marks.get("karpenter.sh/do-not-disrupt") == "true",
        "it is excluded": policy.excluded_pod_selector.matches(labels),
        "it has ended": "deletionTimestamp" in metadata
        or pod["status"].get("phase") in {"Succeeded", "Failed"},
        "it belongs to a Job": kind == "Job" and not policy.include_jobs,
        "it has no controller": not kind and not policy.include_bare_pods,
        "another scheduler places it": spec.get("schedulerName", "default-scheduler")
        not in policy.known_schedulers,
        "its priority is too high": policy.max_priority is not None
        and spec.get("priority", 0) > policy.max_priority,
        "several budgets cover it": len(cluster.budgets(pod)) > 1,
        f"{move.handover} can't move it": move.handover not in _POSSIBLE.get(kind, {Handover.EVICT}),
    }
    return (fault for fault, holds in faults.items() if holds)


_POSSIBLE = {"": {Handover.COPY}, "ReplicaSet": {Handover.ADOPT, Handover.EVICT}}
"""Handovers by the kind of the owner; all others can only be evicted."""


def _faults_of_limits(cluster: _Cluster, plan: Plan, policy: Policy) -> Iterator[str]:
    for wave, together in groupby(plan.moves, key=lambda move: move.wave):
        moves = list(together)
        if len(moves) > policy.max_concurrent_migrations:
            yield f"wave {wave}: {len(moves)} moves at once"
        # A group moves as one, and counts as one where its pods share a node or a workload.
        nodes = {(move.group or move.uid, node) for move in moves for node in (move.source, move.target)}
        for node, count in Counter(node for _, node in nodes).items():
            if count > policy.max_concurrent_per_node:
                yield f"wave {wave}: {count} moves at once from or to {node}"
        workloads = {(move.group or move.uid, cluster.workload(cluster.pod(move.pod))) for move in moves}
        for workload, count in Counter(workload for _, workload in workloads).items():
            if count > policy.max_concurrent_per_workload:
                yield f"wave {wave}: {count} moves at once of {workload}"
        yield from _faults_of_budgets(cluster, wave, moves)


def _faults_of_budgets(cluster: _Cluster, wave: int, moves: Sequence[Move]) -> Iterator[str]:
    spent: Counter[str] = Counter()
    allowed: dict[str, int] = {}
    for move in moves:
        pod = cluster.pod(move.pod)
        if move.handover is Handover.ADOPT or not _is_ready(pod):
            continue
        for budget in cluster.budgets(pod):
            spent[_key(budget)] += 1
            allowed[_key(budget)] = budget["status"]["disruptionsAllowed"]
    for budget, count in spent.items():
        if count > allowed[budget]:
            yield f"wave {wave}: {count} disruptions, of {allowed[budget]} that {budget} allows"


class _Play:
    """`together`: all copies of a wave come before the first of its sources goes. Else one by one."""

    def __init__(self, cluster: _Cluster, *, together: bool) -> None:
        self._view = SchedulerCache.of(cluster.all)
        self._together = together
        self._copies = 0
        self._now: dict[str, PodInfo] = {
            pod["metadata"]["uid"]: PodInfo(pod) for pod in cluster.by_kind["Pod"].values()
        }

    def faults(self, plan: Plan) -> Iterator[str]:
        for at, numbered in groupby(enumerate(plan.moves), key=self._at_once):
            moves = [move for _, move in numbered]
            if self._together:
                yield from self._faults_of_starting(moves, at)
            sources = [self._now[move.uid] for move in moves]
            for move, source in zip(moves, sources, strict=True):
                yield from self._fault(move, at, "wave by wave" if self._together else "one by one")
                self._now[move.uid] = self._copy(source, move.target or "")
                self._view.put_pod(self._now[move.uid])
            for source in sources:
                self._view.drop_pod(source.key)

    def _faults_of_starting(self, moves: Sequence[Move], at: str) -> Iterator[str]:
        """Which of them comes first is open, so each must fit without the copies of the others."""
        for move in moves:
            if not move.group:
                yield from self._fault(move, at, "first of its wave")

    def _fault(self, move: Move, at: str, way: str) -> Iterator[str]:
        source = self._now[move.uid]
        copy = self._copy(source, "")
        with self._view.without(() if move.handover.source_stays else [source]):
            refusal = prepare(copy, self._view).refusal(self._view.nodes[move.target or ""])
        if refusal is not None:
            reported = f"{refusal.filter}: {', '.join(refusal.reasons)}"
            yield f"{way}, at {at}: {move.pod} does not fit on {move.target}: {reported}"

    def _at_once(self, placed: tuple[int, Move]) -> str:
        at, move = placed
        if self._together:
            return str(move.wave)
        return f"{move.group} in wave {move.wave}" if move.group else str(at)

    def _copy(self, source: PodInfo, node: str) -> PodInfo:
        self._copies += 1
        metadata = source.object["metadata"] | {
            "name": f"copy-{self._copies}",
            "uid": f"uid-of-copy-{self._copies}",
        }
        return PodInfo(source.object | {"metadata": metadata, "spec": {**source.spec, "nodeName": node}})


def _owner(item: Json) -> Json | None:
    owners = item["metadata"].get("ownerReferences") or ()
    return next((owner for owner in owners if owner.get("controller")), None)


def _is_ready(item: Json) -> bool:
    conditions = item["status"].get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _is_closed(node: Json) -> bool:
    labels = node["metadata"].get("labels") or {}
    cordoned = bool(node.get("spec", {}).get("unschedulable"))
    return cordoned or not _is_ready(node) or labels.get(_MAINTENANCE) == "true"


def _key(item: Json) -> str:
    metadata = item["metadata"]
    namespace = metadata.get("namespace", "")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])
