"""The webhook counts only while it is seen answering, through the API server."""

import asyncio

import pytest

from rescheduler.controller.webhook_presence import WebhookPresence
from rescheduler.intents.book import IntentBook
from rescheduler.kube.client import Client
from rescheduler.kube.in_process import InProcess
from rescheduler.kube.resources import MUTATING_WEBHOOKS, PODS, VALIDATING_WEBHOOKS
from rescheduler.model.webhook_registration import CONFIGURATION, GUARD_PATH, AtUrl, registrations
from rescheduler.serving.admission import answer
from rescheduler.serving.review import answering_probe, read_request
from rescheduler.simulator import ApiServer
from rescheduler.simulator.admission.webhooks import NoReview
from rescheduler.sources.webhook_probe import probe_pod, webhook_answers
from tests.unit.cli.served import forbidding

STEERING, GUARD = registrations(AtUrl("https://webhook.invalid"))


class Process:
    """The webhook's: it answers probes, or is dead."""

    is_dead = False

    async def call(self, endpoint, body, _timeout_s):
        if self.is_dead:
            raise NoReview("connection refused")
        if endpoint.url.endswith(GUARD_PATH):
            return answering_probe(read_request(body))
        return answer(body, IntentBook()).body


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
    made = Client(InProcess(server.handle))
    yield made
    await made.close()


async def until(holds):
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110 - only asking tells
            await asyncio.sleep(0.005)


async def test_it_follows_the_registration(client):
    webhook = WebhookPresence(client)
    async with webhook.running():
        assert not webhook.steers
        await client.create(VALIDATING_WEBHOOKS, GUARD)
        await client.create(MUTATING_WEBHOOKS, STEERING)
        await until(lambda: webhook.steers)
        assert webhook.guards
        await client.delete(MUTATING_WEBHOOKS, CONFIGURATION)
        await until(lambda: not webhook.steers)
        assert webhook.problem == "no webhook is registered"


async def test_it_is_known_from_the_first_moment(client):
    await client.create(MUTATING_WEBHOOKS, STEERING)
    webhook = WebhookPresence(client)
    async with webhook.running():
        assert webhook.steers
        assert not webhook.guards, "an earlier version registers only half"


async def test_a_process_that_is_dead_does_not_count(client, process):
    await client.create(MUTATING_WEBHOOKS, STEERING)
    webhook = WebhookPresence(client)
    async with webhook.running():
        assert webhook.steers
        process.is_dead = True
        assert webhook.steers, "it answered a moment ago"
        assert not (await webhook.confirm("default")).steers, "what is about to be evicted depends on it now"
        assert not webhook.steers
        assert (
            "steering.rescheduler.dev is not called by the API server, or does not answer" in webhook.problem
        )


async def test_webhooks_of_others_don_t_count(client):
    await client.create(MUTATING_WEBHOOKS, {**STEERING, "metadata": {"name": "other"}})
    webhook = WebhookPresence(client)
    async with webhook.running():
        assert not webhook.steers


async def test_a_probe_leaves_nothing_behind(client, process):
    await client.create(MUTATING_WEBHOOKS, STEERING)
    process.is_dead = True
    await webhook_answers(client)
    assert (await client.list(PODS)).items == []
    assert probe_pod("default", "x")["spec"]["schedulingGates"] == [{"name": "rescheduler.dev/nominate"}]


async def test_who_may_not_ask_does_not_know(server, client):
    await client.create(MUTATING_WEBHOOKS, STEERING)
    for forbidden in ("mutatingwebhookconfigurations", "pods"):
        refused = Client(InProcess(forbidding(forbidden)(server.handle)))
        found = await webhook_answers(refused)
        assert found.problem
        assert not found.steers
        await refused.close()


async def test_an_extender_is_known_by_what_the_configuration_says(client):
    webhook = WebhookPresence(client, is_extended=lambda: True)
    async with webhook.running():
        assert webhook.steers
        assert (await webhook.confirm("default")).steers
        assert not webhook.guards
