"""The webhook as a process: HTTPS, its certificate, its registration, and the cache it answers from."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from aiohttp import web

from rescheduler.kube.client import Client
from rescheduler.serving.certificate_secret import CertificateSecret
from rescheduler.serving.certificates import Lifetimes
from rescheduler.serving.registration import PATH, Address, Registration
from rescheduler.serving.steering_desk import SteeringDesk
from rescheduler.serving.upkeep import Upkeep, UpkeepPace

__all__ = ["Webhook", "WebhookOptions", "application"]

log = logging.getLogger(__name__)

_LARGEST_BODY: Final = 16 << 20
"""A review holds a whole pod, and whatever its annotations hold."""
_IDLE_S: Final = 120.0
"""Longer than API servers keep idle connections (90 s): it is they who close them, never in mid-request."""
_UNFINISHED_S: Final = 2.0
"""How long requests that are under way may take after the end; their callers wait for one second."""


def _wall_clock() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class WebhookOptions:
    namespace: str
    """Where the Secret with the certificates is."""
    address: Address
    """How API servers reach us."""
    host: str | None = None
    """None listens on all addresses."""
    port: int = 9443
    drain_s: float = 5.0
    """From the wish to end to the end: so long it takes until everybody knows that we are not ready."""
    lifetimes: Lifetimes = field(default_factory=Lifetimes)
    pace: UpkeepPace = field(default_factory=UpkeepPace)


class Webhook:
    def __init__(
        self, client: Client, options: WebhookOptions, *, now: Callable[[], datetime] = _wall_clock
    ) -> None:
        self.port = 0
        """On which it listens, once it runs."""
        self._options = options
        self._is_ending = False
        self._desk = SteeringDesk(client)
        secret = CertificateSecret(client, options.namespace, options.address.names, now, options.lifetimes)
        registration = Registration(client, options.address)
        self._upkeep = Upkeep(client, secret, registration, now=now, pace=options.pace)

    @property
    def is_ready(self) -> bool:
        return self._desk.is_ready and not self._is_ending

    async def ready(self) -> None:
        """Returns when it knows the running migrations."""
        await self._desk.informer.synced()

    async def registered(self) -> None:
        """Returns when API servers have been told of it."""
        await self._upkeep.done_once.wait()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serves while the body runs. Raises `KubeError` without a certificate, `OSError` without a port."""
        await self._upkeep.prepare()
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(self._desk.informer.running())
            await stack.enter_async_context(self._listening())
            log.info("listens on port %d", self.port)
            await stack.enter_async_context(self._upkeep.running())
            try:
                yield
            finally:
                self._is_ending = True

    async def run_until(self, ended: asyncio.Event) -> None:
        async with self.running():
            await ended.wait()
            self._is_ending = True
            log.info("ends in %g s", self._options.drain_s)
            await asyncio.sleep(self._options.drain_s)

    @contextlib.asynccontextmanager
    async def _listening(self) -> AsyncIterator[None]:
        app = application(self._desk.answer, lambda: self.is_ready)
        runner = web.AppRunner(
            app,
            access_log=None,
            handle_signals=False,
            keepalive_timeout=_IDLE_S,
            shutdown_timeout=_UNFINISHED_S,
        )
        await runner.setup()
        try:
            site = web.TCPSite(
                runner, self._options.host, self._options.port, ssl_context=self._upkeep.tls.context
            )
            await site.start()
            self.port = runner.addresses[0][1]
            yield
        finally:
            await runner.cleanup()


def application(answer: Callable[[bytes], bytes], is_ready: Callable[[], bool]) -> web.Application:
    async def mutate(request: web.Request) -> web.Response:
        return web.Response(body=answer(await request.read()), content_type="application/json")

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def readyz(_: web.Request) -> web.Response:
        if is_ready():
            return web.Response(text="ok")
        return web.Response(status=503, text="the running migrations are not known yet, or not any more")

    app = web.Application(client_max_size=_LARGEST_BODY)
    app.router.add_post(PATH, mutate)
    app.router.add_get("/healthz", healthz)
    app.router.add_get("/readyz", readyz)
    return app
