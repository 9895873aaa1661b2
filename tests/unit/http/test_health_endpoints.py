"""The daemon's endpoints, over HTTP."""

import aiohttp
import pytest

from rescheduler.http.http_server import health_application, serve_http


@pytest.fixture
def missing():
    return []


@pytest.fixture
async def get(missing):
    app = health_application(lambda: missing, lambda: b"# nothing\n")
    async with serve_http(app, "127.0.0.1", 0) as port, aiohttp.ClientSession() as session:

        async def answer(path):
            async with session.get(f"http://127.0.0.1:{port}{path}") as response:
                return response.status, await response.text(), response.headers["Content-Type"]

        yield answer


async def test_healthz_says_that_the_process_answers(get):
    assert (await get("/healthz"))[:2] == (200, "ok\n")


async def test_readyz_gives_the_reasons_why_not(get, missing):
    assert (await get("/readyz"))[:2] == (200, "ok\n")
    missing += ["pods: not listed yet", "nodes: silent for 90 s"]
    assert (await get("/readyz"))[:2] == (503, "pods: not listed yet\nnodes: silent for 90 s\n")


async def test_metrics_are_in_the_format_that_prometheus_reads(get):
    status, text, kind = await get("/metrics")
    assert (status, text) == (200, "# nothing\n")
    assert kind.startswith("text/plain; version=0.0.4")


async def test_a_port_that_is_taken_is_an_error_of_the_system(get):
    app = health_application(list, bytes)
    async with serve_http(app, "127.0.0.1", 0) as port:
        with pytest.raises(OSError, match="in use"):
            async with serve_http(health_application(list, bytes), "127.0.0.1", port):
                pass
