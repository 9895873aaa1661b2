"""Run one seed: generate a cluster and a schedule, play them in virtual time, and judge what happened."""

import asyncio
import hashlib
import logging
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import count
from types import SimpleNamespace
from typing import Any
from unittest import mock

import msgspec

from kubesim import ApiServer
from kubesim.apiserver.kind_registry import ResourceKind
from kubesim.apiserver.object_store import StoreChange
from kubesim.running_cluster import EPOCH, start_cluster
from kubesim.scenario.initial_cluster import initial_objects
from kubesim.virtual_time import LoopClock
from rescheduler.daemon.own_objects import read_state
from rescheduler.install.cluster_installation import install_definition
from tests.campaign.campaign_actions import Stage
from tests.campaign.campaign_cluster import CampaignCluster, campaign_cluster
from tests.campaign.campaign_programs import DaemonProcess, WebhookProcess
from tests.campaign.fault_schedule import ScheduledAction, end_faults, fault_schedule, run_schedule
from tests.campaign.invariants import at_every_revision, at_the_end, outcomes, told_migrations, unrest
from tests.campaign.unreliable_connection import ApiServerOutage, UnreliableConnection
from tests.e2e.chaos.api_observer import ApiObserver
from tests.e2e.chaos.audit_trail import AuditedRequest
from tests.e2e.chaos.chaos_workloads import HOME
from tests.stories.cluster_kinds import SimulatorLoop

__all__ = ["SeedResult", "run_seed"]

FAULT_MINUTES = 240.0
CALM_WITHIN_S = 1.5 * 3600.0
CALM_FOR_S = 660.0
_LOOK_EVERY_S = 30.0
_BUG = "a bug in rescheduler"


@dataclass
class SeedResult:
    seed: int
    cluster: str = ""
    schedule: list[ScheduledAction] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)
    """Migrations by how they ended."""
    actions: Counter[str] = field(default_factory=Counter)
    """Faults and actions of other clients that were carried out."""
    hours: float = 0.0
    """Virtual time that passed in the cluster."""
    writes: int = 0
    digest: str = ""
    """A hash of every change of every object: the same seed has the same."""
    history: list[str] = field(default_factory=list)

    @property
    def migrations(self) -> int:
        return self.outcomes.total()


def run_seed(
    seed: int, *, minutes: float = FAULT_MINUTES, schedule: list[ScheduledAction] | None = None
) -> SeedResult:
    """Play a seed, or a shorter schedule in the cluster of that seed."""
    cluster = campaign_cluster(seed)
    planned = fault_schedule(seed, minutes) if schedule is None else schedule
    result = SeedResult(seed, str(cluster), planned)
    objects = msgspec.json.decode(_initial_objects(seed))
    with _seeded(seed), _logged(result), asyncio.Runner(loop_factory=SimulatorLoop) as runner:
        loop = runner.get_loop()
        runner.run(_CampaignRun(seed, cluster, result).play(objects))
        result.violations += [f"background task failed: {each}" for each in loop.failures]  # type: ignore[attr-defined]
    return result


@lru_cache(maxsize=2)
def _initial_objects(seed: int) -> bytes:
    """Remembered for a seed that is played again and again, with shorter schedules."""
    return msgspec.json.encode(initial_objects(campaign_cluster(seed).scenario, EPOCH))


@dataclass
class _CampaignRun:
    seed: int
    cluster: CampaignCluster
    result: SeedResult
    requests: list[AuditedRequest] = field(default_factory=list)
    outage: ApiServerOutage = field(default_factory=ApiServerOutage)

    async def play(self, objects: list[dict[str, Any]]) -> None:
        self.server = ApiServer(clock=LoopClock(EPOCH), seed=self.seed)
        self.server.load(objects)
        digest = _Digest(self.server)
        running = start_cluster(self.server, self.cluster.scenario)
        stage = self._stage(running)
        observer = ApiObserver(self._connect("observer", "observer", ApiServerOutage()).client(), stage.now)
        async with AsyncExitStack() as stack:
            await self._install(stage)
            await stack.enter_async_context(observer.running())
            for daemon in stage.daemons:
                daemon.start()
                stack.push_async_callback(daemon.kill)
            if stage.webhook is not None:
                await stage.webhook.start()
                stack.push_async_callback(stage.webhook.kill)
            self.result.actions = await run_schedule(stage, self.result.schedule)
            await end_faults(stage)
            await self._come_to_rest(stage, observer)
            self._judge(stage, observer, (await read_state(stage.client, HOME))[1])
        self.result.digest = digest.value()

    def _stage(self, running: Any) -> Stage:
        configuration = self.cluster.configuration
        daemons = [
            DaemonProcess(f"daemon-{number}", configuration, self._connect)
            for number in range(1, self.cluster.daemons + 1)
        ]
        webhook = None
        if self.cluster.has_webhook:
            webhook = WebhookProcess(configuration, self._connect, random.Random(f"webhook {self.seed}"))
            self.server.cluster.admission.webhooks.caller = webhook
        client = self._connect("kubernetes-admin", "others").client()
        return Stage(self.cluster, self.server, running, client, daemons, webhook, self.outage, self._connect)

    def _connect(self, user: str, name: str, outage: ApiServerOutage | None = None) -> UnreliableConnection:
        rng = random.Random(f"{name} {self.seed}")
        return UnreliableConnection(self.server, user, rng, outage or self.outage, self.requests)

    async def _install(self, stage: Stage) -> None:
        await install_definition(stage.client)
        if stage.webhook is not None:
            await stage.webhook.install(stage.client)

    async def _come_to_rest(self, stage: Stage, seen: ApiObserver) -> None:
        """Wait until everything is finished and nothing has moved for a while; the verdict names the rest."""
        loop = asyncio.get_running_loop()
        ends_s = loop.time() + CALM_WITHIN_S
        calm_since_s, known = loop.time(), -1
        # As many checks as a hot node needs until its pods move.
        interval_s = self.cluster.policy.rescheduling_interval.total_seconds()
        calm_s = max(CALM_FOR_S, interval_s * (self.cluster.policy.hot_checks + 1))
        while loop.time() < ends_s and loop.time() - calm_since_s < calm_s:
            await asyncio.sleep(_LOOK_EVERY_S)
            if unrest(seen) or len(seen.migrations.versions) != known:
                calm_since_s, known = loop.time(), len(seen.migrations.versions)
            for daemon in stage.daemons:
                daemon.start()  # one that has ended by itself is started again, as any Deployment does
        if loop.time() >= ends_s and not unrest(seen):
            self.result.violations.append("still moving pods: 90 minutes after the last fault")

    def _judge(self, stage: Stage, seen: ApiObserver, status: Any) -> None:
        result = self.result
        result.violations += at_every_revision(seen, self.requests, self.cluster.policy, len(stage.daemons))
        result.violations += at_the_end(seen, status, self.cluster.policy)
        result.violations += [failure for daemon in stage.daemons for failure in daemon.failures]
        result.outcomes = outcomes(seen)
        result.hours = (stage.now() - EPOCH).total_seconds() / 3600
        result.writes = len(self.requests)
        result.history = sorted([*stage.history, *told_migrations(seen, EPOCH)])


class _Digest:
    """A hash of all changes of all objects, in their order."""

    def __init__(self, server: ApiServer) -> None:
        self._hash = hashlib.sha256()
        server.store.observers.append(self._changed)

    def _changed(self, kind: ResourceKind, change: StoreChange) -> None:
        raw = b"" if change.after is None else change.after.raw
        self._hash.update(f"{kind.plural} {change.version} ".encode() + raw)

    def value(self) -> str:
        return self._hash.hexdigest()[:16]


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Draw the jitter of all programs from the seed, and let plans take no time."""
    numbers = count()

    class SeededRandom(random.Random):
        def __init__(self, given: Any = None) -> None:
            super().__init__(f"jitter {seed} {next(numbers)}" if given is None else given)

    with (
        mock.patch("random.Random", SeededRandom),
        mock.patch("rescheduler.daemon.checker.time", SimpleNamespace(perf_counter=lambda: 0.0)),
    ):
        yield


class _BugHandler(logging.Handler):
    """Collects errors that only a bug can cause."""

    def __init__(self, result: SeedResult) -> None:
        super().__init__(logging.WARNING)
        self._result = result

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if _BUG in text or record.exc_info:
            self._result.violations.append(f"logged: {text[:300]} {record.exc_info or ''}")


@contextmanager
def _logged(result: SeedResult) -> Iterator[None]:
    log = logging.getLogger("rescheduler")
    handler, level = _BugHandler(result), log.level
    log.addHandler(handler)
    log.setLevel(logging.WARNING)
    log.propagate = False  # thousands of lines about refused connections
    try:
        yield
    finally:
        log.propagate = True
        log.removeHandler(handler)
        log.setLevel(level)
