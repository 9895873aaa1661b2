"""The steering process: webhook and extender over HTTPS, their certificates, and the caches they answer
from."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from aiohttp import web

from rescheduler.http.http_server import serve_http
from rescheduler.http.request_limits import BodyReader
from rescheduler.kube.client import Client
from rescheduler.kube.event_recorder import log_event
from rescheduler.kube.transport import wall_clock
from rescheduler.steering.steering_service import SteeringService
from rescheduler.steering.webhook.certificate_manager import CertificateIntervals, CertificateManager
from rescheduler.steering.webhook.certificate_secret import CertificateLifetimes, CertificateSecret
from rescheduler.steering.webhook.eviction_guard import EvictionGuard, EvictionSettings
from rescheduler.steering.webhook.webhook_configurations import (
    EVICTION_PATH,
    GUARD_PATH,
    STEERING_PATH,
    CABundleWriter,
    WebhookAddress,
)

__all__ = ["FILTER_PATH", "PRIORITIZE_PATH", "SteeringServer", "SteeringServerOptions", "webhook_application"]

log = logging.getLogger(__name__)

FILTER_PATH: Final = "/extender/filter"
PRIORITIZE_PATH: Final = "/extender/prioritize"


@dataclass(frozen=True, slots=True)
class SteeringServerOptions:
    namespace: str
    """The namespace of the Secret with the certificates."""
    address: WebhookAddress
    """The address at which API servers reach the webhook."""
    host: str | None = None
    """None listens on all addresses."""
    port: int = 9443
    """The port for API servers and probes."""
    extender_port: int = 9444
    """The port for schedulers, which need a client certificate."""
    registers: bool = True
    """Whether API servers call the webhook, and so need its certificate authority; otherwise only schedulers
    do."""
    drain_s: float = 5.0
    """How long the server still answers after the signal to stop, so that clients see that it is not
    ready."""
    evictions: EvictionSettings | None = None
    """None lets all evictions pass."""
    lifetimes: CertificateLifetimes = field(default_factory=CertificateLifetimes)
    pace: CertificateIntervals = field(default_factory=CertificateIntervals)


class SteeringServer:
    def __init__(
        self, client: Client, options: SteeringServerOptions, *, now: Callable[[], datetime] = wall_clock
    ) -> None:
        self.port = 0
        """The port on which it listens while it runs."""
        self.extender_port = 0
        self._options = options
        self._is_ending = False
        self._service = SteeringService(client, now, options.evictions)
        secret = CertificateSecret(client, options.namespace, options.address.names, now, options.lifetimes)
        registration = (
            CABundleWriter(client, options.address, options.namespace) if options.registers else None
        )
        self._certificates = CertificateManager(client, secret, registration, now=now, pace=options.pace)

    @property
    def is_ready(self) -> bool:
        return self._service.is_ready and not self._is_ending

    async def ready(self) -> None:
        """Wait until the caches are synced."""
        await self._service.synced()

    async def registered(self) -> None:
        """Wait until the certificate is valid, and the webhook configurations trust it."""
        await self._certificates.synced_once.wait()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve while the body runs. Raises `KubeError` without a certificate, `OSError` without a port."""
        await self._certificates.prepare()
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(self._service.running())
            await stack.enter_async_context(self._listening())
            words = f"listening on port {self.port}, and for schedulers on port {self.extender_port}"
            log_event(
                log, logging.INFO, "WebhookListening", words, port=self.port, extender=self.extender_port
            )
            await stack.enter_async_context(self._certificates.running())
            try:
                yield
            finally:
                self._is_ending = True

    async def run_until(self, ended: asyncio.Event) -> None:
        async with self.running():
            await ended.wait()
            self._is_ending = True
            words = f"stopping in {self._options.drain_s:g} s, when clients have seen that it is not ready"
            log_event(log, logging.INFO, "WebhookStopping", words)
            await asyncio.sleep(self._options.drain_s)

    @contextlib.asynccontextmanager
    async def _listening(self) -> AsyncIterator[None]:
        options, tls = self._options, self._certificates.tls
        reviews = {STEERING_PATH: self._service.answer, GUARD_PATH: self._service.guard}
        questions = {FILTER_PATH: self._service.filter, PRIORITIZE_PATH: self._service.prioritize}
        async with contextlib.AsyncExitStack() as stack:
            app = webhook_application(reviews if options.registers else {}, lambda: self.is_ready)
            if options.registers and self._service.evictions is not None:
                add_eviction_routes(app, self._service.evictions, lambda: self._certificates.path_token)
            serving = serve_http(app, options.host, options.port, tls.public)
            self.port = await stack.enter_async_context(serving)
            app = webhook_application(questions, lambda: self.is_ready)
            serving = serve_http(app, options.host, options.extender_port, tls.mutual)
            self.extender_port = await stack.enter_async_context(serving)
            yield


def webhook_application(
    answers: Mapping[str, Callable[[bytes], bytes]], is_ready: Callable[[], bool]
) -> web.Application:
    """Return an application that answers POST requests by path, and health checks."""

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def readyz(_: web.Request) -> web.Response:
        if is_ready():
            return web.Response(text="ok")
        return web.Response(
            status=503, text="not ready: the cache of running migrations is not synced or is stale"
        )

    app = web.Application()
    bodies = BodyReader()
    for path, answer in answers.items():
        app.router.add_post(path, _post_handler(answer, bodies))
    app.router.add_get("/healthz", healthz)
    app.router.add_get("/readyz", readyz)
    return app


def add_eviction_routes(app: web.Application, guard: EvictionGuard, token: Callable[[], str]) -> None:
    """Answer reviews of evictions under a path that only API servers know, and serve the metrics."""
    bodies = BodyReader()

    async def review(request: web.Request) -> web.Response:
        guard.token = token()
        if not guard.is_authentic(request.match_info["token"]):
            raise web.HTTPNotFound
        body = await guard.answer(await bodies.read(request))
        return web.Response(body=body, content_type="application/json")

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=guard.metrics.text(), content_type="text/plain")

    app.router.add_post(f"{EVICTION_PATH}{{token}}", review)
    app.router.add_get("/metrics", metrics)


def _post_handler(
    answer: Callable[[bytes], bytes], bodies: BodyReader
) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def post(request: web.Request) -> web.Response:
        return web.Response(body=answer(await bodies.read(request)), content_type="application/json")

    return post
