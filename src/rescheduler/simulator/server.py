"""The simulated API server: one request in, one answer out.

`ApiServer.handle` is all that a shell needs. It finds what the path names, does what the method says
and turns every refusal into the `Status` that the real server would send.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping

from rescheduler.simulator import discovery, openapi, reviews
from rescheduler.simulator.admin import Admin
from rescheduler.simulator.admission.webhooks import Caller
from rescheduler.simulator.bootstrap import first_objects
from rescheduler.simulator.clock import Clock, LoopClock, pause
from rescheduler.simulator.cluster import Cluster
from rescheduler.simulator.definition_removal import DefinitionRemoval
from rescheduler.simulator.establishing import Establishing
from rescheduler.simulator.exchange import Answer, Object, Question, answer_bytes, answer_object, encode
from rescheduler.simulator.failures import Failure, method_not_allowed, no_such_path
from rescheduler.simulator.faults import Fault, Faults, ResponseLost, refusal
from rescheduler.simulator.garbage import GarbageCollector
from rescheduler.simulator.kinds import Kinds
from rescheduler.simulator.metrics import UsageBook
from rescheduler.simulator.namespaces import NamespaceTermination
from rescheduler.simulator.routing import Route, find_route, is_served
from rescheduler.simulator.store import Store
from rescheduler.simulator.subresources import HANDLERS
from rescheduler.simulator.usage import UsageView
from rescheduler.simulator.verbs import Verbs
from rescheduler.simulator.watching import Watches

__all__ = ["ApiServer"]

_HEALTH = frozenset({"/healthz", "/livez", "/readyz"})
_TEXT = "text/plain; charset=utf-8"


class ApiServer:
    def __init__(
        self,
        *,
        clock: Clock | None = None,
        seed: int | None = None,
        history_limit: int = 20_000,
        webhook_caller: Caller | None = None,
    ) -> None:
        """Same seed, same names and uids. `history_limit` is how many changes a watch can go back.

        Without a `webhook_caller` (see `shells.webhook_caller`), webhooks count as unreachable.
        """
        self.cluster = Cluster(clock or LoopClock(), seed=seed, history_limit=history_limit)
        if webhook_caller is not None:
            self.cluster.admission.webhooks.caller = webhook_caller
        self.watches = Watches(self.cluster.store, self.cluster.clock)
        self.faults = Faults(seed)
        self._admin = Admin(self.cluster, self.watches, self.faults)
        self._usage = UsageView(self.cluster)
        self._verbs = Verbs(self.cluster, self.watches, self._usage)
        GarbageCollector(self.cluster)
        NamespaceTermination(self.cluster)
        Establishing(self.cluster)
        DefinitionRemoval(self.cluster)
        self.load(first_objects())

    @property
    def clock(self) -> Clock:
        return self.cluster.clock

    @property
    def store(self) -> Store:
        return self.cluster.store

    @property
    def kinds(self) -> Kinds:
        return self.cluster.kinds

    @property
    def usage(self) -> UsageBook:
        """What `metrics.k8s.io` shows: say here what nodes and pods use."""
        return self._usage.book

    def load(self, objects: Iterable[Object]) -> list[Object]:
        """Stores objects as they are, without defaults or checks; returns those of unknown kinds."""
        return self.cluster.load(objects)

    async def handle(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """`target` is path and query as on the request line. Close the answer's chunks to end a watch."""
        question = Question.parse(method, target, headers, body)
        try:
            return await self._answer(question)
        except Failure as failure:
            return answer_object(failure.code, failure.status, failure.headers)

    async def _answer(self, question: Question) -> Answer:
        if (answer := self._admin.answer(question)) is not None:
            return answer
        if question.method == "GET" and (answer := self._about_the_server(question)) is not None:
            return answer
        if (answer := reviews.answer(question)) is not None:
            return answer
        route = find_route(question.path, self.kinds)
        if route is None:
            if is_served(question.path, self.kinds):
                raise no_such_path()
            return answer_bytes(404, b"404 page not found\n", _TEXT)
        struck = self.faults.strike(_verb_name(question, route), route)
        for fault in struck:
            if fault.kind == "slow":
                await pause(self.clock, fault.delay_s)
            if (refused := refusal(fault, route)) is not None:
                raise refused
        answer = await self._do(question, route)
        if any(fault.kind == "lose-response" for fault in struck):
            raise ResponseLost(f"the answer to {question.method} {question.path} was lost")
        return answer

    def inject(self, fault: Fault) -> Object:
        """From now on, or at once for `compact` and `drop-watches`."""
        return self._admin.add(fault)

    def _about_the_server(self, question: Question) -> Answer | None:
        accept = question.headers.get("accept", "")
        if (found := discovery.answer(question.path, self.kinds, accept)) is not None:
            return answer_bytes(200, encode(found[1]), found[0])
        if (
            document := openapi.answer(question.path, self.kinds, accept, self.cluster.admission.schema)
        ) is not None:
            return answer_bytes(200, document[1], document[0])
        return answer_bytes(200, b"ok", _TEXT) if question.path in _HEALTH else None

    async def _do(self, question: Question, route: Route) -> Answer:
        if route.subresource and route.subresource != "status":
            handler = HANDLERS.get((question.method, route.subresource))
            if handler is None:
                raise method_not_allowed()
            return await handler(self.cluster, question, route)
        return await self._verb(question.method, route)(question, route)

    def _verb(self, method: str, route: Route) -> Callable[[Question, Route], Awaitable[Answer]]:
        verbs = self._verbs
        performed: dict[str, Callable[[Question, Route], Awaitable[Answer]]] = {
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


def _verb_name(question: Question, route: Route) -> str:
    """As RBAC names it."""
    if question.method == "GET" and question.asks("watch"):
        return "watch"
    return (_VERBS_OF_ONE if route.name else _VERBS_OF_ALL).get(question.method, "")
