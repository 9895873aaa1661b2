"""Who we are, and where our own objects are."""

import os
import secrets
import socket
from typing import Final

from rescheduler.config.policy import Configuration
from rescheduler.install.installations import find_installation
from rescheduler.kube.access.in_cluster import is_in_cluster
from rescheduler.kube.client import Client
from rescheduler.kube.network import Network

__all__ = ["UNINSTALLED_NAMESPACE", "home_of", "lease_key", "own_namespace", "who_we_are"]

UNINSTALLED_NAMESPACE: Final = "kube-system"
"""Where the Lease and the state are while rescheduler is not installed in the cluster.

As for kube-scheduler's Lease. Tenants can't write here: a Lease of ours in `default` could be anybody's.
"""


def who_we_are() -> str:
    """Another name for every process: who starts again on the same machine is somebody else."""
    return f"{socket.gethostname()}_{os.getpid()}_{secrets.token_hex(4)}"


def own_namespace(client: Client) -> str:
    """Inside a cluster, that of our pod; elsewhere there is none."""
    transport = client.transport
    is_inside = isinstance(transport, Network) and is_in_cluster(os.environ)
    return transport.access.namespace if is_inside and isinstance(transport, Network) else ""


async def lease_key(client: Client, configuration: Configuration, own_namespace: str = "") -> str:
    """Where the Lease is: as configured, in our own namespace inside a cluster, else where we are installed.

    Raises `AmbiguousInstallation` and `KubeError`.
    """
    terms = configuration.leader_election
    namespace = terms.resource_namespace or own_namespace
    if not namespace:
        namespace = await find_installation(client, terms.resource_name) or UNINSTALLED_NAMESPACE
    return f"{namespace}/{terms.resource_name}"


async def home_of(client: Client, configuration: Configuration) -> str:
    """The namespace of our Lease and state."""
    return (await lease_key(client, configuration, own_namespace(client))).partition("/")[0]
