"""The server on a loopback port: certificates, tokens, streams, and connections that break."""

import asyncio
import base64
import contextlib
import io
import json
import ssl

import aiohttp
import pytest
import yaml

from kubesim import ApiServer
from kubesim.apiserver.fault_injection import InjectedFault
from kubesim.sockets.loopback_server import serve

MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
async def http():
    server = ApiServer()
    async with await serve(server, tls=False) as running, aiohttp.ClientSession(running.url) as session:
        session.server = server
        yield session


async def test_https_with_an_authority_of_its_own_and_a_kubeconfig_that_knows_it():
    async with await serve(ApiServer()) as running:
        config = yaml.safe_load(running.kubeconfig)
        cluster = config["clusters"][0]["cluster"]
        assert cluster["server"] == running.url
        trusting = ssl.create_default_context(
            cadata=base64.b64decode(cluster["certificate-authority-data"]).decode()
        )
        async with aiohttp.ClientSession() as session:
            async with session.get(running.url + "/version", ssl=trusting) as answer:
                assert answer.status == 200
            with pytest.raises(aiohttp.ClientConnectorCertificateError):
                await session.get(running.url + "/version")


async def test_a_token_if_one_is_asked_for():
    async with (
        await serve(ApiServer(), tls=False, token="secret") as running,
        aiohttp.ClientSession() as session,
    ):
        async with session.get(running.url + "/api/v1/nodes") as answer:
            assert (answer.status, (await answer.json())["reason"]) == (401, "Unauthorized")
        token = yaml.safe_load(running.kubeconfig)["users"][0]["user"]["token"]
        async with session.get(
            running.url + "/api/v1/nodes", headers={"Authorization": f"Bearer {token}"}
        ) as answer:
            assert answer.status == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.1", "example.com", "::"])
async def test_only_on_loopback(host):
    with pytest.raises(ValueError, match="not a loopback address"):
        await serve(ApiServer(), host=host)


async def test_a_watch_is_streamed_line_by_line(http):
    async with http.get(MAPS + "?watch=true") as watch:
        assert watch.headers["Transfer-Encoding"] == "chunked"
        async with http.post(MAPS, json={"metadata": {"name": "a"}}) as created:
            assert created.status == 201
        event = json.loads(await watch.content.readline())
        assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "a")


async def test_a_client_that_goes_away_takes_its_watch_with_it(http):
    async with http.get(MAPS + "?watch=true") as watch:
        await http.post(MAPS, json={"metadata": {"name": "a"}})
        await watch.content.readline()
        assert len(http.server.watches) == 1
        watch.close()
        for name in range(100):  # the server notices when it writes
            await http.post(MAPS, json={"metadata": {"name": f"b{name}"}})
            await asyncio.sleep(0.01)
            if not len(http.server.watches):
                break
    assert len(http.server.watches) == 0


async def test_a_lost_response_breaks_the_connection_after_the_write(http):
    http.server.inject(InjectedFault("lose-response"))
    with pytest.raises(aiohttp.ClientConnectionError):
        await http.post(MAPS, json={"metadata": {"name": "a"}})
    async with http.get(MAPS + "/a") as answer:
        assert answer.status == 200


async def test_large_answers_are_compressed_for_those_who_ask(http):
    for name in range(30):
        await http.post(MAPS, json={"metadata": {"name": f"m{name}"}, "data": {"text": "x" * 10_000}})
    async with http.get(MAPS, headers={"Accept-Encoding": "gzip"}) as answer:
        assert answer.headers["Content-Encoding"] == "gzip"
        assert len((await answer.json())["items"]) == 30
    async with http.get(MAPS + "?limit=1", headers={"Accept-Encoding": "gzip"}) as answer:
        assert "Content-Encoding" not in answer.headers


async def test_stopping_ends_open_watches_at_once():
    running = await serve(ApiServer(), tls=False)
    async with aiohttp.ClientSession() as session, session.get(running.url + MAPS + "?watch=true") as watch:
        await asyncio.wait_for(running.stop(), timeout=5)
        with contextlib.suppress(aiohttp.ClientError):  # cut off or ended: both are an end
            assert await asyncio.wait_for(watch.content.read(), timeout=5) == b""


@pytest.mark.parametrize(
    ("size", "status", "reason"),
    [
        pytest.param(
            2**21, 422, "Invalid", id="read, and refused for what it says: a ConfigMap has 1 MiB at most"
        ),
        pytest.param(2**22, 413, "RequestEntityTooLarge", id="larger than any request may be"),
    ],
)
async def test_the_largest_requests_are_those_of_the_real_server(http, size, status, reason):
    content = {"metadata": {"name": "large"}, "data": {"text": "x" * size}}
    body = io.BytesIO(json.dumps(content).encode())
    async with http.post(MAPS, data=body, headers={"Content-Type": "application/json"}) as answer:
        assert (answer.status, (await answer.json())["reason"]) == (status, reason)
