"""All verbs of the Kubernetes API, over any transport.

    pod = await client.get(PODS, "shop/web-1")                      # a PodRecord
    page = await client.list(NODES, labels="pool=blue")             # all pages in one
    async with client.watch(PODS, version=page.resource_version) as events: ...
    await client.patch(DEPLOYMENTS, "shop/web", merge_patch({"metadata": {"labels": {"a": "b"}}}))
    await client.patch(DEPLOYMENTS.scale, "shop/web", merge_patch({"spec": {"replicas": 3}}))
    await client.evict("shop/web-1", uid=pod.uid)

Every failure raises one of `errors`. Reads that an overloaded server refuses are retried a few times. A write
is sent only once: the caller knows what the write means, and decides whether to repeat it.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any, Literal, TypeVar

import msgspec

from rescheduler.kube import errors
from rescheduler.kube.api_resources import (
    ApiCall,
    ApiResource,
    Object,
    Patch,
    api_resource,
    identity_of_object,
    split_key,
)
from rescheduler.kube.codecs.codec import JSON, ListPage, Undecodable
from rescheduler.kube.request_sender import (
    DEFAULT_RETRIES,
    PROBE_EVERY_S,
    PROBE_TIMEOUT_S,
    QUICK_RETRIES,
    Query,
    RateLimiter,
    RequestObserver,
    RequestSender,
    RetryPolicy,
    ServerLiveness,
    collection_path,
    decode_body,
    object_path,
    retry_while_overloaded,
)
from rescheduler.kube.transport import ApiRequest, Transport
from rescheduler.kube.watch_cache import Watch
from rescheduler.kube.work_queue import background_task

__all__ = ["FIELD_MANAGER", "PAGE_SIZE", "Client", "Propagation", "RequestObserver", "VersionMatch"]

log = logging.getLogger(__name__)

T = TypeVar("T")

Propagation = Literal["Background", "Foreground", "Orphan"]
VersionMatch = Literal["", "NotOlderThan", "Exact"]

FIELD_MANAGER = "rescheduler"
"""The name under which the API server records which fields we have written."""
PAGE_SIZE = 500
"""Objects per page of a list, as in kubectl and client-go."""
_PODS = api_resource("", "v1", "pods", "Pod")
ACCEPT_WATCH_S = 10.0
"""A server answers a watch immediately with headers; if it takes longer, the request fails and is retried."""


class Client:
    """Call the API server. Any number of tasks can share a client: its only state is the rate limit and
    `liveness`."""

    def __init__(
        self,
        transport: Transport,
        *,
        rate_limit: RateLimiter | None = None,
        timeout_s: float = 30.0,
        field_manager: str = FIELD_MANAGER,
        observer: RequestObserver | None = None,
        retry_policy: RetryPolicy = DEFAULT_RETRIES,
        liveness: ServerLiveness | None = None,
    ) -> None:
        """Create a client. `timeout_s` is for one request; watches have their own. By default, requests are
        not rate-limited."""
        self.transport = transport
        self.liveness = liveness or ServerLiveness()
        self._sender = RequestSender(
            transport, rate_limit or RateLimiter(), timeout_s, observer, retry_policy, self.liveness
        )  # fmt: skip
        self.field_manager = field_manager
        """The name under which the API server records what this client has written."""

    def with_quick_retries(self) -> "Client":
        """Return a client for optional reads: it retries an overloaded server soon, and only once."""
        sender = self._sender
        return Client(
            sender.transport,
            rate_limit=sender.rate_limit,
            timeout_s=sender.timeout_s,
            field_manager=self.field_manager,
            observer=sender.observer,
            retry_policy=QUICK_RETRIES,
            liveness=sender.liveness,
        )

    async def close(self) -> None:
        await self.transport.close()

    # --- reading ---

    async def get(self, resource: ApiResource[T], key: str, *, version: str = "") -> T:
        """Return the newest state, or an older one if `version` allows it (`"0"`: what the server has
        cached)."""
        query = _non_empty(("resourceVersion", version))
        return await self._sender.read(
            _call_for("get", resource, key), resource, query, resource.codec.decode_one
        )

    async def get_or_none(self, resource: ApiResource[T], key: str) -> T | None:
        """Return the newest state; None if the object does not exist."""
        try:
            return await self.get(resource, key)
        except errors.NotFound:
            return None

    async def probe(self, timeout_s: float = PROBE_TIMEOUT_S) -> bool:
        """Return whether the server answers at all, even with a refusal. This is the cheapest read."""
        request = replace(self._sender.request("GET", "/livez", (), JSON), timeout_s=timeout_s)
        try:
            response = await self._sender.send(ApiCall("get", "/livez"), request)
        except errors.KubeError as error:
            return not isinstance(error, errors.Unreachable)
        await response.close()
        return True

    @contextlib.asynccontextmanager
    async def probing(self) -> AsyncIterator[None]:
        """Probe the server while the body runs, whenever it has answered nothing for a while."""
        async with background_task(self._probe_periodically(), "API server probe"):
            yield

    async def _probe_periodically(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due_in_s = self.liveness.answered_at + PROBE_EVERY_S - loop.time()
            if due_in_s <= 0:
                await self.probe()
            await asyncio.sleep(max(due_in_s, 1.0))

    async def server_version(self) -> Object:
        """Return the content of `/version`: `gitVersion`, `major`, `minor` and more."""
        return await self.document("/version")

    async def document(self, path: str, *, accept: str = JSON) -> Object:
        """Return the JSON document at a path that belongs to no resource, such as discovery."""
        call = ApiCall("get", path)
        request = self._sender.request("GET", path, (), accept)
        content_type, body = await retry_while_overloaded(lambda: self._sender.exchange(call, request))
        return decode_body(call, content_type, body, _json_object)

    async def list(
        self,
        resource: ApiResource[T],
        *,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        version: str = "",
        match: VersionMatch = "",
        page_size: int = PAGE_SIZE,
    ) -> ListPage[T]:
        """Return all matching objects as one page at one version; of all namespaces unless one is given.

        Without `version`, the list is the newest state, read with a quorum. With `"0"`, it is what the server
        has cached, which may be older than an earlier answer. `match` refines what `version` means.

        All pages show the same version. If the server compacts that version in the meantime (410), the list
        is read again without pages: more work for the server, but it can't expire again.
        """
        query = _non_empty(
            ("labelSelector", labels),
            ("fieldSelector", fields),
            ("resourceVersion", version),
            ("resourceVersionMatch", match),
        )
        try:
            return await self._all_pages(resource, namespace, query, page_size)
        except errors.Gone:
            if not page_size:
                raise
            log.info(
                "the pages of %s expired while being read; reading the list again in one page", resource.label
            )
            return await self._all_pages(resource, namespace, query, 0)

    def pages(
        self, resource: ApiResource[T], *, namespace: str = "", fields: str = "", page_size: int = PAGE_SIZE
    ) -> AsyncIterator[ListPage[T]]:
        """Return all matching objects page by page, for callers that keep only a few of them."""
        return self._pages(resource, namespace, _non_empty(("fieldSelector", fields)), page_size)

    async def newest_version(
        self, resource: ApiResource[T], *, namespace: str = "", labels: str = "", fields: str = ""
    ) -> str:
        """Return the resourceVersion that a list would have now, read with a quorum and almost no data."""
        query = _non_empty(("labelSelector", labels), ("fieldSelector", fields), ("limit", "1"))
        call = ApiCall("list", resource.label, namespace)
        return (await self._sender.read_page(call, resource, query)).resource_version

    def watch(
        self,
        resource: ApiResource[T],
        *,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        version: str = "",
        timeout_s: float = 300.0,
        silence_s: float = 0.0,
    ) -> Watch[T]:
        """Watch changes after `version`, until the server ends the watch after about `timeout_s`. See
        `Watch`.

        With `silence_s`, a watch without any event or bookmark for that time raises `WatchStalled`.
        """
        call = ApiCall("watch", resource.label, namespace)
        query = _non_empty(
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            ("timeoutSeconds", str(max(1, round(timeout_s)))),
            ("labelSelector", labels),
            ("fieldSelector", fields),
            ("resourceVersion", version),
        )
        accept = resource.codec.watch_accept
        path = collection_path(call, resource)
        request = self._sender.request("GET", path, query, accept, streaming=True)
        request = replace(request, timeout_s=min(request.timeout_s, ACCEPT_WATCH_S))
        return Watch(call, resource.codec, lambda: self._sender.send(call, request), silence_s)

    # --- writing ---

    async def create(self, resource: ApiResource[T], item: Mapping[str, Any], *, dry_run: bool = False) -> T:
        """Create `item`, which has its namespace and name; with `generateName` the server chooses the
        name."""
        metadata = item["metadata"]
        namespace, name = metadata.get("namespace", ""), metadata.get("name", "")
        call = ApiCall("create", resource.label, namespace, name, resource.subresource)
        # A subresource is created below its object, an object below its collection.
        path = object_path(call, resource) if resource.subresource else collection_path(call, resource)
        request = self._sender.request("POST", path, self._options(dry_run), resource.codec.accept, item)
        return await self._written(call, resource, request)

    async def replace(self, resource: ApiResource[T], item: Mapping[str, Any], *, dry_run: bool = False) -> T:
        """Replace an object; raise `Conflict` unless it still has the resourceVersion that `item` has."""
        call = _call_for("update", resource, identity_of_object(dict(item)).key)
        path = object_path(call, resource)
        request = self._sender.request("PUT", path, self._options(dry_run), resource.codec.accept, item)
        return await self._written(call, resource, request)

    async def patch(self, resource: ApiResource[T], key: str, patch: Patch, *, dry_run: bool = False) -> T:
        """Patch an object. `api_resources` builds the four kinds of patches, with their preconditions."""
        call = _call_for("patch", resource, key)
        query = self._options(dry_run, patch.field_manager) + _non_empty(
            ("force", "true" if patch.force else "")
        )
        request = self._sender.request(
            "PATCH",
            object_path(call, resource),
            query,
            resource.codec.accept,
            patch.body,
            content_type=patch.content_type,
        )
        return await self._written(call, resource, request)

    async def delete(
        self,
        resource: ApiResource[T],
        key: str,
        *,
        uid: str = "",
        version: str = "",
        grace_s: int | None = None,
        propagation: Propagation | None = None,
        dry_run: bool = False,
    ) -> None:
        """Delete an object; raise `Conflict` if it has another uid or version than given.

        Returns when the server has accepted the request: finalizers or a grace period may keep the object for
        some time.
        """
        call = _call_for("delete", resource, key)
        options = _delete_options(uid=uid, version=version, grace_s=grace_s, dry_run=dry_run)
        if propagation:
            options["propagationPolicy"] = propagation
        path = object_path(call, resource)
        await self._sender.exchange(call, self._sender.request("DELETE", path, (), JSON, options))

    async def evict(
        self, key: str, *, uid: str = "", version: str = "", grace_s: int | None = None, dry_run: bool = False
    ) -> None:
        """Evict a pod; raise `BudgetRefused` if its disruption budget does not allow that now.

        With `uid`, raise `Conflict` if another pod has that name now.
        """
        namespace, name = split_key(key)
        call = ApiCall("evict", _PODS.label, namespace, name)
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"namespace": namespace, "name": name},
            "deleteOptions": _delete_options(uid=uid, version=version, grace_s=grace_s, dry_run=dry_run),
        }
        path = object_path(call, _PODS.sub("eviction"))
        await self._sender.exchange(call, self._sender.request("POST", path, (), JSON, eviction))

    # --- shared by several verbs ---

    async def _all_pages(
        self, resource: ApiResource[T], namespace: str, query: Query, page_size: int
    ) -> ListPage[T]:
        pages = [page async for page in self._pages(resource, namespace, query, page_size)]
        return ListPage([item for page in pages for item in page.items], pages[0].resource_version)

    async def _pages(
        self, resource: ApiResource[T], namespace: str, query: Query, page_size: int
    ) -> AsyncIterator[ListPage[T]]:
        call = ApiCall("list", resource.label, namespace)
        limit = _non_empty(("limit", str(page_size or "")))
        page = await self._sender.read_page(call, resource, query + limit)
        yield page
        # A continued list has its version in the token; naming one beside it is refused.
        rest = tuple(pair for pair in query if not pair[0].startswith("resourceVersion")) + limit
        while token := page.continue_token:
            page = await self._sender.read_page(call, resource, (*rest, ("continue", token)))
            if page.continue_token == token:
                raise errors.InvalidResponse(call, "the server returns the same page again")
            yield page

    async def _written(self, call: ApiCall, resource: ApiResource[T], request: ApiRequest) -> T:
        content_type, body = await self._sender.exchange(call, request)
        return decode_body(call, content_type, body, resource.codec.decode_one)

    def _options(self, dry_run: bool, manager: str = "") -> Query:
        return _non_empty(
            ("fieldManager", manager or self.field_manager), ("dryRun", "All" if dry_run else "")
        )


def _call_for(verb: str, resource: ApiResource[Any], key: str) -> ApiCall:
    namespace, name = split_key(key)
    return ApiCall(verb, resource.label, namespace, name, resource.subresource)


def _json_object(content_type: str, body: bytes) -> Object:
    try:
        return msgspec.json.decode(body, type=Object)
    except msgspec.DecodeError as error:
        raise Undecodable("an object", content_type, str(error)) from error


def _non_empty(*pairs: tuple[str, str]) -> Query:
    return tuple(pair for pair in pairs if pair[1])


def _delete_options(*, uid: str, version: str, grace_s: int | None, dry_run: bool) -> Object:
    options: Object = {"apiVersion": "v1", "kind": "DeleteOptions"}
    preconditions = {name: value for name, value in (("uid", uid), ("resourceVersion", version)) if value}
    if preconditions:
        options["preconditions"] = preconditions
    if grace_s is not None:
        options["gracePeriodSeconds"] = grace_s
    if dry_run:
        options["dryRun"] = ["All"]
    return options
