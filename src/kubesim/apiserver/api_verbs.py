"""The verbs on objects and collections, one method each, from request to response."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

from msgspec import structs

from kubesim.apiserver import event_conversion
from kubesim.apiserver.api_messages import (
    Object,
    ServerRequest,
    ServerResponse,
    bytes_response,
    object_response,
)
from kubesim.apiserver.content_negotiation import expect_type_and_metadata, parse_body, response_format
from kubesim.apiserver.kind_registry import ResourceKind
from kubesim.apiserver.list_requests import ListSelection, bad_options, list_page, parse_version
from kubesim.apiserver.metrics_server import MetricsApi
from kubesim.apiserver.object_deletion import DeleteOptions, DeletionOutcome
from kubesim.apiserver.object_presentation import ObjectPresentation
from kubesim.apiserver.request_route import RequestRoute
from kubesim.apiserver.simulated_cluster import SimulatedCluster
from kubesim.apiserver.status_errors import StatusError, bad_request, method_not_allowed
from kubesim.apiserver.watch_streams import OpenWatches, WatchOptions
from kubesim.apiserver.write_options import Preconditions, WriteOptions, check_preconditions, unmet
from kubesim.patches.patch_request import PatchRequest

__all__ = ["ApiVerbs", "body_object", "warning_headers"]

_METRICS = "metrics.k8s.io"
_WATCH_SECONDS = 1800.0
_LONGEST_WATCH_SECONDS = 10**9
_RETURNED_WHEN_DELETED = frozenset(
    {"Pod", "Service", "ServiceAccount", "ResourceQuota", "PersistentVolume", "PersistentVolumeClaim",
     "Namespace", "StorageClass", "CSINode", "CSIDriver", "VolumeAttachment"}
)  # fmt: skip


class ApiVerbs:
    def __init__(self, cluster: SimulatedCluster, watches: OpenWatches, usage: MetricsApi) -> None:
        self._cluster = cluster
        self._usage = usage
        self._watches = watches

    def presentation(self, request: ServerRequest, kind: ResourceKind) -> ObjectPresentation:
        return ObjectPresentation(
            kind,
            response_format(request.headers),
            now=self._cluster.clock.now,
            columns=self._cluster.admission.printer_columns,
            include_object=request.query.get("includeObject", ""),
        )

    async def get(self, request: ServerRequest, route: RequestRoute) -> ServerResponse:
        shown = self.presentation(request, route.kind)
        if route.kind.group == _METRICS:
            record = self._usage.one(route.kind, route.namespace, route.name)
        else:
            record = self._cluster.expect(route.kind, route.namespace, route.name)
        return bytes_response(200, shown.one(record.raw), shown.content_type)

    async def list(self, request: ServerRequest, route: RequestRoute) -> ServerResponse:
        if request.has_flag("watch"):
            return self.watch(request, route)
        shown = self.presentation(request, route.kind)
        selection = ListSelection.parse(route, request.query)
        if route.kind.group == _METRICS:
            measured = self._usage.records(route.kind, selection)
            return bytes_response(200, shown.many(measured, {}), shown.content_type)
        page = list_page(self._cluster.store, route.kind, selection, request.query)
        return bytes_response(200, shown.many(page.records, page.metadata), shown.content_type)

    def watch(self, request: ServerRequest, route: RequestRoute) -> ServerResponse:
        if "watch" not in route.kind.verbs:
            raise method_not_allowed()
        query = request.query
        initial = query.get("sendInitialEvents")
        if initial is None and query.get("resourceVersionMatch"):
            why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            raise bad_options("resourceVersionMatch", f"Forbidden: {why}")
        options = WatchOptions(
            version=_watched_version(query.get("resourceVersion", "")),
            bookmarks=request.has_flag("allowWatchBookmarks"),
            timeout_s=_seconds(query.get("timeoutSeconds")),
            initial_events=None if initial is None else request.has_flag("sendInitialEvents"),
        )
        shown = self.presentation(request, route.kind)
        lines = self._watches.stream(route.kind, ListSelection.parse(route, query), options, shown)
        return ServerResponse(200, {"content-type": shown.content_type}, lines)

    async def create(self, request: ServerRequest, route: RequestRoute) -> ServerResponse:
        if route.in_all_namespaces:
            raise method_not_allowed()
        shown = self.presentation(request, route.kind)
        options = WriteOptions.parse(request)
        content = body_object(request)
        warnings = self._cluster.admission.warnings(route.kind, content, options)
        kind, content = event_conversion.stored(route.kind, content)
        raw = await self._cluster.writer.create(kind, route.namespace, content, options)
        headers = warning_headers([*warnings, *options.warnings])
        return bytes_response(201, shown.one(raw), shown.content_type, headers)

    async def replace(self, request: ServerRequest, route: RequestRoute) -> ServerResponse:
        options = WriteOptions.parse(request, kind="UpdateOptions")
        content = body_object(request)
        warnings = self._cluster.admission.warnings(route.kind, content, options)
        _, content = event_conversion.stored(route.kind, content)
        wanted_uid = (content.get("metadata") or {}).get("uid")

        def replaced(live: Object | None) -> Object:
            if live is None and wanted_uid:
                why = f"UID in precondition: {wanted_uid}, UID in object meta: "
                raise unmet(route.kind, route.namespace, route.name, why)
            if wanted_uid:
                record = self._cluster.expect(route.kind, route.namespace, route.name)
                check_preconditions(route.kind, record, Preconditions(uid=wanted_uid))
            return deepcopy(content)  # it may be asked for again, if the object changes meanwhile

        answer = await self._change(
            request, route, replaced, options, may_create=route.kind.created_by_put and not route.subresource
        )
        return answer._replace(headers={**answer.headers, **warning_headers([*warnings, *options.warnings])})

    async def patch(self, request: ServerRequest, route: RequestRoute) -> ServerResponse:
        options = WriteOptions.parse(request, kind="PatchOptions")
        patch = PatchRequest(
            route.kind,
            route.name,
            request,
            options,
            self._cluster.clock.now(),
            schema=self._cluster.admission.merge_schema(route.kind),
            known_fields=lambda content: self._cluster.admission.warnings(route.kind, content, options),
        )
        changing = structs.replace(options, applies=patch.is_apply)
        may_create = patch.is_apply and not route.subresource
        answer = await self._change(request, route, patch, changing, may_create=may_create)
        return answer._replace(
            headers={**answer.headers, **warning_headers([*patch.warnings, *options.warnings])}
        )

    async def _change(
        self,
        request: ServerRequest,
        route: RequestRoute,
        transform: Callable[[Object | None], Object],
        options: WriteOptions,
        *,
        may_create: bool,
    ) -> ServerResponse:
        shown = self.presentation(request, route.kind)
        raw, created = await self._cluster.writer.change(
            event_conversion.stored_kind(route.kind),
            route.namespace,
            route.name,
            transform,
            options,
            subresource=route.subresource,
            may_create=may_create,
        )
        return bytes_response(201 if created else 200, shown.one(raw), shown.content_type)

    async def delete(self, request: ServerRequest, route: RequestRoute) -> ServerResponse:
        shown = self.presentation(request, route.kind)
        options = _delete_options(request)
        await self._review_deletion(request, route.kind, route.namespace, route.name)
        deleted = self._cluster.deletion.delete(route.kind, route.namespace, route.name, options)
        if deleted.gone and route.kind.name not in _RETURNED_WHEN_DELETED:
            return object_response(200, _success(route.kind, deleted))
        return bytes_response(200, shown.one(deleted.raw), shown.content_type)

    async def delete_collection(self, request: ServerRequest, route: RequestRoute) -> ServerResponse:
        if route.in_all_namespaces:
            raise method_not_allowed()
        shown = self.presentation(request, route.kind)
        options = _delete_options(request)
        selection = ListSelection.parse(route, request.query)
        page = list_page(self._cluster.store, route.kind, selection, request.query)
        for record in page.records:
            await self._review_deletion(request, route.kind, record.namespace, record.name)
        self._cluster.deletion.delete_all(route.kind, page.records, options)
        return bytes_response(200, shown.many(page.records, page.metadata), shown.content_type)

    async def _review_deletion(
        self, request: ServerRequest, kind: ResourceKind, namespace: str, name: str
    ) -> None:
        """Call the webhooks of a deletion if the object exists; the caller handles objects that don't."""
        record = self._cluster.store.find(kind, namespace, name)
        if record is not None:
            options = WriteOptions.parse(request, kind="DeleteOptions")
            await self._cluster.admission.webhooks.review_deletion(kind, record, options)


def warning_headers(warnings: Sequence[str]) -> dict[str, str]:
    """Return the header that has the warnings for the client."""
    quoted = (text.replace("\\", "\\\\").replace('"', '\\"') for text in warnings)
    return {"warning": ", ".join(f'299 - "{text}"' for text in quoted)} if warnings else {}


def body_object(request: ServerRequest) -> Object:
    """Return the object in the body after the checks that all kinds share."""
    content: Any = parse_body(request.headers, request.body)
    if not isinstance(content, dict):
        raise bad_request("the body of the request is not an object")
    expect_type_and_metadata(content)
    return content


def _delete_options(request: ServerRequest) -> DeleteOptions:
    return DeleteOptions.parse(request.query, body_object(request) if request.body else None)


def _seconds(text: str | None) -> float:
    try:
        return min(int(text), _LONGEST_WATCH_SECONDS) if text else _WATCH_SECONDS
    except ValueError as error:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from error


def _watched_version(text: str) -> int | None:
    """Return the version to watch from; the real server reports an invalid one as an internal error."""
    try:
        return parse_version(text)
    except StatusError as refused:
        raise StatusError(500, "", refused.message.removeprefix("invalid resource version: ")) from refused


def _success(kind: ResourceKind, deleted: DeletionOutcome) -> Object:
    details = {"name": deleted.record.name, "kind": kind.plural, "uid": deleted.record.uid}
    if kind.group:
        details["group"] = kind.group
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
