"""Ways in which a cluster may refuse a pod. Each is in force while its context lasts."""

import base64
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from aiohttp import web

from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.http.http_server import serve_http
from rescheduler.kube import errors
from rescheduler.kube.api_resources import Object, api_resource
from rescheduler.kube.client import Client
from tests.stories.objects import pod
from tests.testbed.usage.certificate import self_signed

__all__ = ["policy_refuses", "webhook_refuses"]

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
    """Says no to every new pod of the namespace, with its own status code if one is given."""

    async def refuse(request: web.Request) -> web.Response:
        status = {"message": "not today"} | ({"code": code} if code else {})
        response = {"uid": (await request.json())["request"]["uid"], "allowed": False, "status": status}
        return web.json_response(
            {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
        )

    application = web.Application()
    application.add_routes([web.post("/", refuse)])
    tls, certificate = self_signed("localhost")
    async with serve_http(application, "127.0.0.1", 0, lambda: tls) as port:
        address = f"https://localhost:{port}/"
        await client.create(WEBHOOKS, _webhook(namespace, address, certificate))
        await eventually(lambda: _is_refused(client, namespace))
        yield
        await client.delete(WEBHOOKS, namespace)


def _webhook(namespace: str, address: str, certificate: bytes) -> Object:
    return {
        "apiVersion": WEBHOOKS.api_version,
        "kind": WEBHOOKS.kind,
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
    """As `webhook_refuses`, by a rule that the API server itself evaluates."""
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
