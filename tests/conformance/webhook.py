"""A webhook on loopback, with a certificate authority of its own, that answers as the scenario says."""

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from aiohttp import web

from kubesim.sockets.loopback_server import make_serving_certificate
from kubevalues.connections import server_tls_context
from rescheduler.http.http_server import serve_http
from rescheduler.kube.api_resources import CONFIG_MAPS, MUTATING_WEBHOOKS, ApiResource, Object, api_resource
from tests.conformance.cluster_under_test import ClusterUnderTest
from tests.conformance.objects import config_map

__all__ = [
    "PODS_ONLY",
    "VALIDATING_WEBHOOKS",
    "Answer",
    "Webhook",
    "allowed",
    "configure",
    "webhook",
]

Answer = Callable[[Object], Awaitable[Object]]
"""The request of a review → the response."""

VALIDATING_WEBHOOKS = api_resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    namespaced=False,
)
PODS_ONLY = [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}]
_PROBE = "is-it-there"


def allowed(*operations: Object, **more: Any) -> Object:
    patch = {"patchType": "JSONPatch", "patch": b64encode(msgspec.json.encode(operations)).decode()}
    return {"allowed": True, **(patch if operations else {}), **more}


class Webhook:
    def __init__(self, authority: bytes) -> None:
        self.authority = authority
        self.answers: dict[str, Answer] = {}
        self.asked: list[tuple[str, Object]] = []
        """Path and request, in the order they came."""
        self.port = 0

    def url(self, path: str) -> str:
        return f"https://127.0.0.1:{self.port}{path}"

    def client_config(self, path: str, answer: Answer) -> Object:
        self.answers[path] = answer
        return {"url": self.url(path), "caBundle": b64encode(self.authority).decode()}

    async def handle(self, request: web.Request) -> web.Response:
        review = msgspec.json.decode(await request.read())
        self.asked.append((request.path, review["request"]))
        response = await self.answers[request.path](review["request"])
        reported = {**review, "response": {"uid": review["request"]["uid"], **response}}
        return web.Response(body=msgspec.json.encode(reported), content_type="application/json")


@asynccontextmanager
async def webhook() -> AsyncIterator[Webhook]:
    certificates = make_serving_certificate()
    hook = Webhook(certificates.authority)
    app = web.Application()
    app.router.add_post("/{path:.*}", hook.handle)
    tls = server_tls_context(certificates.certificate, certificates.key)
    async with serve_http(app, "127.0.0.1", 0, lambda: tls) as hook.port:
        yield hook


async def configure(
    cluster: ClusterUnderTest,
    hook: Webhook,
    *webhooks: Object,
    name: str = "webhooks",
    resource: ApiResource[Object] = MUTATING_WEBHOOKS,
) -> None:
    """Makes a configuration for the scenario's own namespace, and waits until the server heeds it."""
    here = {"matchLabels": {"kubernetes.io/metadata.name": cluster.namespace}}
    common = {
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "rules": PODS_ONLY,
        "timeoutSeconds": 1,
        "namespaceSelector": here,
    }

    async def yes(_: Object) -> Object:
        return allowed()

    # A configuration is read as a whole: once its probe is called, all of it is in force.
    probe: Object = {
        "name": "probe.example.com",
        "clientConfig": hook.client_config(f"/probe-{name}", yes),
        "rules": [{**PODS_ONLY[0], "resources": ["configmaps"]}],
        "objectSelector": {"matchLabels": {"probe": _PROBE}},
    }
    item = {
        "metadata": {"name": cluster.unique(name)},
        "webhooks": [{**common, **each} for each in (*webhooks, probe)],
    }
    await cluster.create(resource, item)
    while not any(path == f"/probe-{name}" for path, _ in hook.asked):
        probing = cluster.placed(CONFIG_MAPS, config_map(_PROBE, labels={"probe": _PROBE}))
        await cluster.client.create(CONFIG_MAPS, probing, dry_run=True)
        await asyncio.sleep(0.01)
