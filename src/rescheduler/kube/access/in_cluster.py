"""Inside a pod: the service account that Kubernetes mounts, with a token that it renews."""

from collections.abc import Mapping
from pathlib import Path

from rescheduler.kube.access.cluster import BadClusterConfig, ClusterAccess
from rescheduler.kube.access.credentials import Stored

__all__ = ["SERVICE_ACCOUNT", "in_cluster", "is_in_cluster"]

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_HOST, _PORT = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"


def is_in_cluster(environment: Mapping[str, str], mount: Path = SERVICE_ACCOUNT) -> bool:
    return bool(environment.get(_HOST) and environment.get(_PORT)) and (mount / "token").is_file()


def in_cluster(environment: Mapping[str, str], mount: Path = SERVICE_ACCOUNT) -> ClusterAccess:
    host, port = environment[_HOST], environment[_PORT]
    try:
        authority = (mount / "ca.crt").read_bytes()
    except OSError as error:
        raise BadClusterConfig(
            str(mount), f"no certificate authority is mounted: {error.strerror}", "Mount the service account."
        ) from error
    own = mount / "namespace"
    return ClusterAccess(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        credentials=Stored(token_file=mount / "token"),
        source="the service account of this pod",
        authority=authority,
        namespace=own.read_text().strip() if own.is_file() else "default",
    )
