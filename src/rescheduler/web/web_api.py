"""The handlers of the API: each turns a request into a view. Long computations run in a thread.

`ENDPOINTS` (`web_openapi`) says which method answers which path, and with what.
"""

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, ParamSpec, TypeVar
from weakref import WeakValueDictionary

import msgspec

from rescheduler.api.daemon_status import program_version
from rescheduler.kube import errors
from rescheduler.planner.plan import Plan
from rescheduler.planner.plan_json import PlanForm, plan_to_json
from rescheduler.web.api_types import (
    BalanceView,
    LabelColumn,
    LoginRequest,
    NodeDetail,
    PodList,
    PodMatrix,
    SessionView,
)
from rescheduler.web.cluster_grid import label_column
from rescheduler.web.migration_page import migration_detail, migration_list, read_events
from rescheduler.web.node_page import find_pods, node_detail, pod_matrix, refusal_view
from rescheduler.web.page_model import PageModel
from rescheduler.web.plan_api_types import (
    ActionPreview,
    ActionRequest,
    ActionResult,
    ConfirmRequest,
    MigrationDetail,
    MigrationList,
    PlanPageView,
    StatusView,
    WhatIfRequest,
    WhatIfView,
)
from rescheduler.web.plan_page import PlanRevision, plan_view, visible_plan
from rescheduler.web.web_actions import ActionService, ActionUnknown
from rescheduler.web.web_authorization import Authorizer
from rescheduler.web.web_events import EventHub
from rescheduler.web.web_openapi import LabelQuery, MigrationQuery, PodQuery
from rescheduler.web.web_sessions import Session, SessionStore
from rescheduler.web.web_viewer import ActionForbidden, ActionImpossible, Viewer, Visibility
from rescheduler.web.what_if import Hypothesis, InvalidWhatIf, decode_request, encode_request, plan_what_if

__all__ = ["ApiError", "Caller", "WebApi"]

_JOBS: Final = 2
"""The most what-ifs, and the most other answers, that are computed at once, each for another viewer."""
_MOST_WAITING: Final = 16
"""The most requests of one viewer that wait."""
_MOST_WAITING_TOGETHER: Final = 64
_SHOWN_S: Final = 120.0
_MOST_SHOWN: Final = 50

P = ParamSpec("P")
T = TypeVar("T")


class ApiError(Exception):
    """A refusal with its HTTP status."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message


def _not_found(message: str) -> ApiError:
    return ApiError(404, "NotFound", message)


@dataclass(frozen=True, slots=True)
class Caller:
    """The session and the viewer of a request."""

    session: Session
    viewer: Viewer
    secret: str
    """The secret in the session's cookie."""


class WebApi:
    def __init__(
        self,
        page: PageModel,
        hub: EventHub,
        authorizer: Authorizer,
        sessions: SessionStore,
        actions: Callable[["WebApi"], ActionService] | None = None,
    ) -> None:
        """`actions` makes the service; None if this page is read-only."""
        self.page = page
        self.hub = hub
        self.authorizer = authorizer
        self.sessions = sessions
        self.actions = actions(self) if actions is not None else None
        self._what_ifs, self._jobs = asyncio.Semaphore(_JOBS), asyncio.Semaphore(_JOBS)
        self._reading_events = asyncio.Semaphore()
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._waiting: Counter[str] = Counter()
        self._shown: OrderedDict[tuple[str, Visibility], tuple[float, Plan, bool]] = OrderedDict()
        """Plans of what-ifs, by code and by what the viewer sees, with the time and whether they can be
        applied."""

    # -- session

    def session_view(self, caller: Caller | None) -> SessionView:
        page, authorizer = self.page, self.authorizer
        view = SessionView(
            authenticated=caller is not None,
            mode=page.mode,
            login=authorizer.login,
            read_only=authorizer.read_only or page.mode == "file",
            version=program_version(),
        )
        if caller is None:
            return view
        visibility = caller.viewer.visibility
        return msgspec.structs.replace(
            view,
            user=caller.viewer.name,
            actions=dict(caller.viewer.actions),
            sees_nodes=visibility.nodes,
            sees_all_namespaces=visibility.sees_all,
            namespaces=sorted(visibility.namespaces or ()),
            csrf_token=caller.session.csrf_token,
            cluster_name=page.cluster_name,
            replica=page.replica,
            is_leader=page.is_leader,
        )

    async def begin(self, request: LoginRequest) -> Caller | None:
        """Return the new session; None if the token is not valid."""
        begun = await self.sessions.begin(request.token)
        if begun is None:
            return None
        secret, session = begun
        return Caller(session, await self.sessions.viewer(session), secret)

    # -- cluster

    async def status(self, caller: Caller) -> StatusView:
        return await self.hub.status(await self.page.snapshot(), caller.viewer.visibility)

    async def cluster(self, caller: Caller) -> bytes:
        self._require_nodes(caller)
        return await self.hub.cluster()

    async def label(self, caller: Caller, query: LabelQuery) -> LabelColumn:
        self._require_nodes(caller)
        found = await asyncio.to_thread(label_column, await self.page.snapshot(), query.key)
        if found is None:
            raise _not_found("no node has this label")
        return found

    async def balance(self, caller: Caller) -> BalanceView:
        self._require_nodes(caller)
        return self.hub.history.balance()

    async def node(self, caller: Caller, node: str) -> NodeDetail:
        self._require_nodes(caller)
        snapshot, state = await self.page.snapshot(), self.page.state
        if node not in snapshot.nodes.row:
            raise _not_found(f"node {node} not found")
        return await self._compute(
            caller.viewer,
            node_detail,
            snapshot,
            state.policy,
            node,
            caller.viewer.visibility,
            history=self.hub.history.of_node(node),
            maintenance=self.page.daemon_status().maintenance,
            steered=self.page.steered,
            guarded=state.guards,
        )

    async def pods(self, caller: Caller, query: PodQuery) -> PodList:
        snapshot = await self.page.snapshot()
        return await self._compute(caller.viewer, find_pods, snapshot, query, caller.viewer.visibility)

    async def explain(self, caller: Caller, namespace: str, name: str) -> PodMatrix:
        snapshot, state, key = await self.page.snapshot(), self.page.state, f"{namespace}/{name}"
        try:
            return await self._compute(
                caller.viewer,
                pod_matrix,
                snapshot,
                state.policy,
                key,
                caller.viewer.visibility,
                steered=self.page.steered,
                guarded=state.guards,
            )
        except KeyError:
            raise _not_found(f"pod {key} not found") from None

    # -- plans

    async def plan(self, caller: Caller) -> PlanPageView:
        revision = await self.page.revision()
        return await self._compute(
            caller.viewer,
            plan_view,
            revision,
            self.page.state.policy.balance_resources,
            caller.viewer.visibility,
        )

    async def plan_document(self, caller: Caller) -> PlanForm:
        return _plan_form(visible_plan((await self.page.revision()).plan, caller.viewer.visibility))

    async def what_if(self, caller: Caller, body: WhatIfRequest) -> WhatIfView:
        began_s = time.perf_counter()
        found, latest = await self._hypothesis(body, caller.viewer), self.page.latest
        revision = PlanRevision(
            0,
            found.snapshot,
            found.plan,
            "whatIf",
            planning_s=time.perf_counter() - began_s,
            usage_source=latest.usage_source if latest is not None else "",
        )
        visibility = caller.viewer.visibility
        view = await self._compute(
            caller.viewer, plan_view, revision, self.page.state.policy.balance_resources, visibility
        )
        return WhatIfView(
            request=body,
            code=encode_request(body),
            plan=view,
            refused_pins=[refusal_view(each, visibility) for each in found.refused_pins],
            added_nodes=list(found.added),
            can_apply=_can_apply(found),
            notes=list(found.notes),
        )

    async def what_if_link(self, caller: Caller, code: str) -> WhatIfView:
        return await self.what_if(caller, _decoded(code))

    async def what_if_document(self, caller: Caller, code: str) -> PlanForm:
        plan, can_apply = await self.plan_of_code(code, caller.viewer)
        if not can_apply:
            raise ApiError(409, "NotApplicable", "the plan needs nodes that don't exist")
        return _plan_form(visible_plan(plan, caller.viewer.visibility))

    async def plan_of_code(self, code: str, viewer: Viewer) -> tuple[Plan, bool]:
        """Return the plan of a what-if, and whether it can be applied.

        If the viewer was shown it a moment ago, it is the same plan: they save or execute what they saw.
        """
        made_s, plan, can_apply = self._shown.get((code, viewer.visibility), (0.0, None, False))
        if plan is not None and time.monotonic() - made_s < _SHOWN_S:
            return plan, can_apply
        found = await self._hypothesis(_decoded(code), viewer)
        return found.plan, _can_apply(found)

    async def _hypothesis(self, request: WhatIfRequest, viewer: Viewer) -> Hypothesis:
        visibility, snapshot = viewer.visibility, await self.page.snapshot()
        if not visibility.nodes and not visibility.sees_all and not visibility.namespaces:
            raise ApiError(403, "Forbidden", "you may list neither nodes nor pods")
        if not visibility.nodes and (request.drain or request.add_nodes):
            raise ApiError(403, "Forbidden", "you may not list nodes")
        try:
            found = await self._run(
                self._what_ifs,
                viewer,
                plan_what_if,
                snapshot,
                self.page.state,
                request,
                viewer.visibility,
                steered=self.page.steered,
            )
        except InvalidWhatIf as error:
            raise ApiError(422, "InvalidRequest", str(error)) from error
        key = encode_request(request), viewer.visibility
        self._shown.pop(key, None)
        self._shown[key] = time.monotonic(), found.plan, _can_apply(found)
        while len(self._shown) > _MOST_SHOWN:
            self._shown.popitem(last=False)
        return found

    # -- migrations

    async def migrations(self, caller: Caller, query: MigrationQuery) -> MigrationList:
        found, policy = self.page.migrations(), self.page.state.policy
        return await asyncio.to_thread(migration_list, found, query, policy, caller.viewer.visibility)

    async def migration(self, caller: Caller, namespace: str, name: str) -> MigrationDetail:
        key = f"{namespace}/{name}"
        found = self.page.migration(key) if caller.viewer.visibility.sees(namespace) else None
        if found is None:
            raise _not_found(f"migration {key} not found")
        events, notes = await self._events_of(caller, namespace, name)
        visibility = caller.viewer.visibility
        return migration_detail(found, events, self.page.state.policy, visibility, notes)

    async def _events_of(
        self, caller: Caller, namespace: str, name: str
    ) -> tuple[list[dict[str, Any]], list[str]]:
        """Return the Events that rescheduler wrote for a migration, as far as the viewer may list them."""
        if not caller.session.identity.may_act:
            return [], ["Your token is not valid for the API server, so Events are not shown."]
        try:
            token = caller.session.token(caller.secret)
            async with self._reading_events, self.authorizer.client(token) as client:
                return await read_events(client, namespace, name)
        except (errors.KubeError, ActionImpossible) as error:
            return [], [f"Events can't be read: {error}"]

    # -- actions

    async def preview_action(self, caller: Caller, body: ActionRequest) -> ActionPreview:
        async with self._acting() as actions:
            return await actions.preview(caller.session, caller.viewer, body)

    async def confirm_action(self, caller: Caller, body: ConfirmRequest) -> ActionResult:
        async with self._acting() as actions:
            token = caller.session.token(caller.secret)
            return await actions.confirm(caller.session, caller.viewer, token, body.confirmation)

    @asynccontextmanager
    async def _acting(self) -> AsyncIterator[ActionService]:
        if self.actions is None:
            raise ApiError(403, "Forbidden", "this page is read-only")
        try:
            yield self.actions
        except ActionForbidden as error:
            raise ApiError(403, "Forbidden", str(error)) from error
        except ActionImpossible as error:
            raise ApiError(409, "NotPossible", str(error)) from error
        except ActionUnknown as error:
            message = "this confirmation was used or has expired: ask for a new preview"
            raise ApiError(404, "NotFound", message) from error
        except KeyError as error:
            raise _not_found(str(error.args[0])) from error

    # -- helpers

    def _require_nodes(self, caller: Caller) -> None:
        if not caller.viewer.visibility.nodes:
            raise ApiError(403, "Forbidden", "you may not list nodes")

    def _compute(
        self, viewer: Viewer, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> Awaitable[T]:
        return self._run(self._jobs, viewer, function, *args, **kwargs)

    async def _run(
        self,
        jobs: asyncio.Semaphore,
        viewer: Viewer,
        function: Callable[P, T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Run a long computation in a thread: few at once, and only one of each viewer."""
        name = viewer.name
        if self._waiting[name] >= _MOST_WAITING or self._waiting.total() >= _MOST_WAITING_TOGETHER:
            raise ApiError(429, "TooManyRequests", "too many plans are being made: try again in a moment")
        turn = self._turns.get(name) or asyncio.Lock()
        self._turns[name] = turn
        self._waiting[name] += 1
        try:
            async with turn, jobs:
                return await asyncio.to_thread(function, *args, **kwargs)
        finally:
            self._waiting[name] -= 1
            if not self._waiting[name]:
                del self._waiting[name]


def _decoded(code: str) -> WhatIfRequest:
    try:
        return decode_request(code)
    except InvalidWhatIf as error:
        raise ApiError(400, "InvalidRequest", str(error)) from error


def _can_apply(hypothesis: Hypothesis) -> bool:
    added = set(hypothesis.added)
    return not any(move.target in added for move in hypothesis.plan.moves)


def _plan_form(plan: Plan) -> PlanForm:
    return msgspec.convert(plan_to_json(plan), PlanForm)
