"""Whether our webhook answers API servers: what is evicted in the belief that it does, depends on it.

It counts only as long as it was seen answering recently (`sources.webhook_probe`), not for being registered.
Before an eviction that depends on it, `confirm` finds out anew.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Final, Protocol

from rescheduler.kube.client import Client
from rescheduler.kube.informer import Informer, Selection
from rescheduler.kube.resources import MUTATING_WEBHOOKS
from rescheduler.model.webhook_registration import WebhookAnswers
from rescheduler.sources.webhook_probe import NOT_REGISTERED, REGISTRATION, probe_webhook, webhook_answers

__all__ = ["Presence", "SaidPresence", "WebhookPresence"]

_RECENT_S: Final = 60.0
"""How long an answer counts for plans."""
_PROBE_EVERY_S: Final = 30.0


class Presence(Protocol):
    @property
    def steers(self) -> bool:
        """Whether something tells replacements of evicted pods where to go."""
        ...

    @property
    def guards(self) -> bool:
        """Whether something keeps ReplicaSets from creating a pod while they adopt a copy."""
        ...

    @property
    def problem(self) -> str:
        """Why one of them is missing, in words."""
        ...

    async def confirm(self, namespace: str) -> WebhookAnswers:
        """As it is now, for new pods of that namespace."""
        ...


@dataclass(slots=True)
class SaidPresence:
    """Where the answer is known, and does not change."""

    steers: bool = False
    guards: bool = False
    problem: str = NOT_REGISTERED

    async def confirm(self, namespace: str) -> WebhookAnswers:  # noqa: ARG002 - the same everywhere
        return WebhookAnswers(self.steers, self.guards, self.problem)


class WebhookPresence:
    def __init__(
        self, client: Client, namespace: str = "default", *, is_extended: Callable[[], bool] = lambda: False
    ) -> None:
        """`namespace` is where it is probed for plans. `is_extended`: those who configured the scheduler say
        that it asks our extender, which steers as well; nothing in the cluster tells."""
        self._client = client
        self._namespace = namespace
        self._is_extended = is_extended
        self._answered: tuple[float, WebhookAnswers] | None = None
        """In that namespace, with the time by the event loop's clock."""
        self._registered = Informer(client, MUTATING_WEBHOOKS, Selection(labels=REGISTRATION))

    @property
    def steers(self) -> bool:
        return self._is_extended() or bool(self._recent().steers)

    @property
    def guards(self) -> bool:
        return bool(self._recent().guards)

    @property
    def problem(self) -> str:
        return self._recent().problem

    async def confirm(self, namespace: str) -> WebhookAnswers:
        found = await self._confirm(namespace)
        return found._replace(steers=True) if self._is_extended() else found

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Probes it again and again while the body runs; once before. Raises `KubeError`."""
        first = await webhook_answers(self._client, self._namespace)
        self._answered = (_loop_s(), first)
        async with self._registered.running():
            task = asyncio.create_task(self._probe_on(), name="webhook probe")
            try:
                yield
            finally:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task

    async def _probe_on(self) -> None:
        changed = asyncio.Event()
        unsubscribe = self._registered.subscribe(lambda _old, _new: changed.set())
        try:
            while True:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_PROBE_EVERY_S):
                        await changed.wait()
                changed.clear()
                await self._confirm(self._namespace)
        finally:
            unsubscribe()

    async def _confirm(self, namespace: str) -> WebhookAnswers:
        if self._registered.is_synced and not len(self._registered):
            found = WebhookAnswers(False, False, NOT_REGISTERED)
        else:
            found = await probe_webhook(self._client, namespace)
        if namespace == self._namespace:
            self._answered = (_loop_s(), found)
        return found

    def _recent(self) -> WebhookAnswers:
        if self._answered is not None and _loop_s() - self._answered[0] <= _RECENT_S:
            return self._answered[1]
        return WebhookAnswers(problem=f"the webhook was not seen answering for {_RECENT_S:g} s")


def _loop_s() -> float:
    return asyncio.get_running_loop().time()
