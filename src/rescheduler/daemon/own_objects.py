"""The ConfigMap `rescheduler-state`, and the identity of this process.

The ConfigMap has the pause switch, which you write, and the status, which the leader writes. Each has its own
key, so that neither write can undo the other.
"""

import contextlib
import os
import secrets
import socket
from collections.abc import AsyncIterator
from typing import Final

from rescheduler.api.daemon_status import (
    DRY_RUN_MOVES_KEY,
    STATE_CONFIG_MAP,
    DaemonStatus,
    Pause,
    UnreadableState,
    decode_pause,
    decode_status,
    encode_state,
)
from rescheduler.api.well_known_names import DRY_RUN_LEASE_SUFFIX, install_labels
from rescheduler.config.policy import Configuration
from rescheduler.install.cluster_installation import find_installation
from rescheduler.install.install_options import DAEMON
from rescheduler.kube import errors
from rescheduler.kube.access.cluster_config import is_in_cluster
from rescheduler.kube.api_resources import CONFIG_MAPS, DEPLOYMENTS, LEASES, Object, merge_patch
from rescheduler.kube.client import Client
from rescheduler.kube.http_transport import HttpTransport
from rescheduler.kube.informer import Informer, ListOptions
from rescheduler.kube.leader_election import lease_record_of

__all__ = [
    "STATE_CONFIG_MAP",
    "UNINSTALLED_NAMESPACE",
    "NoDaemonError",
    "WatchedState",
    "lease_key",
    "may_have_daemon",
    "new_identity",
    "own_namespace",
    "read_state",
    "require_daemon",
    "state_namespace",
    "write_pause",
    "write_status",
]


class WatchedState:
    """The current content of the ConfigMap `rescheduler-state`, for a daemon."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.namespace = namespace
        self.key = f"{namespace}/{STATE_CONFIG_MAP}"
        selection = ListOptions(namespace=namespace, fields=f"metadata.name={STATE_CONFIG_MAP}")
        self.informer: Informer[Object] = Informer(client, CONFIG_MAPS, selection)
        self._client = client

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the informer; the body starts when the pause switch is known.

        Raises `KubeError` if it can't be read.
        """
        # An informer that lacks the permission would retry forever.
        await self._client.list(
            CONFIG_MAPS, namespace=self.namespace, fields=f"metadata.name={STATE_CONFIG_MAP}"
        )
        async with self.informer.running():
            await self.informer.synced()
            yield

    @property
    def pause(self) -> Pause:
        """Return the pause. An unreadable state counts as one, because a user meant to write one."""
        item = self.informer.get(self.key)
        try:
            return decode_pause((item or {}).get("data") or {})
        except UnreadableState as error:
            return Pause(paused=True, why=f"ConfigMap {self.key}: {error}")

    @property
    def dry_run_moves(self) -> str:
        item = self.informer.get(self.key)
        return str(((item or {}).get("data") or {}).get(DRY_RUN_MOVES_KEY) or "")

    @property
    def uid(self) -> str:
        item = self.informer.get(self.key)
        return str(item["metadata"]["uid"]) if item else ""


async def read_state(client: Client, namespace: str) -> tuple[Pause, DaemonStatus | None]:
    """Read the state; raise `KubeError` and `UnreadableState`."""
    try:
        item = await client.get(CONFIG_MAPS, f"{namespace}/{STATE_CONFIG_MAP}")
    except errors.NotFound:
        return Pause(), None
    data = item.get("data") or {}
    return decode_pause(data), decode_status(data)


class NoDaemonError(Exception):
    """No daemon reads a pause in this namespace: none is installed, and none runs."""


async def require_daemon(client: Client, configuration: Configuration, namespace: str) -> None:
    """Raise `NoDaemonError` if a daemon that is installed later would not see a pause in `namespace`."""
    terms = configuration.leader_election
    if namespace != UNINSTALLED_NAMESPACE or terms.resource_namespace or own_namespace(client):
        return
    if await find_installation(client, terms.resource_name) is not None:
        return  # in that very namespace
    if await _may_hold_lease(client, configuration, namespace):
        return
    raise NoDaemonError(
        f"rescheduler is not installed in this cluster, and no daemon holds the Lease {namespace}/"
        f"{terms.resource_name}: nothing "
        f"was changed. For a daemon that you start outside the cluster, use `rescheduler pause` and `resume` "
        f"with -n {namespace}"
    )


async def may_have_daemon(client: Client, configuration: Configuration, namespace: str) -> bool:
    """Return False if a daemon is neither installed in the namespace nor holds a Lease there.

    True if the user may not know. Raises `KubeError`.
    """
    try:
        if await client.get_or_none(DEPLOYMENTS, f"{namespace}/{DAEMON}") is not None:
            return True
    except errors.Forbidden:
        return True
    return await _may_hold_lease(client, configuration, namespace)


async def _may_hold_lease(client: Client, configuration: Configuration, namespace: str) -> bool:
    for suffix in ("", DRY_RUN_LEASE_SUFFIX):
        try:
            key = f"{namespace}/{configuration.leader_election.resource_name}{suffix}"
            item = await client.get_or_none(LEASES, key)
        except errors.Forbidden:
            return True
        if lease_record_of((item or {}).get("spec") or {}).holder:
            return True
    return False


async def write_pause(client: Client, namespace: str, pause: Pause) -> None:
    """Write the pause; raise `KubeError`."""
    await _write_state_key(client, namespace, {"pause": encode_state(pause)})


async def write_status(client: Client, namespace: str, status: DaemonStatus, dry_run_moves: str = "") -> None:
    """Write the status; raise `KubeError`."""
    await _write_state_key(
        client, namespace, {"status": encode_state(status), DRY_RUN_MOVES_KEY: dry_run_moves}
    )


async def _write_state_key(client: Client, namespace: str, data: dict[str, str]) -> None:
    labels = {**install_labels(namespace), "app.kubernetes.io/managed-by": "rescheduler"}
    change = merge_patch({"metadata": {"labels": labels}, "data": data})
    try:
        await client.patch(CONFIG_MAPS, f"{namespace}/{STATE_CONFIG_MAP}", change)
    except errors.NotFound:
        metadata = {"namespace": namespace, "name": STATE_CONFIG_MAP, "labels": labels}
        item = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
        try:
            await client.create(CONFIG_MAPS, item)
        except errors.AlreadyExists:
            await client.patch(CONFIG_MAPS, f"{namespace}/{STATE_CONFIG_MAP}", change)


UNINSTALLED_NAMESPACE: Final = "kube-system"
"""The namespace of the Lease and the state while rescheduler is not installed in the cluster.

kube-scheduler's Lease is there, too. Tenants can't write there: in `default`, any user could write a Lease of
ours.
"""


def new_identity() -> str:
    """Return a name that is unique to this process, also after a restart on the same machine."""
    return f"{socket.gethostname()}_{os.getpid()}_{secrets.token_hex(4)}"


def own_namespace(client: Client) -> str:
    """Return the namespace of our pod; empty outside a cluster."""
    transport = client.transport
    is_inside = isinstance(transport, HttpTransport) and is_in_cluster(os.environ)
    return transport.access.namespace if is_inside and isinstance(transport, HttpTransport) else ""


async def lease_key(client: Client, configuration: Configuration, own_namespace: str = "") -> str:
    """Return the key of the Lease: as configured, in our own namespace inside a cluster, else where we are
    installed.

    Raises `AmbiguousInstallation` and `KubeError`.
    """
    terms = configuration.leader_election
    namespace = terms.resource_namespace or own_namespace
    if not namespace:
        namespace = await find_installation(client, terms.resource_name) or UNINSTALLED_NAMESPACE
    return f"{namespace}/{terms.resource_name}"


async def state_namespace(client: Client, configuration: Configuration) -> str:
    """Return the namespace of our Lease and state."""
    return (await lease_key(client, configuration, own_namespace(client))).partition("/")[0]
