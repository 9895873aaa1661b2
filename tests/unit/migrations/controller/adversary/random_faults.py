"""Random faults for several controllers that all believe they lead, each with an unreliable connection.

Calls stall, are lost on their way or on the way back, arrive late, are refused, or answered with an error
although they were carried out; watches lag; clocks differ; and controllers stop and start all the time.
"""

import asyncio
import contextlib
import random
from dataclasses import dataclass, field
from datetime import timedelta

from kubesim.apiserver.api_messages import object_response
from rescheduler.api.podmigration import decode_migration
from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS, WatchedObjects
from rescheduler.kube import errors
from rescheduler.migrations.controller.migration_controller import MigrationController
from rescheduler.migrations.runtime_state import RuntimeState, RuntimeStateHolder
from tests.stories.migrations.moves import ApprovingRevalidator
from tests.stories.migrations.workloads import stateful_set
from tests.stories.observer import observing
from tests.stories.sandbox import node_of
from tests.unit.migrations.controller.crashing_controller import NETWORK_S, Cluster

REASONS = {409: "Conflict", 429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable"}
LATEST_S = 40.0


@dataclass
class FaultyTransport:
    """The unreliable connection of one controller to the API server."""

    server: object
    rng: random.Random
    lag_s: float
    fault_rate: float = 0.1
    stall: float = 0.03
    late: list[asyncio.Task] = field(default_factory=list)

    async def handle(self, method, target, headers, body):
        request = method, target, headers, body
        await asyncio.sleep(self.rng.uniform(*NETWORK_S))
        if "watch=true" in target:
            answer = await self.server.handle(*request)
            return answer._replace(chunks=self._lagging(answer.chunks))
        if self.rng.random() < self.stall:
            await asyncio.sleep(self.rng.uniform(1.0, 60.0))
        if self.rng.random() >= self.fault_rate:
            return await self.server.handle(*request)
        return await self._with_faults(request)

    async def _with_faults(self, request):
        is_write = request[0] != "GET"
        match self.rng.choice(("unsent", "lost", "refused", "in doubt", "late")):
            case "unsent":
                raise ConnectionError("lost on its way")
            case "lost":
                await self.server.handle(*request)
                raise ConnectionError("its answer was lost")
            case "late" if is_write:
                self.late.append(asyncio.create_task(self._arrive_late(request)))
                raise ConnectionError("it may still arrive")
            case "in doubt" if is_write:
                await self.server.handle(*request)
                return _error(self.rng.choice((500, 503)))
        return _error(self.rng.choice((409, 429, 500, 503) if is_write else (429, 500, 503)))

    async def _arrive_late(self, request):
        await asyncio.sleep(self.rng.uniform(0.0, LATEST_S))
        await self.server.handle(*request)

    async def _lagging(self, chunks):
        """Delay each chunk by the lag of the connection."""
        arrived = asyncio.Queue()
        clock = asyncio.get_running_loop().time

        async def pull():
            with contextlib.suppress(ConnectionError):
                async for chunk in chunks:
                    arrived.put_nowait((clock(), chunk))
            arrived.put_nowait((clock(), None))

        pulling = asyncio.create_task(pull())
        try:
            while True:
                came_s, chunk = await arrived.get()
                await asyncio.sleep(max(0.0, came_s + self.lag_s - clock()))
                if chunk is None:
                    return
                yield chunk
        finally:
            pulling.cancel()
            await asyncio.gather(pulling, return_exceptions=True)


def _error(code):
    return object_response(
        code, {"kind": "Status", "code": code, "reason": REASONS[code], "message": "bad luck"}
    )


@dataclass
class RandomFaultsRun:
    """`await run()` returns all faults that were found, as text."""

    seed: int
    controllers: int = 2
    lag_s: float = 0.0
    skew_s: float = 0.0
    lasts_s: float = 200.0
    wanted: dict[str, int] = field(default_factory=dict)
    lines: list[FaultyTransport] = field(default_factory=list)

    def __post_init__(self):
        self.rng = random.Random(self.seed)

    async def run(self):
        self.cluster = Cluster(
            migration_timeout=timedelta(minutes=self.rng.choice((1, 3))),
            max_retries=self.rng.choice((0, 3)),
            settle_time=timedelta(seconds=self.rng.choice((1, 10))),
        )
        try:
            self.moves = await self.cluster.moves(nodes=6)
            await self._set_up()
            async with contextlib.AsyncExitStack() as stack:
                seen = {
                    app: await stack.enter_async_context(observing(self.moves.client, "moves", app))
                    for app in self.wanted
                }
                await self._request_migration()
                await self._run_faults()
                await self._finish_without_faults()
            least = {app: min(each.ready, default=self.wanted[app]) for app, each in seen.items()}
            return await self._untrue() + [
                f"{app} had {ready} of {self.wanted[app]} ready"
                for app, ready in least.items()
                if ready < self.wanted[app] - (app == "db")
            ]
        finally:
            await self.cluster.close()

    async def _set_up(self):
        sandbox = self.moves.sandbox
        self.wanted = {"web": self.rng.choice((1, 2, 3)), "db": self.rng.choice((1, 2, 3)), "bare": 1}
        await sandbox.deployment(self.wanted["web"])
        await sandbox.budget("web", minAvailable=self.wanted["web"])
        await stateful_set(sandbox, self.wanted["db"], app="db")
        await sandbox.budget("db", app="db", maxUnavailable=1)
        await sandbox.until_pod_ready(await sandbox.pod("bare", metadata={"labels": {"app": "bare"}}))
        sandbox.behave({"startup": self.rng.choice(("0s", "10s")), "termination": "2s"})

    async def _request_migration(self):
        pods = [pod for app in self.wanted for pod in await self.moves.sandbox.pods(app)]
        for pod in self.rng.sample(pods, k=min(3, len(pods))):
            others = [name for name in self.moves.sandbox.nodes if name != node_of(pod)]
            await self.moves.create_migration(pod, self.rng.choice(others), held=self.rng.random() < 0.7)

    async def _run_faults(self):
        ended = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            for _ in range(self.controllers):
                tasks.create_task(self._start_and_stop_controllers(ended))
            await asyncio.sleep(self.lasts_s)
            ended.set()
        await asyncio.gather(*(late for line in self.lines for late in line.late))

    async def _start_and_stop_controllers(self, ended):
        ahead = timedelta(seconds=self.rng.uniform(-self.skew_s, self.skew_s))
        while not ended.is_set():
            line = FaultyTransport(self.cluster.server, self.rng, self.rng.uniform(0.0, self.lag_s))
            self.lines.append(line)
            with contextlib.suppress(errors.KubeError):
                async with self._executing(self.cluster.connect(line.handle), ahead):
                    await _at_most(self.rng.uniform(1.0, 90.0), ended)
            await _at_most(self.rng.uniform(0.0, 10.0), ended)

    @contextlib.asynccontextmanager
    async def _executing(self, client, ahead=timedelta()):
        watched, now = WatchedObjects(client), self.moves.now
        revalidator = ApprovingRevalidator(watched)
        runtime = RuntimeStateHolder(RuntimeState(self.moves.policy))
        controller = MigrationController(
            client, runtime, revalidator, watched=watched, now=lambda: now() + ahead, workers=4
        )
        async with watched.running(), controller.running():
            yield

    async def _finish_without_faults(self):
        """Let one controller with a reliable connection finish everything."""
        async with self._executing(self.cluster.connect()):
            for number in range(1, self.moves.created + 1):
                await self.moves.until_over(f"moves/move-{number}", timeout_s=7200)
            await self.moves.until_nothing_left()
            for app, count in self.wanted.items():
                await self.moves.sandbox.until_ready(count, app=app)

    async def _untrue(self):
        """What migrations say of their end, and is not so."""
        there = {pod["metadata"]["uid"] for app in self.wanted for pod in await self.moves.sandbox.pods(app)}
        found = []
        for item in (await self.moves.client.list(POD_MIGRATIONS)).items:
            migration = decode_migration(item)
            is_there, status = migration.spec.pod.uid in there, migration.status
            if status.phase == "Completed" and is_there:
                found.append(f"{migration.name} is Completed, and its pod is where it was")
            if status.phase == "Failed" and status.handover in {"Adopt", "Copy"} and not is_there:
                found.append(f"{migration.name} is Failed ({status.failure}), and its pod is gone")
        return found


async def _at_most(seconds, event):
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
