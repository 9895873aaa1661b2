"""The simulated API server.

`ApiServer.handle` takes one request and returns one response. It resolves the path, runs the verb and turns
every `StatusError` into the `Status` that the real server would send. Access reviews always allow everything.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping

from kubesim.admission.webhook_admission import WebhookCaller
from kubesim.apiserver import discovery_documents, openapi_documents
from kubesim.apiserver.api_messages import (
    Object,
    ServerRequest,
    ServerResponse,
    bytes_response,
    encode,
    object_response,
)
from kubesim.apiserver.api_verbs import ApiVerbs, body_object
from kubesim.apiserver.fault_injection import (
    FaultInjector,
    InjectedFault,
    ResponseLost,
    SimulatorEndpoint,
    injected_error,
)
from kubesim.apiserver.garbage_collector import EventExpiry, GarbageCollector, NamespaceController
from kubesim.apiserver.kind_registry import KindRegistry
from kubesim.apiserver.metrics_server import MetricsApi, UsageStore
from kubesim.apiserver.object_store import ObjectStore
from kubesim.apiserver.request_route import RequestRoute, find_route, is_served
from kubesim.apiserver.simulated_cluster import SimulatedCluster, first_objects
from kubesim.apiserver.status_errors import StatusError, method_not_allowed, no_such_path
from kubesim.apiserver.subresource_handlers import HANDLERS
from kubesim.apiserver.watch_streams import OpenWatches
from kubesim.custom_resources.definition_lifecycle import DefinitionFinalizer, EstablishingController
from kubesim.virtual_time import Clock, LoopClock, pause

__all__ = ["ApiServer", "access_review_response"]

_ACCESS_REVIEW_PATHS = {
    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    "/apis/authorization.k8s.io/v1/subjectaccessreviews",
}


def access_review_response(request: ServerRequest) -> ServerResponse | None:
    """Return the response to an access review, or None if the request is something else."""
    if request.method != "POST" or request.path not in _ACCESS_REVIEW_PATHS:
        return None
    asked = body_object(request)
    verdict = {"allowed": True, "reason": "the simulated API server allows every request"}
    return object_response(201, {**asked, "status": verdict})


_HEALTH = frozenset({"/healthz", "/livez", "/readyz"})
_TEXT = "text/plain; charset=utf-8"


class ApiServer:
    def __init__(
        self,
        *,
        clock: Clock | None = None,
        seed: int | None = None,
        history_limit: int = 20_000,
        webhook_caller: WebhookCaller | None = None,
    ) -> None:
        """Create an API server; the same seed gives the same names and uids.

        `history_limit` is the number of changes that a watch can go back. Without a `webhook_caller` (see
        `sockets.outbound_calls`), webhooks are unreachable.
        """
        self.cluster = SimulatedCluster(clock or LoopClock(), seed=seed, history_limit=history_limit)
        if webhook_caller is not None:
            self.cluster.admission.webhooks.caller = webhook_caller
        self.watches = OpenWatches(self.cluster.store, self.cluster.clock)
        self.faults = FaultInjector(seed)
        self._admin = SimulatorEndpoint(self.cluster, self.watches, self.faults)
        self._metrics_api = MetricsApi(self.cluster)
        self._verbs = ApiVerbs(self.cluster, self.watches, self._metrics_api)
        GarbageCollector(self.cluster)
        NamespaceController(self.cluster)
        EventExpiry(self.cluster)
        EstablishingController(self.cluster)
        DefinitionFinalizer(self.cluster)
        self.load(first_objects())

    @property
    def clock(self) -> Clock:
        return self.cluster.clock

    @property
    def store(self) -> ObjectStore:
        return self.cluster.store

    @property
    def kinds(self) -> KindRegistry:
        return self.cluster.kinds

    @property
    def usage(self) -> UsageStore:
        """Return the usage that `metrics.k8s.io` serves; set the usage of nodes and pods here."""
        return self._metrics_api.usage

    def load(self, objects: Iterable[Object]) -> list[Object]:
        """Store objects as they are, without defaults or checks, and return those of unknown kinds."""
        return self.cluster.load(objects)

    async def handle(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes
    ) -> ServerResponse:
        """Handle a request; `target` is path and query. Close the chunks of the response to end a watch."""
        request = ServerRequest.parse(method, target, headers, body)
        try:
            return await self._answer(request)
        except StatusError as failure:
            return object_response(failure.code, failure.status, failure.headers)

    async def _answer(self, request: ServerRequest) -> ServerResponse:
        if (answer := self._admin.answer(request)) is not None:
            return answer
        if request.method == "GET" and (answer := self._about_the_server(request)) is not None:
            return answer
        if (answer := access_review_response(request)) is not None:
            return answer
        route = find_route(request.path, self.kinds)
        if route is None:
            if is_served(request.path, self.kinds):
                raise no_such_path()
            return bytes_response(404, b"404 page not found\n", _TEXT)
        faulted = self.faults.apply_fault(_verb_name(request, route), route)
        for fault in faulted:
            if fault.kind == "slow":
                await pause(self.clock, fault.delay_s)
            if (refused := injected_error(fault, route)) is not None:
                raise refused
        answer = await self._do(request, route)
        if any(fault.kind == "lose-response" for fault in faulted):
            raise ResponseLost(f"the answer to {request.method} {request.path} was lost")
        return answer

    def inject(self, fault: InjectedFault) -> Object:
        """Activate a fault; `compact` and `drop-watches` take effect immediately."""
        return self._admin.add(fault)

    def _about_the_server(self, request: ServerRequest) -> ServerResponse | None:
        accept = request.headers.get("accept", "")
        if (found := discovery_documents.discovery_response(request.path, self.kinds, accept)) is not None:
            return bytes_response(200, encode(found[1]), found[0])
        if (
            document := openapi_documents.openapi_response(
                request.path, self.kinds, accept, self.cluster.admission.schema
            )
        ) is not None:
            return bytes_response(200, document[1], document[0])
        return bytes_response(200, b"ok", _TEXT) if request.path in _HEALTH else None

    async def _do(self, request: ServerRequest, route: RequestRoute) -> ServerResponse:
        if route.subresource and route.subresource != "status":
            handler = HANDLERS.get((request.method, route.subresource))
            if handler is None:
                raise method_not_allowed()
            return await handler(self.cluster, request, route)
        return await self._verb(request.method, route)(request, route)

    def _verb(
        self, method: str, route: RequestRoute
    ) -> Callable[[ServerRequest, RequestRoute], Awaitable[ServerResponse]]:
        verbs = self._verbs
        performed: dict[str, Callable[[ServerRequest, RequestRoute], Awaitable[ServerResponse]]] = {
            "get": verbs.get,
            "list": verbs.list,
            "create": verbs.create,
            "update": verbs.replace,
            "patch": verbs.patch,
            "delete": verbs.delete,
            "deletecollection": verbs.delete_collection,
        }
        name = (_VERBS_OF_ONE if route.name else _VERBS_OF_ALL).get(method, "")
        if route.subresource and name == "delete":
            raise method_not_allowed()
        if name not in route.kind.verbs or (route.name and method == "POST"):
            raise method_not_allowed()
        return performed[name]


_VERBS_OF_ONE = {"GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "POST": "create"}
_VERBS_OF_ALL = {"GET": "list", "POST": "create", "DELETE": "deletecollection"}


def _verb_name(request: ServerRequest, route: RequestRoute) -> str:
    """Return the verb as RBAC names it."""
    if request.method == "GET" and request.has_flag("watch"):
        return "watch"
    return (_VERBS_OF_ONE if route.name else _VERBS_OF_ALL).get(request.method, "")
