"""The programs under test, daemons and the webhook, as processes in virtual time that end and start again.

A process that ends leaves nothing but what the cluster holds: its connection is cut before its tasks end.
"""

import asyncio
import contextlib
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from urllib.parse import urlsplit

from kubesim.admission.webhook_admission import WebhookEndpoint
from kubesim.admission.webhook_reviews import WebhookCallFailed
from rescheduler.config.policy import Configuration
from rescheduler.daemon.daemon_process import Daemon, DaemonOptions
from rescheduler.install.admission_policies import user_name
from rescheduler.install.install_options import DAEMON
from rescheduler.kube import errors
from rescheduler.kube.client import Client, RequestObserver
from rescheduler.steering.steering_service import SteeringService
from rescheduler.steering.webhook.eviction_guard import EvictionSettings
from rescheduler.steering.webhook.webhook_configurations import (
    EVICTION_PATH,
    GUARD_PATH,
    STEERING_PATH,
    UrlAddress,
)
from tests.campaign.unreliable_connection import UnreliableConnection
from tests.e2e.chaos.chaos_workloads import HOME
from tests.webhook_installed import install_webhook

__all__ = ["DaemonProcess", "WebhookProcess"]

LEASE = "rescheduler"
ADDRESS = UrlAddress("https://webhook.invalid")
Connect = Callable[[str, str], UnreliableConnection]
"""connect(user, name): a new connection; the name decides its random numbers."""


@dataclass
class DaemonProcess:
    """`rescheduler run`."""

    name: str
    configuration: Configuration
    connect: Connect
    failures: list[str] = field(default_factory=list)
    """Errors with which it ended by itself, other than those of the API server."""
    skew: timedelta = timedelta()
    """How far its clock is ahead."""
    starts: int = 0
    connection: UnreliableConnection | None = None
    _task: asyncio.Task[None] | None = None

    @property
    def runs(self) -> bool:
        return self._task is not None and not self._task.done()

    def start(self) -> None:
        if self.runs:
            return
        self.starts += 1
        connection = self.connection = self.connect(user_name(DAEMON, HOME), f"{self.name}-{self.starts}")
        connection.on_end = self._end_soon
        options = DaemonOptions(
            lease_at=f"{HOME}/{LEASE}",
            me=f"{self.name}-{self.starts}",
            now=lambda: connection.server.clock.now() + self.skew,
        )

        def connected(observer: RequestObserver) -> Client:
            return connection.client(observer)

        self._task = asyncio.create_task(self._run(Daemon(connected, self.configuration, options)))

    async def _run(self, daemon: Daemon) -> None:
        try:
            await daemon.run_until(asyncio.Event())
        except errors.KubeError:
            pass  # as with an exit code: it is started again
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
            self.failures.append(f"{self.name} ended: {error!r}")

    def _end_soon(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def kill(self) -> None:
        if self._task is None or self.connection is None:
            return
        task, self._task = self._task, None
        self.connection.is_cut = True
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await self.connection.close()


@dataclass
class WebhookProcess:
    """`rescheduler webhook`, which the API server reaches without a network in between."""

    configuration: Configuration
    connect: Connect
    rng: random.Random
    is_reachable: bool = True
    is_slow: bool = False
    starts: int = 0
    connection: UnreliableConnection | None = None
    _service: SteeringService | None = None
    _stack: contextlib.AsyncExitStack | None = None

    async def install(self, client: Client) -> None:
        await install_webhook(client, HOME, ADDRESS)

    async def start(self) -> None:
        if self._service is not None:
            return
        self.starts += 1
        user = f"system:serviceaccount:{HOME}:rescheduler-webhook"
        connection = self.connection = self.connect(user, f"webhook-{self.starts}")
        settings = EvictionSettings(self.configuration.policy, HOME, LEASE, HOME)

        def now() -> datetime:
            return connection.server.clock.now()

        service = SteeringService(connection.client(), now, settings)
        self._stack = contextlib.AsyncExitStack()
        await self._stack.enter_async_context(service.running())
        self._service = service

    async def kill(self) -> None:
        stack, self._stack, self._service = self._stack, None, None
        if stack is not None and self.connection is not None:
            self.connection.is_cut = True
            await stack.aclose()
            await self.connection.close()

    async def call(self, endpoint: WebhookEndpoint, body: bytes, timeout_s: float) -> bytes:
        """Answer an API server, as `WebhookCaller`."""
        await asyncio.sleep(self.rng.uniform(0.001, 0.005))
        if self.is_slow:
            await asyncio.sleep(timeout_s)
            raise WebhookCallFailed("failed to call webhook: context deadline exceeded")
        service = self._service
        if service is None or not self.is_reachable:
            raise WebhookCallFailed("failed to call webhook: connect: connection refused")
        path = urlsplit(endpoint.url).path
        if path == STEERING_PATH:
            return service.answer(body)
        if path == GUARD_PATH:
            return service.guard(body)
        assert path.startswith(EVICTION_PATH)
        assert service.evictions is not None
        return await service.evictions.answer(body)
