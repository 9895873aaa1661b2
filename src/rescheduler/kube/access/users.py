"""The `user` of a kubeconfig context: how it proves who it is, and whom it acts as.

Of several ways in one entry kubectl's order counts: token, password, OpenID Connect, certificate, and
an exec plugin only if there is nothing else.
"""

import base64
import binascii
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import yaml

from rescheduler.kube.access.cluster import BadClusterConfig
from rescheduler.kube.access.credentials import Credentials, Stored, basic, bearer
from rescheduler.kube.access.exec_plugin import ExecPlugin, Plugin
from rescheduler.kube.access.kubeconfig import Chosen, Entry
from rescheduler.kube.access.oidc import OpenIdConnect, Tokens
from rescheduler.model.bounded_yaml import load_yaml
from rescheduler.model.confidential_urls import is_confidential

__all__ = ["credentials_of", "data_or_file", "has_credentials", "impersonation"]

_CREDENTIALS = (
    *("token", "tokenFile", "username", "password", "auth-provider", "exec"),
    *("client-certificate", "client-certificate-data", "client-key", "client-key-data"),
)


def has_credentials(user: Entry) -> bool:
    """Whether requests of this user carry anything that others must not see."""
    return any(user.content.get(key) for key in _CREDENTIALS)


def credentials_of(chosen: Chosen) -> Credentials:
    user = chosen.user
    settings = user.content
    chain, key = data_or_file(user, "client-certificate"), data_or_file(user, "client-key")
    if bool(chain) != bool(key):
        raise BadClusterConfig(
            str(user.file), f'user "{user.name}" has a client certificate or its key, not both'
        )
    if token_file := user.path("tokenFile"):
        return Stored(token_file=token_file, chain=chain, key=key)
    if token := settings.get("token"):
        return Stored(authorization=bearer(token), chain=chain, key=key)
    if settings.get("username") or settings.get("password"):
        password = basic(settings.get("username", ""), settings.get("password", ""))
        return Stored(authorization=password, chain=chain, key=key)
    if settings.get("auth-provider"):
        return _open_id_connect(user)
    if settings.get("exec") and not chain:
        return ExecPlugin(_plugin(chosen))
    return Stored(chain=chain, key=key)


def impersonation(user: Entry) -> dict[str, str | tuple[str, ...]]:
    """Headers that make the server treat us as someone else.

    Leaving them out would grant us more than the kubeconfig means to.
    """
    settings = user.content
    headers: dict[str, str | tuple[str, ...]] = {}
    if settings.get("as"):
        headers["Impersonate-User"] = settings["as"]
    if settings.get("as-uid"):
        headers["Impersonate-Uid"] = settings["as-uid"]
    if settings.get("as-groups"):
        headers["Impersonate-Group"] = tuple(settings["as-groups"])
    for name, values in (settings.get("as-user-extra") or {}).items():
        headers[f"Impersonate-Extra-{name}"] = tuple(values)
    return headers


def data_or_file(entry: Entry, key: str) -> bytes | Path:
    """What `key-data` holds, else the file that `key` names, else nothing."""
    if data := entry.content.get(f"{key}-data"):
        try:
            return base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError) as error:
            raise BadClusterConfig(
                str(entry.file), f'"{key}-data" of "{entry.name}" is not base64: {error}'
            ) from error
    return entry.path(key) or b""


def _plugin(chosen: Chosen) -> Plugin:
    user = chosen.user
    spec: dict[str, Any] = user.content["exec"]
    command = str(spec.get("command") or "")
    if not command:
        raise BadClusterConfig(str(user.file), f'user "{user.name}" has an exec section without a command')
    if os.sep in command:
        command = str(user.file.parent / command)
    return Plugin(
        command=command,
        args=tuple(map(str, spec.get("args") or ())),
        env={item["name"]: str(item["value"]) for item in spec.get("env") or ()},
        api_version=spec.get("apiVersion") or "client.authentication.k8s.io/v1",
        interactive=spec.get("interactiveMode") or "IfAvailable",
        install_hint=(spec.get("installHint") or "").strip(),
        cluster=_cluster_info(chosen.cluster) if spec.get("provideClusterInfo") else None,
    )


def _cluster_info(cluster: Entry) -> dict[str, Any]:
    authority = data_or_file(cluster, "certificate-authority")
    pem = authority.read_bytes() if isinstance(authority, Path) else authority
    info = {name: cluster.content[name] for name in _TOLD if name in cluster.content}
    extensions = cluster.content.get("extensions") or ()
    config = next((e.get("extension") for e in extensions if e.get("name") == _EXEC_EXTENSION), None)
    return info | {"certificate-authority-data": base64.b64encode(pem).decode(), "config": config}


_TOLD = ("server", "tls-server-name", "insecure-skip-tls-verify", "proxy-url")
_EXEC_EXTENSION = "client.authentication.k8s.io/exec"


def _open_id_connect(user: Entry) -> OpenIdConnect:
    provider = user.content["auth-provider"]
    settings = provider.get("config") or {}
    if provider.get("name") != "oidc":
        raise BadClusterConfig(
            str(user.file),
            f'user "{user.name}" has the auth provider "{provider.get("name")}", which Kubernetes dropped',
            "Use the exec plugin that your cloud provider offers in its place.",
        )
    if not settings.get("idp-issuer-url"):
        raise BadClusterConfig(
            str(user.file), f'user "{user.name}" has an oidc provider without idp-issuer-url'
        )
    if not is_confidential(settings["idp-issuer-url"]):
        raise BadClusterConfig(
            str(user.file),
            f'user "{user.name}" has the oidc issuer {settings["idp-issuer-url"]}: '
            "refresh tokens would be sent unencrypted",
            "Use https:// in idp-issuer-url.",
        )
    authority = data_or_file(Entry(user.name, settings, user.file), "idp-certificate-authority")
    pem = authority.read_bytes() if isinstance(authority, Path) else authority
    return OpenIdConnect(settings, authority=pem or None, save=lambda tokens: _save(user, tokens))


def _save(user: Entry, tokens: Tokens) -> None:
    """Writes renewed tokens into the file they came from, at once or not at all."""
    content = load_yaml(user.file.read_text())
    for item in content["users"]:
        if item["name"] == user.name:
            renewed = {"id-token": tokens.id_token, "refresh-token": tokens.refresh_token}
            item["user"]["auth-provider"]["config"].update(renewed)
    # Through links: replacing a link by a file would part it from what it points to.
    target = user.file.resolve()
    with tempfile.NamedTemporaryFile("w", dir=target.parent, delete=False) as draft:
        yaml.safe_dump(content, draft, default_flow_style=False)
    shutil.copymode(target, draft.name)
    Path(draft.name).replace(target)
