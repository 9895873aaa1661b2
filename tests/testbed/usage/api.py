"""The aggregated API server, and its registration with the real one."""

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator, Iterable
from datetime import UTC, datetime
from typing import Any, Protocol, Self

from aiohttp import web

from kubevalues import Selector, SelectorError, parse_selector
from rescheduler.http.http_server import serve_http
from rescheduler.kube import errors
from rescheduler.kube.api_resources import api_resource, apply_patch
from rescheduler.kube.client import Client
from tests.testbed.fake_kubelet import FakeKubelet
from tests.testbed.usage.certificate import self_signed
from tests.testbed.usage.metrics import DISCOVERY, GROUP_VERSION, FakeUsage, listed

__all__ = ["UsageApi", "UsageSource"]

SERVICES = api_resource("", "v1", "services", "Service")
API_SERVICES = api_resource("apiregistration.k8s.io", "v1", "apiservices", "APIService", namespaced=False)
SERVICE, NAMESPACE = "fake-usage", "kube-system"
API_SERVICE = "v1beta1.metrics.k8s.io"
AVAILABLE_WITHIN_S = 60.0
_POLL_S = 0.2


class UsageSource(Protocol):
    """Returns the usage of nodes and their pods, as objects of the API."""

    def node_metrics(
        self, now: datetime, *, name: str = "", selector: Selector = ...
    ) -> Iterable[dict[str, Any]]: ...

    def pod_metrics(
        self, now: datetime, *, namespace: str = "", name: str = "", selector: Selector = ...
    ) -> Iterable[dict[str, Any]]: ...


class UsageApi:
    """What nodes and their pods use. One per cluster: the group can be served once."""

    def __init__(self, client: Client, source: FakeKubelet | UsageSource) -> None:
        self._client = client
        self._source = FakeUsage(source) if isinstance(source, FakeKubelet) else source

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        """Returns when the API server answers for it; afterwards the group is gone again."""
        tls, certificate = self_signed(f"{SERVICE}.{NAMESPACE}.svc")
        async with serve_http(self._application(), "127.0.0.1", 0, lambda: tls) as port:
            try:
                await self._announce(port, certificate)
                await self._available()
                yield self
            finally:
                await self._withdraw()

    # -- questions

    def _application(self) -> web.Application:
        root = f"/apis/{GROUP_VERSION}"
        application = web.Application()
        application.add_routes([
            web.get(root, self._discovery),
            web.get(root + "/nodes", self._nodes),
            web.get(root + "/nodes/{name}", self._nodes),
            web.get(root + "/pods", self._pods),
            web.get(root + "/namespaces/{namespace}/pods", self._pods),
            web.get(root + "/namespaces/{namespace}/pods/{name}", self._pods),
        ])  # fmt: skip
        return application

    async def _discovery(self, _request: web.Request) -> web.Response:
        return web.json_response(DISCOVERY)

    async def _nodes(self, request: web.Request) -> web.Response:
        return _answer("NodeMetrics", self._source.node_metrics, request)

    async def _pods(self, request: web.Request) -> web.Response:
        return _answer("PodMetrics", self._source.pod_metrics, request)

    # -- making it known

    async def _announce(self, port: int, certificate: bytes) -> None:
        service = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": SERVICE, "namespace": NAMESPACE},
            "spec": {"type": "ExternalName", "externalName": "localhost"},
        }
        api_service = {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": API_SERVICE},
            "spec": {
                "group": "metrics.k8s.io",
                "version": "v1beta1",
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
                "service": {"name": SERVICE, "namespace": NAMESPACE, "port": port},
                "caBundle": base64.b64encode(certificate).decode(),
            },
        }
        await self._client.patch(SERVICES, f"{NAMESPACE}/{SERVICE}", apply_patch(service, force=True))
        await self._client.patch(API_SERVICES, API_SERVICE, apply_patch(api_service, force=True))

    async def _available(self) -> None:
        async with asyncio.timeout(AVAILABLE_WITHIN_S):
            while not _is_available(await self._client.get(API_SERVICES, API_SERVICE)):  # noqa: ASYNC110 - not ours
                await asyncio.sleep(_POLL_S)

    async def _withdraw(self) -> None:
        for resource, key in ((API_SERVICES, API_SERVICE), (SERVICES, f"{NAMESPACE}/{SERVICE}")):
            with contextlib.suppress(errors.NotFound):
                await self._client.delete(resource, key)


def _answer(kind: str, metrics: Any, request: web.Request) -> web.Response:
    try:
        selector = parse_selector(request.query.get("labelSelector", ""))
    except SelectorError as wrong:
        return _refusal(400, "BadRequest", str(wrong))
    items = list(metrics(datetime.now(UTC), selector=selector, **request.match_info))
    if "name" not in request.match_info:
        return web.json_response(listed(kind, items))
    if items:
        return web.json_response(items[0])
    return _refusal(404, "NotFound", f'{kind} "{request.match_info["name"]}" not found')


def _refusal(code: int, reason: str, message: str) -> web.Response:
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code}
    return web.json_response(status | {"reason": reason, "message": message}, status=code)


def _is_available(api_service: dict[str, Any]) -> bool:
    conditions = api_service.get("status", {}).get("conditions") or ()
    return any(each["type"] == "Available" and each["status"] == "True" for each in conditions)
