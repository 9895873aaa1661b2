"""Who we are, and where our own objects are."""

import os
import secrets
import socket
from typing import Final

from rescheduler.config.policy import Configuration
from rescheduler.kube import errors
from rescheduler.kube.access.in_cluster import is_in_cluster
from rescheduler.kube.client import Client
from rescheduler.kube.network import Network
from rescheduler.kube.resources import LEASES

__all__ = ["home_of", "lease_key", "own_namespace", "who_we_are"]

_NAMESPACE_OF_LAST_RESORT: Final = "default"


def who_we_are() -> str:
    """Another name for every process: who starts again on the same machine is somebody else."""
    return f"{socket.gethostname()}_{os.getpid()}_{secrets.token_hex(4)}"


def own_namespace(client: Client) -> str:
    """Inside a cluster, that of our pod; elsewhere there is none."""
    transport = client.transport
    is_inside = isinstance(transport, Network) and is_in_cluster(os.environ)
    return transport.access.namespace if is_inside and isinstance(transport, Network) else ""


async def lease_key(client: Client, configuration: Configuration, own_namespace: str = "") -> str:
    """Where the Lease is: as configured, in our own namespace inside a cluster, else where there is one.

    Whoever runs a command does not know in which namespace the daemon was installed. There may be several
    of that name: then the one that somebody holds.
    """
    terms = configuration.leader_election
    namespace = terms.resource_namespace or own_namespace
    if not namespace:
        try:
            found = (await client.list(LEASES, fields=f"metadata.name={terms.resource_name}")).items
        except errors.Forbidden:
            found = []
        found.sort(key=lambda item: (not item["spec"].get("holderIdentity"), item["metadata"]["namespace"]))
        namespace = found[0]["metadata"]["namespace"] if found else _NAMESPACE_OF_LAST_RESORT
    return f"{namespace}/{terms.resource_name}"


async def home_of(client: Client, configuration: Configuration) -> str:
    """The namespace of our Lease and state, as far as that can be found out."""
    return (await lease_key(client, configuration, own_namespace(client))).partition("/")[0]
