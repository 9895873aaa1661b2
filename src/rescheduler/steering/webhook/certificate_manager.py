"""Keep the webhook callable: renew its certificates in time, and write the authority into its configurations.

Each sync reads the certificates, renews what is due, publishes the authorities, and only then serves the
certificates that they have signed. It runs when the Secret or a configuration changes, and when a renewal is
due. After a failure it is retried with growing delays; meanwhile the webhook serves the certificate that it
has.

Open connections keep their certificate, new ones get the newest. A TLS context can't stop trusting an
authority, so every change creates a new context.
"""

import asyncio
import contextlib
import logging
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from kubevalues.connections import server_tls_context
from rescheduler.kube import errors
from rescheduler.kube.api_resources import SECRETS, Object
from rescheduler.kube.client import Client
from rescheduler.kube.event_recorder import log_event
from rescheduler.kube.informer import Informer, ListOptions
from rescheduler.kube.work_queue import background_task
from rescheduler.steering.webhook.certificate_secret import CertificateSecret, ServingCredentials
from rescheduler.steering.webhook.webhook_configurations import (
    WEBHOOK_CONFIGURATION_KINDS,
    WEBHOOK_SECRET,
    CABundleWriter,
)

__all__ = ["CertificateIntervals", "CertificateManager", "ReloadableTLS"]


class ReloadableTLS:
    """TLS contexts whose certificates can be replaced while connections are served."""

    def __init__(self) -> None:
        self._loaded: ServingCredentials | None = None
        self._public: ssl.SSLContext | None = None
        self._mutual: ssl.SSLContext | None = None

    def load(self, credentials: ServingCredentials) -> bool:
        """Load credentials, and return whether the serving certificate is a new one."""
        before, self._loaded = self._loaded, credentials
        if credentials != before:
            self._public = server_tls_context(credentials.serving.certificate, credentials.serving.key)
            self._mutual = _mutual_tls_context(credentials)
        return before is None or credentials.serving != before.serving

    def public(self) -> ssl.SSLContext:
        """Return the context for clients without a certificate."""
        assert self._public is not None, "nothing is loaded yet"
        return self._public

    def mutual(self) -> ssl.SSLContext:
        """Return the context for clients with a certificate of the webhook's authority."""
        assert self._mutual is not None, "nothing is loaded yet"
        return self._mutual


def _mutual_tls_context(credentials: ServingCredentials) -> ssl.SSLContext:
    context = server_tls_context(credentials.serving.certificate, credentials.serving.key)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=credentials.trusted.decode())
    # A resumed session would skip the check of the client certificate.
    context.options |= ssl.OP_NO_TICKET
    context.num_tickets = 0
    return context


log = logging.getLogger(__name__)

_REINSTALL: Final = "Reinstall it: `rescheduler manifests | kubectl apply -f -`, or `helm upgrade`."


@dataclass(frozen=True, slots=True)
class CertificateIntervals:
    """How often certificates are synced."""

    pause_s: float = 2.0
    """The pause between two syncs. Programs that overwrite each other must not overload the server."""
    longest_s: float = 3600.0
    """The longest time between two syncs, because clocks may be changed."""
    retry_s: float = 10.0
    """The delay after the first failure. It doubles after each further one."""
    longest_retry_s: float = 300.0


class CertificateManager:
    def __init__(
        self,
        client: Client,
        secret: CertificateSecret,
        registration: CABundleWriter | None,
        *,
        now: Callable[[], datetime],
        pace: CertificateIntervals = CertificateIntervals(),  # noqa: B008 - frozen
    ) -> None:
        self.tls = ReloadableTLS()
        self._secret = secret
        self._registration = registration
        self._now = now
        self._pace = pace
        self._changed = asyncio.Event()
        self.synced_once = asyncio.Event()
        """Set after the first successful sync."""
        own = ListOptions(namespace=secret.namespace, fields=f"metadata.name={WEBHOOK_SECRET}")
        self._informers: list[Informer[Object]] = [Informer(client, SECRETS, own)]
        if registration is not None:
            ours = ListOptions(fields=f"metadata.name={registration.name}")
            self._informers += [Informer(client, kind, ours) for kind in WEBHOOK_CONFIGURATION_KINDS]
        self._failures = 0
        self.path_token = ""
        """The token of the credentials that are served; empty without a Secret."""

    async def prepare(self) -> None:
        """Load a certificate to serve. Raises `KubeError`."""
        try:
            credentials = await self._secret.credentials()
        except errors.NotFound:
            credentials = self._secret.unsaved()
        else:
            self.path_token = credentials.path_token
        self.tls.load(credentials)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as stack:
            for informer in self._informers:
                informer.subscribe(self._on_change)
                await stack.enter_async_context(informer.running())
            await stack.enter_async_context(background_task(self._run(), "webhook certificates"))
            yield

    def _on_change(self, _old: Any, _new: Any) -> None:
        self._changed.set()

    async def _run(self) -> None:
        while True:
            self._changed.clear()
            wait_s = await self._sync_and_wait_s()
            await asyncio.sleep(min(wait_s, self._pace.pause_s))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, wait_s - self._pace.pause_s)):
                    await self._changed.wait()

    async def _sync_and_wait_s(self) -> float:
        """Update the certificates once, and return how long to wait if nothing changes."""
        try:
            found = await self._sync()
        except errors.NotFound as error:
            words = f"Secret {self._secret.key} is missing: {error.why}. {_REINSTALL}"
            log_event(log, logging.WARNING, "CertificateSecretMissing", words)
            return self._retry_s()
        except errors.KubeError as error:
            words = (
                f"{error} Until that succeeds, the webhook's certificates and configuration are not updated."
            )
            log_event(log, logging.WARNING, "CertificateUpdateFailed", words)
            return self._retry_s()
        except Exception:
            words = "bug: unexpected error; the webhook keeps serving with its present certificate"
            log.exception(words, extra={"event": "CertificateUpdateFailed"})
            return self._retry_s()
        if found.problems:
            words = f"API servers can't call the webhook: {'; '.join(found.problems)}. {_REINSTALL}"
            log_event(log, logging.WARNING, "WebhookMisconfigured", words)
            return self._retry_s()
        self._failures = 0
        due_s = (self._secret.next_renewal_at(found.credentials) - self._now()).total_seconds()
        return max(self._pace.pause_s, min(due_s, self._pace.longest_s))

    def _retry_s(self) -> float:
        doublings, self._failures = min(self._failures, 20), self._failures + 1
        return min(self._pace.retry_s * (1 << doublings), self._pace.longest_retry_s)

    async def _sync(self) -> "_SyncResult":
        found = await self._secret.credentials()
        problems = (
            []
            if self._registration is None
            else await self._registration.sync(found.trusted, found.path_token)
        )
        self.path_token = found.path_token
        if self.tls.load(found):
            until = found.serving.expires_at.isoformat()
            log_event(log, logging.INFO, "CertificateServed", "serving a new certificate", until=until)
        if not problems:
            self.synced_once.set()
        return _SyncResult(found, problems)


@dataclass(frozen=True, slots=True)
class _SyncResult:
    credentials: ServingCredentials
    problems: list[str]
    """The problems of the webhook configurations, in words."""
