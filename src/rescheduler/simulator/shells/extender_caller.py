"""Asks scheduler extenders over HTTP.

A question takes real time, so this is for clusters that live in it.
"""

import asyncio
import os
from types import TracebackType
from typing import Any, Self

import aiohttp
import msgspec

from rescheduler.simulator.exchange import Object
from rescheduler.simulator.scheduler import Carrier

__all__ = ["HttpExtenders"]


class HttpExtenders:
    """One connection pool for all of them."""

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
        if self._session is not None:
            await self._session.close()

    def at(self, url: str, timeout_s: float) -> Carrier:
        """Carries questions to the extender there. Raises `OSError`, in the words of the real scheduler."""

        async def carry(verb: str, arguments: Object) -> Any:
            return await self._ask(f"{url.rstrip('/')}/{verb}", verb, arguments, timeout_s)

        return carry

    async def _ask(self, address: str, verb: str, arguments: Object, timeout_s: float) -> Any:
        try:
            async with asyncio.timeout(timeout_s):
                return await self._post(address, verb, arguments)
        except TimeoutError:
            raise OSError(f'Post "{address}": context deadline exceeded') from None
        except (aiohttp.ClientError, ValueError) as error:
            raise OSError(f'Post "{address}": {_told(error)}') from error

    async def _post(self, address: str, verb: str, arguments: Object) -> Any:
        body = msgspec.json.encode(arguments)
        headers = {"content-type": "application/json"}
        async with self._open_session().post(address, data=body, headers=headers) as response:
            if response.status != 200:
                raise OSError(f"failed {verb} with extender at URL {address}, code {response.status}")
            return msgspec.json.decode(await response.read())

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            # Each question has its own time-out, and a proxy has no business here.
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None), trust_env=False)
        return self._session


def _told(error: Exception) -> str:
    match error:
        case aiohttp.ClientConnectorError(os_error=OSError(errno=int() as number)) if number > 0:
            return f"dial tcp {error.host}:{error.port}: connect: {os.strerror(number).lower()}"
        case msgspec.DecodeError():
            return f"the answer is no JSON: {error}"
        case _:
            return str(error) or type(error).__name__
