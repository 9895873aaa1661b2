"""Sessions of the page, and limits on the requests of each client.

The cookie holds a random secret. The server keeps only its hash, and the viewer's token encrypted with a key
that is derived from the secret: without the cookie of a viewer, the memory of this process does not give away
their token.
"""

import hashlib
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from rescheduler.web.web_authorization import Authorizer, Identity
from rescheduler.web.web_viewer import Viewer

__all__ = ["RequestRates", "Session", "SessionStore"]

_SECRET_BYTES: Final = 32
_NONCE_BYTES: Final = 12
_MOST_SESSIONS: Final = 1_000
_MOST_OF_ONE_USER: Final = 50
_IDLE_S: Final = 8 * 3600.0
_LONGEST_S: Final = 24 * 3600.0
_REVIEW_AGAIN_S: Final = 60.0
"""A revoked or expired token ends its session after this time."""


def _digest(purpose: str, secret: str) -> bytes:
    return hashlib.sha256(f"{purpose}:{secret}".encode()).digest()


@dataclass(eq=False, slots=True)
class Session:
    key: bytes
    """Identifies the session in this process; not a secret."""
    identity: Identity
    csrf_token: str
    began_s: float
    used_s: float
    reviewed_s: float
    _sealed: bytes
    _nonce: bytes
    event_streams: int = 0
    """The number of open event streams."""

    def token(self, secret: str) -> str:
        """Return the viewer's token, given the secret of the cookie."""
        return AESGCM(_digest("token", secret)).decrypt(self._nonce, self._sealed, self.key).decode()

    def is_over(self, now_s: float) -> bool:
        return now_s - self.used_s > _IDLE_S or now_s - self.began_s > _LONGEST_S


class SessionStore:
    def __init__(self, authorizer: Authorizer, clock: Callable[[], float] = time.monotonic) -> None:
        self._authorizer = authorizer
        self._clock = clock
        self._sessions: OrderedDict[bytes, Session] = OrderedDict()

    async def begin(self, token: str) -> tuple[str, Session] | None:
        """Return the secret for the cookie and the session; None if the token is not valid.

        Raises `KubeError`.
        """
        identity = await self._authorizer.authenticate(token)
        if identity is None:
            return None
        secret = secrets.token_urlsafe(_SECRET_BYTES)
        key, nonce, now_s = _digest("session", secret), secrets.token_bytes(_NONCE_BYTES), self._clock()
        sealed = AESGCM(_digest("token", secret)).encrypt(nonce, token.encode(), key)
        session = Session(key, identity, secrets.token_urlsafe(24), now_s, now_s, now_s, sealed, nonce)
        own = [each for each in self._sessions.values() if each.identity.name == identity.name]
        for each in own[: len(own) - _MOST_OF_ONE_USER + 1]:
            self.end(each)  # the longest unused: one user must not end the sessions of others
        self._sessions[key] = session
        while len(self._sessions) > _MOST_SESSIONS:
            self._sessions.popitem(last=False)
        return secret, session

    async def find(self, secret: str) -> Session | None:
        """Return the session of a cookie; None if there is none, or its token is no longer valid.

        Raises `KubeError`.
        """
        key, now_s = _digest("session", secret), self._clock()
        session = self._sessions.get(key)
        if session is None:
            return None
        if session.is_over(now_s):
            self.end(session)
            return None
        if now_s - session.reviewed_s > _REVIEW_AGAIN_S:
            identity = await self._authorizer.authenticate(session.token(secret))
            if identity is None:
                self.end(session)
                return None
            # Only now: a review that could not be made is made again with the next request.
            session.identity, session.reviewed_s = identity, now_s
            if not self.is_open(session):
                return None  # logged out meanwhile
        session.used_s = now_s
        self._sessions.move_to_end(key)
        return session

    def known(self, secret: str) -> Session | None:
        """Return the session of a cookie, without a review of its token: for counting only."""
        return self._sessions.get(_digest("session", secret))

    def end(self, session: Session) -> None:
        self._sessions.pop(session.key, None)

    def is_open(self, session: Session) -> bool:
        return self._sessions.get(session.key) is session

    async def viewer(self, session: Session) -> Viewer:
        """Return the viewer of the request; raise `KubeError`."""
        return await self._authorizer.viewer(session.identity)


@dataclass(slots=True)
class RequestRates:
    """A token bucket per client; the number of clients that are remembered is bounded."""

    per_second: float
    burst: float
    clock: Callable[[], float] = time.monotonic
    most: int = 4_096
    _buckets: OrderedDict[str, tuple[float, float]] = field(default_factory=OrderedDict)

    def allows(self, client: str, cost: float = 1.0) -> bool:
        """Take `cost` from the client's bucket; return False if there is not enough in it."""
        now_s = self.clock()
        level, at_s = self._buckets.pop(client, (self.burst, now_s))
        level = min(self.burst, level + (now_s - at_s) * self.per_second)
        is_allowed = level >= cost
        self._buckets[client] = level - cost if is_allowed else level, now_s
        while len(self._buckets) > self.most:
            self._buckets.popitem(last=False)
        return is_allowed
