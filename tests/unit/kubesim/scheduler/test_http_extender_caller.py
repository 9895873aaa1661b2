"""Extenders of a scenario are called over HTTP."""

import asyncio
import contextlib

import pytest
from aiohttp import web

from kubesim import ApiServer
from kubesim.running_cluster import start_cluster
from kubesim.scenario import parse_scenario
from kubesim.sockets.outbound_calls import HttpExtenderCaller
from tests.unit.kubesim.scheduler.conftest import node, pod


def ready(name):
    made = node(name)
    made["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    return made


@contextlib.asynccontextmanager
async def extender(answer):
    """Serve an extender on loopback; yield its URL."""
    application = web.Application()
    application.router.add_post("/scheduler/{verb}", answer)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/scheduler/"
    finally:
        await runner.cleanup()


async def reported(url, settings="filter: filter"):
    """A pod after one attempt to schedule it: its node, or the message."""
    scenario = parse_scenario(f"extenders: [{{url: '{url}', {settings}}}]".encode(), source="test")
    server = ApiServer(seed=1)
    server.load([ready("n1"), ready("n2"), pod("web")])
    decided = asyncio.Event()
    pods = server.cluster.kind("v1", "Pod")
    server.store.observers.append(lambda kind, _: decided.set() if kind is pods else None)
    async with HttpExtenderCaller() as extenders, asyncio.timeout(30):
        start_cluster(server, scenario, reach_extender=extenders.at)
        await decided.wait()
    found = server.store.find(pods, "default", "web").object
    if placed := found["spec"].get("nodeName"):
        return placed
    (condition,) = found["status"]["conditions"]
    return condition["reason"], condition["message"]


async def only_the_second(request):
    asked = await request.json()
    assert asked["NodeNames"] == ["n1", "n2"]
    assert asked["Pod"]["metadata"]["name"] == "web"
    return web.json_response({"NodeNames": ["n2"], "FailedNodes": {"n1": "not with me"}})


async def likes_the_second(request):
    nodes = (await request.json())["Nodes"]["items"]
    score = {"n1": 0, "n2": 10}
    return web.json_response([
        {"Host": each["metadata"]["name"], "Score": score[each["metadata"]["name"]]} for each in nodes
    ])  # fmt: skip


async def test_it_says_where_a_pod_may_go():
    async with extender(only_the_second) as url:
        assert await reported(url) == "n2"


async def test_it_says_where_a_pod_should_go_and_sees_whole_nodes_if_it_wants_to():
    async with extender(likes_the_second) as url:
        assert await reported(url, "prioritize: prioritize, weight: 5, namesOnly: false") == "n2"


async def test_while_the_extender_does_not_answer_the_pod_waits_and_says_so(unused_tcp_port):
    reason, message = await reported(f"http://127.0.0.1:{unused_tcp_port}")
    assert reason == "SchedulerError"
    assert message == (
        f'Post "http://127.0.0.1:{unused_tcp_port}/filter": dial tcp 127.0.0.1:{unused_tcp_port}: '
        "connect: connection refused"
    )


async def test_one_that_may_be_ignored_is_ignored(unused_tcp_port):
    assert await reported(f"http://127.0.0.1:{unused_tcp_port}", "filter: filter, ignorable: true") == "n1"


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        pytest.param(web.Response(status=500), "failed filter with extender at URL ", id="an error"),
        pytest.param(web.Response(text="fine"), "the answer is not JSON", id="no JSON"),
        pytest.param(web.json_response({"Error": "not today"}), "not today", id="a refusal in words"),
    ],
)
async def test_an_answer_that_is_none_counts_as_none(answer, why):
    async def respond(_request):
        return answer

    async with extender(respond) as url:
        reason, message = await reported(url)
    assert reason == "SchedulerError"
    assert why in message


async def test_one_that_takes_too_long_times_out():
    released = asyncio.Event()

    async def slow(_request):
        await released.wait()

    async with extender(slow) as url:
        _, message = await reported(url, "filter: filter, timeout: 50ms")
        released.set()
    assert message.endswith('/filter": context deadline exceeded')


async def test_without_a_way_to_ask_it_is_unreachable():
    scenario = parse_scenario(b"extenders: [{url: 'http://x', filter: f}]", source="test")
    server = ApiServer(seed=1)
    server.load([ready("n1"), pod("web")])
    start_cluster(server, scenario)
    await asyncio.sleep(0.1)
    (condition,) = server.store.find(server.cluster.kind("v1", "Pod"), "default", "web").object["status"][
        "conditions"
    ]
    assert "has no connection to extenders" in condition["message"]
