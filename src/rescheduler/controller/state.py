"""The ConfigMap `rescheduler-state`: the pause switch, which people write, and the leader's status.

Each writes its own key, and only that: neither can undo what the other has written.
"""

import contextlib
from collections.abc import AsyncIterator
from typing import Final

from rescheduler.kube import errors
from rescheduler.kube.client import Client
from rescheduler.kube.informer import Informer, Selection
from rescheduler.kube.patches import merge_patch
from rescheduler.kube.resources import CONFIG_MAPS, Object
from rescheduler.model.installation import install_labels
from rescheduler.model.status import Pause, Status, UnreadableState, pause_of, status_of, written

__all__ = ["NAME", "StateFollowed", "read_state", "write_pause", "write_status"]

NAME: Final = "rescheduler-state"


class StateFollowed:
    """The switch as it is now, for a daemon."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.namespace = namespace
        self.key = f"{namespace}/{NAME}"
        selection = Selection(namespace=namespace, fields=f"metadata.name={NAME}")
        self.informer: Informer[Object] = Informer(client, CONFIG_MAPS, selection)
        self._client = client

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """The body begins when the switch is known. Raises `KubeError` if it can't be asked for."""
        # An informer that may not look would ask for ever.
        await self._client.list(CONFIG_MAPS, namespace=self.namespace, fields=f"metadata.name={NAME}")
        async with self.informer.running():
            await self.informer.synced()
            yield

    @property
    def pause(self) -> Pause:
        """What can't be read is taken for a pause: somebody wanted to say something."""
        item = self.informer.get(self.key)
        try:
            return pause_of((item or {}).get("data") or {})
        except UnreadableState as error:
            return Pause(paused=True, why=f"ConfigMap {self.key}: {error}")

    @property
    def uid(self) -> str:
        item = self.informer.get(self.key)
        return str(item["metadata"]["uid"]) if item else ""


async def read_state(client: Client, namespace: str) -> tuple[Pause, Status | None]:
    """Raises `KubeError` and `UnreadableState`."""
    try:
        item = await client.get(CONFIG_MAPS, f"{namespace}/{NAME}")
    except errors.NotFound:
        return Pause(), None
    data = item.get("data") or {}
    return pause_of(data), status_of(data)


async def write_pause(client: Client, namespace: str, pause: Pause) -> None:
    """Raises `KubeError`."""
    await _write(client, namespace, {"pause": written(pause)})


async def write_status(client: Client, namespace: str, status: Status) -> None:
    """Raises `KubeError`."""
    await _write(client, namespace, {"status": written(status)})


async def _write(client: Client, namespace: str, data: dict[str, str]) -> None:
    labels = {**install_labels(namespace), "app.kubernetes.io/managed-by": "rescheduler"}
    change = merge_patch({"metadata": {"labels": labels}, "data": data})
    try:
        await client.patch(CONFIG_MAPS, f"{namespace}/{NAME}", change)
    except errors.NotFound:
        metadata = {"namespace": namespace, "name": NAME, "labels": labels}
        item = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
        try:
            await client.create(CONFIG_MAPS, item)
        except errors.AlreadyExists:
            await client.patch(CONFIG_MAPS, f"{namespace}/{NAME}", change)
