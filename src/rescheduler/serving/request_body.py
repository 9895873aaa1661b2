"""Bodies of requests, each of a limited size, and all of them together.

What a server holds for its clients is bounded by what it has read, not by what they promise: somebody who
announces megabytes and sends none takes no memory, and stands in nobody's way. When all bodies together are
too large, the largest one is given up.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Final

from aiohttp import web

__all__ = ["LARGEST_BODY", "BodyReader"]

LARGEST_BODY: Final = 4 << 20
"""API servers take requests of at most 3 MiB, and a review adds who has made one, and with which options. Of
5,000 nodes, a scheduler sends names of 253 bytes at most."""
_ALL_BODIES: Final = 8 * LARGEST_BODY


@dataclass(eq=False, slots=True)
class _Reading:
    transport: asyncio.Transport | None
    body: bytearray = field(default_factory=bytearray)


class BodyReader:
    """For all requests of one server."""

    def __init__(self, largest: int = LARGEST_BODY, together: int = _ALL_BODIES) -> None:
        self._largest = largest
        self._together = together
        self._readings: dict[_Reading, None] = {}

    async def read(self, request: web.BaseRequest) -> bytes:
        """Raises `web.HTTPException` for a body that is not accepted."""
        if request.headers.get("Content-Encoding", "identity").lower() != "identity":
            # No caller of ours compresses; what was compressed well would be a thousand times as large.
            raise web.HTTPUnsupportedMediaType(text="Content-Encoding is not supported")
        if (request.content_length or 0) > self._largest:
            raise self._too_large(request.content_length or 0)
        reading = _Reading(request.transport)
        self._readings[reading] = None
        try:
            async for part in request.content.iter_any():
                reading.body += part
                if len(reading.body) > self._largest:
                    raise self._too_large(len(reading.body))
                self._make_room(reading)
            return bytes(reading.body)
        finally:
            del self._readings[reading]

    def _make_room(self, reading: _Reading) -> None:
        if sum(len(each.body) for each in self._readings) <= self._together:
            return
        largest = max(self._readings, key=lambda each: len(each.body))
        if largest is reading:
            raise web.HTTPServiceUnavailable(text="too many large requests at once")
        # Its memory is free when its handler has noticed: until then, it must not be chosen again.
        largest.body.clear()
        if largest.transport is not None:
            largest.transport.abort()

    def _too_large(self, size: int) -> web.HTTPRequestEntityTooLarge:
        return web.HTTPRequestEntityTooLarge(max_size=self._largest, actual_size=size)
