"""Which cluster to talk to. The first of these that applies:

1. the kubeconfig named by `--kubeconfig` or the configuration file;
2. the files in `$KUBECONFIG`, merged;
3. the service account, inside a pod;
4. `~/.kube/config`.

A context that is asked for by name rules out 3: only files have contexts.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from rescheduler.kube.access.cluster import BadClusterConfig, ClusterAccess
from rescheduler.kube.access.in_cluster import SERVICE_ACCOUNT, in_cluster, is_in_cluster
from rescheduler.kube.access.kubeconfig import Chosen, KubeConfig
from rescheduler.kube.access.users import credentials_of, data_or_file, impersonation

__all__ = ["BadClusterConfig", "ClusterAccess", "load"]


def load(
    kubeconfig: str | Path | None = None,
    context: str | None = None,
    *,
    environment: Mapping[str, str] = os.environ,
    service_account: Path = SERVICE_ACCOUNT,
) -> ClusterAccess:
    """Raises `BadClusterConfig`. Nothing is contacted yet, and no plugin is run."""
    if kubeconfig:
        return _from_files([Path(kubeconfig).expanduser()], context)
    if named := [Path(part) for part in environment.get("KUBECONFIG", "").split(os.pathsep) if part]:
        # As kubectl does: some of several may be missing, but not all.
        if found := [file for file in named if file.exists()]:
            return _from_files(found, context)
        names = ", ".join(map(str, named))
        raise BadClusterConfig("$KUBECONFIG", f"no such file: {names}", "Correct it, or unset it.")
    if not context and is_in_cluster(environment, service_account):
        return in_cluster(environment, service_account)
    home = Path(environment.get("HOME", "~")).expanduser() / ".kube" / "config"
    if not home.exists():
        raise BadClusterConfig(
            str(home), "there is no such file, and this is no pod", "Name a kubeconfig, or set $KUBECONFIG."
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
            f'cluster "{chosen.cluster.name}" has a certificate authority and insecure-skip-tls-verify',
            "Remove one of them.",
        )
    return ClusterAccess(
        server=_server(chosen),
        credentials=credentials_of(chosen),
        source=chosen.source,
        authority=authority,
        insecure=insecure,
        tls_server_name=cluster.get("tls-server-name") or "",
        proxy=_proxy(chosen),
        headers=impersonation(chosen.user),
        namespace=chosen.namespace,
    )


def _server(chosen: Chosen) -> str:
    server = str(chosen.cluster.content.get("server") or "").rstrip("/")
    if not server:
        raise BadClusterConfig(str(chosen.cluster.file), f'cluster "{chosen.cluster.name}" has no server')
    return server if "://" in server else f"http://{server}"


def _authority(chosen: Chosen) -> bytes | None:
    authority = data_or_file(chosen.cluster, "certificate-authority")
    if isinstance(authority, bytes):
        return authority or None
    try:
        return authority.read_bytes()
    except OSError as error:
        raise BadClusterConfig(
            str(chosen.cluster.file),
            f'cluster "{chosen.cluster.name}" names the certificate authority {authority}: {error.strerror}',
        ) from error


def _proxy(chosen: Chosen) -> str:
    proxy = str(chosen.cluster.content.get("proxy-url") or "")
    if proxy and not proxy.startswith(("http://", "https://")):
        raise BadClusterConfig(
            str(chosen.cluster.file),
            f'cluster "{chosen.cluster.name}" has the proxy {proxy}',
            "Only http and https proxies are supported.",
        )
    return proxy
