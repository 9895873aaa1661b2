"""All that it takes to talk to one cluster, whatever file or mount it came from."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from rescheduler.kube.access.credentials import Credentials

__all__ = ["BadClusterConfig", "ClusterAccess"]


class BadClusterConfig(Exception):  # noqa: N818 - named after what was found
    """The kubeconfig or the pod's service account can't be used: where, why, and what to do."""

    def __init__(self, where: str, why: str, remedy: str = "") -> None:
        super().__init__(where, why, remedy)
        self.where = where
        self.why = why
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.where}: {self.why}." + (f" {self.remedy}" if self.remedy else "")


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    server: str
    """With scheme, without a slash at the end; a path of its own is kept (clusters behind a gateway)."""
    credentials: Credentials
    source: str
    """Where this was found, for people: `context prod of /home/me/.kube/config`."""
    authority: bytes | None = None
    """PEM of the certificates to trust; None for those of the system."""
    insecure: bool = False
    """Trust any certificate: only if the kubeconfig says so."""
    tls_server_name: str = ""
    """The name to expect in the server's certificate, if not the host of `server`."""
    proxy: str = ""
    headers: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict)
    """On every request: whom to act as (impersonation)."""
    namespace: str = "default"
    """For names that come without one."""
