"""The HTTP server of the page: static files, sessions, and the checks that every request passes.

Host ▸ rate ▸ session ▸ origin and CSRF token ▸ body ▸ handler (`web_api`)
"""

import contextlib
import hmac
import logging
import ssl
import urllib.parse
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
from aiohttp import web

from rescheduler.http.http_server import serve_http
from rescheduler.http.request_limits import BodyReader, ConnectionLimits
from rescheduler.kube import errors
from rescheduler.kube.event_recorder import log_event
from rescheduler.web.api_types import ErrorView, LoginRequest
from rescheduler.web.event_streams import EventStreams
from rescheduler.web.page_model import LivePage, PageModel
from rescheduler.web.static_page import SECURITY_HEADERS, StaticFiles
from rescheduler.web.web_actions import ActionService
from rescheduler.web.web_api import ApiError, Caller, WebApi
from rescheduler.web.web_authorization import Authorizer
from rescheduler.web.web_events import EventHub
from rescheduler.web.web_openapi import API_PREFIX, CSRF_HEADER, ENDPOINTS, ApiEndpoint, openapi_text
from rescheduler.web.web_sessions import RequestRates, SessionStore

__all__ = ["PageCertificate", "PageOptions", "page_application", "serve_page"]

log = logging.getLogger(__name__)

_MAX_BODY_BYTES: Final = 256 << 10
_MAX_BODIES_BYTES: Final = 4 << 20
_COMPRESSED_FROM: Final = 2048
_LOOPBACK_HOSTS: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_LIMITS: Final = ConnectionLimits(request_s=30.0)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageOptions:
    host: str = "127.0.0.1"
    port: int = 0
    allowed_hosts: frozenset[str] | None = _LOOPBACK_HOSTS
    """Values of the Host header, without port; None for all. Keeps other sites from using the page by a DNS
    name that they point at it."""
    tls: Callable[[], ssl.SSLContext] | None = None
    cookie: str = "rescheduler-session"
    is_secure: bool = False
    """Whether browsers reach the page by HTTPS only, so that the cookie is never sent over HTTP."""
    requests_per_second: float = 20.0
    """The requests of one client per second; five times as many in a burst."""
    executes_actions: bool = False
    """Execute migrations in this process while its actions run, if no other process does."""


@contextlib.asynccontextmanager
async def serve_page(page: PageModel, authorizer: Authorizer, options: PageOptions) -> AsyncIterator[int]:
    """Serve the page while the body runs; yield the port. Raises `OSError`."""
    async with page_application(page, authorizer, options) as app, contextlib.AsyncExitStack() as stack:
        port = await stack.enter_async_context(
            serve_http(app, options.host or None, options.port, options.tls, _LIMITS)
        )
        yield port


@contextlib.asynccontextmanager
async def page_application(
    page: PageModel, authorizer: Authorizer, options: PageOptions
) -> AsyncIterator[web.Application]:
    hub = EventHub(page)
    sessions = SessionStore(authorizer)

    def actions(api: WebApi) -> ActionService:
        assert isinstance(page, LivePage)
        return ActionService(page, authorizer, api.plan_of_code, executes=options.executes_actions)

    can_act = page.mode != "file" and not authorizer.read_only
    api = WebApi(page, hub, authorizer, sessions, actions if can_act else None)
    async with hub.running():
        try:
            yield _PageServer(api, options).application()
        finally:
            if api.actions is not None:
                await api.actions.close()


class PageCertificate:
    """The certificate of the page, from files that another program renews."""

    def __init__(self, chain: str, key: str) -> None:
        """Load the files; raise `OSError`, also for files that are not a certificate."""
        self._paths = Path(chain), Path(key)
        self._seen: tuple[int, ...] = ()
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._load()

    def context(self) -> ssl.SSLContext:
        try:
            if self._stamps() != self._seen:
                self._load()
        except OSError as error:
            message = f"the certificate of the web page can't be read, so the old one stays: {error}"
            log_event(log, logging.WARNING, "PageCertificateUnreadable", message)
        return self._context

    def _stamps(self) -> tuple[int, ...]:
        return tuple(path.stat().st_mtime_ns for path in self._paths)

    def _load(self) -> None:
        seen, renewed = self._stamps(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        renewed.load_cert_chain(*self._paths)
        self._context, self._seen = renewed, seen


class _PageServer:
    def __init__(self, api: WebApi, options: PageOptions) -> None:
        self._api = api
        self._options = options
        self._cookie = f"__Host-{options.cookie}" if options.is_secure else options.cookie
        self._files = StaticFiles()
        self._streams = EventStreams(api.hub, api.sessions)
        self._bodies = BodyReader(_MAX_BODY_BYTES, _MAX_BODIES_BYTES)
        self._rates = RequestRates(options.requests_per_second, 5 * options.requests_per_second)
        self._logins = RequestRates(per_second=0.2, burst=10)

    def application(self) -> web.Application:
        app = web.Application(middlewares=[self._guard], client_max_size=_MAX_BODY_BYTES)
        app.router.add_get(f"{API_PREFIX}/openapi.json", self._openapi)
        for each in ENDPOINTS:
            app.router.add_route(each.method, f"{API_PREFIX}{each.path}", self._handler(each))
        app.router.add_get("/{path:.*}", self._static)
        return app

    # -- every request

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            self._check_host(request)
            response = await handler(request)
        except ApiError as error:
            response = _error(error.status, error.reason, error.message)
        except errors.KubeError as error:
            response = _error(503, "ClusterUnavailable", str(error))
        except web.HTTPException as error:
            response = _error(error.status, error.reason.replace(" ", ""), error.text or error.reason)
            for name in ("Allow",):
                if name in error.headers:
                    response.headers[name] = error.headers[name]
        except (ConnectionResetError, TimeoutError):
            raise
        except Exception:
            log.exception("a bug in rescheduler's web page", extra={"event": "PageFailed"})
            response = _error(500, "InternalError", "a bug in rescheduler: see the log of this process")
        if not response.prepared:
            response.headers.update(SECURITY_HEADERS)
        return response

    def _check_host(self, request: web.Request) -> None:
        allowed = self._options.allowed_hosts
        if allowed is None:
            return
        try:
            host = urllib.parse.urlsplit(f"//{request.headers.get('Host', '')}").hostname
        except ValueError:
            host = None
        if host not in allowed:
            raise ApiError(421, "WrongHost", "this page is not served under this host name")

    def _limit(self, request: web.Request, rates: RequestRates, cost: float = 1.0) -> None:
        if not rates.allows(self._client_of(request), cost):
            raise ApiError(429, "TooManyRequests", "too many requests: try again in a moment")

    def _client_of(self, request: web.Request) -> str:
        """Return whose requests are counted together: those of a user, or of an address without a session.
        Many share an address, behind a proxy or `kubectl port-forward`."""
        session = self._api.sessions.known(request.cookies.get(self._cookie, ""))
        return f"address {request.remote}" if session is None else f"user {session.identity.name}"

    # -- static files

    async def _openapi(self, request: web.Request) -> web.Response:
        self._limit(request, self._rates)
        return web.Response(text=openapi_text(), content_type="application/json")

    async def _static(self, request: web.Request) -> web.Response:
        if request.path.startswith("/api/"):
            raise ApiError(404, "NotFound", "there is no such endpoint")
        return self._files.response(request)

    # -- the API

    def _handler(self, endpoint: ApiEndpoint) -> Handler:
        handle = self._special(endpoint.handler) or self._general(endpoint)

        async def handler(request: web.Request) -> web.StreamResponse:
            self._limit(request, self._rates)
            return await handle(request)

        return handler

    def _special(self, name: str) -> Handler | None:
        return {
            "session": self._session,
            "login": self._login,
            "logout": self._logout,
            "events": self._events,
        }.get(name)

    def _general(self, endpoint: ApiEndpoint) -> Handler:
        method = getattr(self._api, endpoint.handler)

        async def handle(request: web.Request) -> web.StreamResponse:
            caller = await self._caller(request)
            if endpoint.needs_csrf:
                self._check_origin(request)
                self._check_csrf(request, caller)
            arguments: dict[str, Any] = dict(request.match_info)
            if endpoint.query is not None:
                arguments["query"] = _query(request, endpoint.query)
            if endpoint.body is not None:
                arguments["body"] = await self._body(request, endpoint.body)
            self._require_ready()
            found = await method(caller, **arguments)
            return _json(found if isinstance(found, bytes) else msgspec.json.encode(found))

        return handle

    def _require_ready(self) -> None:
        if not self._api.page.is_ready:
            raise ApiError(503, "NotReady", "the cluster is being read: try again in a moment")

    async def _find_caller(self, request: web.Request) -> Caller | None:
        secret = request.cookies.get(self._cookie, "")
        if not secret:
            return None
        session = await self._api.sessions.find(secret)
        if session is None:
            return None
        return Caller(session, await self._api.sessions.viewer(session), secret)

    async def _caller(self, request: web.Request) -> Caller:
        caller = await self._find_caller(request)
        if caller is None:
            raise ApiError(401, "Unauthorized", "log in first")
        return caller

    async def _body(self, request: web.Request, kind: Any) -> Any:
        if request.content_type != "application/json":
            raise ApiError(415, "UnsupportedMediaType", "the body must be application/json")
        raw = await self._bodies.read(request)
        try:
            return msgspec.json.decode(raw, type=kind)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise ApiError(422, "InvalidRequest", f"the body is invalid: {error}") from error

    def _check_origin(self, request: web.Request) -> None:
        """Refuse a request that another site makes the browser send."""
        site = request.headers.get("Sec-Fetch-Site", "same-origin")
        origin = request.headers.get("Origin")
        if site not in {"same-origin", "none"} or (origin is not None and not self._is_own(request, origin)):
            raise ApiError(403, "CrossOrigin", "requests from other sites are refused")

    def _is_own(self, request: web.Request, origin: str) -> bool:
        try:
            return urllib.parse.urlsplit(origin).netloc == request.headers.get("Host", "")
        except ValueError:
            return False

    def _check_csrf(self, request: web.Request, caller: Caller) -> None:
        given = request.headers.get(CSRF_HEADER, "")
        if not hmac.compare_digest(given.encode(), caller.session.csrf_token.encode()):
            raise ApiError(403, "CSRF", f"the header {CSRF_HEADER} is missing or wrong: reload the page")

    # -- sessions

    async def _session(self, request: web.Request) -> web.StreamResponse:
        return _json(msgspec.json.encode(self._api.session_view(await self._find_caller(request))))

    async def _login(self, request: web.Request) -> web.StreamResponse:
        self._limit(request, self._logins)
        self._check_origin(request)
        body: LoginRequest = await self._body(request, LoginRequest)
        self._require_ready()
        caller = await self._api.begin(body)
        if caller is None:
            log_event(log, logging.WARNING, "LoginRefused", "a token is not valid", peer=request.remote or "")
            raise ApiError(401, "Unauthorized", "the token is not valid")
        # A cookie that is replaced must not stay valid: it may be known to a previous user of the browser.
        if (before := self._api.sessions.known(request.cookies.get(self._cookie, ""))) is not None:
            self._api.sessions.end(before)
        log_event(log, logging.INFO, "LoggedIn", "a session of the page started", user=caller.viewer.name)
        response = _json(msgspec.json.encode(self._api.session_view(caller)))
        response.set_cookie(
            self._cookie,
            caller.secret,
            httponly=True,
            samesite="Strict",
            secure=self._options.is_secure,
            path="/",
        )
        return response

    async def _logout(self, request: web.Request) -> web.StreamResponse:
        caller = await self._caller(request)
        self._check_origin(request)
        self._check_csrf(request, caller)
        self._api.sessions.end(caller.session)
        response = _json(msgspec.json.encode(self._api.session_view(None)))
        response.del_cookie(self._cookie, path="/", secure=self._options.is_secure, httponly=True)
        return response

    async def _events(self, request: web.Request) -> web.StreamResponse:
        caller = await self._caller(request)
        self._require_ready()
        return await self._streams.stream(request, caller)


def _query(request: web.Request, kind: type[msgspec.Struct]) -> Any:
    given: Mapping[str, str] = dict(request.query)
    if len(given) != len(request.query):
        raise ApiError(422, "InvalidRequest", "a query parameter is given twice")
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise ApiError(422, "InvalidRequest", f"the query is invalid: {error}") from error


def _json(body: bytes) -> web.Response:
    response = web.Response(body=body, content_type="application/json", charset="utf-8")
    response.headers["Cache-Control"] = "no-store"
    if len(body) > _COMPRESSED_FROM:
        response.enable_compression()
    return response


def _error(status: int, reason: str, message: str) -> web.Response:
    response = _json(msgspec.json.encode(ErrorView(reason, message)))
    response.set_status(status)
    return response
