"""Choose the cluster to talk to. The first of these that applies:

1. the kubeconfig named by `--kubeconfig` or the configuration file
2. the files in `$KUBECONFIG`, merged
3. inside a pod, the service account that Kubernetes mounts
4. `~/.kube/config`

If a context is given, 3 does not apply: only files have contexts.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from rescheduler.config.policy_blocks import is_confidential
from rescheduler.kube.access.cluster_access import BadClusterConfig, ClusterAccess, StoredCredentials
from rescheduler.kube.access.kubeconfig import (
    KubeConfig,
    ResolvedContext,
    credentials_of,
    data_or_file,
    has_credentials,
    impersonation,
)

__all__ = [
    "SERVICE_ACCOUNT",
    "BadClusterConfig",
    "ClusterAccess",
    "in_cluster_access",
    "is_in_cluster",
    "load_cluster_access",
]

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_HOST, _PORT = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"


def is_in_cluster(environment: Mapping[str, str], mount: Path = SERVICE_ACCOUNT) -> bool:
    return bool(environment.get(_HOST) and environment.get(_PORT)) and (mount / "token").is_file()


def in_cluster_access(environment: Mapping[str, str], mount: Path = SERVICE_ACCOUNT) -> ClusterAccess:
    host, port = environment[_HOST], environment[_PORT]
    try:
        authority = (mount / "ca.crt").read_bytes()
    except OSError as error:
        raise BadClusterConfig(
            str(mount), f"no certificate authority is mounted: {error.strerror}", "Mount the service account."
        ) from error
    namespace_file = mount / "namespace"
    return ClusterAccess(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        credentials=StoredCredentials(token_file=mount / "token"),
        source="the service account of this pod",
        authority=authority,
        namespace=namespace_file.read_text().strip() if namespace_file.is_file() else "default",
    )


def load_cluster_access(
    kubeconfig: str | Path | None = None,
    context: str | None = None,
    *,
    environment: Mapping[str, str] = os.environ,
    service_account: Path = SERVICE_ACCOUNT,
) -> ClusterAccess:
    """Load the configuration; raise `BadClusterConfig`. This contacts no server and runs no plugin."""
    if kubeconfig:
        return _from_files([Path(kubeconfig).expanduser()], context)
    if named := [Path(part) for part in environment.get("KUBECONFIG", "").split(os.pathsep) if part]:
        # As in kubectl: some files may be missing, but not all.
        if existing := [file for file in named if file.exists()]:
            return _from_files(existing, context)
        names = ", ".join(map(str, named))
        raise BadClusterConfig("$KUBECONFIG", f"no such file: {names}", "Fix or unset it.")
    if not context and is_in_cluster(environment, service_account):
        return in_cluster_access(environment, service_account)
    home = Path(environment.get("HOME", "~")).expanduser() / ".kube" / "config"
    if not home.exists():
        raise BadClusterConfig(
            str(home), "no such file, and this is not a pod", "Use --kubeconfig or set $KUBECONFIG."
        )
    return _from_files([home], context)


def _from_files(files: list[Path], context: str | None) -> ClusterAccess:
    chosen = KubeConfig.read(files).choose(context)
    cluster = chosen.cluster.content
    authority = _authority(chosen)
    insecure = bool(cluster.get("insecure-skip-tls-verify"))
    if insecure and authority:
        raise BadClusterConfig(
            str(chosen.cluster.file),
            f'cluster "{chosen.cluster.name}" has both a certificate authority and insecure-skip-tls-verify',
            "Remove one of them.",
        )
    proxy = _proxy(chosen)
    return ClusterAccess(
        server=_server(chosen, proxy, has_tls=bool(authority) or insecure),
        credentials=credentials_of(chosen),
        source=chosen.source,
        authority=authority,
        insecure=insecure,
        tls_server_name=cluster.get("tls-server-name") or "",
        proxy=proxy,
        headers=impersonation(chosen.user),
        namespace=chosen.namespace,
    )


def _server(chosen: ResolvedContext, proxy: str, *, has_tls: bool) -> str:
    """Return the server's URL; raise `BadClusterConfig` if credentials would be sent unencrypted.

    For a server without a scheme, kubectl uses HTTPS only if the kubeconfig has TLS settings; otherwise it
    sends the token in clear text. Here, credentials imply HTTPS, too.
    """
    cluster = chosen.cluster
    where, server = str(cluster.file), str(cluster.content.get("server") or "")
    if not server:
        raise BadClusterConfig(where, f'cluster "{cluster.name}" has no server')
    with_credentials = has_credentials(chosen.user)
    if "://" not in server:
        server = f"{'https' if has_tls or with_credentials else 'http'}://{server}"
    scheme, rest = server.split("://", 1)
    server = f"{scheme.lower()}://{rest.rstrip('/')}"
    _check_url(where, cluster.name, server)
    if with_credentials and not is_confidential(server, proxy):
        through = f" through the proxy {proxy}" if proxy else ""
        raise BadClusterConfig(
            where,
            f'cluster "{cluster.name}" has the server {server}{through}: the credentials of user '
            f'"{chosen.user.name}" would be sent unencrypted',
            "Use https:// in the cluster's server.",
        )
    return server


def _check_url(where: str, name: str, server: str) -> None:
    try:
        parts = urlsplit(server)
        is_usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        parts, is_usable = None, False
    if parts is None or not is_usable:
        raise BadClusterConfig(
            where,
            f'cluster "{name}" has an invalid server {server}',
            "It must be https://HOST[:PORT][/PATH].",
        )
    if parts.username or parts.password:
        raise BadClusterConfig(
            where, f'cluster "{name}" has a user or password in its server', "Move them to a user."
        )


def _authority(chosen: ResolvedContext) -> bytes | None:
    authority = data_or_file(chosen.cluster, "certificate-authority")
    if isinstance(authority, bytes):
        return authority or None
    try:
        return authority.read_bytes()
    except OSError as error:
        raise BadClusterConfig(
            str(chosen.cluster.file),
            f"can't read {authority}, the certificate authority of cluster "
            f'"{chosen.cluster.name}": {error.strerror}',
        ) from error


def _proxy(chosen: ResolvedContext) -> str:
    proxy = str(chosen.cluster.content.get("proxy-url") or "")
    if proxy and not proxy.startswith(("http://", "https://")):
        raise BadClusterConfig(
            str(chosen.cluster.file),
            f'cluster "{chosen.cluster.name}" has the unsupported proxy {proxy}',
            "Use an http or https proxy.",
        )
    return proxy
