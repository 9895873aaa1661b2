"""Whether replacements are steered, as the webhook comes and goes."""

import asyncio

import pytest

from rescheduler.controller.steering_presence import SteeringPresence
from rescheduler.kube.client import Client
from rescheduler.kube.in_process import InProcess
from rescheduler.kube.resources import MUTATING_WEBHOOKS
from rescheduler.serving.registration import CONFIGURATION, AtUrl, configuration
from rescheduler.simulator import ApiServer
from tests.unit.cli.served import forbidding

OURS = configuration(AtUrl("https://127.0.0.1:9443"), b"")


@pytest.fixture
def server():
    return ApiServer(seed=3)


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
    steering = SteeringPresence(client)
    async with steering.running():
        assert not steering.is_steered()
        await client.create(MUTATING_WEBHOOKS, OURS)
        await until(steering.is_steered)
        await client.delete(MUTATING_WEBHOOKS, CONFIGURATION)
        await until(lambda: not steering.is_steered())


async def test_it_is_known_from_the_first_moment(client):
    await client.create(MUTATING_WEBHOOKS, OURS)
    steering = SteeringPresence(client)
    async with steering.running():
        assert steering.is_steered()


async def test_webhooks_of_others_don_t_count(client):
    await client.create(
        MUTATING_WEBHOOKS, {**OURS, "metadata": {"name": "other", "labels": {"app": "other"}}}
    )
    steering = SteeringPresence(client)
    async with steering.running():
        assert not steering.is_steered()


async def test_who_may_not_look_counts_as_unsteered_until_he_may(server):
    is_forbidden = True
    refusing = forbidding("mutatingwebhookconfigurations")(server.handle)

    async def handle(*request):
        return await (refusing if is_forbidden else server.handle)(*request)

    client = Client(InProcess(handle))
    server.load([OURS])
    steering = SteeringPresence(client)
    async with steering.running():
        assert not steering.is_steered()
        is_forbidden = False
        await until(steering.is_steered)
    await client.close()


async def test_an_extender_is_known_by_what_the_configuration_says(client):
    steering = SteeringPresence(client, by_extender=True)
    async with steering.running():
        assert steering.is_steered()
