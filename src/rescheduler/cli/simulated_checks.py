"""The simulation of checks: the real rescheduler in a simulated copy of a saved cluster, in virtual time.

Client, informers, planner, controllers and webhook are the real ones; only the cluster is simulated. The
simulation connects to nothing outside this process. It needs no Lease, because nothing else moves pods in it.
"""

import asyncio
import contextlib
import statistics
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from kubesim.admission.webhook_admission import WebhookEndpoint
from kubesim.apiserver.api_server import ApiServer
from kubesim.running_cluster import start_cluster
from kubesim.virtual_time import LoopClock, run_virtual
from rescheduler.api.podmigration_crd import PODMIGRATION_CRD_NAME, podmigration_crd
from rescheduler.cli.move_status import move_results
from rescheduler.cli.plan_view import NodeLoads, shown_resources
from rescheduler.cluster.object_meta import OwnerKey, owner_key
from rescheduler.cluster.pod_record import PodRecord
from rescheduler.cluster.snapshot import Snapshot
from rescheduler.cluster.sources.watched_cluster import WatchedCluster
from rescheduler.cluster.usage_readings import (
    MetricReadings,
    UsageOutcome,
    UsageReading,
    UsageReadings,
)
from rescheduler.config.metric_settings import MetricSubject
from rescheduler.config.policy import Configuration, LeaderElection, UsageSource
from rescheduler.daemon.checker import CheckResult
from rescheduler.daemon.components import Rescheduler
from rescheduler.kube.api_resources import CUSTOM_RESOURCE_DEFINITIONS, Object
from rescheduler.kube.client import Client
from rescheduler.kube.transport import InProcessTransport
from rescheduler.migrations.controller.plan_execution import MoveProgress, PlanExecution
from rescheduler.migrations.runtime_state import RuntimeState, RuntimeStateHolder, SteeringStatus
from rescheduler.planner.plan import Plan, node_load_percentages
from rescheduler.steering.steering_service import SteeringService
from rescheduler.steering.webhook.webhook_configurations import GUARD_PATH, UrlAddress, webhook_configurations

__all__ = ["SimulatedCheck", "simulate", "simulation_document"]

_SKIPPED_KINDS: Final = frozenset(
    {"PodMetrics", "NodeMetrics", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "Lease"}
)
"""Kinds that are not loaded: usage is passed separately, and saved webhooks can't be called."""
_SEED: Final = 1
_MAX_CHECK_S: Final = 86_400.0
"""One day of virtual time: a move that takes longer never finishes."""
_SETTLING_S: Final = 10.0
_MAX_TERMINATION_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class MoveUpdate:
    """A change of a move."""

    at: datetime
    progress: MoveProgress
    """A copy of the progress at this time."""


@dataclass(frozen=True, slots=True)
class SimulatedCheck:
    """One check, its moves, and the load of the nodes before and after."""

    number: int
    at: datetime
    until: datetime
    """When its last move finished."""
    plan: Plan
    moves: tuple[MoveProgress, ...]
    updates: tuple[MoveUpdate, ...]
    before: NodeLoads
    after: NodeLoads


def simulate(
    objects: Iterable[Object],
    configuration: Configuration,
    *,
    start: datetime,
    checks: int,
    usage: UsageOutcome,
    guarded: bool = False,
    report: Callable[[SimulatedCheck], None],
) -> list[SimulatedCheck]:
    """Run checks one after the other, the first at `start`, and pass each to `report`.

    Pods and their replacements keep their saved `usage` and their shares of custom metrics. `guarded` says
    whether the webhook guards handovers; the simulation assumes that it steers replacements. Don't call
    it in a running event loop.
    """
    loaded = [
        item
        for item in objects
        if item["kind"] not in _SKIPPED_KINDS and item["metadata"]["name"] != PODMIGRATION_CRD_NAME
    ]
    saved = _SavedInput(loaded, start, usage, SteeringStatus(steers=True, guards=guarded))
    return run_virtual(_simulate(saved, configuration, checks, report))


@dataclass(frozen=True, slots=True)
class _SavedInput:
    """The content of the saved file."""

    objects: list[Object]
    start: datetime
    usage: UsageOutcome
    steering: SteeringStatus


async def _simulate(
    cluster: _SavedInput,
    configuration: Configuration,
    checks: int,
    report: Callable[[SimulatedCheck], None],
) -> list[SimulatedCheck]:
    done: list[SimulatedCheck] = []
    # When controllers start, they reconcile everything once and write what the file lacks.
    started_at = _cluster_start(cluster.objects, cluster.start)
    async with _running_cluster(cluster, started_at) as (server, client):
        now = server.clock.now
        await asyncio.sleep(_SETTLING_S)
        runtime = RuntimeStateHolder(RuntimeState(configuration.policy, cluster.steering))
        alone = replace(configuration, leader_election=LeaderElection(leader_elect=False))
        rescheduler = Rescheduler(client, alone, lease_at="default/rescheduler", runtime=runtime, now=now)
        recovers = configuration.policy.failed_pods.enabled
        recovery = (lambda: rescheduler.recovering().running()) if recovers else contextlib.nullcontext
        async with rescheduler.watching(), rescheduler.executing(recovery):
            usage = _SavedUsage(cluster.usage, rescheduler.cluster, now)
            async with rescheduler.checking(usage) as loop:
                async for check in loop.checks():
                    done.append(await _execute(check, rescheduler, usage, now))
                    report(done[-1])
                    if len(done) == checks:
                        break
    return done


def _cluster_start(objects: list[Object], start: datetime) -> datetime:
    """Return when the cluster starts, which is early enough to settle before the first check at `start`.

    If pods have just started, it is `start`, because ten seconds earlier they would not be ready.
    """
    before = start - timedelta(seconds=_SETTLING_S)
    latest = (before - timedelta(seconds=_SETTLING_S)).strftime("%Y-%m-%dT%H:%M:%SZ")
    started = ((item.get("status") or {}).get("startTime") or "" for item in objects if item["kind"] == "Pod")
    return start if any(each > latest for each in started) else before


@contextlib.asynccontextmanager
async def _running_cluster(cluster: _SavedInput, start: datetime) -> AsyncIterator[tuple[ApiServer, Client]]:
    server = ApiServer(clock=LoopClock(start), seed=_SEED)
    async with contextlib.AsyncExitStack() as stack:
        transport = InProcessTransport(server.handle)
        stack.push_async_callback(transport.close)
        client = Client(transport)
        # The CRD is created, not loaded, because the server needs a moment before it serves its objects.
        await client.create(CUSTOM_RESOURCE_DEFINITIONS, podmigration_crd())
        steering, guard = webhook_configurations(UrlAddress("https://webhook.invalid"))
        server.load([*cluster.objects, steering, *([guard] if cluster.steering.guards else ())])
        steering_service = SteeringService(client, server.clock.now)
        server.cluster.admission.webhooks.caller = _InProcessWebhook(steering_service)
        start_cluster(server)
        await stack.enter_async_context(steering_service.running())
        await steering_service.synced()
        yield server, client


class _InProcessWebhook:
    """The webhook, called without a network."""

    def __init__(self, steering_service: SteeringService) -> None:
        self._steering_service = steering_service

    async def call(self, endpoint: WebhookEndpoint, body: bytes, _timeout_s: float) -> bytes:
        is_guard = endpoint.url.endswith(GUARD_PATH)
        return self._steering_service.guard(body) if is_guard else self._steering_service.answer(body)


async def _execute(
    check: CheckResult, rescheduler: Rescheduler, usage: "_SavedUsage", now: Callable[[], datetime]
) -> SimulatedCheck:
    updates: list[MoveUpdate] = []
    before = _loads(check.snapshot, usage)

    def record(progress: MoveProgress) -> None:
        updates.append(MoveUpdate(now(), replace(progress)))

    attempts = rescheduler.record if rescheduler.configuration.policy.failed_pods.enabled else None
    run = PlanExecution(rescheduler.client, rescheduler.watched, check.plan, record, record=attempts)
    if not rescheduler.configuration.policy.dry_run:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_MAX_CHECK_S):
                await run.run()
    until = now()
    await _source_pods_gone(run.moves, rescheduler.cluster)
    return SimulatedCheck(
        check.number,
        check.began,
        until,
        check.plan,
        tuple(run.moves),
        tuple(updates),
        before,
        _loads(rescheduler.cluster.snapshot(), usage),
    )


async def _source_pods_gone(moves: Iterable[MoveProgress], cluster: WatchedCluster) -> None:
    """Wait until the moved pods have terminated, because until then their load is on their old nodes."""
    moved = {progress.move.uid for progress in moves if progress.is_completed}
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_MAX_TERMINATION_S):
            while any(pod.uid in moved for pod in cluster.watched.pods.informer):  # noqa: ASYNC110 - virtual time
                await asyncio.sleep(1.0)


def _loads(snapshot: Snapshot, usage: "_SavedUsage") -> NodeLoads:
    custom = usage.loads()
    return {
        node.name: node_load_percentages(snapshot, row) | dict(custom.get(node.name, {}))
        for row, node in enumerate(snapshot.nodes.records)
    }


# -- usage


class _PodValues:
    """The values of saved pods; a new pod has the average of the saved pods of its controller."""

    def __init__(self, pods: Iterable[PodRecord], value: Callable[[PodRecord], float | None]) -> None:
        self._own: dict[str, float] = {}
        by_owner: dict[OwnerKey, list[float]] = {}
        for pod in pods:
            if (found := value(pod)) is not None:
                self._own[pod.uid] = found
                if pod.owner is not None:
                    by_owner.setdefault(owner_key(pod.namespace, pod.owner), []).append(found)
        self._of_owners = {owner: statistics.fmean(found) for owner, found in by_owner.items()}

    def of(self, pod: PodRecord) -> float | None:
        own = self._own.get(pod.uid)
        if own is None and pod.owner is not None:
            return self._of_owners.get(owner_key(pod.namespace, pod.owner))
        return own


class _SavedMetric:
    """A saved custom metric. The values of pods, and their shares of the values of nodes, move with the pods.

    A value that belongs to no pod stays on its node.
    """

    def __init__(
        self, saved: MetricReadings, pods: list[PodRecord], cpu: Callable[[PodRecord], float]
    ) -> None:
        self._saved = saved
        self._values = _PodValues(pods, lambda pod: saved.pods.get(pod.key))
        whole: dict[str, float] = dict.fromkeys(saved.nodes, 0.0)
        weight = (lambda pod: saved.pods.get(pod.key, 0.0)) if saved.metric.pod_query else cpu
        for pod in pods:
            if pod.node in whole:
                whole[pod.node] += weight(pod)
        self._fixed = {node: value for node, value in saved.nodes.items() if not whole[node]}

        def share(pod: PodRecord) -> float | None:
            return saved.nodes[pod.node] * weight(pod) / whole[pod.node] if whole.get(pod.node) else None

        self._shares = _PodValues(pods, share)

    def at(self, pods: Iterable[PodRecord]) -> MetricReadings:
        """Return the values with the pods on their current nodes."""
        nodes = {node: self._fixed.get(node, 0.0) for node in self._saved.nodes}
        of_pods = {}
        for pod in pods:
            if pod.node in nodes:
                nodes[pod.node] += self._shares.of(pod) or 0.0
            if (value := self._values.of(pod)) is not None:
                of_pods[pod.key] = value
        return replace(self._saved, nodes=nodes, pods=of_pods)


class _SavedUsage:
    """Implements `UsageReader` with the saved usage and custom metrics."""

    def __init__(self, saved: UsageOutcome, cluster: WatchedCluster, now: Callable[[], datetime]) -> None:
        self._saved, self._cluster, self._now = saved, cluster, now
        used = saved.pods if isinstance(saved, UsageReadings) else {}
        pods = self._pods()
        self._cpu = _PodValues(pods, lambda pod: used[pod.key].cpu_millis if pod.key in used else None)
        self._memory = _PodValues(pods, lambda pod: used[pod.key].memory_bytes if pod.key in used else None)

        def cpu(pod: PodRecord) -> float:
            measured = self._cpu.of(pod)
            return pod.requests.cpu_millis if measured is None else measured

        self._metrics = [_SavedMetric(each, pods, cpu) for each in saved.custom.metrics]

    async def read(self) -> UsageOutcome:
        pods, at_s = self._pods(), self._now().timestamp()
        custom = replace(self._saved.custom, metrics=tuple(each.at(pods) for each in self._metrics))
        found: dict[str, UsageReading] = {}
        for pod in pods:
            cpu, memory = self._cpu.of(pod), self._memory.of(pod)
            if cpu is not None and memory is not None:
                found[pod.key] = UsageReading(round(cpu), round(memory), at_s)
        return UsageReadings(self._saved.source if found else UsageSource.REQUESTS, found, custom=custom)

    async def close(self) -> None:
        pass

    def loads(self) -> NodeLoads:
        """Return the loads of nodes by custom metrics, in percent.

        A snapshot has none for nodes whose pods have just moved, because real values are averages over
        minutes. These values are not.
        """
        found: dict[str, dict[str, float]] = {}
        pods = self._pods()
        for readings in (each.at(pods) for each in self._metrics):
            metric, used = readings.metric, dict(readings.nodes)
            if metric.per is MetricSubject.POD:
                for pod in pods:
                    used[pod.node] = used.get(pod.node, 0.0) + readings.pods.get(pod.key, 0.0)
            for node, value in used.items():
                if capacity := readings.capacities.get(node, metric.capacity):
                    found.setdefault(node, {})[metric.name] = round(100 * value / capacity, 3)
        return found

    def _pods(self) -> list[PodRecord]:
        return [pod for pod in self._cluster.watched.pods.informer if pod.node and not pod.is_finished]


# -- as JSON


def simulation_document(checks: Sequence[SimulatedCheck], assumptions: Iterable[str]) -> dict[str, Any]:
    """Return the result of all checks for JSON."""
    return {"checks": [_check_document(check) for check in checks], "assumptions": list(assumptions)}


def _check_document(check: SimulatedCheck) -> dict[str, Any]:
    return {
        "check": check.number,
        "at": check.at.isoformat(),
        "until": check.until.isoformat(),
        "moves": move_results(check.moves),
        "changes": [
            {"node": each.node, "change": str(each.change), "strategy": each.strategy, "reason": each.reason}
            for each in check.plan.changes
        ],
        "load": {name: _load_document(check, name) for name in shown_resources(check.before)},
        "nodes": [
            {"node": name, "before": dict(check.before.get(name, {})), "after": dict(loads)}
            for name, loads in check.after.items()
        ],
        "refused": dict(check.plan.refused_counts),
        "assumptions": list(check.plan.assumptions),
    }


def _load_document(check: SimulatedCheck, name: str) -> dict[str, Any]:
    return {"before": _spread(check.before, name), "after": _spread(check.after, name)}


def _spread(loads: NodeLoads, name: str) -> dict[str, float]:
    found = [each[name] for each in loads.values() if name in each] or [0.0]
    return {
        "lowest": min(found),
        "highest": max(found),
        "deviation": round(statistics.pstdev(found), 3),
    }
