"""Wards in a simulated cluster, in virtual time: nodes, the webhook, and pods that fail as they are told."""

import contextlib
from datetime import timedelta

import pytest

from rescheduler.config.policy import FailedPods
from rescheduler.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, MUTATING_WEBHOOKS, NAMESPACES, NODES
from rescheduler.migrations.definition import definition
from rescheduler.model.webhook_registration import AtUrl, registrations
from rescheduler.serving.steering_desk import SteeringDesk
from tests.e2e.facts.stage import Stage, until_usable
from tests.e2e.recovery.program import Pace
from tests.e2e.recovery.ward import Ward
from tests.testbed.fake_kubelet.nodes import node_object, node_shapes
from tests.unit.controller.conftest import Played

MINUTE = timedelta(minutes=1)
PACE = Pace(
    FailedPods(recovery_window=2 * MINUTE, stuck_after=MINUTE, node_lost_after=MINUTE),
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
    await client.create(CUSTOM_RESOURCE_DEFINITIONS, definition())
    await client.create(MUTATING_WEBHOOKS, registrations(AtUrl("https://webhook.invalid"))[0])
    desk = SteeringDesk(connect())
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
