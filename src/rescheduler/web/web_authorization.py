"""Decide what a viewer may see and do: by the link of a local server, or by a token of the cluster.

Local server (`rescheduler web`, `make demo`)
    Anyone who has the link acts as the user who started it, and sees what that user's kubeconfig can read.

In the cluster
    A TokenReview says whose token it is, SubjectAccessReviews say what the user may list and change. Actions
    are requests to the API server with the viewer's own token: the API server decides, its audit log names
    the viewer, and the daemon's account needs no permission for them. A token for the audience `rescheduler`
    only proves who the viewer is. The API server accepts it for no request: such viewers can look, not act.
"""

import asyncio
import contextlib
import hashlib
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal
from weakref import WeakValueDictionary

from rescheduler.api.podmigration_crd import POD_MIGRATION_PLURAL
from rescheduler.api.well_known_names import GROUP
from rescheduler.daemon.own_objects import STATE_CONFIG_MAP
from rescheduler.kube import errors
from rescheduler.kube.access.cluster_access import StoredCredentials, bearer_authorization
from rescheduler.kube.api_resources import Object, api_resource
from rescheduler.kube.client import Client
from rescheduler.kube.http_transport import HttpTransport
from rescheduler.web.page_model import PageModel
from rescheduler.web.web_viewer import (
    ACTION_KINDS,
    EVERYTHING_VISIBLE,
    ActionImpossible,
    Viewer,
    Visibility,
)

__all__ = [
    "TOKEN_AUDIENCE",
    "Access",
    "Authorizer",
    "Identity",
    "LinkAuthorizer",
    "TokenAuthorizer",
    "accesses_of",
    "review_own_access",
    "review_own_name",
]

TOKEN_AUDIENCE: Final = "rescheduler"  # noqa: S105 - a name
_AUTHENTICATION, _AUTHORIZATION = "authentication.k8s.io", "authorization.k8s.io"
_TOKEN_REVIEWS: Final = api_resource(_AUTHENTICATION, "v1", "tokenreviews", "TokenReview", namespaced=False)
_ACCESS_REVIEWS: Final = api_resource(
    _AUTHORIZATION, "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False
)
_OWN_ACCESS_REVIEWS: Final = api_resource(
    _AUTHORIZATION, "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False
)
_OWN_REVIEWS: Final = api_resource(
    _AUTHENTICATION, "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False
)
_MOST_NAMESPACES: Final = 2_000
"""The most namespaces to ask about: viewers of more usually may list all pods."""
_MOST_CACHED: Final = 20_000
_CACHE_S: Final = 30.0
_CONCURRENT_REVIEWS: Final = 16


@dataclass(frozen=True, slots=True)
class Access:
    """One question to the cluster's authorizer."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    """Empty for all namespaces."""
    name: str = ""

    def attributes(self) -> dict[str, str]:
        resource, _, subresource = self.resource.partition("/")
        found = {
            "verb": self.verb,
            "group": self.group,
            "resource": resource,
            "subresource": subresource,
            "namespace": self.namespace,
            "name": self.name,
        }
        return {key: value for key, value in found.items() if value}

    def words(self) -> str:
        """Return the access as `kubectl auth can-i` names it: `create podmigrations.rescheduler.dev`."""
        resource = f"{self.resource}.{self.group}" if self.group else self.resource
        name = f"/{self.name}" if self.name else ""
        place = f" in namespace {self.namespace}" if self.namespace else ""
        return f"{self.verb} {resource}{name}{place}"


async def review_own_access(client: Client, access: Access) -> bool:
    """Return whether the client's own credentials allow this."""
    item = {"spec": {"resourceAttributes": access.attributes()}}
    try:
        found = await client.create(_OWN_ACCESS_REVIEWS, _review_object(_OWN_ACCESS_REVIEWS, item))
    except errors.NotFound:
        # A simulated cluster has no authorizer. Requests are made with the user's own credentials anyway.
        return True
    return bool((found.get("status") or {}).get("allowed"))


async def review_own_name(client: Client) -> str:
    """Return the name by which the API server knows the client's credentials; empty if it does not say."""
    try:
        found = await client.create(_OWN_REVIEWS, _review_object(_OWN_REVIEWS, {}))
    except errors.KubeError:  # older than Kubernetes 1.28, or a simulated cluster
        return ""
    user = (found.get("status") or {}).get("userInfo") or {}
    return str(user.get("username") or "")


def accesses_of(kind: str, home: str, namespace: str = "") -> tuple[Access, ...]:
    """Return what an action needs; `home` is the namespace of the pause switch."""
    if kind in {"move", "apply"}:
        return (Access("create", GROUP, POD_MIGRATION_PLURAL, namespace),)
    if kind == "cancel":
        return (Access("delete", GROUP, POD_MIGRATION_PLURAL, namespace),)
    if kind in {"pause", "resume"}:
        return (Access("patch", "", "configmaps", home, STATE_CONFIG_MAP),)
    return (Access("patch", "", "nodes"), Access("get", "", "nodes"))


@dataclass(frozen=True, slots=True)
class Identity:
    """The owner of a token, as the cluster reports it."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    may_act: bool = True
    """Whether the API server accepts the token for requests."""

    @property
    def cache_key(self) -> str:
        parts = (
            str(self.may_act),  # two tokens of one user may differ in this
            self.name,
            self.uid,
            *sorted(self.groups),
            *(f"{k}={v}" for k, v in sorted(self.extra.items())),
        )
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()


class Authorizer(ABC):
    """Decides who a viewer is and what they may do. Answers are cached for half a minute."""

    login: Literal["link", "token"]

    def __init__(self, page: PageModel, *, read_only: bool) -> None:
        self.page = page
        self.read_only = read_only
        self._known: dict[tuple[str, Access], tuple[float, bool]] = {}
        self._viewers: dict[str, tuple[float, Viewer]] = {}
        self._asking: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._reviews = asyncio.Semaphore(_CONCURRENT_REVIEWS)

    @abstractmethod
    async def authenticate(self, token: str) -> Identity | None:
        """Return whose token it is; None if it is not valid. Raises `KubeError`."""

    @abstractmethod
    def client(self, token: str) -> contextlib.AbstractAsyncContextManager[Client]:
        """Return a client that acts as the viewer with this token."""

    @abstractmethod
    async def visibility(self, identity: Identity) -> Visibility: ...

    @abstractmethod
    async def _review(self, identity: Identity, access: Access) -> bool: ...

    async def viewer(self, identity: Identity) -> Viewer:
        """Return what the viewer may see and do. Raises `KubeError`.

        In a cluster with many namespaces, this takes thousands of reviews, so requests that arrive meanwhile
        wait for the same answer.
        """
        key = identity.cache_key
        lock = self._asking.get(key) or asyncio.Lock()
        self._asking[key] = lock
        async with lock:
            known = self._viewers.get(key)
            if known is not None and time.monotonic() - known[0] < _CACHE_S:
                return known[1]
            visibility = await self.visibility(identity)
            found = Viewer(identity.name, visibility, await self._actions(identity, visibility))
            _bound(self._viewers)
            self._viewers[key] = time.monotonic(), found
            return found

    async def allowed(self, identity: Identity, accesses: Iterable[Access]) -> bool:
        """Return whether all these accesses are allowed."""
        return all([await self._is_allowed(identity, each) for each in accesses])

    async def _is_allowed(self, identity: Identity, access: Access) -> bool:
        key = identity.cache_key, access
        known = self._known.get(key)
        if known is not None and time.monotonic() - known[0] < _CACHE_S:
            return known[1]
        async with self._reviews:
            found = await self._review(identity, access)
        _bound(self._known)
        self._known[key] = time.monotonic(), found
        return found

    async def _actions(self, identity: Identity, visibility: Visibility) -> dict[str, bool]:
        if self.read_only or self.page.mode == "file" or not identity.may_act:
            return {}
        return {kind: await self._may_somewhere(identity, kind, visibility) for kind in ACTION_KINDS}

    async def _may_somewhere(self, identity: Identity, kind: str, visibility: Visibility) -> bool:
        home = self.page.namespace
        if await self.allowed(identity, accesses_of(kind, home)):
            return True
        if kind not in {"move", "apply", "cancel"} or visibility.namespaces is None:
            return False
        for each in sorted(visibility.namespaces)[:_MOST_NAMESPACES]:
            if await self.allowed(identity, accesses_of(kind, home, each)):
                return True
        return False


def _bound(cache: dict[Any, Any]) -> None:
    while len(cache) >= _MOST_CACHED:
        del cache[next(iter(cache))]


class LinkAuthorizer(Authorizer):
    """Authorize users of a server on loopback: anyone who has the link acts as the user who started it."""

    login = "link"

    def __init__(
        self, page: PageModel, *, read_only: bool, client: Client | None = None, user: str = ""
    ) -> None:
        super().__init__(page, read_only=read_only)
        self.secret = secrets.token_urlsafe(32)
        self.cookie = f"rescheduler-session-{secrets.token_hex(4)}"
        """A name of its own, because browsers share cookies between the ports of a host."""
        self._client = client
        self._user = user

    async def authenticate(self, token: str) -> Identity | None:
        if not secrets.compare_digest(token.encode(), self.secret.encode()):
            return None
        return Identity(self._user)

    @contextlib.asynccontextmanager
    async def client(self, token: str) -> AsyncIterator[Client]:
        del token  # the kubeconfig's own credentials
        if self._client is None:
            raise ActionImpossible("this page shows a saved cluster, which can't be changed")
        yield self._client

    async def visibility(self, identity: Identity) -> Visibility:
        del identity
        return EVERYTHING_VISIBLE

    async def _review(self, identity: Identity, access: Access) -> bool:
        del identity
        if self._client is None:
            return False
        return await review_own_access(self._client, access)


class TokenAuthorizer(Authorizer):
    """Authorize users in the cluster: the API server says whose token it is and what they may do."""

    login = "token"

    def __init__(self, page: PageModel, client: Client, *, read_only: bool) -> None:
        super().__init__(page, read_only=read_only)
        self._client = client

    async def authenticate(self, token: str) -> Identity | None:
        found = await self._token_review({"token": token})
        if found is not None:
            return found
        found = await self._token_review({"token": token, "audiences": [TOKEN_AUDIENCE]})
        return None if found is None else replace(found, may_act=False)

    async def _token_review(self, spec: Mapping[str, Any]) -> Identity | None:
        answer = await self._client.create(_TOKEN_REVIEWS, _review_object(_TOKEN_REVIEWS, {"spec": spec}))
        status = answer.get("status") or {}
        if not status.get("authenticated"):
            return None
        wanted = spec.get("audiences")
        if wanted and not set(wanted) & set(status.get("audiences") or ()):
            return None  # an authenticator that ignores audiences
        user = status.get("user") or {}
        return Identity(
            user.get("username", ""),
            user.get("uid", ""),
            tuple(user.get("groups") or ()),
            {key: tuple(value) for key, value in (user.get("extra") or {}).items()},
        )

    @contextlib.asynccontextmanager
    async def client(self, token: str) -> AsyncIterator[Client]:
        transport = self._client.transport
        if not isinstance(transport, HttpTransport):
            raise ActionImpossible("actions need a connection to the API server")
        credentials = StoredCredentials(authorization=bearer_authorization(token))
        # Without our own headers: nothing of the daemon's identity may reach the request.
        access = replace(transport.access, credentials=credentials, headers={})
        async with HttpTransport(access) as network:
            yield Client(network)

    async def visibility(self, identity: Identity) -> Visibility:
        nodes = await self._is_allowed(identity, Access("list", "", "nodes"))
        if await self._is_allowed(identity, Access("list", "", "pods")):
            return Visibility(nodes, None)
        snapshot = await self.page.snapshot()
        names = sorted(snapshot.namespaces)[:_MOST_NAMESPACES]
        found = await asyncio.gather(
            *(self._is_allowed(identity, Access("list", "", "pods", name)) for name in names)
        )
        return Visibility(nodes, frozenset(name for name, seen in zip(names, found, strict=True) if seen))

    async def _review(self, identity: Identity, access: Access) -> bool:
        spec: Object = {"user": identity.name, "resourceAttributes": access.attributes()}
        if identity.uid:
            spec["uid"] = identity.uid
        if identity.groups:
            spec["groups"] = list(identity.groups)
        if identity.extra:
            spec["extra"] = {key: list(value) for key, value in identity.extra.items()}
        answer = await self._client.create(_ACCESS_REVIEWS, _review_object(_ACCESS_REVIEWS, {"spec": spec}))
        status = answer.get("status") or {}
        return bool(status.get("allowed")) and not status.get("denied")


def _review_object(resource: Any, content: Object) -> Object:
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {}, **content}
