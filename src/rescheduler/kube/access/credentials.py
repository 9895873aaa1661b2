"""Who we are, towards one server: a token, a certificate, or both; and when to look for newer ones."""

import base64
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Protocol

__all__ = [
    "Certificate",
    "Credential",
    "Credentials",
    "CredentialsFailed",
    "Stored",
    "basic",
    "bearer",
]

REREAD_AFTER_S = 60.0
"""Kubelets renew mounted tokens at 80 % of their life and client-go reads them once a minute."""


class CredentialsFailed(Exception):  # noqa: N818 - what happened, not what it is
    """No credentials to be had right now: an unreadable file, a failing plugin, an unreachable issuer."""


class Certificate(NamedTuple):
    chain: bytes
    key: bytes


class Credential(NamedTuple):
    authorization: str = ""
    """The value of the Authorization header; empty for none."""
    certificate: Certificate | None = None


class Credentials(Protocol):
    async def current(self) -> Credential:
        """What to show now; renews what is about to expire. Raises `CredentialsFailed`."""
        ...

    def refused(self, credential: Credential) -> bool:
        """The server answered 401 to this one. True if `current` may have a better one now."""
        ...


def bearer(token: str) -> str:
    # Token files often end with a newline, which no header may contain.
    return f"Bearer {token.strip()}"


def basic(username: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()


class Stored:
    """Credentials given as they are, or as files that someone else renews."""

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
    def _changes(self) -> bool:
        return any(isinstance(part, Path) for part in (self._token_file, self._chain, self._key))

    async def current(self) -> Credential:
        age = self._now() - self._read_at
        if age == float("inf") or (self._changes and age >= REREAD_AFTER_S):
            self._read = self._look()
            self._read_at = self._now()
        return self._read

    def refused(self, credential: Credential) -> bool:
        if not self._changes:
            return False
        if credential == self._read:
            self._read_at = float("-inf")
        return True

    def _look(self) -> Credential:
        authorization = self._authorization
        if self._token_file:
            token = _content(self._token_file).decode().strip()
            if not token:
                raise CredentialsFailed(f"the token file {self._token_file} is empty")
            authorization = bearer(token)
        chain, key = _content(self._chain), _content(self._key)
        return Credential(authorization, Certificate(chain, key) if chain else None)


def _content(source: bytes | Path) -> bytes:
    if isinstance(source, bytes):
        return source
    try:
        return source.read_bytes()
    except OSError as error:
        raise CredentialsFailed(f"can't read {source}: {error.strerror}") from error
