"""The endpoints of the API as one table, and the OpenAPI description that is generated from it.

The server registers its handlers by the names in this table, so it serves exactly what is described.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from rescheduler.planner.plan_json import PlanForm
from rescheduler.web.api_types import (
    MAX_NAME,
    ApiInput,
    BalanceView,
    ClusterView,
    ErrorView,
    LabelColumn,
    LoginRequest,
    NodeDetail,
    NodesDelta,
    PodList,
    PodMatrix,
    SessionView,
)
from rescheduler.web.plan_api_types import (
    ActionPreview,
    ActionRequest,
    ActionResult,
    ConfirmRequest,
    MigrationDetail,
    MigrationList,
    MigrationsDelta,
    PlanEvent,
    PlanPageView,
    ResyncEvent,
    StatusView,
    WhatIfRequest,
    WhatIfView,
)

__all__ = [
    "API_PREFIX",
    "CSRF_HEADER",
    "ENDPOINTS",
    "SSE_EVENTS",
    "ApiEndpoint",
    "LabelQuery",
    "MigrationQuery",
    "PodQuery",
    "openapi_document",
    "openapi_text",
]

API_PREFIX: Final = "/api/v1"
CSRF_HEADER: Final = "X-Rescheduler-CSRF"

_Search = Annotated[str, Meta(max_length=MAX_NAME)]


class LabelQuery(ApiInput):
    key: Annotated[str, Meta(min_length=1, max_length=MAX_NAME + 64, description="Key of a node label.")]


class PodQuery(ApiInput):
    q: Annotated[_Search, Meta(description="Part of `namespace/name`.")] = ""
    namespace: Annotated[_Search, Meta(description="Only of this namespace.")] = ""
    node: Annotated[_Search, Meta(description="Only on this node.")] = ""
    limit: Annotated[int, Meta(ge=1, le=500)] = 50


class MigrationQuery(ApiInput):
    state: Annotated[
        Literal["all", "running", "finished"], Meta(description="running: Pending and InProgress.")
    ] = "all"
    phase: Literal["", "Pending", "InProgress", "Completed", "Failed"] = ""
    namespace: Annotated[_Search, Meta(description="Only of this namespace.")] = ""
    node: Annotated[_Search, Meta(description="Only from or to this node.")] = ""
    strategy: _Search = ""
    handover: Literal["", "Adopt", "Copy", "Evict"] = ""
    q: Annotated[_Search, Meta(description="Part of the pod's or the migration's name.")] = ""
    before: Annotated[_Search, Meta(description="Key of the last migration of the previous page.")] = ""
    limit: Annotated[int, Meta(ge=1, le=500)] = 100


@dataclass(frozen=True, slots=True)
class ApiEndpoint:
    handler: str
    """Name of the handler; unique."""
    method: Literal["GET", "POST"]
    path: str
    """The path without the prefix."""
    summary: str
    returns: Any
    query: type[msgspec.Struct] | None = None
    body: Any = None
    is_public: bool = False
    """Answers without a session, too."""
    needs_csrf: bool = False
    """Changes something, so that requests from other sites must not reach it."""
    errors: tuple[int, ...] = ()
    """The errors in addition to those of every endpoint."""
    media_type: str = "application/json"


_MISSING: Final = (404,)

ENDPOINTS: Final = (
    ApiEndpoint(
        "session", "GET", "/session", "The viewer, and what they may see and do.", SessionView, is_public=True
    ),
    ApiEndpoint(
        "login",
        "POST",
        "/login",
        "Start a session with a token; sets the session cookie.",
        SessionView,
        body=LoginRequest,
        is_public=True,
        errors=(401, 403),
    ),
    ApiEndpoint("logout", "POST", "/logout", "End the session.", SessionView, needs_csrf=True),
    ApiEndpoint("status", "GET", "/status", "The status of rescheduler and of the cluster.", StatusView),
    ApiEndpoint("cluster", "GET", "/cluster", "All nodes as columns.", ClusterView),
    ApiEndpoint(
        "label",
        "GET",
        "/cluster/label",
        "The values of one label over all nodes.",
        LabelColumn,
        query=LabelQuery,
        errors=_MISSING,
    ),
    ApiEndpoint("balance", "GET", "/balance", "The balance of the cluster over time.", BalanceView),
    ApiEndpoint("node", "GET", "/nodes/{node}", "One node with its pods.", NodeDetail, errors=_MISSING),
    ApiEndpoint("pods", "GET", "/pods", "Search for pods.", PodList, query=PodQuery),
    ApiEndpoint(
        "explain",
        "GET",
        "/pods/{namespace}/{name}/explain",
        "Why a pod may or may not move, and which rule forbids which node.",
        PodMatrix,
        errors=_MISSING,
    ),
    ApiEndpoint("plan", "GET", "/plan", "The current plan.", PlanPageView),
    ApiEndpoint(
        "plan_document", "GET", "/plan/document", "The current plan for `rescheduler apply`.", PlanForm
    ),
    ApiEndpoint(
        "what_if",
        "POST",
        "/what-if",
        "Plan again with changes. Changes nothing in the cluster.",
        WhatIfView,
        body=WhatIfRequest,
        needs_csrf=True,
    ),
    ApiEndpoint(
        "what_if_link",
        "GET",
        "/what-if/{code}",
        "The plan of a what-if, by the code of a link.",
        WhatIfView,
        errors=(400,),
    ),
    ApiEndpoint(
        "what_if_document",
        "GET",
        "/what-if/{code}/document",
        "The plan of a what-if for `rescheduler apply`.",
        PlanForm,
        errors=(400, 409),
    ),
    ApiEndpoint(
        "migrations",
        "GET",
        "/migrations",
        "Running and finished migrations.",
        MigrationList,
        query=MigrationQuery,
    ),
    ApiEndpoint(
        "migration",
        "GET",
        "/migrations/{namespace}/{name}",
        "One migration with its timeline.",
        MigrationDetail,
        errors=_MISSING,
    ),
    ApiEndpoint(
        "preview_action",
        "POST",
        "/actions/preview",
        "Preview the objects that an action would create or change.",
        ActionPreview,
        body=ActionRequest,
        needs_csrf=True,
        errors=(403, 404, 409),
    ),
    ApiEndpoint(
        "confirm_action",
        "POST",
        "/actions/confirm",
        "Execute an action after its preview.",
        ActionResult,
        body=ConfirmRequest,
        needs_csrf=True,
        errors=(403, 404, 409),
    ),
    ApiEndpoint(
        "events",
        "GET",
        "/events",
        "Changes as server-sent events: nodes, migrations, status, plan, resync. Reconnect with "
        "Last-Event-ID; after `resync`, load everything again.",
        str,
        media_type="text/event-stream",
    ),
)

SSE_EVENTS: Final[dict[str, Any]] = {
    "nodes": NodesDelta,
    "migrations": MigrationsDelta,
    "status": StatusView,
    "plan": PlanEvent,
    "resync": ResyncEvent,
}
"""The data of each server-sent event."""

_COMMON_ERRORS: Final = {
    "401": "No session, or it has expired: log in.",
    "403": "The viewer may not do this, or the request comes from another site.",
    "422": "The request is invalid.",
    "429": "Too many requests: try again later.",
    "503": "The cluster is not known yet.",
}
_MORE_ERRORS: Final = {
    400: "The code of the link is invalid.",
    401: "The token is not valid.",
    403: "The viewer may not do this.",
    404: "There is no such object, or the viewer may not see it.",
    409: "Not possible in the current state.",
}


def openapi_document() -> dict[str, Any]:
    """Return the OpenAPI 3.1 description."""
    types: list[Any] = [ErrorView]
    for each in ENDPOINTS:
        types += [kind for kind in (each.returns, each.query, each.body) if kind is not None]
    types += SSE_EVENTS.values()
    schemas, components = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    schema_of = dict(zip(map(_identity, types), schemas, strict=True))
    paths: dict[str, Any] = {}
    for each in ENDPOINTS:
        paths.setdefault(f"{API_PREFIX}{each.path}", {})[each.method.lower()] = _operation(
            each, schema_of, components
        )
    document = {
        "openapi": "3.1.0",
        "info": {
            "title": "rescheduler web API",
            "version": "1",
            "description": "The data of the web page. Texts from the cluster are plain text.",
        },
        "paths": paths,
        "components": {
            "schemas": dict(sorted(components.items())),
            "securitySchemes": {
                "session": {"type": "apiKey", "in": "cookie", "name": "rescheduler-session"},
            },
        },
        "security": [{"session": []}],
        "x-server-sent-events": {name: schema_of[_identity(kind)] for name, kind in SSE_EVENTS.items()},
    }
    found: dict[str, Any] = _named_for_clients(document)
    return found


def _identity(kind: Any) -> str:
    return getattr(kind, "__qualname__", "") or str(kind)


def _operation(each: ApiEndpoint, schema_of: dict[str, Any], components: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"operationId": each.handler, "summary": each.summary}
    parameters = [*_path_parameters(each), *_query_parameters(each, components)]
    if each.needs_csrf:
        parameters.append(
            {
                "name": CSRF_HEADER,
                "in": "header",
                "required": False,
                "description": "`csrfToken` of the session; required with a session cookie.",
                "schema": {"type": "string"},
            }
        )
    if parameters:
        found["parameters"] = parameters
    if each.body is not None:
        content = {"application/json": {"schema": schema_of[_identity(each.body)]}}
        found["requestBody"] = {"required": True, "content": content}
    found["responses"] = _responses(each, schema_of)
    if each.is_public:
        found["security"] = []
    return found


def _path_parameters(each: ApiEndpoint) -> Iterator[dict[str, Any]]:
    for part in each.path.split("/"):
        if part.startswith("{"):
            yield {
                "name": part.strip("{}"),
                "in": "path",
                "required": True,
                "schema": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 8192 if "code" in part else MAX_NAME,
                },
            }


def _query_parameters(each: ApiEndpoint, components: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if each.query is None:
        return
    schema = components[each.query.__name__]
    for name, field in schema["properties"].items():
        described = dict(field)
        description = described.pop("description", "")
        required = name in schema.get("required", ())
        yield {"name": name, "in": "query", "required": required, "schema": described} | (
            {"description": description} if description else {}
        )


def _responses(each: ApiEndpoint, schema_of: dict[str, Any]) -> dict[str, Any]:
    error = {"application/json": {"schema": schema_of[_identity(ErrorView)]}}
    content = {each.media_type: {"schema": schema_of[_identity(each.returns)]}}
    found: dict[str, Any] = {"200": {"description": "OK", "content": content}}
    for status in each.errors:
        found[str(status)] = {"description": _MORE_ERRORS[status], "content": error}
    for code, words in _COMMON_ERRORS.items():
        found.setdefault(code, {"description": words, "content": error})
    return found


def openapi_text() -> str:
    """Return the description as it is committed and served."""
    return json.dumps(openapi_document(), indent=2, ensure_ascii=False) + "\n"


_PUBLIC_NAMES: Final = {
    "PlanPageView": "PlanView",
    "PreviewedChange": "ObjectChange",
    "MigrationTimelineEntry": "TimelineEntry",
}
"""Types that have another name in the code, where each name occurs once."""


def _named_for_clients(value: Any) -> Any:
    if isinstance(value, dict):
        return {_PUBLIC_NAMES.get(key, key): _named_for_clients(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_named_for_clients(part) for part in value]
    if isinstance(value, str):
        path, slash, name = value.rpartition("/")
        return path + slash + _PUBLIC_NAMES.get(name, name)
    return value
