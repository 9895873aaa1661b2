"""Calls webhooks over HTTPS.

The certificate of a webhook is always checked, against the `caBundle` of its configuration or, without
one, against the authorities this machine trusts. A webhook that is a service of the cluster is looked
up in `services`, as no name server knows it here.
"""

import asyncio
import os
import ssl
from collections.abc import Mapping
from functools import lru_cache
from types import TracebackType
from typing import NamedTuple, Self

import aiohttp
from yarl import URL

from rescheduler.simulator.admission.causes import quoted
from rescheduler.simulator.admission.webhooks import Endpoint, NoReview

__all__ = ["HttpsCaller", "Place"]

_MOST_BYTES = 3 << 20
"""As much as the real server reads of an answer."""
_MOST_SHOWN = 200


class Place(NamedTuple):
    host: str
    port: int


class HttpsCaller:
    def __init__(self, services: Mapping[str, Place] | None = None) -> None:
        """`services`: where `namespace/name` really is."""
        self._services = services or {}
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

    async def call(self, endpoint: Endpoint, body: bytes, timeout_s: float) -> bytes:
        """Raises `NoReview`."""
        asked = f"{endpoint.url}?timeout={timeout_s:g}s"
        try:
            async with asyncio.timeout(timeout_s):
                return await self._post(endpoint, self._place(endpoint, asked), body)
        except TimeoutError:
            raise NoReview(f'failed to call webhook: Post "{asked}": context deadline exceeded') from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise NoReview(f'failed to call webhook: Post "{asked}": {_told(error)}') from error

    async def _post(self, endpoint: Endpoint, url: URL, body: bytes) -> bytes:
        async with self._open_session().post(
            url,
            data=body,
            headers={"content-type": "application/json", "accept": "application/json"},
            ssl=_trusting(endpoint.ca_bundle),
            # A service has to prove its own name, wherever it really runs.
            server_hostname=URL(endpoint.url).host if endpoint.service else None,
            allow_redirects=False,
        ) as response:
            answer = await response.content.read(_MOST_BYTES)
            if response.status not in range(200, 300):
                shown = quoted(answer[:_MOST_SHOWN].decode(errors="replace") or f"status {response.status}")
                raise NoReview(
                    f"failed to call webhook: an error on the server ({shown}) has prevented the request "
                    "from succeeding"
                )
            return answer

    def _place(self, endpoint: Endpoint, asked: str) -> URL:
        if not endpoint.service:
            return URL(asked)
        place = self._services.get(endpoint.service)
        if place is None:
            name = endpoint.service.rpartition("/")[2]
            raise NoReview(f'failed to call webhook: Post "{asked}": service "{name}" not found')
        return URL(asked).with_host(place.host).with_port(place.port)

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            # The whole call has its time-out; a proxy has no business between a server and its webhooks.
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None), trust_env=False)
        return self._session


@lru_cache(maxsize=64)
def _trusting(ca_bundle: bytes) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=ca_bundle.decode("ascii") if ca_bundle else None)


def _told(error: Exception) -> str:
    match error:
        case aiohttp.ClientConnectorCertificateError(certificate_error=cause):
            return f"tls: failed to verify certificate: {cause}"
        case aiohttp.ClientConnectorError(os_error=OSError(errno=int() as number)) if number > 0:
            return f"dial tcp {error.host}:{error.port}: connect: {os.strerror(number).lower()}"
        case _:
            return str(error) or type(error).__name__
