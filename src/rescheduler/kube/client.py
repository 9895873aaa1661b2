"""All verbs of the Kubernetes API, over any transport.

    pod = await client.get(PODS, "shop/web-1")                      # a PodRecord
    page = await client.list(NODES, labels="pool=blue")             # all pages in one
    async with client.watch(PODS, version=page.resource_version) as events: ...
    await client.patch(DEPLOYMENTS, "shop/web", merge_patch({"metadata": {"labels": {"a": "b"}}}))
    await client.patch(DEPLOYMENTS.scale, "shop/web", merge_patch({"spec": {"replicas": 3}}))
    await client.evict("shop/web-1", uid=pod.uid)

Whatever fails raises one of `errors`. Reads that an overloaded server puts off are repeated a few times;
a write is sent once and never again: whether to repeat it is for the caller, who knows what it means.
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
    api_resource,
    identity_of_object,
    split_key,
)
from rescheduler.kube.codecs.codec import ListPage, Undecodable
from rescheduler.kube.flow_control import (
    DEFAULT_RETRIES,
    QUICK_RETRIES,
    RateLimiter,
    RetryPolicy,
    retry_while_overloaded,
)
from rescheduler.kube.patches import Patch
from rescheduler.kube.request_sender import (
    PROBE_EVERY_S,
    PROBE_TIMEOUT_S,
    Query,
    RequestObserver,
    RequestSender,
    ServerLiveness,
    collection_path,
    decode_body,
    object_path,
)
from rescheduler.kube.transport import ApiRequest, Transport
from rescheduler.kube.watch_stream import Watch

__all__ = ["FIELD_MANAGER", "PAGE_SIZE", "Client", "Propagation", "RequestObserver", "VersionMatch"]

log = logging.getLogger(__name__)

T = TypeVar("T")

Propagation = Literal["Background", "Foreground", "Orphan"]
VersionMatch = Literal["", "NotOlderThan", "Exact"]

FIELD_MANAGER = "rescheduler"
"""The name under which the API server records which fields our programs have written."""
PAGE_SIZE = 500
"""As kubectl and client-go."""
_PODS = api_resource("", "v1", "pods", "Pod")
JSON = "application/json"
ACCEPT_WATCH_S = 10.0
"""A watch is answered with its headers at once; a server that takes longer is asked again."""


class Client:
    """Stateless but for its rate limit: one client serves any number of tasks."""

    def __init__(
        self,
        transport: Transport,
        *,
        rate_limit: RateLimiter | None = None,
        timeout_s: float = 30.0,
        field_manager: str = FIELD_MANAGER,
        observer: RequestObserver | None = None,
        patience: RetryPolicy = DEFAULT_RETRIES,
        liveness: ServerLiveness | None = None,
    ) -> None:
        """`timeout_s` is for one request; watches have their own. No `rate_limit` means none."""
        self.transport = transport
        self.liveness = liveness or ServerLiveness()
        self._sender = RequestSender(
            transport, rate_limit or RateLimiter(), timeout_s, observer, patience, self.liveness
        )  # fmt: skip
        self.field_manager = field_manager
        """By which the API server records what this client has written."""

    def with_quick_retries(self) -> "Client":
        """The same for reads that one can do without: an overloaded server is asked again soon, and once."""
        same = self._sender
        return Client(
            same.transport,
            rate_limit=same.rate_limit,
            timeout_s=same.timeout_s,
            field_manager=self.field_manager,
            observer=same.observer,
            patience=QUICK_RETRIES,
            liveness=same.liveness,
        )

    async def close(self) -> None:
        await self.transport.close()

    # --- reading ---

    async def get(self, resource: ApiResource[T], key: str, *, version: str = "") -> T:
        """The newest state, unless `version` allows an older one (`"0"`: whatever the server has cached)."""
        query = _given(("resourceVersion", version))
        return await self._sender.read(
            _about("get", resource, key), resource, query, resource.codec.decode_one
        )

    async def probe(self, timeout_s: float = PROBE_TIMEOUT_S) -> bool:
        """Whether the server answers anything at all, a refusal too; the cheapest read that there is."""
        request = replace(self._sender.request("GET", "/livez", (), JSON), timeout_s=timeout_s)
        try:
            response = await self._sender.send(ApiCall("get", "/livez"), request)
        except errors.KubeError as error:
            return not isinstance(error, errors.Unreachable)
        await response.close()
        return True

    @contextlib.asynccontextmanager
    async def probing(self) -> AsyncIterator[None]:
        """While the body runs, the server is asked for a sign of life when it has given none for a while."""
        task = asyncio.create_task(self._probe_for_ever(), name="liveness of the API server")
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _probe_for_ever(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            rest_s = self.liveness.answered_at + PROBE_EVERY_S - loop.time()
            if rest_s <= 0:
                await self.probe()
            await asyncio.sleep(max(rest_s, 1.0))

    async def server_version(self) -> Object:
        """As `/version` tells it: `gitVersion`, `major`, `minor` and more."""
        return await self.document("/version")

    async def document(self, path: str, *, accept: str = JSON) -> Object:
        """Return what the server says at a path that belongs to no resource, such as discovery."""
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
        """Everything that matches, as one page at one version; of all namespaces unless one is given.

        Without `version` the newest state, read with a quorum; with `"0"` whatever the server has cached,
        which may be older than what was read before. `match` says what else `version` means.

        Pages are of one moment. If the server forgets that moment on the way (410), the list is begun anew
        without pages: harder for the server, but it can't be overtaken again.
        """
        query = _given(
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
            log.info("the pages of %s expired while being read; reading all at once", resource.label)
            return await self._all_pages(resource, namespace, query, 0)

    async def newest_version(
        self, resource: ApiResource[T], *, namespace: str = "", labels: str = "", fields: str = ""
    ) -> str:
        """The resourceVersion that a list would have now, read with a quorum and almost nothing else."""
        query = _given(("labelSelector", labels), ("fieldSelector", fields), ("limit", "1"))
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
        """Changes after `version`, until the server ends it after about `timeout_s`. See `Watch`.

        With `silence_s`, a watch without any event or bookmark for so long raises `Silent`.
        """
        call = ApiCall("watch", resource.label, namespace)
        query = _given(
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
        """`item` says its namespace and name; with `generateName` the server chooses the name."""
        metadata = item["metadata"]
        namespace, name = metadata.get("namespace", ""), metadata.get("name", "")
        call = ApiCall("create", resource.label, namespace, name, resource.subresource)
        # A subresource is created below its object, an object below its collection.
        path = object_path(call, resource) if resource.subresource else collection_path(call, resource)
        request = self._sender.request("POST", path, self._options(dry_run), resource.codec.accept, item)
        return await self._written(call, resource, request)

    async def replace(self, resource: ApiResource[T], item: Mapping[str, Any], *, dry_run: bool = False) -> T:
        """Refused with `Conflict` unless the object still has the resourceVersion that `item` has."""
        call = _about("update", resource, identity_of_object(dict(item)).key)
        path = object_path(call, resource)
        request = self._sender.request("PUT", path, self._options(dry_run), resource.codec.accept, item)
        return await self._written(call, resource, request)

    async def patch(self, resource: ApiResource[T], key: str, patch: Patch, *, dry_run: bool = False) -> T:
        """See `patches` for the four kinds and their preconditions."""
        call = _about("patch", resource, key)
        query = self._options(dry_run, patch.field_manager) + _given(("force", "true" if patch.force else ""))
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
        """Refused with `Conflict` if the object has another uid or version than given.

        Returns when the server has accepted it: finalizers or a grace period may keep the object a while.
        """
        call = _about("delete", resource, key)
        options = _delete_options(uid=uid, version=version, grace_s=grace_s, dry_run=dry_run)
        if propagation:
            options["propagationPolicy"] = propagation
        path = object_path(call, resource)
        await self._sender.exchange(call, self._sender.request("DELETE", path, (), JSON, options))

    async def evict(
        self, key: str, *, uid: str = "", version: str = "", grace_s: int | None = None, dry_run: bool = False
    ) -> None:
        """Asks for a pod to go, within its budget; `BudgetRefused` if that does not allow it now.

        With `uid`, refused with `Conflict` if the pod is another one of the same name by now.
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

    # --- the parts of verbs ---

    async def _all_pages(
        self, resource: ApiResource[T], namespace: str, query: Query, page_size: int
    ) -> ListPage[T]:
        call = ApiCall("list", resource.label, namespace)
        limit = _given(("limit", str(page_size or "")))
        page = await self._sender.read_page(call, resource, query + limit)
        # A continued list has its version in the token; naming one beside it is refused.
        rest = tuple(pair for pair in query if not pair[0].startswith("resourceVersion")) + limit
        items, token = page.items, page.continue_token
        while token:
            at = (*rest, ("continue", token))
            following = await self._sender.read_page(call, resource, at)
            items += following.items
            if following.continue_token == token:
                raise errors.InvalidResponse(call, "the server gives the same page again and again")
            token = following.continue_token
        return ListPage(items, page.resource_version)

    async def _written(self, call: ApiCall, resource: ApiResource[T], request: ApiRequest) -> T:
        content_type, body = await self._sender.exchange(call, request)
        return decode_body(call, content_type, body, resource.codec.decode_one)

    def _options(self, dry_run: bool, manager: str = "") -> Query:
        return _given(("fieldManager", manager or self.field_manager), ("dryRun", "All" if dry_run else ""))


def _about(verb: str, resource: ApiResource[Any], key: str) -> ApiCall:
    namespace, name = split_key(key)
    return ApiCall(verb, resource.label, namespace, name, resource.subresource)


def _json_object(content_type: str, body: bytes) -> Object:
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise Undecodable("an object", content_type, str(error)) from error


def _given(*pairs: tuple[str, str]) -> Query:
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
