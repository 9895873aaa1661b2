"""Describe the access to one cluster: address, trusted certificates, and credentials."""

import base64
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

from kubevalues.connections import load_certificate_into

__all__ = [
    "BadClusterConfig",
    "ClientCertificate",
    "ClusterAccess",
    "Credential",
    "CredentialProvider",
    "CredentialsUnavailable",
    "StoredCredentials",
    "basic_authorization",
    "bearer_authorization",
    "client_tls_context",
]

REREAD_AFTER_S = 60.0
"""Seconds until a credential file is read again, as in client-go; kubelets renew mounted tokens at 80 % of
their lifetime."""


class CredentialsUnavailable(Exception):  # noqa: N818 - says what happened
    """There are no credentials now: a file is unreadable, a plugin fails, or an issuer is unreachable."""


class ClientCertificate(NamedTuple):
    chain: bytes
    key: bytes


class Credential(NamedTuple):
    authorization: str = ""
    """The value of the Authorization header; empty for none."""
    certificate: ClientCertificate | None = None


class CredentialProvider(Protocol):
    async def current(self) -> Credential:
        """Return valid credentials, renewed if they are about to expire; raise `CredentialsUnavailable`."""
        ...

    def refused(self, credential: Credential) -> bool:
        """Record that the server answered 401; return whether `current` may return newer credentials now."""
        ...


def bearer_authorization(token: str) -> str:
    # Token files often end with a newline, which is not allowed in headers.
    return f"Bearer {token.strip()}"


def basic_authorization(username: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()


class StoredCredentials:
    """Fixed credentials, or credentials in files that are renewed by another program."""

    def __init__(
        self,
        *,
        authorization: str = "",
        token_file: Path | None = None,
        chain: bytes | Path = b"",
        key: bytes | Path = b"",
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._authorization = authorization
        self._token_file = token_file
        self._chain = chain
        self._key = key
        self._now = now
        self._read_at = float("-inf")
        self._read = Credential()

    @property
    def _uses_files(self) -> bool:
        return any(isinstance(part, Path) for part in (self._token_file, self._chain, self._key))

    async def current(self) -> Credential:
        age = self._now() - self._read_at
        if age == float("inf") or (self._uses_files and age >= REREAD_AFTER_S):
            self._read = self._load()
            self._read_at = self._now()
        return self._read

    def refused(self, credential: Credential) -> bool:
        if not self._uses_files:
            return False
        if credential == self._read:
            self._read_at = float("-inf")
        return True

    def _load(self) -> Credential:
        authorization = self._authorization
        if self._token_file:
            token = _content(self._token_file).decode().strip()
            if not token:
                raise CredentialsUnavailable(f"the token file {self._token_file} is empty")
            authorization = bearer_authorization(token)
        chain, key = _content(self._chain), _content(self._key)
        return Credential(authorization, ClientCertificate(chain, key) if chain else None)


def _content(source: bytes | Path) -> bytes:
    if isinstance(source, bytes):
        return source
    try:
        return source.read_bytes()
    except OSError as error:
        raise CredentialsUnavailable(f"can't read {source}: {error.strerror}") from error


class BadClusterConfig(Exception):  # noqa: N818 - says what is wrong
    """The kubeconfig or the pod's service account can't be used."""

    def __init__(self, where: str, why: str, remedy: str = "") -> None:
        super().__init__(where, why, remedy)
        self.where = where
        self.why = why
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.where}: {self.why}." + (f" {self.remedy}" if self.remedy else "")


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """Everything that is needed to talk to one cluster."""

    server: str
    """The URL, with scheme and without a trailing slash; it may have a path (clusters behind a gateway)."""
    credentials: CredentialProvider
    source: str
    """The origin, for messages: `context prod of /home/me/.kube/config`."""
    authority: bytes | None = None
    """The trusted certificates as PEM; None for those of the system."""
    insecure: bool = False
    """Trust any certificate, if the kubeconfig says so."""
    tls_server_name: str = ""
    """The expected name in the server's certificate, if it differs from the host of `server`."""
    proxy: str = ""
    headers: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict)
    """Headers of every request, for impersonation."""
    namespace: str = "default"
    """The namespace of names without one."""


def client_tls_context(
    authority: bytes | None, *, insecure: bool, certificate: ClientCertificate | None
) -> ssl.SSLContext:
    """Build the TLS context; raise `CredentialsUnavailable` for certificates that OpenSSL can't read."""
    try:
        context = ssl.create_default_context(cadata=authority.decode() if authority else None)
    except (ssl.SSLError, UnicodeDecodeError) as error:
        raise CredentialsUnavailable(f"can't read the cluster's certificate authority: {error}") from error
    # Since Python 3.13, the default also refuses authorities without key identifiers. Many clusters have such
    # authorities, because Go accepts them.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate:
        try:
            load_certificate_into(context, certificate.chain, certificate.key)
        except (ssl.SSLError, OSError) as error:
            raise CredentialsUnavailable(f"can't use the client certificate: {error}") from error
    return context
