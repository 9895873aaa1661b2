"""Credentials from outside the kubeconfig: an exec plugin or an OpenID Connect issuer.

An exec plugin (`client.authentication.k8s.io`) is a program of a cloud provider. It is run once, and again
when its credential is about to expire or was refused. Credentials without an expiry are kept until the server
refuses them.

An OpenID Connect issuer grants an id token, which is renewed with a refresh token. The login happens
elsewhere (kubectl's plugins); the kubeconfig keeps its result under `auth-provider: oidc`. As in kubectl,
renewed tokens are written back, because many issuers accept a refresh token only once.
"""

import asyncio
import base64
import binascii
import json
import logging
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
import msgspec

from kubevalues.connections import ClosingConnector
from rescheduler.config.policy_blocks import is_confidential
from rescheduler.kube.access.cluster_access import (
    ClientCertificate,
    Credential,
    CredentialsUnavailable,
    bearer_authorization,
    client_tls_context,
)

__all__ = ["ExecConfig", "ExecCredentials", "OidcCredentials", "OidcTokens"]

RUN_TIMEOUT_S = 60.0
INTERACTIVE_TIMEOUT_S = 300.0
"""The timeout of interactive plugins."""
EARLY = timedelta(seconds=60)
"""How long before its expiry a credential of a plugin is renewed, at most."""


@dataclass(frozen=True, slots=True)
class ExecConfig:
    """The `exec` section of a kubeconfig user."""

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    api_version: str = "client.authentication.k8s.io/v1"
    interactive: str = "IfAvailable"
    """`Never`, `IfAvailable` or `Always`."""
    install_hint: str = ""
    cluster: Mapping[str, Any] | None = None
    """The information about the cluster for the plugin, if it wants that (`provideClusterInfo`)."""


class _Status(msgspec.Struct, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: datetime | None = None


class _ExecCredential(msgspec.Struct, rename="camel"):
    api_version: str
    status: _Status


class ExecCredentials:
    """A `CredentialProvider` that runs an exec plugin."""

    def __init__(self, plugin: ExecConfig, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._plugin = plugin
        self._now = now
        self._credential: Credential | None = None
        self._renew_at: datetime | None = None
        # One run at a time: it may be interactive, and ten requests must not prompt ten times.
        self._running = asyncio.Lock()

    async def current(self) -> Credential:
        async with self._running:
            if self._credential is None or (self._renew_at and self._now() >= self._renew_at):
                self._keep(await _run_plugin(self._plugin))
            assert self._credential is not None
            return self._credential

    def refused(self, credential: Credential) -> bool:
        if credential == self._credential:
            self._credential = None
        return True

    def _keep(self, status: _Status) -> None:
        certificate = None
        if status.client_certificate_data:
            certificate = ClientCertificate(
                status.client_certificate_data.encode(), status.client_key_data.encode()
            )
        self._credential = Credential(bearer_authorization(status.token) if status.token else "", certificate)
        self._renew_at = None
        if status.expiration_timestamp:
            left = status.expiration_timestamp - self._now()
            # A tenth for credentials with a short lifetime; otherwise they would never count as valid.
            self._renew_at = status.expiration_timestamp - min(EARLY, max(left, timedelta()) / 10)


async def _run_plugin(plugin: ExecConfig) -> _Status:
    terminal = sys.stdin is not None and sys.stdin.isatty()
    if plugin.interactive == "Always" and not terminal:
        raise CredentialsUnavailable(
            f"the credential plugin {plugin.command} is interactive, but there is no terminal"
        )
    interactive = terminal and plugin.interactive != "Never"
    output = await _plugin_output(plugin, interactive=interactive)
    try:
        answer = msgspec.json.decode(output, type=_ExecCredential)
    except msgspec.MsgspecError as error:
        raise CredentialsUnavailable(
            f"the credential plugin {plugin.command} did not print an ExecCredential: {error}"
        ) from error
    if answer.api_version != plugin.api_version:
        raise CredentialsUnavailable(
            f"the credential plugin {plugin.command} printed {answer.api_version}, but "
            f"the kubeconfig requests {plugin.api_version}"
        )
    status = answer.status
    if not status.token and not (status.client_certificate_data and status.client_key_data):
        raise CredentialsUnavailable(
            f"the credential plugin {plugin.command} printed neither a token nor a certificate with its key"
        )
    return status


async def _plugin_output(plugin: ExecConfig, *, interactive: bool) -> bytes:
    spec: dict[str, Any] = {"interactive": interactive}
    if plugin.cluster is not None:
        spec["cluster"] = plugin.cluster
    info = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
    environment = {**os.environ, **plugin.env, "KUBERNETES_EXEC_INFO": json.dumps(info)}
    try:
        process = await asyncio.create_subprocess_exec(
            plugin.command,
            *plugin.args,
            env=environment,
            stdin=None if interactive else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            # Users must see the prompts of a plugin; a daemon has no terminal.
            stderr=None if interactive else asyncio.subprocess.PIPE,
        )
    except OSError as error:
        hint = f" {plugin.install_hint}" if plugin.install_hint else ""
        why = f"can't run the credential plugin {plugin.command}: {error.strerror}.{hint}"
        raise CredentialsUnavailable(why) from error
    limit_s = INTERACTIVE_TIMEOUT_S if interactive else RUN_TIMEOUT_S
    try:
        async with asyncio.timeout(limit_s):
            output, stderr = await process.communicate()
    except TimeoutError:
        raise CredentialsUnavailable(
            f"the credential plugin {plugin.command} did not finish within {limit_s:g} s"
        ) from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        details = (stderr or b"").decode(errors="replace").strip() or "no error output"
        raise CredentialsUnavailable(
            f"the credential plugin {plugin.command} failed with exit code {process.returncode}: {details}"
        )
    return output


log = logging.getLogger(__name__)

TIMEOUT_S = 15.0
EARLY_S = 10.0
"""How long before its expiry an id token is renewed."""


class OidcTokens(msgspec.Struct, frozen=True):
    """The tokens that an issuer grants."""

    id_token: str = ""
    refresh_token: str = ""


class _Discovery(msgspec.Struct):
    token_endpoint: str


class _Claims(msgspec.Struct):
    exp: float | None = None


class OidcCredentials:
    """A `CredentialProvider` for the `auth-provider` section of a kubeconfig user."""

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
        # Two renewals at the same time would use the same refresh token twice.
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
                f"the id token of {self._issuer} has expired and there is no refresh token. Log in again"
            )
        try:
            granted = await self._request_tokens()
        except (aiohttp.ClientError, TimeoutError, msgspec.MsgspecError) as error:
            reason = str(error) or f"no answer within {TIMEOUT_S:g} s"
            raise CredentialsUnavailable(
                f"the issuer {self._issuer} did not grant a new id token: {reason}"
            ) from error
        if not granted.id_token:
            raise CredentialsUnavailable(
                f"the issuer {self._issuer} returned no id token. Log in with the scope openid"
            )
        self._tokens = OidcTokens(granted.id_token, granted.refresh_token or self._tokens.refresh_token)
        try:
            if self._save:
                self._save(self._tokens)
        except OSError as error:
            log.warning("can't write the renewed tokens of %s to the kubeconfig: %s", self._issuer, error)

    async def _request_tokens(self) -> OidcTokens:
        trust = client_tls_context(self._authority, insecure=False, certificate=None)
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
        connector = ClosingConnector(ssl=trust)
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
            # Public clients have no secret, and send their id only in the form.
            auth = aiohttp.BasicAuth(*self._client) if self._client[1] else None
            async with session.post(endpoint, data=form, auth=auth, allow_redirects=False) as answer:
                return msgspec.json.decode(await answer.read(), type=OidcTokens)


def _expiry(id_token: str) -> float:
    """Return the expiry in seconds since 1970; a token without one is used until it is refused."""
    try:
        _, claims, _ = id_token.split(".")
        padded = claims + "=" * (-len(claims) % 4)
        expires = msgspec.json.decode(base64.urlsafe_b64decode(padded), type=_Claims).exp
    except (ValueError, binascii.Error, msgspec.MsgspecError) as error:
        raise CredentialsUnavailable(f"the kubeconfig's id token is not a JSON web token: {error}") from error
    return float("inf") if expires is None else expires
