"""What the daemon answers to those who look after it: `/healthz`, `/readyz` with reasons, `/metrics`."""

from collections.abc import Callable, Sequence
from typing import Final

from aiohttp import web

__all__ = ["application"]

_METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_UNAVAILABLE: Final = 503


def application(not_ready: Callable[[], Sequence[str]], metrics: Callable[[], bytes]) -> web.Application:
    """`not_ready` says in words what is missing, and nothing if all is well."""

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(_: web.Request) -> web.Response:
        missing = not_ready()
        if missing:
            return web.Response(text="".join(f"{each}\n" for each in missing), status=_UNAVAILABLE)
        return web.Response(text="ok\n")

    async def read_metrics(_: web.Request) -> web.Response:
        return web.Response(body=metrics(), headers={"Content-Type": _METRICS_TYPE})

    made = web.Application()
    made.router.add_get("/healthz", healthz)
    made.router.add_get("/readyz", readyz)
    made.router.add_get("/metrics", read_metrics)
    return made
