"""Read and merge kubeconfig files, and resolve a context, by kubectl's rules.

If two files have an entry with the same name, the first file wins; the same applies to `current-context`.
Paths inside a file are relative to that file. If a user has several kinds of credentials, the order is
kubectl's: token, password, OpenID Connect, certificate, and an exec plugin only if there is nothing else.
"""

import base64
import binascii
import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from kubevalues.bounded_yaml import load_yaml
from rescheduler.config.policy_blocks import is_confidential
from rescheduler.kube.access.cluster_access import (
    BadClusterConfig,
    CredentialProvider,
    StoredCredentials,
    basic_authorization,
    bearer_authorization,
)
from rescheduler.kube.access.external_credentials import (
    ExecConfig,
    ExecCredentials,
    OidcCredentials,
    OidcTokens,
)

__all__ = [
    "KubeConfig",
    "KubeConfigEntry",
    "ResolvedContext",
    "credentials_of",
    "data_or_file",
    "has_credentials",
    "impersonation",
]


@dataclass(frozen=True, slots=True)
class KubeConfigEntry:
    """A named cluster, user or context, and its file."""

    name: str
    content: Mapping[str, Any]
    file: Path

    def path(self, key: str) -> Path | None:
        """Return the path in field `key`."""
        value = self.content.get(key)
        return self.file.parent / Path(value).expanduser() if value else None


@dataclass(frozen=True, slots=True)
class ResolvedContext:
    """A context with its cluster and user."""

    context: KubeConfigEntry
    cluster: KubeConfigEntry
    user: KubeConfigEntry

    @property
    def namespace(self) -> str:
        return self.context.content.get("namespace") or "default"

    @property
    def source(self) -> str:
        return f"context {self.context.name} of {self.context.file}"


@dataclass(slots=True)
class KubeConfig:
    """The merged content of kubeconfig files."""

    files: list[Path] = field(default_factory=list)
    current: str = ""
    contexts: dict[str, KubeConfigEntry] = field(default_factory=dict)
    clusters: dict[str, KubeConfigEntry] = field(default_factory=dict)
    users: dict[str, KubeConfigEntry] = field(default_factory=dict)

    @classmethod
    def read(cls, files: Iterable[Path]) -> "KubeConfig":
        """Read and merge `files`, which must all exist."""
        merged = cls()
        for file in files:
            merged._add(file)
        return merged

    def choose(self, context: str | None = None) -> ResolvedContext:
        name = context or self.current
        where = ", ".join(map(str, self.files))
        if not name:
            raise BadClusterConfig(where, "no current-context is set", self._known_contexts())
        if name not in self.contexts:
            raise BadClusterConfig(where, f'context "{name}" does not exist', self._known_contexts())
        entry = self.contexts[name]
        cluster = self.clusters.get(str(entry.content.get("cluster")))
        if cluster is None:
            raise BadClusterConfig(
                str(entry.file),
                f'context "{name}" names the cluster "{entry.content.get("cluster")}", which does not exist',
            )
        user = entry.content.get("user")
        if user and user not in self.users:
            raise BadClusterConfig(
                str(entry.file), f'context "{name}" names the user "{user}", which does not exist'
            )
        return ResolvedContext(
            entry, cluster, self.users[user] if user else KubeConfigEntry("", {}, entry.file)
        )

    def _known_contexts(self) -> str:
        return f"Known contexts: {', '.join(sorted(self.contexts)) or 'none'}."

    def _add(self, file: Path) -> None:
        content = _parse(file)
        self.files.append(file)
        self.current = self.current or content.get("current-context") or ""
        for plural, section in (
            ("contexts", self.contexts),
            ("clusters", self.clusters),
            ("users", self.users),
        ):
            for position, item in enumerate(content.get(plural) or ()):
                entry = _entry(file, plural, position, item)
                section.setdefault(entry.name, entry)


def _parse(file: Path) -> dict[str, Any]:
    try:
        content = load_yaml(file.read_text())
    except OSError as error:
        raise BadClusterConfig(str(file), f"can't be read: {error.strerror}", "Check the path.") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        why = " ".join(str(error).replace('in "<unicode string>",', "at").split()).rstrip(" ^")
        raise BadClusterConfig(str(file), f"invalid YAML: {why}") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise BadClusterConfig(str(file), "not a kubeconfig: it must be a mapping")
    return content


def _entry(file: Path, plural: str, position: int, item: Any) -> KubeConfigEntry:
    inner = plural.removesuffix("s")
    if not isinstance(item, dict) or not item.get("name") or not isinstance(item.get(inner) or {}, dict):
        raise BadClusterConfig(str(file), f'{plural}[{position}] must have a "name" and a mapping "{inner}"')
    return KubeConfigEntry(str(item["name"]), item.get(inner) or {}, file)


_CREDENTIAL_FIELDS = (
    *("token", "tokenFile", "username", "password", "auth-provider", "exec"),
    *("client-certificate", "client-certificate-data", "client-key", "client-key-data"),
)


def has_credentials(user: KubeConfigEntry) -> bool:
    """Return whether requests of this user carry secrets."""
    return any(user.content.get(key) for key in _CREDENTIAL_FIELDS)


def credentials_of(chosen: ResolvedContext) -> CredentialProvider:
    user = chosen.user
    settings = user.content
    chain, key = data_or_file(user, "client-certificate"), data_or_file(user, "client-key")
    if bool(chain) != bool(key):
        raise BadClusterConfig(
            str(user.file), f'user "{user.name}" must have both a client certificate and its key'
        )
    if token_file := user.path("tokenFile"):
        return StoredCredentials(token_file=token_file, chain=chain, key=key)
    if token := settings.get("token"):
        return StoredCredentials(authorization=bearer_authorization(token), chain=chain, key=key)
    if settings.get("username") or settings.get("password"):
        password = basic_authorization(settings.get("username", ""), settings.get("password", ""))
        return StoredCredentials(authorization=password, chain=chain, key=key)
    if settings.get("auth-provider"):
        return _oidc_credentials(user)
    if settings.get("exec") and not chain:
        return ExecCredentials(_exec_config(chosen))
    return StoredCredentials(chain=chain, key=key)


def impersonation(user: KubeConfigEntry) -> dict[str, str | tuple[str, ...]]:
    """Return the headers with which the server treats us as another user.

    Without them we would have more permissions than the kubeconfig intends.
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


def data_or_file(entry: KubeConfigEntry, key: str) -> bytes | Path:
    """Return the content of `key-data`, or else the path in `key`, or else nothing."""
    if data := entry.content.get(f"{key}-data"):
        try:
            return base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError) as error:
            raise BadClusterConfig(
                str(entry.file), f'"{key}-data" of "{entry.name}" is not base64: {error}'
            ) from error
    return entry.path(key) or b""


def _exec_config(chosen: ResolvedContext) -> ExecConfig:
    user = chosen.user
    spec: dict[str, Any] = user.content["exec"]
    command = str(spec.get("command") or "")
    if not command:
        raise BadClusterConfig(str(user.file), f'user "{user.name}" has an exec section without a command')
    if os.sep in command:
        command = str(user.file.parent / command)
    return ExecConfig(
        command=command,
        args=tuple(map(str, spec.get("args") or ())),
        env={item["name"]: str(item["value"]) for item in spec.get("env") or ()},
        api_version=spec.get("apiVersion") or "client.authentication.k8s.io/v1",
        interactive=spec.get("interactiveMode") or "IfAvailable",
        install_hint=(spec.get("installHint") or "").strip(),
        cluster=_cluster_info(chosen.cluster) if spec.get("provideClusterInfo") else None,
    )


def _cluster_info(cluster: KubeConfigEntry) -> dict[str, Any]:
    authority = data_or_file(cluster, "certificate-authority")
    pem = authority.read_bytes() if isinstance(authority, Path) else authority
    info = {name: cluster.content[name] for name in _CLUSTER_INFO_FIELDS if name in cluster.content}
    extensions = cluster.content.get("extensions") or ()
    config = next((e.get("extension") for e in extensions if e.get("name") == _EXEC_EXTENSION), None)
    return info | {"certificate-authority-data": base64.b64encode(pem).decode(), "config": config}


_CLUSTER_INFO_FIELDS = ("server", "tls-server-name", "insecure-skip-tls-verify", "proxy-url")
_EXEC_EXTENSION = "client.authentication.k8s.io/exec"


def _oidc_credentials(user: KubeConfigEntry) -> OidcCredentials:
    provider = user.content["auth-provider"]
    settings = provider.get("config") or {}
    if provider.get("name") != "oidc":
        raise BadClusterConfig(
            str(user.file),
            f'user "{user.name}" has the auth provider "{provider.get("name")}", which Kubernetes removed',
            "Use the exec plugin of your cloud provider instead.",
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
    authority = data_or_file(KubeConfigEntry(user.name, settings, user.file), "idp-certificate-authority")
    pem = authority.read_bytes() if isinstance(authority, Path) else authority
    return OidcCredentials(settings, authority=pem or None, save=lambda tokens: _save_tokens(user, tokens))


def _save_tokens(user: KubeConfigEntry, tokens: OidcTokens) -> None:
    """Write renewed tokens atomically to the file that they came from."""
    content = load_yaml(user.file.read_text())
    for item in content["users"]:
        if item["name"] == user.name:
            renewed = {"id-token": tokens.id_token, "refresh-token": tokens.refresh_token}
            item["user"]["auth-provider"]["config"].update(renewed)
    # Resolve symbolic links: otherwise the link would be replaced by a file.
    target = user.file.resolve()
    with tempfile.NamedTemporaryFile("w", dir=target.parent, delete=False) as draft:
        yaml.safe_dump(content, draft, default_flow_style=False)
    shutil.copymode(target, draft.name)
    Path(draft.name).replace(target)
