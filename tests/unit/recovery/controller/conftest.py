# ruff: noqa: F811 - fixtures that are imported and asked for by name
"""Wards in a simulated cluster, in virtual time: nodes, the webhook, and pods that fail as they are told."""

import contextlib
from datetime import timedelta

import pytest

from rescheduler.api.podmigration_crd import podmigration_crd
from rescheduler.cluster.codecs.record_resources import NODES
from rescheduler.config.policy import FailedPodsPolicy
from rescheduler.kube.api_resources import CUSTOM_RESOURCE_DEFINITIONS, MUTATING_WEBHOOKS, NAMESPACES
from rescheduler.steering.steering_service import SteeringService
from rescheduler.steering.webhook.webhook_configurations import UrlAddress, webhook_configurations
from tests.e2e.facts.stage import Stage, until_usable
from tests.e2e.recovery.program import Pace
from tests.e2e.recovery.ward import Ward
from tests.testbed.fake_kubelet.nodes import node_object, node_shapes
from tests.unit.migrations.controller.conftest import (  # noqa: F401
    Played,
    client,
    connect,
    eventually,
    life,
    pytest_asyncio_loop_factories,
    server,
    set_moves,
    tell_usage,
)

MINUTE = timedelta(minutes=1)
PACE = Pace(
    FailedPodsPolicy(recovery_window=2 * MINUTE, stuck_after=MINUTE, node_lost_after=MINUTE),
    check_every=timedelta(seconds=15),
    timeout_s=1800.0,
)
"""A little shorter than by default: even virtual minutes take their time."""


class Desk:
    """The webhook, without a network in between."""

    def __init__(self, desk):
        self.desk = desk

    async def call(self, _endpoint, body, _timeout_s):
        return self.desk.answer(body)


@pytest.fixture
async def steered(server, connect, client):
    """API servers ask a webhook about every new pod."""
    await client.create(NAMESPACES, {"metadata": {"name": "moves"}})
    await client.create(CUSTOM_RESOURCE_DEFINITIONS, podmigration_crd())
    await client.create(MUTATING_WEBHOOKS, webhook_configurations(UrlAddress("https://webhook.invalid"))[0])
    desk = SteeringService(connect())
    server.cluster.admission.webhooks.caller = Desk(desk)
    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(desk.running())
        await desk.synced()
        yield desk


@pytest.fixture
async def set_ward(server, life, client, connect, steered):
    """await set_ward(nodes=4, **policy): a ward whose pods are ready at once, until told otherwise."""

    async def set_it(nodes=4, **policy):
        kubelet = Played(life.kubelets)
        for shape in node_shapes(nodes, kubelet.name):
            await client.create(NODES.as_json, node_object(shape, kubelet.name, server.clock.now()))
        stage = Stage(client, "moves", kubelet, await until_usable(client, kubelet, nodes))
        stage.behave()
        return Ward(stage, server.clock.now, PACE, connect, PACE.policy(**policy))

    return set_it
