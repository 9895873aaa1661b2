"""A webhook of somebody else, which puts a container into pods by who controls them."""

import base64
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from aiohttp import web

from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.http.http_server import serve_http
from rescheduler.kube.api_resources import MUTATING_WEBHOOKS, Object
from rescheduler.kube.client import Client
from tests.stories.facts.admission import NEW_PODS
from tests.stories.objects import pod
from tests.testbed.usage.certificate import self_signed

__all__ = ["SIDECAR", "webhook_adds_sidecars"]

SIDECAR = {"name": "proxy", "image": "mesh/proxy:1"}


@contextlib.asynccontextmanager
async def webhook_adds_sidecars(
    client: Client, namespace: str, eventually: Callable[..., Awaitable[Any]]
) -> AsyncIterator[None]:
    """While the context lasts: to all new pods of the namespace but those of ReplicaSets."""

    async def review(request: web.Request) -> web.Response:
        asked = (await request.json())["request"]
        response: Object = {"uid": asked["uid"], "allowed": True}
        owners = asked["object"]["metadata"].get("ownerReferences", ())
        if not any(each["kind"] == "ReplicaSet" and each.get("controller") for each in owners):
            added = [{"op": "add", "path": "/spec/containers/-", "value": SIDECAR}]
            patch = base64.b64encode(json.dumps(added).encode()).decode()
            response |= {"patchType": "JSONPatch", "patch": patch}
        answer = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
        return web.json_response(answer)

    application = web.Application()
    application.add_routes([web.post("/", review)])
    tls, certificate = self_signed("localhost")
    async with serve_http(application, "127.0.0.1", 0, lambda: tls) as port:
        address = f"https://localhost:{port}/"
        await client.create(MUTATING_WEBHOOKS, _configuration(namespace, address, certificate))
        await eventually(lambda: _is_in_force(client, namespace))
        yield
        await client.delete(MUTATING_WEBHOOKS, namespace)


def _configuration(namespace: str, address: str, certificate: bytes) -> Object:
    return {
        "apiVersion": MUTATING_WEBHOOKS.api_version,
        "kind": MUTATING_WEBHOOKS.kind,
        "metadata": {"name": namespace},
        "webhooks": [
            {
                "name": "sidecars.example.com",
                "clientConfig": {"url": address, "caBundle": base64.b64encode(certificate).decode()},
                "rules": [NEW_PODS],
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            }
        ],
    }


async def _is_in_force(client: Client, namespace: str) -> bool:
    probe = pod(namespace, "probe", {"containers": [{"name": "main", "image": "x"}]})
    made = await client.create(PODS.as_json, probe, dry_run=True)
    return len(made["spec"]["containers"]) == 2
