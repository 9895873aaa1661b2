"""The only place that talks to an API server.

    transport   bytes to a server and back: `Network`, or `InProcess` for a simulated one
    client      every verb of the API, over any transport; what fails is one of `errors`
    informer    a cache that follows the server and says how far it can be trusted
    access      which cluster, and who we are there
    wire        bytes into records

The names below are the public face. They are imported when first used, so that a command which never talks
to a cluster does not pay for the HTTP stack.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rescheduler.kube.client import Client
    from rescheduler.kube.cluster_config import BadClusterConfig, ClusterAccess
    from rescheduler.kube.errors import KubeError
    from rescheduler.kube.in_process import InProcess
    from rescheduler.kube.informer import Informer
    from rescheduler.kube.network import Network
    from rescheduler.kube.rate_limit import RateLimit
    from rescheduler.kube.resources import Resource

__all__ = [
    "BadClusterConfig",
    "Client",
    "ClusterAccess",
    "InProcess",
    "Informer",
    "KubeError",
    "Network",
    "RateLimit",
    "Resource",
]

_HOMES = {
    "BadClusterConfig": "cluster_config",
    "Client": "client",
    "ClusterAccess": "cluster_config",
    "InProcess": "in_process",
    "Informer": "informer",
    "KubeError": "errors",
    "Network": "network",
    "RateLimit": "rate_limit",
    "Resource": "resources",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
