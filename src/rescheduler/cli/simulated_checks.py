"""A saved cluster, brought to life in the simulator, and what the program would do in it: hours in seconds.

Everything is the real thing but the cluster: client, informers, planner, controller, lease, and the webhook's
answers. Nothing outside of this process is asked, and the saved cluster's own is never touched.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from kubesim.admission.webhook_admission import WebhookEndpoint
from kubesim.apiserver.api_server import ApiServer
from kubesim.running_cluster import start_cluster
from kubesim.virtual_time import LoopClock, run_virtual
from rescheduler.api.podmigration_crd import PODMIGRATION_CRD_NAME, podmigration_crd
from rescheduler.cluster.object_meta import OwnerKey, owner_key
from rescheduler.cluster.pod_record import PodRecord
from rescheduler.cluster.snapshot import Snapshot
from rescheduler.cluster.sources.usage_sources import RequestsOnlyReader, UsageReader
from rescheduler.cluster.sources.watched_cluster import WatchedCluster
from rescheduler.cluster.usage_readings import (
    UsageByName,
    UsageOutcome,
    UsageReading,
    UsageReadings,
    UsageUnavailable,
)
from rescheduler.config.policy import Configuration
from rescheduler.daemon.checker import CheckResult
from rescheduler.daemon.components import Rescheduler
from rescheduler.kube.api_resources import CUSTOM_RESOURCE_DEFINITIONS, Object
from rescheduler.kube.client import Client
from rescheduler.kube.transport import InProcessTransport
from rescheduler.migrations.controller.plan_execution import MoveProgress, PlanExecution
from rescheduler.planner.plan import Plan
from rescheduler.planner.plan_builder import node_load_percentages
from rescheduler.steering.steering_service import SteeringService
from rescheduler.steering.webhook.webhook_configurations import GUARD_PATH, UrlAddress, webhook_configurations
from rescheduler.steering.webhook.webhook_presence import FixedPresence

__all__ = ["MoveUpdate", "NodeLoads", "SimulatedCheck", "simulate"]

NodeLoads = Mapping[str, Mapping[str, float]]
"""By node and resource, in percent of allocatable."""

_LEFT_OUT: Final = frozenset(
    {"PodMetrics", "NodeMetrics", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "Lease"}
)
"""What was measured is read apart; webhooks of the saved cluster can't be asked here."""
_SEED: Final = 1
_MAX_CHECK_S: Final = 86_400.0
"""A day of the cluster's time: whatever is not over by then never will be."""
_SETTLING_S: Final = 10.0
_LEASE: Final = "default/rescheduler"


@dataclass(frozen=True, slots=True)
class MoveUpdate:
    """Something became of a move."""

    at: datetime
    progress: MoveProgress
    """As it was then."""


@dataclass(frozen=True, slots=True)
class SimulatedCheck:
    number: int
    at: datetime
    until: datetime
    """When the last of its moves was over."""
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
    tell: Callable[[SimulatedCheck], object] = lambda _: None,
) -> list[SimulatedCheck]:
    """So many checks, one after the other, from `start` on. Not within a running event loop.

    `usage` is what pods used when the cluster was saved: it goes on like that, also for their successors.
    `guarded` says whether the webhook guarded handovers there; that it steers is assumed.
    """
    loaded = [
        item
        for item in objects
        if item["kind"] not in _LEFT_OUT and item["metadata"]["name"] != PODMIGRATION_CRD_NAME
    ]
    scene = _SavedInput(loaded, start, usage, FixedPresence(steers=True, guards=guarded))
    return run_virtual(_simulate(scene, configuration, checks, tell))


@dataclass(frozen=True, slots=True)
class _SavedInput:
    """As it was saved."""

    objects: list[Object]
    start: datetime
    usage: UsageOutcome
    webhook: FixedPresence


async def _simulate(
    cluster: _SavedInput,
    configuration: Configuration,
    checks: int,
    tell: Callable[[SimulatedCheck], object],
) -> list[SimulatedCheck]:
    done: list[SimulatedCheck] = []
    # Controllers look at everything once when they start, and write what the file does not say.
    beginning = _cluster_start(cluster.objects, cluster.start)
    async with _running_cluster(cluster, beginning) as (server, client):
        now = server.clock.now
        await asyncio.sleep(_SETTLING_S)
        rescheduler = Rescheduler(
            client, configuration, lease_at=_LEASE, webhook=cluster.webhook, now=now, me="simulated"
        )
        async with rescheduler.looking(), rescheduler.executing(lambda: rescheduler.recovering().running()):
            reader = _reader(cluster.usage, rescheduler.cluster, now)
            async with rescheduler.checking(reader) as loop:
                async for check in loop.checks():
                    done.append(await _execute(check, rescheduler, now))
                    tell(done[-1])
                    if len(done) == checks:
                        break
    return done


def _cluster_start(objects: list[Object], start: datetime) -> datetime:
    """So that the first check is at `start`. To kubelets of ten seconds ago, though, pods that have just
    started would not be ready yet: with such, nothing begins before `start`."""
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
        # Created, not loaded: it takes a moment until its kind is served, and its objects can be.
        await client.create(CUSTOM_RESOURCE_DEFINITIONS, podmigration_crd())
        steering, guard = webhook_configurations(UrlAddress("https://webhook.invalid"))
        server.load([*cluster.objects, steering, *([guard] if cluster.webhook.guards else ())])
        desk = SteeringService(client, server.clock.now)
        server.cluster.admission.webhooks.caller = _InProcessWebhook(desk)
        start_cluster(server)
        await stack.enter_async_context(desk.running())
        await desk.synced()
        yield server, client


class _InProcessWebhook:
    """The webhook, without a network in between."""

    def __init__(self, desk: SteeringService) -> None:
        self._desk = desk

    async def call(self, endpoint: WebhookEndpoint, body: bytes, _timeout_s: float) -> bytes:
        is_guard = endpoint.url.endswith(GUARD_PATH)
        return self._desk.guard(body) if is_guard else self._desk.answer(body)


async def _execute(
    check: CheckResult, rescheduler: Rescheduler, now: Callable[[], datetime]
) -> SimulatedCheck:
    course: list[MoveUpdate] = []

    def note(progress: MoveProgress) -> None:
        course.append(
            MoveUpdate(
                now(), MoveProgress(progress.move, progress.key, progress.migration, progress.given_up)
            )
        )

    run = PlanExecution(rescheduler.client, rescheduler.followed, check.plan, note, record=rescheduler.record)
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
    """Every pod uses what it used when the cluster was saved; a new one what its siblings did on average."""

    usage: UsageReadings
    cluster: WatchedCluster
    now: Callable[[], datetime]
    _of_owners: dict[OwnerKey, UsageReading] = field(init=False)
    _measured: dict[str, UsageReading] = field(init=False)

    def __post_init__(self) -> None:
        pods = list(self.cluster.followed.pods.informer)
        self._measured = {pod.uid: self.usage.pods[pod.key] for pod in pods if pod.key in self.usage.pods}
        by_owner: dict[OwnerKey, list[UsageReading]] = {}
        for pod in pods:
            if pod.owner is not None and pod.uid in self._measured:
                by_owner.setdefault(owner_key(pod.namespace, pod.owner), []).append(self._measured[pod.uid])
        self._of_owners = {owner: _mean(found) for owner, found in by_owner.items()}

    async def read(self) -> UsageOutcome:
        at_s = self.now().timestamp()
        found = {pod.key: self._used(pod) for pod in self.cluster.followed.pods.informer if pod.node}
        pods: UsageByName = {
            key: UsageReading(used.cpu_millis, used.memory_bytes, at_s) for key, used in found.items() if used
        }
        return UsageReadings(self.usage.source, pods)

    async def close(self) -> None:
        pass

    def _used(self, pod: PodRecord) -> UsageReading | None:
        known = self._measured.get(pod.uid)
        if known is None and pod.owner is not None:
            return self._of_owners.get(owner_key(pod.namespace, pod.owner))
        return known


def _mean(found: list[UsageReading]) -> UsageReading:
    count = len(found)
    return UsageReading(
        round(sum(each.cpu_millis for each in found) / count),
        round(sum(each.memory_bytes for each in found) / count),
        found[0].at_s,
    )
