"""Call admission webhooks over HTTPS and scheduler extenders over HTTP, in real time.

The certificate of a webhook is always verified, against the `caBundle` of its configuration or the
authorities that this machine trusts. Webhooks that are services of the cluster are resolved through
`services`.
"""

import asyncio
import os
import ssl
from collections.abc import Mapping
from functools import lru_cache
from types import TracebackType
from typing import Any, NamedTuple, Self

import aiohttp
import msgspec
from yarl import URL

from kubesim.admission.field_errors import quoted
from kubesim.admission.webhook_admission import WebhookCallFailed, WebhookEndpoint
from kubesim.apiserver.api_messages import Object
from kubesim.scheduler import ExtenderTransport
from kubevalues.connections import ClosingConnector

__all__ = ["HttpExtenderCaller", "HttpsWebhookCaller", "WebhookAddress"]

_MOST_BYTES = 3 << 20
"""The maximum size of a response, as in the real server."""
_MOST_SHOWN = 200


class WebhookAddress(NamedTuple):
    host: str
    port: int


class _PooledCaller:
    """Opens one connection pool at the first call, and closes it at the end."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            # Each call has its own time-out; no proxy belongs between a component and its webhooks.
            self._session = aiohttp.ClientSession(
                connector=ClosingConnector(), timeout=aiohttp.ClientTimeout(total=None), trust_env=False
            )
        return self._session


class HttpsWebhookCaller(_PooledCaller):
    def __init__(self, services: Mapping[str, WebhookAddress] | None = None) -> None:
        """Call webhooks; `services` has the real addresses of services by `namespace/name`."""
        super().__init__()
        self._services = services or {}

    async def call(self, endpoint: WebhookEndpoint, body: bytes, timeout_s: float) -> bytes:
        """Call a webhook and return its response; raise `WebhookCallFailed` if it fails."""
        asked = f"{endpoint.url}?timeout={timeout_s:g}s"
        try:
            async with asyncio.timeout(timeout_s):
                return await self._post(endpoint, self._place(endpoint, asked), body)
        except TimeoutError:
            raise WebhookCallFailed(
                f'failed to call webhook: Post "{asked}": context deadline exceeded'
            ) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise WebhookCallFailed(
                f'failed to call webhook: Post "{asked}": {_webhook_error(error)}'
            ) from error

    async def _post(self, endpoint: WebhookEndpoint, url: URL, body: bytes) -> bytes:
        async with self._open_session().post(
            url,
            data=body,
            headers={"content-type": "application/json", "accept": "application/json"},
            ssl=_tls_context(endpoint.ca_bundle),
            # A service has to prove its own name, wherever it really runs.
            server_hostname=URL(endpoint.url).host if endpoint.service else None,
            allow_redirects=False,
        ) as response:
            answer = await response.content.read(_MOST_BYTES)
            if response.status not in range(200, 300):
                shown = quoted(answer[:_MOST_SHOWN].decode(errors="replace") or f"status {response.status}")
                raise WebhookCallFailed(
                    f"failed to call webhook: an error on the server ({shown}) has prevented the request "
                    "from succeeding"
                )
            return answer

    def _place(self, endpoint: WebhookEndpoint, asked: str) -> URL:
        if not endpoint.service:
            return URL(asked)
        place = self._services.get(endpoint.service)
        if place is None:
            name = endpoint.service.rpartition("/")[2]
            raise WebhookCallFailed(f'failed to call webhook: Post "{asked}": service "{name}" not found')
        return URL(asked).with_host(place.host).with_port(place.port)


@lru_cache(maxsize=64)
def _tls_context(ca_bundle: bytes) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=ca_bundle.decode("ascii") if ca_bundle else None)


def _webhook_error(error: Exception) -> str:
    match error:
        case aiohttp.ClientConnectorCertificateError(certificate_error=cause):
            return f"tls: failed to verify certificate: {cause}"
        case aiohttp.ClientConnectorError(os_error=OSError(errno=int() as number)) if number > 0:
            return f"dial tcp {error.host}:{error.port}: connect: {os.strerror(number).lower()}"
        case _:
            return str(error) or type(error).__name__


class HttpExtenderCaller(_PooledCaller):
    """Calls scheduler extenders, with one connection pool for all."""

    def at(self, url: str, timeout_s: float) -> ExtenderTransport:
        """Return the transport to an extender; it raises `OSError`, in the words of the real scheduler."""

        async def carry(verb: str, arguments: Object) -> Any:
            return await self._call(f"{url.rstrip('/')}/{verb}", verb, arguments, timeout_s)

        return carry

    async def _call(self, address: str, verb: str, arguments: Object, timeout_s: float) -> Any:
        try:
            async with asyncio.timeout(timeout_s):
                return await self._post(address, verb, arguments)
        except TimeoutError:
            raise OSError(f'Post "{address}": context deadline exceeded') from None
        except (aiohttp.ClientError, ValueError) as error:
            raise OSError(f'Post "{address}": {_extender_error(error)}') from error

    async def _post(self, address: str, verb: str, arguments: Object) -> Any:
        body = msgspec.json.encode(arguments)
        headers = {"content-type": "application/json"}
        async with self._open_session().post(address, data=body, headers=headers) as response:
            if response.status != 200:
                raise OSError(f"failed {verb} with extender at URL {address}, code {response.status}")
            return msgspec.json.decode(await response.read())


def _extender_error(error: Exception) -> str:
    match error:
        case aiohttp.ClientConnectorError(os_error=OSError(errno=int() as number)) if number > 0:
            return f"dial tcp {error.host}:{error.port}: connect: {os.strerror(number).lower()}"
        case msgspec.DecodeError():
            return f"the answer is not JSON: {error}"
        case _:
            return str(error) or type(error).__name__
