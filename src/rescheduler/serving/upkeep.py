"""Keeps the webhook callable: certificates renewed in time, and the server told whom to trust.

Looks when somebody has changed the Secret or the registration, and when something is due. Each look does the
same: read the certificates, renew what is due, tell the server of the authorities, and only then serve what
they have signed. What fails or is missing is tried again, at growing intervals; meanwhile the webhook goes on
with what it has.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from rescheduler.kube import errors
from rescheduler.kube.client import Client
from rescheduler.kube.informer import Informer, Selection
from rescheduler.kube.resources import SECRETS, Object
from rescheduler.model.saying import say
from rescheduler.model.webhook_registration import SECRET
from rescheduler.serving.certificate_secret import CertificateSecret
from rescheduler.serving.certificates import Credentials
from rescheduler.serving.live_tls import LiveTls
from rescheduler.serving.registration import KINDS, Registration

__all__ = ["Upkeep", "UpkeepPace"]

log = logging.getLogger(__name__)

_APPLY_AGAIN: Final = (
    "Apply what was installed again: `rescheduler manifests | kubectl apply -f -`, or `helm upgrade`."
)


@dataclass(frozen=True, slots=True)
class UpkeepPace:
    """In seconds."""

    pause_s: float = 2.0
    """Between two looks. Programs that disagree about the registration must not wear the server out."""
    longest_s: float = 3600.0
    """A look at least so often: clocks are set."""
    retry_s: float = 10.0
    """After the first failure; twice as long after each that follows."""
    longest_retry_s: float = 300.0


class Upkeep:
    def __init__(
        self,
        client: Client,
        secret: CertificateSecret,
        registration: Registration | None,
        *,
        now: Callable[[], datetime],
        pace: UpkeepPace = UpkeepPace(),  # noqa: B008 - frozen
    ) -> None:
        self.tls = LiveTls()
        self._secret = secret
        self._registration = registration
        self._now = now
        self._pace = pace
        self._changed = asyncio.Event()
        self.done_once = asyncio.Event()
        """Set when a look has succeeded for the first time: from then on all is in order."""
        own = Selection(namespace=secret.namespace, fields=f"metadata.name={SECRET}")
        self._followed: list[Informer[Object]] = [Informer(client, SECRETS, own)]
        if registration is not None:
            ours = Selection(fields=f"metadata.name={registration.name}")
            self._followed += [Informer(client, kind, ours) for kind in KINDS]
        self._failures = 0

    async def prepare(self) -> None:
        """After this there is a certificate to serve. Raises `KubeError`."""
        try:
            credentials = await self._secret.credentials()
        except errors.NotFound:
            credentials = self._secret.unsaved()
        self.tls.load(credentials)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as stack:
            for informer in self._followed:
                informer.subscribe(self._heard)
                await stack.enter_async_context(informer.running())
            task = asyncio.create_task(self._run(), name="upkeep of the webhook")
            try:
                yield
            finally:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task

    def _heard(self, _old: Any, _new: Any) -> None:
        self._changed.set()

    async def _run(self) -> None:
        while True:
            self._changed.clear()
            wait_s = await self._looked()
            await asyncio.sleep(min(wait_s, self._pace.pause_s))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, wait_s - self._pace.pause_s)):
                    await self._changed.wait()

    async def _looked(self) -> float:
        """How long until the next look, if nothing changes."""
        try:
            found = await self._look()
        except errors.NotFound as error:
            words = f"the Secret {self._secret.key} is missing: {error.why}. {_APPLY_AGAIN}"
            say(log, logging.WARNING, "CertificateSecretMissing", words)
            return self._retry_s()
        except errors.KubeError as error:
            words = f"the webhook's registration or certificates may be out of date: {error}"
            say(log, logging.WARNING, "UpkeepFailed", words)
            return self._retry_s()
        except Exception:
            words = "a fault of the program; the webhook goes on with the certificate it has"
            log.exception(words, extra={"event": "UpkeepFailed"})
            return self._retry_s()
        if found.problems:
            words = f"API servers don't call the webhook: {'; '.join(found.problems)}. {_APPLY_AGAIN}"
            say(log, logging.WARNING, "RegistrationMissing", words)
            return self._retry_s()
        self._failures = 0
        due_s = (self._secret.next_change(found.credentials) - self._now()).total_seconds()
        return max(self._pace.pause_s, min(due_s, self._pace.longest_s))

    def _retry_s(self) -> float:
        doublings, self._failures = min(self._failures, 20), self._failures + 1
        return min(self._pace.retry_s * (1 << doublings), self._pace.longest_retry_s)

    async def _look(self) -> "_Kept":
        found = await self._secret.credentials()
        problems = [] if self._registration is None else await self._registration.keep(found.trusted)
        if self.tls.load(found):
            until = found.serving.expires_at.isoformat()
            say(log, logging.INFO, "CertificateServed", "serves another certificate from now on", until=until)
        if not problems:
            self.done_once.set()
        return _Kept(found, problems)


@dataclass(frozen=True, slots=True)
class _Kept:
    credentials: Credentials
    problems: list[str]
    """Of the registration, in words."""
