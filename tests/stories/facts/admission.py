"""Ways in which a cluster may refuse a pod. Each is in force while its context lasts."""

import base64
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from aiohttp import web

from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.http.http_server import serve_http
from rescheduler.kube import errors
from rescheduler.kube.api_resources import ApiResource, Object, api_resource
from rescheduler.kube.client import Client
from tests.stories.objects import pod
from tests.testbed.usage.certificate import self_signed

__all__ = ["policy_refuses", "webhook_for_new_pods", "webhook_refuses"]

_GROUP = "admissionregistration.k8s.io"
WEBHOOKS = api_resource(
    _GROUP, "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", namespaced=False
)
POLICIES = api_resource(
    _GROUP, "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", namespaced=False
)
BINDINGS = api_resource(
    _GROUP, "v1", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", namespaced=False
)
NEW_PODS = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
Eventually = Callable[..., Awaitable[Any]]


@contextlib.asynccontextmanager
async def webhook_refuses(
    client: Client, namespace: str, eventually: Eventually, *, code: int | None = None
) -> AsyncIterator[None]:
    """Refuse every new pod of the namespace, with this status code if one is given."""

    def refuse(_asked: Object) -> Object:
        return {"allowed": False, "status": {"message": "not today"} | ({"code": code} if code else {})}

    async with webhook_for_new_pods(client, WEBHOOKS, namespace, refuse):
        await eventually(lambda: _is_refused(client, namespace))
        yield


@contextlib.asynccontextmanager
async def webhook_for_new_pods(
    client: Client, kind: ApiResource[Object], namespace: str, answer: Callable[[Object], Object]
) -> AsyncIterator[None]:
    """Register a webhook for new pods of the namespace; `answer` returns the response to a request."""

    async def review(request: web.Request) -> web.Response:
        asked = (await request.json())["request"]
        response = {"uid": asked["uid"], **answer(asked)}
        return web.json_response(
            {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
        )

    application = web.Application()
    application.add_routes([web.post("/", review)])
    tls, certificate = self_signed("localhost")
    async with serve_http(application, "127.0.0.1", 0, lambda: tls) as port:
        await client.create(kind, _webhook(kind, namespace, f"https://localhost:{port}/", certificate))
        yield
        await client.delete(kind, namespace)


def _webhook(kind: ApiResource[Object], namespace: str, address: str, certificate: bytes) -> Object:
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": namespace},
        "webhooks": [
            {
                "name": "pods.example.com",
                "clientConfig": {"url": address, "caBundle": base64.b64encode(certificate).decode()},
                "rules": [NEW_PODS],
                "namespaceSelector": _only(namespace),
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            }
        ],
    }


@contextlib.asynccontextmanager
async def policy_refuses(client: Client, namespace: str, eventually: Eventually) -> AsyncIterator[None]:
    """Refuse like `webhook_refuses`, by a rule that the API server itself evaluates."""
    spec = {
        "matchConstraints": {"resourceRules": [NEW_PODS]},
        "validations": [{"expression": "false", "message": "not today"}],
    }
    binding = {
        "policyName": namespace,
        "validationActions": ["Deny"],
        "matchResources": {"namespaceSelector": _only(namespace)},
    }
    for resource, content in ((POLICIES, spec), (BINDINGS, binding)):
        wanted = {"apiVersion": resource.api_version, "kind": resource.kind, "spec": content}
        await client.create(resource, wanted | {"metadata": {"name": namespace}})
    await eventually(lambda: _is_refused(client, namespace))
    yield
    for resource in (BINDINGS, POLICIES):
        await client.delete(resource, namespace)


def _only(namespace: str) -> Object:
    return {"matchLabels": {"kubernetes.io/metadata.name": namespace}}


async def _is_refused(client: Client, namespace: str) -> bool:
    """New rules are in force a moment after they were accepted."""
    probe = pod(namespace, "probe", {"containers": [{"name": "main", "image": "x"}]})
    try:
        await client.create(PODS, probe, dry_run=True)
    except errors.Permanent as refused:
        return "not today" in refused.why
    return False
