"""Credentials from an OpenID Connect issuer: an id token, renewed with a refresh token.

The login itself happens elsewhere (kubectl's plugins); the kubeconfig keeps its result under
`auth-provider: oidc`. As kubectl does, renewed tokens are written back, because many issuers accept a
refresh token only once.
"""

import asyncio
import base64
import binascii
import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

import aiohttp
import msgspec

from rescheduler.config.confidential_urls import is_confidential
from rescheduler.kube.access.cluster_access import (
    Credential,
    CredentialsUnavailable,
    bearer_authorization,
    client_tls_context,
)

__all__ = ["OidcCredentials", "OidcTokens"]

log = logging.getLogger(__name__)

TIMEOUT_S = 15.0
EARLY_S = 10.0
"""How long before its expiry an id token is renewed."""


class OidcTokens(msgspec.Struct, frozen=True):
    """What an issuer grants."""

    id_token: str = ""
    refresh_token: str = ""


class _Discovery(msgspec.Struct):
    token_endpoint: str


class _Claims(msgspec.Struct):
    exp: float | None = None


class OidcCredentials:
    """`Credentials` from the `auth-provider` section of a kubeconfig user."""

    def __init__(
        self,
        settings: Mapping[str, str],
        *,
        authority: bytes | None = None,
        save: Callable[[OidcTokens], None] | None = None,
        now: Callable[[], float] = lambda: datetime.now(UTC).timestamp(),
    ) -> None:
        self._issuer = settings.get("idp-issuer-url", "").rstrip("/")
        self._client = (settings.get("client-id", ""), settings.get("client-secret", ""))
        self._tokens = OidcTokens(settings.get("id-token", ""), settings.get("refresh-token", ""))
        self._authority = authority
        self._save = save
        self._now = now
        # Two renewals at once would spend the same refresh token twice.
        self._renewing = asyncio.Lock()

    async def current(self) -> Credential:
        async with self._renewing:
            if not self._tokens.id_token or self._now() >= _expiry(self._tokens.id_token) - EARLY_S:
                await self._renew()
            return Credential(bearer_authorization(self._tokens.id_token))

    def refused(self, credential: Credential) -> bool:
        if (
            credential.authorization == bearer_authorization(self._tokens.id_token)
            and self._tokens.refresh_token
        ):
            self._tokens = OidcTokens("", self._tokens.refresh_token)
        return bool(self._tokens.refresh_token)

    async def _renew(self) -> None:
        if not self._tokens.refresh_token:
            raise CredentialsUnavailable(
                f"the id token of {self._issuer} has expired and there is no refresh token: log in again"
            )
        try:
            granted = await self._ask_issuer()
        except (aiohttp.ClientError, TimeoutError, msgspec.MsgspecError) as error:
            reason = str(error) or f"no answer within {TIMEOUT_S:g} s"
            raise CredentialsUnavailable(
                f"the issuer {self._issuer} grants no new id token: {reason}"
            ) from error
        if not granted.id_token:
            raise CredentialsUnavailable(
                f"the issuer {self._issuer} answered without an id token: log in with the scope openid"
            )
        self._tokens = OidcTokens(granted.id_token, granted.refresh_token or self._tokens.refresh_token)
        try:
            if self._save:
                self._save(self._tokens)
        except OSError as error:
            log.warning("renewed tokens of %s stay in memory only: %s", self._issuer, error)

    async def _ask_issuer(self) -> OidcTokens:
        trust = client_tls_context(self._authority, insecure=False, certificate=None)
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
        connector = aiohttp.TCPConnector(ssl=trust)
        async with aiohttp.ClientSession(
            connector=connector, timeout=timeout, raise_for_status=True
        ) as session:
            async with session.get(f"{self._issuer}/.well-known/openid-configuration") as answer:
                endpoint = msgspec.json.decode(await answer.read(), type=_Discovery).token_endpoint
            if not is_confidential(endpoint):
                raise CredentialsUnavailable(
                    f"the issuer {self._issuer} names the token endpoint {endpoint}: "
                    "the refresh token would be sent unencrypted"
                )
            form = {
                "grant_type": "refresh_token",
                "refresh_token": self._tokens.refresh_token,
                "client_id": self._client[0],
            }
            # Public clients have no secret, and then name themselves in the form only.
            auth = aiohttp.BasicAuth(*self._client) if self._client[1] else None
            async with session.post(endpoint, data=form, auth=auth, allow_redirects=False) as answer:
                return msgspec.json.decode(await answer.read(), type=OidcTokens)


def _expiry(id_token: str) -> float:
    """Seconds since 1970; a token that does not say is used until it is refused."""
    try:
        _, claims, _ = id_token.split(".")
        padded = claims + "=" * (-len(claims) % 4)
        expires = msgspec.json.decode(base64.urlsafe_b64decode(padded), type=_Claims).exp
    except (ValueError, binascii.Error, msgspec.MsgspecError) as error:
        raise CredentialsUnavailable(f"the kubeconfig's id token is not a JSON web token: {error}") from error
    return float("inf") if expires is None else expires
