"""Credentials from a program, as cloud providers ship them (`client.authentication.k8s.io`).

The program is run once, and again when its credential is about to expire or was refused. Credentials
without an expiry are kept until the server refuses them.
"""

import asyncio
import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from rescheduler.kube.access.cluster_access import (
    ClientCertificate,
    Credential,
    CredentialsUnavailable,
    bearer_authorization,
)

__all__ = ["ExecConfig", "ExecCredentials"]

RUN_TIMEOUT_S = 60.0
DIALOGUE_TIMEOUT_S = 300.0
"""For plugins that talk to a person."""
EARLY = timedelta(seconds=60)
"""How long before its expiry a credential is renewed, at most."""


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
    """What the plugin is told about the cluster, if it asked for that (`provideClusterInfo`)."""


class _Status(msgspec.Struct, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: datetime | None = None


class _ExecCredential(msgspec.Struct, rename="camel"):
    api_version: str
    status: _Status


class ExecCredentials:
    """`Credentials` that a `Plugin` provides."""

    def __init__(self, plugin: ExecConfig, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._plugin = plugin
        self._now = now
        self._credential: Credential | None = None
        self._renew_at: datetime | None = None
        # One run at a time: it may ask a person, and ten requests must not ask ten times.
        self._running = asyncio.Lock()

    async def current(self) -> Credential:
        async with self._running:
            if self._credential is None or (self._renew_at and self._now() >= self._renew_at):
                self._keep(await _run(self._plugin))
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
            # A tenth for credentials that live shorter than a few minutes, else they'd never count as fresh.
            self._renew_at = status.expiration_timestamp - min(EARLY, max(left, timedelta()) / 10)


async def _run(plugin: ExecConfig) -> _Status:
    terminal = sys.stdin is not None and sys.stdin.isatty()
    if plugin.interactive == "Always" and not terminal:
        raise CredentialsUnavailable(
            f"the credential plugin {plugin.command} must talk to a person, and there is no terminal"
        )
    talks = terminal and plugin.interactive != "Never"
    output = await _output(plugin, talks=talks)
    try:
        answer = msgspec.json.decode(output, type=_ExecCredential)
    except msgspec.MsgspecError as error:
        raise CredentialsUnavailable(
            f"the credential plugin {plugin.command} printed no ExecCredential: {error}"
        ) from error
    if answer.api_version != plugin.api_version:
        raise CredentialsUnavailable(
            f"the credential plugin {plugin.command} speaks {answer.api_version}; "
            f"the kubeconfig asks for {plugin.api_version}"
        )
    status = answer.status
    if not status.token and not (status.client_certificate_data and status.client_key_data):
        raise CredentialsUnavailable(
            f"the credential plugin {plugin.command} gave neither a token nor a certificate with its key"
        )
    return status


async def _output(plugin: ExecConfig, *, talks: bool) -> bytes:
    spec: dict[str, Any] = {"interactive": talks}
    if plugin.cluster is not None:
        spec["cluster"] = plugin.cluster
    info = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
    environment = {**os.environ, **plugin.env, "KUBERNETES_EXEC_INFO": json.dumps(info)}
    try:
        process = await asyncio.create_subprocess_exec(
            plugin.command,
            *plugin.args,
            env=environment,
            stdin=None if talks else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            # A person must see what the plugin asks; nobody reads the terminal of a daemon.
            stderr=None if talks else asyncio.subprocess.PIPE,
        )
    except OSError as error:
        hint = f" {plugin.install_hint}" if plugin.install_hint else ""
        why = f"can't run the credential plugin {plugin.command}: {error.strerror}.{hint}"
        raise CredentialsUnavailable(why) from error
    limit_s = DIALOGUE_TIMEOUT_S if talks else RUN_TIMEOUT_S
    try:
        async with asyncio.timeout(limit_s):
            output, complaint = await process.communicate()
    except TimeoutError:
        raise CredentialsUnavailable(
            f"the credential plugin {plugin.command} did not finish within {limit_s:g} s"
        ) from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        said = (complaint or b"").decode(errors="replace").strip() or "it said nothing"
        raise CredentialsUnavailable(
            f"the credential plugin {plugin.command} failed with exit code {process.returncode}: {said}"
        )
    return output
