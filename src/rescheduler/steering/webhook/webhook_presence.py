"""Track whether the webhook answers API servers, because some evictions depend on it.

Being registered is not enough: it must have answered a probe recently (`cluster.sources.live_source`).
Before an eviction that depends on it, `confirm` probes it again.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Final, Protocol

from rescheduler.cluster.sources.cluster_kinds import WebhookProbeResult
from rescheduler.cluster.sources.live_source import (
    WEBHOOK_LABEL_SELECTOR,
    probe_webhook,
    probe_webhook_if_registered,
)
from rescheduler.kube.api_resources import MUTATING_WEBHOOKS
from rescheduler.kube.client import Client
from rescheduler.kube.informer import Informer, ListOptions
from rescheduler.kube.work_queue import background_task
from rescheduler.migrations.runtime_state import RuntimeStateHolder, SteeringStatus

__all__ = ["AssumedSteering", "SteeringProbe", "WebhookPresence"]

_MAX_PROBE_AGE_S: Final = 60.0
"""How long an answer counts for plans."""
_PROBE_INTERVAL_S: Final = 30.0


class SteeringProbe(Protocol):
    async def confirm(self, namespace: str) -> SteeringStatus:
        """Return whether new pods of that namespace are steered and guarded now."""
        ...


class AssumedSteering:
    """Returns the steering status of the runtime state, without a probe."""

    def __init__(self, runtime: RuntimeStateHolder) -> None:
        self._runtime = runtime

    async def confirm(self, namespace: str) -> SteeringStatus:  # noqa: ARG002 - the same everywhere
        state = self._runtime.current
        return replace(state.steering, steers=state.steers)


class WebhookPresence:
    """Keeps `RuntimeState.steering` up to date."""

    def __init__(self, client: Client, runtime: RuntimeStateHolder, namespace: str = "default") -> None:
        """`namespace` is where the webhook is probed for plans."""
        self._client = client
        self._runtime = runtime
        self._namespace = namespace
        self._expiry: asyncio.TimerHandle | None = None
        self._registered = Informer(client, MUTATING_WEBHOOKS, ListOptions(labels=WEBHOOK_LABEL_SELECTOR))

    async def confirm(self, namespace: str) -> SteeringStatus:
        """Probe the webhook now. A scheduler extender, which only the configuration names, steers as well."""
        status = await self._confirm(namespace)
        return replace(status, steers=status.steers or self._runtime.current.policy.scheduler_extender)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Probe the webhook once, and then repeatedly while the body runs. Raises `KubeError`."""
        first = await probe_webhook_if_registered(self._client, self._namespace)
        self._publish(_status(first))
        async with self._registered.running():
            try:
                async with background_task(self._probe_repeatedly(), "webhook probe"):
                    yield
            finally:
                self._stop_expiry()

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

    async def _confirm(self, namespace: str) -> SteeringStatus:
        if self._registered.is_synced and not len(self._registered):
            status = SteeringStatus()
        else:
            status = _status(await probe_webhook(self._client, namespace))
        if namespace == self._namespace:
            self._publish(status)
        return status

    def _publish(self, status: SteeringStatus) -> None:
        self._stop_expiry()
        self._expiry = asyncio.get_running_loop().call_later(_MAX_PROBE_AGE_S, self._expire)
        self._runtime.update(steering=status)

    def _expire(self) -> None:
        problem = f"the webhook has not answered for {_MAX_PROBE_AGE_S:g} s"
        self._runtime.update(steering=SteeringStatus(problem=problem))

    def _stop_expiry(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()


def _status(result: WebhookProbeResult) -> SteeringStatus:
    return SteeringStatus(bool(result.steers), bool(result.guards), result.problem)
