"""What can be done to objects and collections: one method per verb, from a question to an answer."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

from msgspec import structs

from rescheduler.simulator import conversion
from rescheduler.simulator.cluster import Cluster
from rescheduler.simulator.deletion import Deleted, DeleteOptions
from rescheduler.simulator.exchange import Answer, Object, Question, answer_bytes, answer_object
from rescheduler.simulator.failures import Failure, bad_request, method_not_allowed
from rescheduler.simulator.kinds import Kind
from rescheduler.simulator.listing import bad_options, list_page, parse_version
from rescheduler.simulator.negotiation import expect_type_and_metadata, parse_body, view_for
from rescheduler.simulator.objections import check_preconditions, unmet
from rescheduler.simulator.options import Preconditions, WriteOptions
from rescheduler.simulator.patching import Patch
from rescheduler.simulator.presentation import Presentation
from rescheduler.simulator.routing import Route
from rescheduler.simulator.selection import Selection
from rescheduler.simulator.usage import UsageView
from rescheduler.simulator.watching import Watches, WatchOptions

__all__ = ["Verbs", "body_object"]

_METRICS = "metrics.k8s.io"
_WATCH_SECONDS = 1800.0
_LONGEST_WATCH_SECONDS = 10**9
_RETURNED_WHEN_DELETED = frozenset(
    {"Pod", "Service", "ServiceAccount", "ResourceQuota", "PersistentVolume", "PersistentVolumeClaim",
     "Namespace", "StorageClass", "CSINode", "CSIDriver", "VolumeAttachment"}
)  # fmt: skip


class Verbs:
    def __init__(self, cluster: Cluster, watches: Watches, usage: UsageView) -> None:
        self._cluster = cluster
        self._usage = usage
        self._watches = watches

    def presentation(self, question: Question, kind: Kind) -> Presentation:
        return Presentation(
            kind,
            view_for(question.headers),
            now=self._cluster.clock.now,
            columns=self._cluster.admission.printer_columns,
            include_object=question.query.get("includeObject", ""),
        )

    async def get(self, question: Question, route: Route) -> Answer:
        shown = self.presentation(question, route.kind)
        if route.kind.group == _METRICS:
            record = self._usage.one(route.kind, route.namespace, route.name)
        else:
            record = self._cluster.expect(route.kind, route.namespace, route.name)
        return answer_bytes(200, shown.one(record.raw), shown.content_type)

    async def list(self, question: Question, route: Route) -> Answer:
        if question.asks("watch"):
            return self.watch(question, route)
        shown = self.presentation(question, route.kind)
        selection = Selection.parse(route, question.query)
        if route.kind.group == _METRICS:
            measured = self._usage.records(route.kind, selection)
            return answer_bytes(200, shown.many(measured, {}), shown.content_type)
        page = list_page(self._cluster.store, route.kind, selection, question.query)
        return answer_bytes(200, shown.many(page.records, page.metadata), shown.content_type)

    def watch(self, question: Question, route: Route) -> Answer:
        if "watch" not in route.kind.verbs:
            raise method_not_allowed()
        query = question.query
        initial = query.get("sendInitialEvents")
        if initial is None and query.get("resourceVersionMatch"):
            why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            raise bad_options("resourceVersionMatch", f"Forbidden: {why}")
        options = WatchOptions(
            version=_watched_version(query.get("resourceVersion", "")),
            bookmarks=question.asks("allowWatchBookmarks"),
            timeout_s=_seconds(query.get("timeoutSeconds")),
            initial_events=None if initial is None else question.asks("sendInitialEvents"),
        )
        shown = self.presentation(question, route.kind)
        lines = self._watches.stream(route.kind, Selection.parse(route, query), options, shown)
        return Answer(200, {"content-type": shown.content_type}, lines)

    async def create(self, question: Question, route: Route) -> Answer:
        if route.in_all_namespaces:
            raise method_not_allowed()
        shown = self.presentation(question, route.kind)
        options = WriteOptions.parse(question)
        content = body_object(question)
        warnings = self._cluster.admission.warnings(route.kind, content, options)
        kind, content = conversion.stored(route.kind, content)
        raw = await self._cluster.writer.create(kind, route.namespace, content, options)
        headers = _warning([*warnings, *options.warnings])
        return answer_bytes(201, shown.one(raw), shown.content_type, headers)

    async def replace(self, question: Question, route: Route) -> Answer:
        options = WriteOptions.parse(question, kind="UpdateOptions")
        content = body_object(question)
        warnings = self._cluster.admission.warnings(route.kind, content, options)
        _, content = conversion.stored(route.kind, content)
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
            question, route, replaced, options, may_create=route.kind.created_by_put and not route.subresource
        )
        return answer._replace(headers={**answer.headers, **_warning([*warnings, *options.warnings])})

    async def patch(self, question: Question, route: Route) -> Answer:
        options = WriteOptions.parse(question, kind="PatchOptions")
        patch = Patch(
            route.kind,
            route.name,
            question,
            options,
            self._cluster.clock.now(),
            schema=self._cluster.admission.merge_schema(route.kind),
            known_fields=lambda content: self._cluster.admission.warnings(route.kind, content, options),
        )
        changing = structs.replace(options, applies=patch.is_apply)
        may_create = patch.is_apply and not route.subresource
        answer = await self._change(question, route, patch, changing, may_create=may_create)
        return answer._replace(headers={**answer.headers, **_warning([*patch.warnings, *options.warnings])})

    async def _change(
        self,
        question: Question,
        route: Route,
        transform: Callable[[Object | None], Object],
        options: WriteOptions,
        *,
        may_create: bool,
    ) -> Answer:
        shown = self.presentation(question, route.kind)
        raw, created = await self._cluster.writer.change(
            conversion.stored_kind(route.kind),
            route.namespace,
            route.name,
            transform,
            options,
            subresource=route.subresource,
            may_create=may_create,
        )
        return answer_bytes(201 if created else 200, shown.one(raw), shown.content_type)

    async def delete(self, question: Question, route: Route) -> Answer:
        shown = self.presentation(question, route.kind)
        options = _delete_options(question)
        await self._review_deletion(question, route.kind, route.namespace, route.name)
        deleted = self._cluster.deletion.delete(route.kind, route.namespace, route.name, options)
        if deleted.gone and route.kind.name not in _RETURNED_WHEN_DELETED:
            return answer_object(200, _success(route.kind, deleted))
        return answer_bytes(200, shown.one(deleted.raw), shown.content_type)

    async def delete_collection(self, question: Question, route: Route) -> Answer:
        if route.in_all_namespaces:
            raise method_not_allowed()
        shown = self.presentation(question, route.kind)
        options = _delete_options(question)
        selection = Selection.parse(route, question.query)
        page = list_page(self._cluster.store, route.kind, selection, question.query)
        for record in page.records:
            await self._review_deletion(question, route.kind, record.namespace, record.name)
        self._cluster.deletion.delete_all(route.kind, page.records, options)
        return answer_bytes(200, shown.many(page.records, page.metadata), shown.content_type)

    async def _review_deletion(self, question: Question, kind: Kind, namespace: str, name: str) -> None:
        """Of an object that is not there nobody is asked; that it is not is said elsewhere."""
        record = self._cluster.store.find(kind, namespace, name)
        if record is not None:
            options = WriteOptions.parse(question, kind="DeleteOptions")
            await self._cluster.admission.webhooks.review_deletion(kind, record, options)


def _warning(told: Sequence[str]) -> dict[str, str]:
    quoted = (text.replace("\\", "\\\\").replace('"', '\\"') for text in told)
    return {"warning": ", ".join(f'299 - "{text}"' for text in quoted)} if told else {}


def body_object(question: Question) -> Object:
    """What the request brings, as far as every object has it: whatever else is in it, its kind checks."""
    content: Any = parse_body(question.headers, question.body)
    if not isinstance(content, dict):
        raise bad_request("the body of the request is not an object")
    expect_type_and_metadata(content)
    return content


def _delete_options(question: Question) -> DeleteOptions:
    return DeleteOptions.parse(question.query, body_object(question) if question.body else None)


def _seconds(text: str | None) -> float:
    try:
        return min(int(text), _LONGEST_WATCH_SECONDS) if text else _WATCH_SECONDS
    except ValueError as error:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from error


def _watched_version(text: str) -> int | None:
    """The real server takes nonsense about a watch's version for a fault of its own."""
    try:
        return parse_version(text)
    except Failure as refused:
        raise Failure(500, "", refused.message.removeprefix("invalid resource version: ")) from refused


def _success(kind: Kind, deleted: Deleted) -> Object:
    details = {"name": deleted.record.name, "kind": kind.plural, "uid": deleted.record.uid}
    if kind.group:
        details["group"] = kind.group
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
