"""Runs the real rescheduler in a simulation of a saved cluster, in virtual time, and shows the result.

Client, informers, planner, controllers and webhook are the real ones; only the cluster is simulated. The
simulation connects to nothing outside this process. It needs no Lease, as nothing else moves pods in it.
"""

import asyncio
import contextlib
import statistics
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final

from kubesim.admission.webhook_admission import WebhookEndpoint
from kubesim.apiserver.api_server import ApiServer
from kubesim.running_cluster import start_cluster
from kubesim.virtual_time import LoopClock, run_virtual
from kubevalues.duration import short_duration
from rescheduler.api.podmigration_crd import PODMIGRATION_CRD_NAME, podmigration_crd
from rescheduler.cli.move_status import STATE_COLOURS, move_results, move_state, moves_summary
from rescheduler.cli.terminal import Terminal, counted, echo_lines, load_change_lines, wrapped
from rescheduler.cluster.object_meta import OwnerKey, owner_key
from rescheduler.cluster.pod_record import PodRecord
from rescheduler.cluster.snapshot import Snapshot
from rescheduler.cluster.sources.watched_cluster import WatchedCluster
from rescheduler.cluster.trusted_usage import RequestsOnlyReader, UsageReader
from rescheduler.cluster.usage_readings import (
    CustomReadings,
    UsageByName,
    UsageOutcome,
    UsageReading,
    UsageReadings,
    UsageUnavailable,
)
from rescheduler.config.policy import Configuration, LeaderElection
from rescheduler.daemon.checker import CheckResult
from rescheduler.daemon.components import Rescheduler
from rescheduler.kube.api_resources import CUSTOM_RESOURCE_DEFINITIONS, Object
from rescheduler.kube.client import Client
from rescheduler.kube.transport import InProcessTransport
from rescheduler.migrations.controller.plan_execution import MoveProgress, PlanExecution
from rescheduler.migrations.runtime_state import RuntimeState, RuntimeStateHolder, SteeringStatus
from rescheduler.planner.plan import Plan
from rescheduler.planner.plan_builder import node_load_percentages
from rescheduler.planner.reasons import meaning_and_remedy
from rescheduler.steering.steering_service import SteeringService
from rescheduler.steering.webhook.webhook_configurations import GUARD_PATH, UrlAddress, webhook_configurations

__all__ = ["simulate", "simulated_check_lines", "simulation_document", "simulation_summary_lines"]


NodeLoads = Mapping[str, Mapping[str, float]]
"""Loads by node and resource, in percent of allocatable."""

_LEFT_OUT: Final = frozenset(
    {"PodMetrics", "NodeMetrics", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "Lease"}
)
"""Kinds that are not loaded: usage is passed separately, and saved webhooks can't be called."""
_SEED: Final = 1
_MAX_CHECK_S: Final = 86_400.0
"""One day of virtual time: a move that is not finished by then never will be."""
_SETTLING_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class MoveUpdate:
    """A change of a move."""

    at: datetime
    progress: MoveProgress
    """A copy of the progress at that time."""


@dataclass(frozen=True, slots=True)
class SimulatedCheck:
    """One check, its moves, and the load of the nodes before and after."""

    number: int
    at: datetime
    until: datetime
    """When its last move finished."""
    plan: Plan
    moves: tuple[MoveProgress, ...]
    course: tuple[MoveUpdate, ...]
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
    terminal: Terminal | None = None,
) -> list[SimulatedCheck]:
    """Run the checks one after the other, from `start` on; not inside a running event loop.

    Pods and their replacements keep the `usage` that was saved. `guarded` says whether the webhook guards
    handovers; the simulation assumes that it steers replacements. Each check is printed to `terminal`.
    """
    loaded = [
        item
        for item in objects
        if item["kind"] not in _LEFT_OUT and item["metadata"]["name"] != PODMIGRATION_CRD_NAME
    ]
    saved = _SavedInput(loaded, start, usage, SteeringStatus(steers=True, guards=guarded))
    return run_virtual(_simulate(saved, configuration, checks, terminal))


@dataclass(frozen=True, slots=True)
class _SavedInput:
    """What the saved file contains."""

    objects: list[Object]
    start: datetime
    usage: UsageOutcome
    steering: SteeringStatus


async def _simulate(
    cluster: _SavedInput,
    configuration: Configuration,
    checks: int,
    terminal: Terminal | None,
) -> list[SimulatedCheck]:
    done: list[SimulatedCheck] = []
    # Controllers reconcile everything once when they start and write what the file lacks.
    beginning = _cluster_start(cluster.objects, cluster.start)
    async with _running_cluster(cluster, beginning) as (server, client):
        now = server.clock.now
        await asyncio.sleep(_SETTLING_S)
        runtime = RuntimeStateHolder(RuntimeState(configuration.policy, cluster.steering))
        alone = replace(configuration, leader_election=LeaderElection(leader_elect=False))
        rescheduler = Rescheduler(client, alone, lease_at="default/rescheduler", runtime=runtime, now=now)
        recovers = configuration.policy.failed_pods.enabled
        beside = (lambda: rescheduler.recovering().running()) if recovers else contextlib.nullcontext
        async with rescheduler.watching(), rescheduler.executing(beside):
            reader = _reader(cluster.usage, rescheduler.cluster, now)
            async with rescheduler.checking(reader) as loop:
                async for check in loop.checks():
                    done.append(await _execute(check, rescheduler, now))
                    if terminal is not None:
                        echo_lines(simulated_check_lines(done[-1], terminal), color=terminal.colour)
                    if len(done) == checks:
                        break
    return done


def _cluster_start(objects: list[Object], start: datetime) -> datetime:
    """Return when the cluster starts: early enough to settle before the first check at `start`.

    With pods that have just started it is `start`, because ten seconds earlier they would not be ready.
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
        # Created, not loaded: the server needs a moment before it serves the kind and its objects.
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
    check: CheckResult, rescheduler: Rescheduler, now: Callable[[], datetime]
) -> SimulatedCheck:
    course: list[MoveUpdate] = []

    def record(progress: MoveProgress) -> None:
        course.append(
            MoveUpdate(
                now(),
                replace(progress),
            )
        )

    attempts = rescheduler.record if rescheduler.configuration.policy.failed_pods.enabled else None
    run = PlanExecution(rescheduler.client, rescheduler.watched, check.plan, record, record=attempts)
    if not rescheduler.configuration.policy.dry_run:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_MAX_CHECK_S):
                await run.run()
    return SimulatedCheck(
        check.number,
        check.began,
        now(),
        check.plan,
        tuple(run.moves),
        tuple(course),
        _loads(check.snapshot),
        _loads(rescheduler.cluster.snapshot()),
    )


def _loads(snapshot: Snapshot) -> NodeLoads:
    return {
        node.name: node_load_percentages(snapshot, row) for row, node in enumerate(snapshot.nodes.records)
    }


# -- usage


def _reader(usage: UsageOutcome, cluster: WatchedCluster, now: Callable[[], datetime]) -> UsageReader:
    if isinstance(usage, UsageUnavailable) or not usage.pods:
        return RequestsOnlyReader()
    return _RepeatedUsage(usage, cluster, now)


@dataclass(slots=True)
class _RepeatedUsage:
    """Usage as it was saved; a new pod uses the average of its siblings."""

    usage: UsageReadings
    cluster: WatchedCluster
    now: Callable[[], datetime]
    _of_owners: dict[OwnerKey, UsageReading] = field(init=False)
    _measured: dict[str, UsageReading] = field(init=False)

    def __post_init__(self) -> None:
        pods = list(self.cluster.watched.pods.informer)
        self._measured = {pod.uid: self.usage.pods[pod.key] for pod in pods if pod.key in self.usage.pods}
        by_owner: dict[OwnerKey, list[UsageReading]] = {}
        for pod in pods:
            if pod.owner is not None and pod.uid in self._measured:
                by_owner.setdefault(owner_key(pod.namespace, pod.owner), []).append(self._measured[pod.uid])
        self._of_owners = {owner: _mean(found) for owner, found in by_owner.items()}

    async def read(self) -> UsageOutcome:
        at_s = self.now().timestamp()
        found = {pod.key: self._used(pod) for pod in self.cluster.watched.pods.informer if pod.node}
        pods: UsageByName = {
            key: UsageReading(used.cpu_millis, used.memory_bytes, at_s) for key, used in found.items() if used
        }
        why = "a simulated cluster has no Prometheus"
        notes = tuple(f"{each.metric.name} is not balanced: {why}" for each in self.usage.custom.metrics)
        return UsageReadings(self.usage.source, pods, custom=CustomReadings(notes=notes))

    async def close(self) -> None:
        pass

    def _used(self, pod: PodRecord) -> UsageReading | None:
        known = self._measured.get(pod.uid)
        if known is None and pod.owner is not None:
            return self._of_owners.get(owner_key(pod.namespace, pod.owner))
        return known


def _mean(readings: list[UsageReading]) -> UsageReading:
    count = len(readings)
    return UsageReading(
        round(sum(each.cpu_millis for each in readings) / count),
        round(sum(each.memory_bytes for each in readings) / count),
        readings[0].at_s,
    )


_SHOWN = ("cpu", "memory")
_MOST_NODES = 20
_BAR = 8


def simulated_check_lines(check: SimulatedCheck, terminal: Terminal) -> Iterator[str]:
    """Yield the plan of one check and the changes of its moves."""
    moves = counted(len(check.plan.moves), "move") if check.plan.moves else "nothing to move"
    yield terminal.bold(f"Check {check.number} at {check.at:%H:%M:%S}: {moves}") + terminal.dim(
        f"  {_spreads(check.before)}"
    )
    for change in check.plan.changes:
        yield f"  {change.change} {change.node} ({change.strategy}): {change.reason}"
    shown_states: dict[str, tuple[str, str]] = {}
    for update in check.course:
        state, words = move_state(update.progress)
        # A move changes more often than the words about it.
        repeated = shown_states.get(update.progress.move.pod) == (state, words)
        if repeated or (state in {"Planned", "Pending"} and not words):
            continue
        shown_states[update.progress.move.pod] = (state, words)
        after = short_duration(timedelta(seconds=round((update.at - check.at).total_seconds())))
        move, migration = update.progress.move, update.progress.migration
        target = (migration.target_node if migration else "") or move.target or "?"
        shown = terminal.styled(state, {"fg": STATE_COLOURS[state]}) if state in STATE_COLOURS else state
        message = f": {words}" if words else ""
        yield f"  {'+' + after:>6}  {move.pod}  {move.source} {terminal.arrow} {target}  {shown}{message}"


def simulation_summary_lines(course: Sequence[SimulatedCheck], terminal: Terminal) -> Iterator[str]:
    """Yield the result of all checks."""
    first, last = course[0], course[-1]
    moves = [progress for check in course for progress in check.moves]
    took = short_duration(timedelta(seconds=round((last.until - first.at).total_seconds())))
    yield ""
    yield terminal.bold(f"After {counted(len(course), 'check')}, {took}: {moves_summary(moves)}")
    yield f"{_spreads(first.before)} {terminal.arrow} {_spreads(last.after)}"
    yield from _nodes(first.before, last.after, terminal)
    yield from _not_moved_lines(last.plan, terminal)


def _nodes(before: NodeLoads, after: NodeLoads, terminal: Terminal) -> Iterator[str]:
    changed = [name for name in after if after[name] != before.get(name)]
    shown = [
        (name, {each: (before.get(name, {}).get(each, 0.0), after[name].get(each, 0.0)) for each in _SHOWN})
        for name in changed[:_MOST_NODES]
    ]
    if shown:
        yield ""
        yield from load_change_lines(terminal, _SHOWN, shown)
    if len(changed) > _MOST_NODES:
        yield terminal.dim(f"and {counted(len(changed) - _MOST_NODES, 'other node')}")


def _not_moved_lines(plan: Plan, terminal: Terminal) -> Iterator[str]:
    """Yield why the last check did not move other pods."""
    if not plan.refused_counts:
        return
    yield ""
    yield terminal.bold("Not moved")
    for reason, count in sorted(plan.refused_counts.items(), key=lambda each: (-each[1], each[0])):
        text = f"{reason}: {meaning_and_remedy(reason)[0]}"
        yield from wrapped(terminal, text, first=f"  {count:>4}  ", indent=" " * 8)


def _spreads(loads: NodeLoads) -> str:
    parts = []
    for name in _SHOWN:
        found = [each[name] for each in loads.values() if name in each]
        if found:
            parts.append(f"{name} {min(found):.0f}% to {max(found):.0f}%")
    return ", ".join(parts)


# -- as JSON


def simulation_document(course: Sequence[SimulatedCheck], assumptions: Iterable[str]) -> dict[str, Any]:
    """Return the result of all checks for JSON."""
    return {"checks": [_check_document(check) for check in course], "assumptions": list(assumptions)}


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
        "load": {name: _load_document(check, name) for name in _SHOWN},
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
