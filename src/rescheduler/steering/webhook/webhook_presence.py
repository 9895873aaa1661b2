"""Whether the webhook answers API servers, because some evictions depend on it.

Being registered is not enough: it must have answered a probe recently (`cluster.sources.webhook_probe`).
Before an eviction that depends on it, `confirm` probes it again.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Final, Protocol

from rescheduler.cluster.sources.cluster_reading import WebhookProbeResult
from rescheduler.cluster.sources.webhook_probe import (
    NO_WEBHOOK_REGISTERED,
    WEBHOOK_LABEL_SELECTOR,
    probe_webhook,
    probe_webhook_if_registered,
)
from rescheduler.kube.api_resources import MUTATING_WEBHOOKS
from rescheduler.kube.client import Client
from rescheduler.kube.informer import Informer, ListOptions

__all__ = ["FixedPresence", "SteeringPresence", "WebhookPresence"]

_MAX_PROBE_AGE_S: Final = 60.0
"""How long an answer counts for plans."""
_PROBE_INTERVAL_S: Final = 30.0


class SteeringPresence(Protocol):
    @property
    def steers(self) -> bool:
        """Return whether the replacements of evicted pods are steered."""
        ...

    @property
    def guards(self) -> bool:
        """Return whether surplus pods are refused."""
        ...

    @property
    def problem(self) -> str:
        """Return why one of them is missing."""
        ...

    async def confirm(self, namespace: str) -> WebhookProbeResult:
        """Probe the webhook for new pods of that namespace."""
        ...


@dataclass(slots=True)
class FixedPresence:
    """A result that is known and does not change."""

    steers: bool = False
    guards: bool = False
    problem: str = NO_WEBHOOK_REGISTERED

    async def confirm(self, namespace: str) -> WebhookProbeResult:  # noqa: ARG002 - the same everywhere
        return WebhookProbeResult(self.steers, self.guards, self.problem)


class WebhookPresence:
    def __init__(
        self, client: Client, namespace: str = "default", *, is_extended: Callable[[], bool] = lambda: False
    ) -> None:
        """`namespace` is where the webhook is probed for plans. `is_extended` returns whether the
        configuration says that schedulers call the extender, which steers as well; the cluster does not show
        that."""
        self._client = client
        self._namespace = namespace
        self._is_extended = is_extended
        self._answered: tuple[float, WebhookProbeResult] | None = None
        """The last result in that namespace, with its time by the clock of the event loop."""
        self._registered = Informer(client, MUTATING_WEBHOOKS, ListOptions(labels=WEBHOOK_LABEL_SELECTOR))

    @property
    def steers(self) -> bool:
        return self._is_extended() or bool(self._recent().steers)

    @property
    def guards(self) -> bool:
        return bool(self._recent().guards)

    @property
    def problem(self) -> str:
        return self._recent().problem

    async def confirm(self, namespace: str) -> WebhookProbeResult:
        found = await self._confirm(namespace)
        return found._replace(steers=True) if self._is_extended() else found

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Probe the webhook once, and then repeatedly while the body runs. Raises `KubeError`."""
        first = await probe_webhook_if_registered(self._client, self._namespace)
        self._answered = (_loop_s(), first)
        async with self._registered.running():
            task = asyncio.create_task(self._probe_repeatedly(), name="webhook probe")
            try:
                yield
            finally:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task

    async def _probe_repeatedly(self) -> None:
        changed = asyncio.Event()
        unsubscribe = self._registered.subscribe(lambda _old, _new: changed.set())
        try:
            while True:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_PROBE_INTERVAL_S):
                        await changed.wait()
                changed.clear()
                await self._confirm(self._namespace)
        finally:
            unsubscribe()

    async def _confirm(self, namespace: str) -> WebhookProbeResult:
        if self._registered.is_synced and not len(self._registered):
            found = WebhookProbeResult(False, False, NO_WEBHOOK_REGISTERED)
        else:
            found = await probe_webhook(self._client, namespace)
        if namespace == self._namespace:
            self._answered = (_loop_s(), found)
        return found

    def _recent(self) -> WebhookProbeResult:
        if self._answered is not None and _loop_s() - self._answered[0] <= _MAX_PROBE_AGE_S:
            return self._answered[1]
        return WebhookProbeResult(problem=f"the webhook has not answered for {_MAX_PROBE_AGE_S:g} s")


def _loop_s() -> float:
    return asyncio.get_running_loop().time()
