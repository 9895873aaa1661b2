"""Webhooks are called over HTTPS, and their certificates are verified."""

import asyncio
import itertools
import json
import ssl
from base64 import b64encode
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from kubesim.admission.webhook_admission import (
    AdmissionAttributes,
    WebhookCallFailed,
    WebhookEndpoint,
    mutate,
)
from kubesim.apiserver.kind_registry import KindRegistry
from kubesim.sockets.loopback_server import make_serving_certificate
from kubesim.sockets.outbound_calls import HttpsWebhookCaller, WebhookAddress
from rescheduler.http.http_server import serve_http

CERTIFICATES = make_serving_certificate()
OTHERS = make_serving_certificate()


@pytest.fixture
def serve(tmp_path):
    """A webhook on loopback that answers as `respond` does; yields its port."""

    @asynccontextmanager
    async def serving(respond):
        certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
        certificate.write_bytes(CERTIFICATES.certificate)
        key.write_bytes(CERTIFICATES.key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        application = web.Application()
        application.router.add_post("/{path:.*}", respond)
        async with serve_http(application, "127.0.0.1", 0, tls=lambda: context) as port:
            yield port

    return serving


@pytest.fixture
async def caller():
    async with HttpsWebhookCaller() as https:
        yield https


async def echo(request):
    return web.Response(body=await request.read())


async def test_the_body_of_the_answer_is_returned(serve, caller):
    async with serve(echo) as port:
        endpoint = WebhookEndpoint(f"https://127.0.0.1:{port}/mutate", ca_bundle=CERTIFICATES.authority)
        assert await caller.call(endpoint, b"hello", 5) == b"hello"


async def test_the_webhook_gets_its_timeout(serve, caller):
    async def reported(request):
        return web.json_response([request.path_qs, request.headers["content-type"]])

    async with serve(reported) as port:
        endpoint = WebhookEndpoint(f"https://127.0.0.1:{port}/mutate", ca_bundle=CERTIFICATES.authority)
        assert json.loads(await caller.call(endpoint, b"{}", 7)) == ["/mutate?timeout=7s", "application/json"]


async def test_a_slow_webhook_times_out(serve, caller):
    released = asyncio.Event()

    async def slow(request):
        await released.wait()

    async with serve(slow) as port:
        endpoint = WebhookEndpoint(f"https://127.0.0.1:{port}/", ca_bundle=CERTIFICATES.authority)
        with pytest.raises(
            WebhookCallFailed, match=r'^failed to call webhook: Post ".*": context deadline exceeded$'
        ):
            await caller.call(endpoint, b"{}", 0.05)
        released.set()


async def test_a_dead_webhook_is_unreachable(caller, unused_tcp_port):
    endpoint = WebhookEndpoint(f"https://127.0.0.1:{unused_tcp_port}/", ca_bundle=CERTIFICATES.authority)
    with pytest.raises(WebhookCallFailed, match=r"dial tcp 127.0.0.1:\d+: connect: connection refused"):
        await caller.call(endpoint, b"{}", 5)


@pytest.mark.parametrize(
    "ca_bundle",
    [pytest.param(OTHERS.authority, id="another authority"), pytest.param(b"", id="no authority of its own")],
)
async def test_a_webhook_with_a_certificate_of_unknown_authority_is_not_believed(ca_bundle, serve, caller):
    async with serve(echo) as port:
        with pytest.raises(WebhookCallFailed, match="tls: failed to verify certificate"):
            await caller.call(WebhookEndpoint(f"https://127.0.0.1:{port}/", ca_bundle=ca_bundle), b"{}", 5)


async def test_a_bundle_that_is_none_is_a_failure_of_the_webhook(caller):
    with pytest.raises(WebhookCallFailed, match="failed to call webhook"):
        await caller.call(WebhookEndpoint("https://127.0.0.1:1/", ca_bundle=b"nonsense"), b"{}", 5)


async def test_a_webhook_that_breaks_is_a_failure(serve, caller):
    async def broken(request):
        raise web.HTTPInternalServerError

    async with serve(broken) as port:
        endpoint = WebhookEndpoint(f"https://127.0.0.1:{port}/", ca_bundle=CERTIFICATES.authority)
        with pytest.raises(WebhookCallFailed, match="an error on the server"):
            await caller.call(endpoint, b"{}", 5)


async def test_a_webhook_that_speaks_no_http_is_a_failure(caller):
    async def invalid_answer(_, writer):
        writer.write(b"what?\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(invalid_answer, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(WebhookCallFailed, match="failed to call webhook"):
            await caller.call(
                WebhookEndpoint(f"https://127.0.0.1:{port}/", ca_bundle=CERTIFICATES.authority), b"{}", 5
            )


SERVICE = {
    "service": {"namespace": "default", "name": "kubernetes", "path": "/x"},
    "caBundle": b64encode(CERTIFICATES.authority).decode(),
}


async def test_a_service_is_found_by_the_map_and_must_have_a_certificate_for_its_own_name(serve):
    async with serve(echo) as port:
        services = {
            "default/kubernetes": WebhookAddress("127.0.0.1", port),
            "default/other": WebhookAddress("127.0.0.1", port),
        }
        async with HttpsWebhookCaller(services) as caller:
            assert await caller.call(WebhookEndpoint.of(SERVICE), b"hello", 5) == b"hello"
            other = {**SERVICE, "service": {**SERVICE["service"], "name": "other"}}
            with pytest.raises(WebhookCallFailed, match="failed to verify certificate"):
                await caller.call(WebhookEndpoint.of(other), b"hello", 5)


async def test_a_service_that_is_not_in_the_map_is_not_found(caller):
    with pytest.raises(WebhookCallFailed, match='service "kubernetes" not found'):
        await caller.call(WebhookEndpoint.of(SERVICE), b"{}", 5)


async def test_a_pod_is_changed_by_a_real_webhook(serve, caller):
    async def prefer_fast_disks(request):
        review = await request.json()
        patch = [{"op": "add", "path": "/spec/nodeSelector", "value": {"disk": "fast"}}]
        response = {
            "uid": review["request"]["uid"],
            "allowed": True,
            "patchType": "JSONPatch",
            "patch": b64encode(json.dumps(patch).encode()).decode(),
        }
        return web.json_response(
            {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response}
        )

    async with serve(prefer_fast_disks) as port:
        hook = {
            "name": "disks.example.com",
            "clientConfig": {
                "url": f"https://localhost:{port}/mutate",
                "caBundle": b64encode(CERTIFICATES.authority).decode(),
            },
            "rules": [
                {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
            ],
            "sideEffects": "None",
        }
        attempt = AdmissionAttributes(
            KindRegistry().named("v1", "Pod"), "CREATE", {"metadata": {"name": "a"}, "spec": {}}
        )
        counter = itertools.count()
        mutated = await mutate(
            [{"metadata": {"name": "c"}, "webhooks": [hook]}], attempt, caller, lambda: str(next(counter))
        )
    assert mutated.object["spec"] == {"nodeSelector": {"disk": "fast"}}
