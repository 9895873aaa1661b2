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

from rescheduler.config.policy import Configuration
from rescheduler.controller.check_loop import Check
from rescheduler.controller.known_cluster import KnownCluster
from rescheduler.controller.plan_run import Errand, PlanRun
from rescheduler.controller.webhook_presence import SaidPresence
from rescheduler.daemon import Rescheduler
from rescheduler.kube.client import Client
from rescheduler.kube.in_process import InProcess
from rescheduler.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, Object
from rescheduler.migrations.definition import NAME, definition
from rescheduler.model.metadata import OwnerKey, owner_key
from rescheduler.model.plan import Plan
from rescheduler.model.pods import PodRecord
from rescheduler.model.webhook_registration import GUARD_PATH, AtUrl, registrations
from rescheduler.planner.outlook import loads_of
from rescheduler.serving.steering_desk import SteeringDesk
from rescheduler.simulator.admission.webhooks import Endpoint
from rescheduler.simulator.clock import LoopClock
from rescheduler.simulator.life import bring_to_life
from rescheduler.simulator.server import ApiServer
from rescheduler.simulator.virtual_time import run_virtual
from rescheduler.snapshot.snapshot import Snapshot
from rescheduler.usage.reading import RequestsOnly, UsageReader
from rescheduler.usage.readings import Outcome, Readings, Unavailable, UsageByName, Used

__all__ = ["Happening", "Loads", "SimulatedCheck", "simulate"]

Loads = Mapping[str, Mapping[str, float]]
"""By node and resource, in percent of allocatable."""

_LEFT_OUT: Final = frozenset(
    {"PodMetrics", "NodeMetrics", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "Lease"}
)
"""What was measured is read apart; webhooks of the saved cluster can't be asked here."""
_SEED: Final = 1
_LONGEST_S: Final = 86_400.0
"""A day of the cluster's time: whatever is not over by then never will be."""
_SETTLING_S: Final = 10.0
_LEASE: Final = "default/rescheduler"


@dataclass(frozen=True, slots=True)
class Happening:
    """Something became of a move."""

    at: datetime
    errand: Errand
    """As it was then."""


@dataclass(frozen=True, slots=True)
class SimulatedCheck:
    number: int
    at: datetime
    until: datetime
    """When the last of its moves was over."""
    plan: Plan
    errands: tuple[Errand, ...]
    course: tuple[Happening, ...]
    before: Loads
    after: Loads


def simulate(
    objects: Iterable[Object],
    configuration: Configuration,
    *,
    start: datetime,
    checks: int,
    usage: Outcome,
    guarded: bool = False,
    tell: Callable[[SimulatedCheck], object] = lambda _: None,
) -> list[SimulatedCheck]:
    """So many checks, one after the other, from `start` on. Not within a running event loop.

    `usage` is what pods used when the cluster was saved: it goes on like that, also for their successors.
    `guarded` says whether the webhook guarded handovers there; that it steers is assumed.
    """
    loaded = [item for item in objects if item["kind"] not in _LEFT_OUT and item["metadata"]["name"] != NAME]
    scene = _Cluster(loaded, start, usage, SaidPresence(steers=True, guards=guarded))
    return run_virtual(_simulate(scene, configuration, checks, tell))


@dataclass(frozen=True, slots=True)
class _Cluster:
    """As it was saved."""

    objects: list[Object]
    start: datetime
    usage: Outcome
    webhook: SaidPresence


async def _simulate(
    cluster: _Cluster,
    configuration: Configuration,
    checks: int,
    tell: Callable[[SimulatedCheck], object],
) -> list[SimulatedCheck]:
    done: list[SimulatedCheck] = []
    # Controllers look at everything once when they start, and write what the file does not say.
    beginning = _beginning(cluster.objects, cluster.start)
    async with _living(cluster, beginning) as (server, client):
        now = server.clock.now
        await asyncio.sleep(_SETTLING_S)
        rescheduler = Rescheduler(
            client, configuration, lease_at=_LEASE, webhook=cluster.webhook, now=now, me="simulated"
        )
        async with rescheduler.looking(), rescheduler.executing(lambda: rescheduler.recovering().running()):
            reader = _reader(cluster.usage, rescheduler.cluster, now)
            async with rescheduler.checking(reader) as loop:
                async for check in loop.checks():
                    done.append(await _carried_out(check, rescheduler, now))
                    tell(done[-1])
                    if len(done) == checks:
                        break
    return done


def _beginning(objects: list[Object], start: datetime) -> datetime:
    """So that the first check is at `start`. To kubelets of ten seconds ago, though, pods that have just
    started would not be ready yet: with such, nothing begins before `start`."""
    before = start - timedelta(seconds=_SETTLING_S)
    latest = (before - timedelta(seconds=_SETTLING_S)).strftime("%Y-%m-%dT%H:%M:%SZ")
    started = ((item.get("status") or {}).get("startTime") or "" for item in objects if item["kind"] == "Pod")
    return start if any(each > latest for each in started) else before


@contextlib.asynccontextmanager
async def _living(cluster: _Cluster, start: datetime) -> AsyncIterator[tuple[ApiServer, Client]]:
    server = ApiServer(clock=LoopClock(start), seed=_SEED)
    async with contextlib.AsyncExitStack() as stack:
        transport = InProcess(server.handle)
        stack.push_async_callback(transport.close)
        client = Client(transport)
        # Created, not loaded: it takes a moment until its kind is served, and its objects can be.
        await client.create(CUSTOM_RESOURCE_DEFINITIONS, definition())
        steering, guard = registrations(AtUrl("https://webhook.invalid"))
        server.load([*cluster.objects, steering, *([guard] if cluster.webhook.guards else ())])
        desk = SteeringDesk(client, server.clock.now)
        server.cluster.admission.webhooks.caller = _Desk(desk)
        bring_to_life(server)
        await stack.enter_async_context(desk.running())
        await desk.synced()
        yield server, client


class _Desk:
    """The webhook, without a network in between."""

    def __init__(self, desk: SteeringDesk) -> None:
        self._desk = desk

    async def call(self, endpoint: Endpoint, body: bytes, _timeout_s: float) -> bytes:
        is_guard = endpoint.url.endswith(GUARD_PATH)
        return self._desk.guard(body) if is_guard else self._desk.answer(body)


async def _carried_out(check: Check, rescheduler: Rescheduler, now: Callable[[], datetime]) -> SimulatedCheck:
    course: list[Happening] = []

    def note(errand: Errand) -> None:
        course.append(Happening(now(), Errand(errand.move, errand.key, errand.migration, errand.given_up)))

    run = PlanRun(rescheduler.client, rescheduler.followed, check.plan, note, record=rescheduler.record)
    if not rescheduler.configuration.policy.dry_run:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LONGEST_S):
                await run.run()
    return SimulatedCheck(
        check.number,
        check.began,
        now(),
        check.plan,
        tuple(run.errands),
        tuple(course),
        _loads(check.snapshot),
        _loads(rescheduler.cluster.snapshot()),
    )


def _loads(snapshot: Snapshot) -> Loads:
    return {node.name: loads_of(snapshot, row) for row, node in enumerate(snapshot.nodes.records)}


# -- usage


def _reader(usage: Outcome, cluster: KnownCluster, now: Callable[[], datetime]) -> UsageReader:
    if isinstance(usage, Unavailable) or not usage.pods:
        return RequestsOnly()
    return _LikeBefore(usage, cluster, now)


@dataclass(slots=True)
class _LikeBefore:
    """Every pod uses what it used when the cluster was saved; a new one what its siblings did on average."""

    usage: Readings
    cluster: KnownCluster
    now: Callable[[], datetime]
    _of_owners: dict[OwnerKey, Used] = field(init=False)
    _measured: dict[str, Used] = field(init=False)

    def __post_init__(self) -> None:
        pods = list(self.cluster.followed.pods.informer)
        self._measured = {pod.uid: self.usage.pods[pod.key] for pod in pods if pod.key in self.usage.pods}
        by_owner: dict[OwnerKey, list[Used]] = {}
        for pod in pods:
            if pod.owner is not None and pod.uid in self._measured:
                by_owner.setdefault(owner_key(pod.namespace, pod.owner), []).append(self._measured[pod.uid])
        self._of_owners = {owner: _mean(found) for owner, found in by_owner.items()}

    async def read(self) -> Outcome:
        at_s = self.now().timestamp()
        found = {pod.key: self._used(pod) for pod in self.cluster.followed.pods.informer if pod.node}
        pods: UsageByName = {
            key: Used(used.cpu_millis, used.memory_bytes, at_s) for key, used in found.items() if used
        }
        return Readings(self.usage.source, pods)

    async def close(self) -> None:
        pass

    def _used(self, pod: PodRecord) -> Used | None:
        known = self._measured.get(pod.uid)
        if known is None and pod.owner is not None:
            return self._of_owners.get(owner_key(pod.namespace, pod.owner))
        return known


def _mean(found: list[Used]) -> Used:
    count = len(found)
    return Used(
        round(sum(each.cpu_millis for each in found) / count),
        round(sum(each.memory_bytes for each in found) / count),
        found[0].at_s,
    )
