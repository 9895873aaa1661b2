"""Usage over Prometheus' HTTP API: what it answers, and everything else a server may answer."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.cluster.sources.usage_sources import (
    InvalidVector,
    PrometheusReader,
    decode_vector,
    measures_the_same,
    usage_reader,
)
from rescheduler.cluster.usage_readings import (
    CustomReadings,
    MetricReadings,
    UsageReading,
    UsageReadings,
    UsageUnavailable,
)
from rescheduler.config.metric_settings import CustomMetric, Prometheus
from rescheduler.config.policy import Policy, UsageSource
from rescheduler.http.http_server import serve_http
from tests.testbed.usage.certificate import self_signed

AT_S = 1_700_000_000.5
PROMETHEUS = UsageSource.PROMETHEUS


def series(value, at_s=AT_S, **labels):
    return {"metric": labels, "value": [at_s, value]}


def web_pod(value="0.25", **more):
    return series(value, namespace="shop", pod="web", **more)


def vector(*result, kind="vector", **more):
    return {"status": "success", "data": {"resultType": kind, "result": list(result)}} | more


class Server:
    """Answers `cpu` and `memory` as set; anything but a dictionary is sent as it is."""

    def __init__(self) -> None:
        self.cpu: Any = vector(web_pod())
        self.memory: Any = vector(web_pod("1048576"))
        self.status = 200
        self.requests: list[web.Request] = []
        self.accepts: Callable[[web.Request], bool] = lambda request: True
        self.hangs = False
        self.released = asyncio.Event()
        self.url = ""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        if self.hangs:
            await self.released.wait()
        if not self.accepts(request):
            return web.Response(status=401, text="Unauthorized")
        content = getattr(self, request.query["query"])
        body = json.dumps(content).encode() if isinstance(content, dict) else content
        return web.Response(status=self.status, body=body, content_type="application/json")

    @contextlib.asynccontextmanager
    async def running(self, ssl_context: Any = None) -> AsyncIterator["Server"]:
        app = web.Application()
        app.router.add_get("/prefix/api/v1/query", self.answer)
        tls = (lambda: ssl_context) if ssl_context else None
        scheme, host = ("https", "localhost") if ssl_context else ("http", "127.0.0.1")
        async with serve_http(app, "127.0.0.1", 0, tls=tls) as port:
            self.url = f"{scheme}://{host}:{port}/prefix"
            try:
                yield self
            finally:
                self.released.set()

    async def read(self, **settings: Any) -> UsageReadings | UsageUnavailable:
        given = {"url": self.url, "cpu_query": "cpu", "memory_query": "memory"} | settings
        reader = PrometheusReader(Prometheus(**given))
        try:
            return await reader.read()
        finally:
            await reader.close()


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with Server().running() as running:
        yield running


# --- good answers ---


async def test_pods_by_namespace_and_name_cores_in_thousandths(server):
    assert await server.read() == UsageReadings(PROMETHEUS, {"shop/web": UsageReading(250, 2**20, AT_S)})


async def test_series_with_a_node_alone_are_nodes(server):
    server.cpu = vector(web_pod(), series("3.5", node="n-1"))
    server.memory = vector(web_pod("7"), series("100", node="n-1"))
    readings = await server.read()
    assert readings.nodes == {"n-1": UsageReading(3500, 100, AT_S)}


async def test_a_pod_that_says_its_node_is_a_pod_all_the_same(server):
    server.cpu = vector(web_pod(node="n-1"))
    readings = await server.read()
    assert set(readings.pods) == {"shop/web"}
    assert readings.nodes == {}


async def test_series_without_pod_or_node_are_ignored(server):
    strange = [{}, {"pod": "web"}, {"namespace": "shop"}, {"pod": "web", "node": "n-1"}]
    without_pod = [series("9", **labels) for labels in strange]
    server.cpu, server.memory = vector(web_pod(), *without_pod), vector(web_pod("1048576"), *without_pod)
    assert await server.read() == UsageReadings(PROMETHEUS, {"shop/web": UsageReading(250, 2**20, AT_S)})


async def test_who_has_only_one_of_cpu_and_memory_is_left_out(server):
    server.cpu = vector(web_pod(), series("1", namespace="shop", pod="cpu-only"))
    server.memory = vector(web_pod("7"), series("1", namespace="shop", pod="memory-only"))
    assert set((await server.read()).pods) == {"shop/web"}


async def test_the_older_of_both_times_counts(server):
    server.memory = vector(web_pod("7", at_s=AT_S - 5))
    assert (await server.read()).pods["shop/web"].at_s == AT_S - 5


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf", "-1", "1e300", "much"])
async def test_a_value_that_is_no_amount_costs_no_others(server, value):
    server.cpu = vector(web_pod(), series(value, namespace="shop", pod="bad"))
    server.memory = vector(web_pod("7"), series("7", namespace="shop", pod="bad"))
    readings = await server.read()
    assert set(readings.pods) == {"shop/web"}
    assert readings.notes == (f"1 value of prometheus.cpuQuery are invalid, such as shop/bad ({value})",)


async def test_a_histogram_is_no_amount_either(server):
    histogram = {"metric": {"namespace": "shop", "pod": "bad"}, "histogram": [AT_S, {"count": "1"}]}
    server.memory = vector(web_pod("7"), histogram, histogram | {"metric": {"node": "n"}})
    (note,) = (await server.read()).notes
    assert note == "2 values of prometheus.memoryQuery are invalid, such as shop/bad (a histogram)"


async def test_a_partial_answer_is_used_and_its_warning_passed_on(server):
    server.cpu = vector(web_pod(), warnings=["store 10.0.0.7 is unavailable"])
    readings = await server.read()
    assert set(readings.pods) == {"shop/web"}
    assert readings.notes == ("Prometheus warning for cpuQuery: store 10.0.0.7 is unavailable",)


async def test_prometheus_gets_a_timeout(server):
    await server.read(timeout=timedelta(seconds=90))
    assert [request.query["timeout"] for request in server.requests] == ["90", "90"]


# --- who we are ---


async def test_without_a_token_file_nothing_is_shown(server):
    await server.read()
    assert "Authorization" not in server.requests[0].headers


async def test_the_token_of_the_file_is_shown(server, tmp_path):
    (tmp_path / "token").write_text("secret\n")
    server.accepts = lambda request: request.headers.get("Authorization") == "Bearer secret"
    assert isinstance(await server.read(bearer_token_file=str(tmp_path / "token")), UsageReadings)


async def test_a_token_that_was_renewed_is_found_at_once(server, tmp_path):
    file = tmp_path / "token"
    file.write_text("old")
    given = Prometheus(url=server.url, cpu_query="cpu", memory_query="memory", bearer_token_file=str(file))
    reader = PrometheusReader(given)
    assert isinstance(await reader.read(), UsageReadings)
    file.write_text("new")
    server.accepts = lambda request: request.headers["Authorization"] == "Bearer new"
    assert isinstance(await reader.read(), UsageReadings)
    await reader.close()


async def test_a_token_that_is_not_accepted_is_said(server):
    server.accepts = lambda request: False
    assert await server.read() == UsageUnavailable(
        PROMETHEUS, f"{server.url} denied the request (401). Check prometheus.bearerTokenFile."
    )


async def test_a_token_file_that_is_not_there_is_said(server, tmp_path):
    outcome = await server.read(bearer_token_file=str(tmp_path / "none"))
    assert outcome.why == (
        f"Prometheus does not answer: can't read {tmp_path / 'none'}: No such file or directory. "
        "Check the prometheus settings."
    )


async def test_certificates_of_the_file_are_trusted_and_no_others(tmp_path):
    context, certificate = self_signed("localhost")
    (tmp_path / "ca.pem").write_bytes(certificate)
    async with Server().running(context) as server:
        assert isinstance(await server.read(ca_file=str(tmp_path / "ca.pem")), UsageReadings)
        outcome = await server.read()
        assert isinstance(outcome, UsageUnavailable)
        assert f"the certificate of {server.url} is not trusted" in outcome.why


@pytest.mark.parametrize("content", [None, "no certificate"])
async def test_certificates_that_can_not_be_read_are_said(server, tmp_path, content):
    file = tmp_path / "ca.pem"
    if content:
        file.write_text(content)
        server.url = server.url.replace("http:", "https:")
    outcome = await server.read(ca_file=str(file))
    assert isinstance(outcome, UsageUnavailable)
    assert "can't read" in outcome.why
    assert "Check " in outcome.why


async def test_after_a_failure_the_certificates_are_read_again(tmp_path):
    context, certificate = self_signed("localhost")
    file = tmp_path / "ca.pem"
    file.write_bytes(self_signed("localhost")[1])
    async with Server().running(context) as server:
        given = Prometheus(url=server.url, cpu_query="cpu", memory_query="memory", ca_file=str(file))
        reader = PrometheusReader(given)
        assert isinstance(await reader.read(), UsageUnavailable)
        file.write_bytes(certificate)
        assert isinstance(await reader.read(), UsageReadings)
        await reader.close()


# --- other answers ---


@pytest.mark.parametrize(
    ("status", "answer", "why"),
    [
        pytest.param(
            400,
            {"status": "error", "errorType": "bad_data", "error": "1:5: parse error: unclosed parenthesis"},
            "failed to answer the query (400): bad_data: 1:5: parse error: unclosed parenthesis. Check",
            id="a query that is none",
        ),
        pytest.param(
            503,
            {"status": "error", "errorType": "timeout", "error": "query timed out in expression evaluation"},
            "failed to answer the query (503): timeout: query timed out in expression evaluation.",
            id="a query that takes too long",
        ),
        pytest.param(
            500, {"status": "error"}, "failed to answer the query (500): no reason given.", id="no reason"
        ),
        pytest.param(200, vector(kind="matrix"), "the query returns a matrix", id="a range of values"),
        pytest.param(200, vector(kind="scalar"), "the query returns a scalar", id="a number"),
        pytest.param(200, vector(), "returned no pods", id="nothing at all"),
        pytest.param(200, vector(series("1")), "returned no pods", id="nothing of pods"),
        pytest.param(200, vector(web_pod("NaN")), "returned no pods", id="no numbers"),
        pytest.param(
            200,
            vector(web_pod(container="a"), web_pod(container="b")),
            "the query returns several values for shop/web; "
            "aggregate them, such as with sum by (namespace, pod). Check",
            id="several values of a pod",
        ),
        pytest.param(
            200, b"<html>\n<title>Sign in</title>", "is not a Prometheus API", id="the page of a proxy"
        ),
        pytest.param(502, b"", "is not a Prometheus API (502: )", id="no body"),
        pytest.param(200, b'{"status"', "the response is not from Prometheus", id="half an answer"),
        pytest.param(200, {"kind": "Status"}, "the response is not from Prometheus", id="another server"),
        pytest.param(
            200,
            vector({"metric": {"pod": 1}}),
            "the response is not from Prometheus",
            id="labels of a wrong type",
        ),
        pytest.param(302, b"", "is not a Prometheus API (302: )", id="a way to elsewhere"),
    ],
)
async def test_whatever_else_comes_back_becomes_a_sentence(server, status, answer, why):
    server.status, server.cpu = status, answer
    outcome = await server.read()
    assert isinstance(outcome, UsageUnavailable)
    assert outcome.why.startswith(server.url)
    assert why in outcome.why
    assert "Check prometheus." in outcome.why
    assert len(server.requests) == 1, "the second query is not sent without need"


async def test_the_query_that_fails_is_named(server):
    server.memory = vector()
    assert "Check prometheus.memoryQuery" in (await server.read()).why


async def test_a_server_of_another_path_is_said(server):
    server.url = server.url.removesuffix("/prefix")
    outcome = await server.read()
    assert outcome.why == (
        f"{server.url}/api/v1/query is not a Prometheus API (404: 404: Not Found). Check prometheus.url."
    )


async def test_a_server_that_does_not_run_is_said():
    async with Server().running() as server:
        pass
    assert (await server.read()).why == (
        f"Prometheus does not answer: {server.url}: Connection refused. "
        "Check prometheus.url, and whether Prometheus runs."
    )


async def test_a_server_that_says_nothing_is_not_waited_for(server):
    server.hangs = True
    outcome = await server.read(timeout=timedelta(seconds=0.2))
    assert f"no answer from {server.url} within 0.2 s" in outcome.why


async def test_a_reader_that_failed_can_read_again(server):
    reader = PrometheusReader(Prometheus(url=server.url, cpu_query="cpu", memory_query="memory"))
    server.cpu, good = b"", server.cpu
    assert isinstance(await reader.read(), UsageUnavailable)
    server.cpu = good
    assert isinstance(await reader.read(), UsageReadings)
    await reader.close()
    await reader.close()


# --- any answer ---

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
labels = st.dictionaries(st.sampled_from(["namespace", "pod", "node", "x"]), st.sampled_from(["", "a", "b"]))
any_series = st.builds(
    lambda metric, at_s, value: {"metric": metric, "value": [at_s, value]},
    labels,
    st.floats(0, 2e9),
    st.sampled_from(["0", "1.5", "NaN", "-1", "x", ""]) | st.text(max_size=5),
)


@given(
    st.binary(max_size=100)
    | json_values.map(lambda value: json.dumps(value).encode())
    | st.lists(json_values | any_series, max_size=5).map(lambda result: json.dumps(vector(*result)).encode())
)
def test_any_bytes_are_a_vector_or_refused_as_none(body):
    with contextlib.suppress(InvalidVector):
        found = decode_vector(body)
        assert all(amount.value >= 0 for amount in (*found.pods.values(), *found.nodes.values()))


@given(st.dictionaries(st.tuples(st.sampled_from("ab"), st.sampled_from("xyz")), st.floats(0, 1e6)))
def test_every_amount_arrives_under_its_pod(amounts):
    given_series = [series(repr(value), namespace=ns, pod=pod) for (ns, pod), value in amounts.items()]
    found = decode_vector(json.dumps(vector(*given_series)).encode())
    assert {key: amount.value for key, amount in found.pods.items()} == {
        f"{ns}/{pod}": value for (ns, pod), value in amounts.items()
    }


# --- custom metrics ---


PRESSURE = CustomMetric(name="cpu-pressure", query="pressure", capacity=1.0)


async def custom(server, *metrics, **answers):
    for name, answer in answers.items():
        setattr(server, name, answer)
    policy = Policy(
        usage_source=UsageSource.REQUESTS,
        prometheus=Prometheus(url=server.url),
        custom_metrics=metrics,
        balance_resources=tuple(each.name for each in metrics),
    )
    reader = usage_reader(policy, None)
    try:
        return (await reader.read()).custom
    finally:
        await reader.close()


async def test_custom_metrics_are_read_beside_any_source_of_usage(server):
    metric = CustomMetric(name="disk", query="disk", pod_query="own", capacity_query="size")
    found = await custom(
        server,
        PRESSURE,
        metric,
        pressure=vector(series("0.4", node="a"), series("0.1", node="b")),
        disk=vector(series("7", node="a")),
        own=vector(web_pod("3")),
        size=vector(series("100", node="a")),
    )
    assert found == CustomReadings(
        (
            MetricReadings(PRESSURE, {"a": 0.4, "b": 0.1}),
            MetricReadings(metric, {"a": 7.0}, {"shop/web": 3.0}, {"a": 100.0}),
        )
    )
    assert {request.query["query"] for request in server.requests} == {"pressure", "disk", "own", "size"}


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-1", "1e300", "much"])
async def test_an_odd_value_of_a_metric_is_left_out_and_said(server, value):
    found = await custom(server, PRESSURE, pressure=vector(series("0.4", node="a"), series(value, node="b")))
    assert found.metrics == (MetricReadings(PRESSURE, {"a": 0.4}),)
    where = "query of cpu-pressure in customMetrics"
    assert found.notes == (f"1 value of {where} are invalid, such as b ({value})",)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        pytest.param(vector(), "no series of its query has the labels node and a number", id="nothing"),
        pytest.param(vector(series("1", instance="a")), "no series of its query", id="other labels"),
        pytest.param(b"<html>", "is not a Prometheus API", id="another server"),
        pytest.param({"status": "error", "error": "parse error"}, "parse error", id="an error"),
        pytest.param(vector(series("1", node="a"), series("2", node="a")), "several values for a", id="two"),
    ],
)
async def test_a_metric_that_cannot_be_read_is_not_balanced_and_others_are(server, answer, why):
    other = CustomMetric(name="disk", query="disk", capacity=1.0)
    found = await custom(server, PRESSURE, other, pressure=answer, disk=vector(series("1", node="a")))
    assert found.metrics == (MetricReadings(other, {"a": 1.0}),)
    (note,) = found.notes
    assert note.startswith("cpu-pressure is not balanced: ")
    assert why in note


def test_a_reader_is_kept_until_what_it_reads_changes():
    before = Policy(custom_metrics=(PRESSURE,), balance_resources=("cpu", "cpu-pressure"))
    assert measures_the_same(before, replace(before, imbalance_threshold=5.0))
    assert not measures_the_same(before, replace(before, balance_resources=("cpu",)))
    assert not measures_the_same(before, replace(before, custom_metrics=(replace(PRESSURE, query="x"),)))
