"""The webhook counts as present only while it answers through the API server."""

import asyncio

import pytest

from kubesim import ApiServer
from kubesim.admission.webhook_admission import WebhookCallFailed
from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.cluster.sources.live_source import probe_pod, probe_webhook_if_registered
from rescheduler.config.policy import Policy
from rescheduler.kube.api_resources import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS
from rescheduler.kube.client import Client
from rescheduler.kube.transport import InProcessTransport
from rescheduler.migrations.runtime_state import RuntimeState, RuntimeStateHolder
from rescheduler.steering.intents import IntentIndex
from rescheduler.steering.webhook.admission_review import probe_review, read_request
from rescheduler.steering.webhook.pod_mutation import answer_review
from rescheduler.steering.webhook.webhook_configurations import (
    GUARD_PATH,
    WEBHOOK_CONFIGURATION,
    UrlAddress,
    webhook_configurations,
)
from rescheduler.steering.webhook.webhook_presence import WebhookPresence
from tests.unit.cli.simulated_server import forbidding

STEERING, GUARD = webhook_configurations(UrlAddress("https://webhook.invalid"))


class Process:
    """The webhook's: it answers probes, or is dead."""

    is_dead = False

    async def call(self, endpoint, body, _timeout_s):
        if self.is_dead:
            raise WebhookCallFailed("connection refused")
        if endpoint.url.endswith(GUARD_PATH):
            return probe_review(read_request(body))
        return answer_review(body, IntentIndex()).body


@pytest.fixture
def process():
    return Process()


@pytest.fixture
def server(process):
    made = ApiServer(seed=3)
    made.cluster.admission.webhooks.caller = process
    return made


@pytest.fixture
async def client(server):
    made = Client(InProcessTransport(server.handle))
    yield made
    await made.close()


async def until(holds):
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110 - only asking tells
            await asyncio.sleep(0.005)


async def test_it_follows_the_registration(client):
    runtime = RuntimeStateHolder(RuntimeState(Policy()))
    webhook = WebhookPresence(client, runtime)
    async with webhook.running():
        assert not runtime.current.steers
        await client.create(VALIDATING_WEBHOOKS, GUARD)
        await client.create(MUTATING_WEBHOOKS, STEERING)
        await until(lambda: runtime.current.steers)
        assert runtime.current.guards
        await client.delete(MUTATING_WEBHOOKS, WEBHOOK_CONFIGURATION)
        await until(lambda: not runtime.current.steers)
        assert runtime.current.steering.problem == "no webhook is registered"


async def test_it_is_known_from_the_first_moment(client):
    await client.create(MUTATING_WEBHOOKS, STEERING)
    runtime = RuntimeStateHolder(RuntimeState(Policy()))
    webhook = WebhookPresence(client, runtime)
    async with webhook.running():
        assert runtime.current.steers
        assert not runtime.current.guards, "an earlier version registers only half"


async def test_a_process_that_is_dead_does_not_count(client, process):
    await client.create(MUTATING_WEBHOOKS, STEERING)
    runtime = RuntimeStateHolder(RuntimeState(Policy()))
    webhook = WebhookPresence(client, runtime)
    async with webhook.running():
        assert runtime.current.steers
        process.is_dead = True
        assert runtime.current.steers, "it answered a moment ago"
        assert not (await webhook.confirm("default")).steers, "what is about to be evicted depends on it now"
        assert not runtime.current.steers
        assert (
            "the API server does not call webhook steering.rescheduler.dev, or the webhook does not answer"
            in runtime.current.steering.problem
        )


async def test_webhooks_of_others_don_t_count(client):
    await client.create(MUTATING_WEBHOOKS, {**STEERING, "metadata": {"name": "other"}})
    runtime = RuntimeStateHolder(RuntimeState(Policy()))
    webhook = WebhookPresence(client, runtime)
    async with webhook.running():
        assert not runtime.current.steers


async def test_a_probe_leaves_nothing_behind(client, process):
    await client.create(MUTATING_WEBHOOKS, STEERING)
    process.is_dead = True
    await probe_webhook_if_registered(client)
    assert (await client.list(PODS)).items == []
    assert probe_pod("default", "x")["spec"]["schedulingGates"] == [{"name": "rescheduler.dev/nominate"}]


async def test_who_may_not_ask_does_not_know(server, client):
    await client.create(MUTATING_WEBHOOKS, STEERING)
    for forbidden in ("mutatingwebhookconfigurations", "pods"):
        refused = Client(InProcessTransport(forbidding(forbidden)(server.handle)))
        found = await probe_webhook_if_registered(refused)
        assert found.problem
        assert not found.steers
        await refused.close()


async def test_an_extender_is_known_by_what_the_configuration_says(client):
    runtime = RuntimeStateHolder(RuntimeState(Policy(scheduler_extender=True)))
    webhook = WebhookPresence(client, runtime)
    async with webhook.running():
        assert runtime.current.steers
        assert (await webhook.confirm("default")).steers
        assert not runtime.current.guards


async def test_one_that_dies_counts_no_more_at_the_next_probe(client, process):
    await client.create(MUTATING_WEBHOOKS, STEERING)
    runtime = RuntimeStateHolder(RuntimeState(Policy()))
    async with WebhookPresence(client, runtime).running():
        assert runtime.current.steers
        await asyncio.sleep(5)  # the first events of the registration are over
        process.is_dead = True
        await asyncio.sleep(45)
        assert not runtime.current.steers


async def test_an_answer_counts_for_a_minute(client, server):
    await client.create(MUTATING_WEBHOOKS, STEERING)
    runtime = RuntimeStateHolder(RuntimeState(Policy()))
    hangs = asyncio.Event()

    async def way(method, target, headers, body):
        if hangs.is_set() and method == "POST" and "/pods" in target:
            await asyncio.Event().wait()
        return await server.handle(method, target, headers, body)

    made = Client(InProcessTransport(way))
    async with WebhookPresence(made, runtime).running():
        assert runtime.current.steers
        hangs.set()
        await asyncio.sleep(90)
        assert not runtime.current.steers
        assert "has not answered for 60 s" in runtime.current.steering.problem
    await made.close()
