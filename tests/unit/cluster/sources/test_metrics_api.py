"""Usage from `metrics.k8s.io`: from the simulated cluster, and from broken servers."""

import json
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pytest

from kubesim import ApiServer
from kubesim.apiserver.metrics_server import MeasuredUsage
from kubesim.sockets.loopback_server import serve
from kubesim.virtual_time import ManualClock
from rescheduler.cluster.sources.metrics_api import MetricsApiReader
from rescheduler.cluster.usage_readings import UsageReading, UsageReadings, UsageUnavailable
from rescheduler.config.policy import UsageSource
from rescheduler.kube.access.cluster_config import load_cluster_access
from rescheduler.kube.client import Client
from rescheduler.kube.http_transport import HttpTransport
from rescheduler.kube.transport import InProcessTransport

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
NOON_S = NOON.timestamp()
METRICS = UsageSource.METRICS


# --- on the simulated cluster ---


@pytest.fixture
async def server():
    made = ApiServer(clock=ManualClock(), seed=1)
    await put(made, "/api/v1/nodes", {"metadata": {"name": "n-1"}})
    await put(made, "/api/v1/namespaces", {"metadata": {"name": "shop"}})
    for name in ("web", "quiet"):
        pod = {"metadata": {"name": name}, "spec": {"containers": [{"name": "main", "image": "i"}]}}
        await put(made, "/api/v1/namespaces/shop/pods", pod)
    made.usage.set_node("n-1", MeasuredUsage(cpu_cores=1.5, memory_bytes=2**30), now=NOON)
    made.usage.set_pod(
        "shop", "web", {"main": MeasuredUsage(0.25, 2**20), "side": MeasuredUsage(0.0001, 2**10)}, now=NOON
    )
    return made


async def put(server: ApiServer, path: str, item: dict[str, Any]) -> None:
    answer = await server.handle(
        "POST", path, {"content-type": "application/json"}, json.dumps(item).encode()
    )
    assert answer.status == 201


EXPECTED = UsageReadings(
    METRICS,
    pods={"shop/web": UsageReading(251, 2**20 + 2**10, NOON_S)},
    nodes={"n-1": UsageReading(1500, 2**30, NOON_S)},
)


async def test_pods_and_nodes_are_read_containers_summed(server):
    assert await MetricsApiReader(Client(InProcessTransport(server.handle))).read() == EXPECTED


async def test_the_same_over_https(server, tmp_path):
    async with await serve(server) as running:
        (tmp_path / "kubeconfig").write_text(running.kubeconfig)
        client = Client(HttpTransport(load_cluster_access(tmp_path / "kubeconfig", environment={})))
        reader = MetricsApiReader(client)
        assert await reader.read() == EXPECTED
        await reader.close()
        assert await reader.read() == EXPECTED, "the client is not the reader's to close"
        await client.close()


# --- on servers that answer oddly ---


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    chunks: AsyncIterator[bytes]


class Server:
    """Answers each resource with a status and a body."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.down_for = 0
        """So many requests are refused first."""
        self.nodes: tuple[int, Any] = (200, listed())
        self.pods: tuple[int, Any] = (200, listed(pod("web")))

    async def handle(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Answer:
        resource = target.partition("?")[0].rpartition("/")[2]
        self.asked.append(target)
        status, content = getattr(self, resource)
        if len(self.asked) <= self.down_for:
            status, content = refusal(503, "the server is currently unable to handle the request")
        raw = content if isinstance(content, bytes) else json.dumps(content).encode()

        async def chunks() -> AsyncIterator[bytes]:
            yield raw

        return Answer(status, {"content-type": "application/json"}, chunks())

    async def read(self):
        return await MetricsApiReader(Client(InProcessTransport(self.handle), timeout_s=5)).read()


def listed(*items):
    return {"kind": "List", "apiVersion": "metrics.k8s.io/v1beta1", "metadata": {}, "items": list(items)}


def pod(name, *usages, timestamp="2026-01-01T12:00:00Z"):
    containers = [{"name": f"c{n}", "usage": usage} for n, usage in enumerate(usages or [amounts()])]
    metadata = {"name": name, "namespace": "shop", "labels": {"app": "x"}}
    return {"metadata": metadata, "timestamp": timestamp, "window": "15s", "containers": containers}


def amounts(cpu="100m", memory="1Mi"):
    return {"cpu": cpu, "memory": memory}


def refusal(code, message):
    return code, {"kind": "Status", "code": code, "message": message}


@pytest.fixture
def odd():
    return Server()


@pytest.mark.parametrize(
    ("cpu", "memory", "used"),
    [
        pytest.param("1n", "1Ki", (1, 1024), id="what metrics-server writes, rounded up"),
        pytest.param("156340123n", "151460Ki", (157, 151460 * 1024), id="what metrics-server writes"),
        pytest.param("1500u", "1Mi", (2, 2**20), id="other units"),
        pytest.param("2", "1e3", (2000, 1000), id="no units"),
        pytest.param("0", "0", (0, 0), id="nothing at all"),
        pytest.param("1.5", "0.5Gi", (1500, 2**29), id="fractions"),
    ],
)
async def test_quantities_in_every_form(odd, cpu, memory, used):
    odd.pods = 200, listed(pod("web", amounts(cpu, memory)))
    assert (await odd.read()).pods == {"shop/web": UsageReading(*used, NOON_S)}


@pytest.mark.parametrize(
    "timestamp",
    ["2026-01-01T12:00:00Z", "2026-01-01T14:00:00+02:00", "2026-01-01T12:00:00.000000000Z"],
)
async def test_times_in_every_form(odd, timestamp):
    odd.pods = 200, listed(pod("web", timestamp=timestamp))
    assert (await odd.read()).pods["shop/web"].at_s == NOON_S


async def test_everything_is_asked_for_in_one_page(odd):
    await odd.read()
    assert odd.asked == ["/apis/metrics.k8s.io/v1beta1/nodes", "/apis/metrics.k8s.io/v1beta1/pods"]


@pytest.mark.parametrize(
    ("strange", "why"),
    [
        pytest.param(pod("bad", amounts(cpu="much")), "'much' is not a quantity", id="no quantity"),
        pytest.param(pod("bad", amounts(memory="-1Ki")), "-1Ki is negative", id="negative"),
        pytest.param(pod("bad", amounts(memory="9" * 30 + "Ki")), "implausibly large", id="too large"),
        pytest.param(pod("bad", timestamp="today"), "today", id="no time"),
        pytest.param(pod("bad") | {"containers": None}, "it has no containers", id="no containers"),
    ],
)
async def test_one_reading_that_is_invalid_costs_no_others(odd, strange, why):
    odd.pods = 200, listed(pod("a"), strange, pod("z"))
    readings = await odd.read()
    assert set(readings.pods) == {"shop/a", "shop/z"}
    (note,) = readings.notes
    assert note.startswith("1 reading from metrics.k8s.io are invalid, such as shop/bad: ")
    assert why in note


async def test_many_that_make_no_sense_are_one_note(odd):
    odd.pods = 200, listed(*(pod(f"bad-{number}", amounts(cpu="x")) for number in range(20)))
    (note,) = (await odd.read()).notes
    assert note.startswith("20 readings from metrics.k8s.io are invalid, such as shop/bad-0: ")


async def test_a_cluster_without_a_metrics_api_is_said_plainly(odd):
    odd.nodes = refusal(404, "the server could not find the requested resource")
    assert await odd.read() == UsageUnavailable(
        METRICS,
        "the cluster does not serve metrics.k8s.io/v1beta1. Install metrics-server, or set usageSource.",
    )
    assert len(odd.asked) == 1, "pods are not requested without need"


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        pytest.param(
            refusal(403, 'nodes is forbidden: User "x" cannot list resource "nodes"'),
            'Grant the verb "list" on "nodes" in API group "metrics.k8s.io" for the cluster.',
            id="no permission",
        ),
        pytest.param(refusal(401, "Unauthorized"), "Check the credentials", id="not known"),
        pytest.param(refusal(500, "panic"), "panic (500)", id="a server that fails"),
        pytest.param((200, b"<html>"), "can't decode the NodeMetrics list", id="no JSON"),
        pytest.param((200, listed({"metadata": {}})), "$.items[0]", id="an item without a name"),
        pytest.param((200, listed({"metadata": {"name": "n"}})), "timestamp", id="an item without a time"),
    ],
)
async def test_whatever_fails_comes_back_as_a_sentence(odd, answer, why):
    odd.nodes = answer
    outcome = await odd.read()
    assert isinstance(outcome, UsageUnavailable)
    assert outcome.why.startswith("can't list nodes.metrics.k8s.io: ")
    assert why in outcome.why


@pytest.fixture
def waits(monkeypatch):
    """How long the client waited, in seconds of virtual time."""
    waited: list[float] = []

    async def no_wait(seconds):
        waited.append(seconds)

    monkeypatch.setattr("rescheduler.kube.request_sender.asyncio.sleep", no_wait)
    return waited


async def test_a_metrics_server_that_is_down_is_asked_once_more_at_once_and_then_given_up(odd, waits):
    odd.nodes = refusal(503, "the server is currently unable to handle the request")
    outcome = await odd.read()
    assert isinstance(outcome, UsageUnavailable)
    assert "currently unable to handle the request (503)" in outcome.why
    assert len(odd.asked) == 2
    assert sum(waits) <= 0.2, "a check must not wait for usage: requests will do"


async def test_a_metrics_server_that_was_down_for_a_moment_is_read_after_all(odd, waits):
    odd.down_for = 1
    assert (await odd.read()).pods.keys() == {"shop/web"}
    assert len(waits) == 1


async def test_pods_that_fail_after_the_nodes_are_reported_too(odd):
    odd.pods = refusal(500, "out of memory")
    assert "can't list pods.metrics.k8s.io: out of memory (500)" in (await odd.read()).why


async def test_an_empty_cluster_has_empty_readings(odd):
    odd.pods = 200, {"items": None}
    assert await odd.read() == UsageReadings(METRICS)
