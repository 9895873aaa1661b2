"""The transport to a real API server: HTTP/1.1 over TLS, with credentials that are renewed automatically."""

import asyncio
import logging
import os
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from typing import Final
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import getproxies_environment, proxy_bypass

import aiohttp

from kubevalues.connections import ClosingConnector
from rescheduler.config.policy_blocks import is_confidential, is_loopback
from rescheduler.kube.access.cluster_access import (
    ClientCertificate,
    ClusterAccess,
    Credential,
    CredentialsUnavailable,
    client_tls_context,
)
from rescheduler.kube.transport import ApiRequest, Closeable, NoResponse

__all__ = ["DEAD_PEER_OPTIONS", "HttpTransport"]

log = logging.getLogger(__name__)

CONNECT_TIMEOUT_S = 10.0
CONNECTIONS = 100
"""The largest number of open connections; each watch uses one."""
DEAD_PEER_OPTIONS: Final = {
    "TCP_KEEPIDLE": 5,
    "TCP_KEEPALIVE": 5,
    "TCP_KEEPINTVL": 2,
    "TCP_KEEPCNT": 3,
    "TCP_USER_TIMEOUT": 10_000,
}
"""Options of every socket, to detect a dead peer about ten seconds after its last acknowledgement: with
keep-alive probes on idle connections, and with the user timeout (in milliseconds) on connections with
unacknowledged data. `TCP_KEEPALIVE` is the name of `TCP_KEEPIDLE` on macOS."""


class HttpTransport(Closeable):
    """A `Transport` to the cluster that `access` describes."""

    def __init__(self, access: ClusterAccess, *, connect_timeout_s: float = CONNECT_TIMEOUT_S) -> None:
        self.access = access
        self._connect_timeout_s = connect_timeout_s
        self._proxy = access.proxy or _proxy_of_environment(access.server)
        self._session: aiohttp.ClientSession | None = None
        self._certificate: ClientCertificate | None = None
        self._outdated: list[aiohttp.ClientSession] = []

    async def send(self, request: ApiRequest) -> "_HttpResponse":
        try:
            async with asyncio.timeout(request.timeout_s) as limit:
                response = await self._send_as(request, credential := await self.access.credentials.current())
                if response.status == 401 and self.access.credentials.refused(credential):
                    renewed = await self._renewed(response)
                    if renewed != credential:
                        await response.close()
                        response = await self._send_as(request, renewed)
                response.deadline = None if request.streaming else limit.when()
                return response
        except TimeoutError:
            raise NoResponse(
                f"no answer from {self.access.server} within {request.timeout_s:g} s", sent=True
            ) from None
        except CredentialsUnavailable as error:
            raise NoResponse(str(error), sent=False, remedy=f"Check {self.access.source}.") from error

    async def _renewed(self, refused: "_HttpResponse") -> Credential:
        try:
            return await self.access.credentials.current()
        except BaseException:
            await refused.close()
            raise

    async def close(self) -> None:
        sessions = [*self._outdated, *([self._session] if self._session else [])]
        self._outdated, self._session = [], None
        for session in sessions:
            await session.close()

    async def _send_as(self, request: ApiRequest, credential: Credential) -> "_HttpResponse":
        if credential != Credential() and not is_confidential(self.access.server, self._proxy):
            raise CredentialsUnavailable(
                f"{self.access.server}: credentials would be sent unencrypted; use https"
            )
        session = self._session_for(credential.certificate)
        try:
            response = await session.request(
                request.method,
                self._url(request),
                headers=self._headers(request, credential),
                data=request.body or None,
                server_hostname=self.access.tls_server_name or None,
                proxy=self._proxy or None,
                allow_redirects=False,
                # aiohttp repeats a PUT or DELETE whose connection broke; we must not.
                middlewares=() if request.method == "GET" else (_send_once,),
            )
        except aiohttp.ClientConnectorCertificateError as error:
            raise self._untrusted(error) from error
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.InvalidURL) as error:
            raise NoResponse(self._reason_for(error), sent=False) from error
        except (aiohttp.ClientError, OSError) as error:
            raise NoResponse(self._reason_for(error), sent=True) from error
        return _HttpResponse(response)

    def _url(self, request: ApiRequest) -> str:
        path = quote(request.path, safe="/%:@!$&'()*+,;=~-._")
        query = f"?{urlencode(request.query)}" if request.query else ""
        return f"{self.access.server}{path}{query}"

    def _headers(self, request: ApiRequest, credential: Credential) -> list[tuple[str, str]]:
        headers = [*request.headers.items()]
        if credential.authorization:
            headers.append(("Authorization", credential.authorization))
        for name, value in self.access.headers.items():
            headers += [(name, each) for each in ((value,) if isinstance(value, str) else value)]
        return headers

    def _session_for(self, certificate: ClientCertificate | None) -> aiohttp.ClientSession:
        if self._session is None or certificate != self._certificate:
            if self._session is not None:
                # Its watches continue, so it is closed together with the transport.
                self._outdated.append(self._session)
            self._session = self._new_session(certificate)
            self._certificate = certificate
        return self._session

    def _new_session(self, certificate: ClientCertificate | None) -> aiohttp.ClientSession:
        access = self.access
        trust: ssl.SSLContext | bool = True
        if access.server.startswith("https"):
            trust = client_tls_context(access.authority, insecure=access.insecure, certificate=certificate)
        return aiohttp.ClientSession(
            connector=ClosingConnector(limit=CONNECTIONS, ssl=trust, open_socket=_socket),
            timeout=aiohttp.ClientTimeout(total=None, connect=None, sock_connect=self._connect_timeout_s),
            cookie_jar=aiohttp.DummyCookieJar(),
            # A page of a large list has many megabytes, so use fewer, larger reads. Even larger reads are
            # slower, because the allocator requests the memory for each from the system.
            read_bufsize=2**18,
        )

    def _untrusted(self, error: aiohttp.ClientConnectorCertificateError) -> NoResponse:
        why = getattr(error.certificate_error, "verify_message", "") or str(error.certificate_error)
        return NoResponse(
            f"the certificate of {self.access.server} is not trusted: {why}",
            sent=False,
            remedy=f"Check the server and the certificate authority in {self.access.source}.",
        )

    def _reason_for(self, error: Exception) -> str:
        reason = str(error) or type(error).__name__
        if isinstance(error, aiohttp.ConnectionTimeoutError):
            reason = f"no connection within {self._connect_timeout_s:g} s"
        elif isinstance(error, aiohttp.ClientConnectorError):
            number = error.os_error.errno
            # asyncio's message ("Connect call failed") does not say why; the system's does.
            reason = os.strerror(number) if number and number > 0 else str(error.os_error)
            reason = reason or "the connection was closed during setup"
        return f"{self.access.server}: {reason}"


class _HttpResponse(Closeable):
    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self._answer = answer
        self.status = answer.status
        self.headers: Mapping[str, str] = {name.lower(): value for name, value in answer.headers.items()}
        self.deadline: float | None = None

    async def read(self) -> bytes:
        return b"".join([chunk async for chunk in self.chunks()])

    async def chunks(self) -> AsyncIterator[bytes]:
        content = self._answer.content
        while True:
            try:
                async with asyncio.timeout_at(self.deadline):
                    chunk = await content.readany()
            except TimeoutError:
                raise NoResponse("the answer was not complete in time", sent=True) from None
            except (aiohttp.ClientError, OSError) as error:
                raise NoResponse("the connection broke in the middle of the answer", sent=True) from error
            if not chunk:
                break
            yield chunk
        await self.close()

    async def close(self) -> None:
        # After a complete answer the connection returns to the pool; otherwise it is closed.
        if self._answer.content.at_eof():
            self._answer.release()
        else:
            self._answer.close()


async def _send_once(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """Turn a broken connection into an error that aiohttp does not retry."""
    try:
        return await handler(request)
    except aiohttp.ClientConnectorError:
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise NoResponse(f"the connection broke: {error}", sent=True) from error


def _socket(address: aiohttp.AddrInfoType) -> socket.socket:
    """Create a socket that detects a dead peer: a quiet watch would never notice."""
    family, kind, protocol, _, _ = address
    created = socket.socket(family, kind, protocol)
    created.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in DEAD_PEER_OPTIONS.items():
        # No system has all of them: Linux lacks TCP_KEEPALIVE, macOS TCP_KEEPIDLE and TCP_USER_TIMEOUT.
        if hasattr(socket, option):
            created.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return created


def _proxy_of_environment(server: str) -> str:
    parts = urlsplit(server)
    # As in Go, proxies of the environment are not used for this machine (`kubectl proxy`).
    if is_loopback(server) or proxy_bypass(parts.netloc):
        return ""
    return getproxies_environment().get(parts.scheme, "")
