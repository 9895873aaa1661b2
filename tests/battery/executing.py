"""Apply a plan to a cluster, and run consecutive checks as the daemon does."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from rescheduler.api.well_known_names import CORDONED_BY_ANNOTATION
from rescheduler.cluster.node_record import UNSCHEDULABLE_TAINT, NodeChange
from rescheduler.cluster.trusted_usage import HotNodeHistory
from rescheduler.cluster.usage_readings import Smoothing, UsageReading, UsageReadings, smooth
from rescheduler.config.policy import Policy, UsageSource
from rescheduler.planner.plan import Plan
from rescheduler.planner.plan_builder import build_plan, too_hot_nodes
from rescheduler.strategies.strategy_registry import strategies_of
from tests.building import NOW, ClusterBuilder, cluster, merged

__all__ = ["CheckLoop", "executed", "present", "rebuilt"]

Json = dict[str, Any]

_MOVED_AT = "scheduler.alpha.kubernetes.io/migration-time"
_INTERVAL_S = 30.0


def present(objects: Iterable[Json]) -> list[Json]:
    """Each object once, as it was applied last."""
    return list({_name(item): item for item in objects}.values())


def rebuilt(objects: Iterable[Json]) -> ClusterBuilder:
    made = cluster()
    for item in objects:
        made.apply(item)
    return made


def executed(before: ClusterBuilder, made: Plan, now: float = NOW) -> ClusterBuilder:
    """All moves done and all nodes changed. Pods keep their names, so that they are recognised."""
    objects = {_name(item): item for item in before.objects}
    for move in made.moves:
        name = ("Pod", move.pod)
        marks = {"annotations": {_MOVED_AT: datetime.fromtimestamp(now, UTC).isoformat()}}
        uid = {"uid": f"{objects[name]['metadata']['uid']}+"}
        objects[name] = merged(objects[name], {"metadata": marks | uid, "spec": {"nodeName": move.target}})
    for change in made.changes:
        name = ("Node", change.node)
        objects[name] = merged(objects[name], _changed(change.change, change.strategy))
    after = rebuilt(objects.values())
    after.usage_of = dict(before.usage_of)
    return after


def _changed(change: NodeChange, strategy: str) -> Json:
    cordons = change is NodeChange.CORDON
    taint = {"key": UNSCHEDULABLE_TAINT, "effect": "NoSchedule"}
    return {
        "metadata": {"annotations": {CORDONED_BY_ANNOTATION: strategy if cordons else ""}},
        "spec": {"unschedulable": cordons, "taints": [taint] if cordons else []},
    }


def _name(item: Json) -> tuple[str, str]:
    metadata = item["metadata"]
    namespace = metadata.get("namespace", "")
    return item["kind"], f"{namespace}/{metadata['name']}" if namespace else metadata["name"]


@dataclass
class CheckLoop:
    """Checks as the daemon makes them: usage is smoothed, and hot is what was hot several times in a row."""

    cluster: ClusterBuilder
    policy: Policy
    noise: Callable[[str], float] | None = None
    """What a pod's usage is multiplied by at a check; None: by requests alone."""
    now: float = NOW
    usual: dict[str, UsageReading] = field(default_factory=dict)
    smoothing: Smoothing = field(default_factory=Smoothing)
    heat: HotNodeHistory = field(default_factory=HotNodeHistory)

    def plans(self, checks: int) -> Iterator[Plan]:
        """One after the other, each carried out before the next check."""
        for _ in range(checks):
            made = self._check()
            yield made
            if made.moves or made.changes:
                self.cluster = executed(self.cluster, made, self.now)
            self.now += _INTERVAL_S

    def _check(self) -> Plan:
        strategies = strategies_of(self.policy)
        source = UsageSource.REQUESTS if self.noise is None else UsageSource.METRICS
        if self.noise is not None:
            self.cluster.usage_of = self._measured()
        snapshot = self.cluster.snapshot(self.now)
        self.heat = self.heat.after(too_hot_nodes(snapshot, self.policy, strategies), source)
        return build_plan(snapshot, self.policy, strategies, heat=self.heat)

    def _measured(self) -> dict[str, UsageReading]:
        """Around what each pod asks for, or what the scenario says that it uses, as an average over time."""
        assert self.noise is not None
        records = self.cluster.snapshot(self.now).pods.records
        pods = {pod.key: pod for pod in records if pod.node}
        uids = {key: pod.uid for key, pod in pods.items()}
        read = {}
        for key in sorted(pods):
            requests = pods[key].requests
            asked = UsageReading(requests.cpu_millis, requests.memory_bytes, 0)
            usual = self.usual.setdefault(key, self.cluster.usage_of.get(key, asked))
            factor = self.noise(key)
            read[key] = UsageReading(
                int(usual.cpu_millis * factor), int(usual.memory_bytes * factor), self.now
            )
        readings = UsageReadings(UsageSource.METRICS, read)
        half_life_s = self.policy.usage_half_life.total_seconds()
        self.smoothing, smoothed = smooth(self.smoothing, readings, half_life_s, pod_uids=uids, node_uids={})
        return dict(smoothed.pods)
