"""Serve the simulated API server on a loopback port, over HTTP or HTTPS, and write a kubeconfig for it."""

import asyncio
import base64
import contextlib
import ipaddress
import socket
import weakref
import zlib
from collections.abc import Awaitable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple, Protocol

import yaml
from aiohttp import web

from kubesim.apiserver.api_messages import ServerResponse
from kubesim.apiserver.fault_injection import ResponseLost
from kubevalues.connections import server_tls_context
from kubevalues.x509_certificates import new_authority, new_serving_certificate

__all__ = ["RunningServer", "ServingCertificate", "kubeconfig", "make_serving_certificate", "serve"]

_ANYONE = "anyone"  # kubectl asks for a password where there is no credential at all


def kubeconfig(url: str, *, authority: bytes | None = None, token: str | None = None) -> str:
    """Return a kubeconfig; `authority` is the PEM of the certificate authority, for HTTPS."""
    cluster: dict[str, str] = {"server": url}
    if authority is not None:
        cluster["certificate-authority-data"] = base64.b64encode(authority).decode()
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "simulator", "cluster": cluster}],
        "users": [{"name": "simulator", "user": {"token": token or _ANYONE}}],
        "contexts": [{"name": "simulator", "context": {"cluster": "simulator", "user": "simulator"}}],
        "current-context": "simulator",
    }
    return yaml.safe_dump(content, sort_keys=False)


_LIFETIME: Final = timedelta(days=365)
_NAMES: Final = ("localhost", "kubernetes.default.svc")


class ServingCertificate(NamedTuple):
    """A serving certificate, its key and its authority, in PEM."""

    authority: bytes
    certificate: bytes
    key: bytes


def make_serving_certificate(addresses: tuple[str, ...] = ("127.0.0.1", "::1")) -> ServingCertificate:
    """Return a certificate for the name `localhost` and the given addresses, of an authority made for it."""
    now = datetime.now(UTC)
    authority = new_authority("simulator-ca", now, _LIFETIME)
    serving = new_serving_certificate(authority, "simulator", (*_NAMES, *addresses), now, _LIFETIME)
    return ServingCertificate(authority.certificate, serving.certificate, serving.key)


_LARGE_ENOUGH_TO_COMPRESS = 128 * 1024  # the real server's choice
_FASTEST = 1
_TURN_S, _MOST_TURNS = 0.01, 100
_LARGEST_BODY = 3 * 1024 * 1024  # the real server's limit
_TOO_LARGE = (
    b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":'
    b'"Request entity too large: limit is 3145728","reason":"RequestEntityTooLarge","code":413}'
)
_UNAUTHORIZED = (
    b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Unauthorized",'
    b'"reason":"Unauthorized","code":401}'
)


class RequestHandler(Protocol):
    def __call__(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes
    ) -> Awaitable[ServerResponse]: ...


class RunningServer:
    """A server started by `serve`; `stop` closes every watch and connection."""

    def __init__(
        self,
        runner: web.ServerRunner,
        listener: "_Listener",
        streams: set[asyncio.Task[object]],
        url: str,
        config: str,
    ) -> None:
        self.url = url
        self.kubeconfig = config
        self._runner = runner
        self._listener = listener
        self._streams = streams

    async def stop(self) -> None:
        for stream in tuple(self._streams):
            stream.cancel()
        await self._listener.stop_accepting()
        await self._runner.cleanup()
        await self._listener.end_connections()

    async def __aenter__(self) -> "RunningServer":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()


class _Listener(socket.socket):
    """A listening socket that keeps track of its accepted connections until they are closed.

    aiohttp does not know connections whose TLS handshake is not finished, and waits for clients to close the
    others. If the event loop ended meanwhile, sockets would stay open until they are garbage-collected.
    """

    def __init__(self, family: int, kind: int, protocol: int) -> None:
        super().__init__(family, kind, protocol)
        self._accepted: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        self._ends = False

    def accept(self) -> tuple[socket.socket, Any]:
        if self._ends:
            raise BlockingIOError
        made, peer = super().accept()
        self._accepted.add(made)
        return made, peer

    async def stop_accepting(self) -> None:
        """Accept no more connections, and let the event loop set up those that it has just accepted.

        If the server were closed in between, asyncio would fail to set them up and never close them.
        """
        self._ends = True
        await asyncio.sleep(0)

    async def end_connections(self) -> None:
        """End all connections, whatever clients do, and let the event loop close them."""
        for _ in range(_MOST_TURNS):
            left = [each for each in self._accepted if each.fileno() >= 0]
            if not left:
                return
            for each in left:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
            await asyncio.sleep(_TURN_S)


class _Serves(Protocol):
    @property
    def handle(self) -> RequestHandler: ...


async def serve(
    server: _Serves,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    tls: bool = True,
    token: str | None = None,
) -> RunningServer:
    """Serve on loopback; port 0 is a free port. With a token, other requests are rejected."""
    _expect_loopback(host)
    certificates = make_serving_certificate() if tls else None
    shell = _Shell(server.handle, token)
    answering = web.Server(shell.answer, request_factory=_request)
    runner = web.ServerRunner(answering, handle_signals=False, shutdown_timeout=1)
    await runner.setup()
    listener = _listening(host, port)
    site = web.SockSite(
        runner,
        listener,
        ssl_context=server_tls_context(certificates.certificate, certificates.key) if certificates else None,
    )
    await site.start()
    bound_port = runner.addresses[0][1]
    shown_host = f"[{host}]" if ":" in host else host
    url = f"{'https' if tls else 'http'}://{shown_host}:{bound_port}"
    config = kubeconfig(url, authority=certificates.authority if certificates else None, token=token)
    return RunningServer(runner, listener, shell.streams, url, config)


def _request(message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> web.BaseRequest:
    """Return a request whose body may be as large as the real server accepts."""
    loop = asyncio.get_running_loop()
    return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=_LARGEST_BODY)


def _listening(host: str, port: int) -> _Listener:
    """Return a listening socket; raise `OSError` if the port is taken."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    listener = _Listener(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setblocking(False)
        listener.bind(address)
    except OSError:
        listener.close()
        raise
    return listener


def _expect_loopback(host: str) -> None:
    if host == "localhost":
        return
    try:
        loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = False
    if not loopback:
        raise ValueError(
            f"{host!r} is not a loopback address: the simulated API server does not authorize requests"
        )


class _Shell:
    def __init__(self, handle: RequestHandler, token: str | None) -> None:
        self.streams: set[asyncio.Task[object]] = set()
        self._handle = handle
        self._token = token

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if self._token is not None and request.headers.get("authorization") != f"Bearer {self._token}":
            return web.Response(status=401, body=_UNAUTHORIZED, content_type="application/json")
        try:
            body = await request.read()
        except web.HTTPRequestEntityTooLarge:
            return web.Response(status=413, body=_TOO_LARGE, content_type="application/json")
        try:
            answer = await self._handle(request.method, request.path_qs, request.headers, body)
        except ResponseLost:
            return _abort(request)
        if "content-length" in answer.headers:
            return await self._whole(request, answer)
        return await self._streamed(request, answer)

    async def _whole(self, request: web.BaseRequest, answer: ServerResponse) -> web.Response:
        body = b"".join([chunk async for chunk in answer.chunks])
        headers = {name: value for name, value in answer.headers.items() if name != "content-length"}
        if len(body) >= _LARGE_ENOUGH_TO_COMPRESS and "gzip" in request.headers.get("accept-encoding", ""):
            headers["content-encoding"] = "gzip"
            headers["vary"] = "Accept-Encoding"
            body = await asyncio.to_thread(_gzip, body)
        return web.Response(status=answer.status, headers=headers, body=body)

    async def _streamed(self, request: web.BaseRequest, answer: ServerResponse) -> web.StreamResponse:
        response = web.StreamResponse(status=answer.status, headers=dict(answer.headers))
        response.enable_chunked_encoding()
        task = asyncio.current_task()
        assert task is not None
        self.streams.add(task)
        try:
            await response.prepare(request)
            async with contextlib.aclosing(answer.chunks) as chunks:  # type: ignore[type-var]
                async for chunk in chunks:
                    await response.write(chunk)
            await response.write_eof()
        except (ConnectionResetError, ResponseLost):
            return _abort(request, response)
        finally:
            self.streams.discard(task)
        return response


def _abort(request: web.BaseRequest, response: web.StreamResponse | None = None) -> web.StreamResponse:
    """Break the connection, so that the client can't know whether the request was executed."""
    if request.transport is not None:
        request.transport.abort()
    return response or web.Response(status=500)


def _gzip(body: bytes) -> bytes:
    packer = zlib.compressobj(_FASTEST, wbits=31)
    return packer.compress(body) + packer.flush()
