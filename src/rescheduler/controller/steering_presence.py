"""Whether something tells replacements of evicted pods where to go, at any moment.

Either API servers know our webhook: its registration is followed, so that one that is installed or removed
later counts at once. Or the scheduler asks our extender: nothing in the cluster says so, hence the
configuration does.
"""

import contextlib
from collections.abc import AsyncIterator

from rescheduler.kube.client import Client
from rescheduler.kube.informer import Informer, Selection
from rescheduler.kube.resources import MUTATING_WEBHOOKS
from rescheduler.sources.steering import OURS, is_steered

__all__ = ["SteeringPresence"]


class SteeringPresence:
    def __init__(self, client: Client, *, by_extender: bool = False) -> None:
        """`by_extender`: whoever configured the scheduler says that it asks our extender."""
        self._client = client
        self._by_extender = by_extender
        self._at_first = False
        self._registered = Informer(client, MUTATING_WEBHOOKS, Selection(labels=OURS))

    def is_steered(self) -> bool:
        """As last seen. Who may not look counts as unsteered: nothing is evicted on a guess."""
        if self._by_extender:
            return True
        return len(self._registered) > 0 if self._registered.is_synced else self._at_first

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Follows while the body runs; the first look has been made by then. Raises `KubeError`."""
        self._at_first = bool(await is_steered(self._client))
        async with self._registered.running():
            yield
