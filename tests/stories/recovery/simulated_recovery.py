"""Recovery in a simulated cluster, in virtual time: nodes, the webhook, and pods that fail."""

import contextlib
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from kubesim import ApiServer
from rescheduler.config.policy import FailedPodsPolicy
from rescheduler.kube.api_resources import MUTATING_WEBHOOKS
from rescheduler.kube.client import Client
from rescheduler.steering.steering_service import SteeringService
from rescheduler.steering.webhook.webhook_configurations import UrlAddress, webhook_configurations
from tests.stories.recovery.program import Pace
from tests.stories.recovery.recovery_sandbox import MakeRecovery, RecoverySandbox
from tests.stories.simulated_cluster import SimulatedCluster

__all__ = ["PACE", "InProcessWebhook", "make_simulated_recovery", "steered", "steering"]

MINUTE = timedelta(minutes=1)
PACE = Pace(
    FailedPodsPolicy(recovery_window=2 * MINUTE, stuck_after=MINUTE, node_lost_after=MINUTE),
    check_every=timedelta(seconds=15),
    timeout_s=1800.0,
)
"""A little shorter than by default: even virtual minutes take their time."""


class InProcessWebhook:
    """The webhook, without a network in between."""

    def __init__(self, service: SteeringService) -> None:
        self.service = service

    async def call(self, _endpoint: object, body: Any, _timeout_s: float) -> Any:
        return self.service.answer(body)


@contextlib.asynccontextmanager
async def steering(server: ApiServer, client: Client, ours: Client) -> AsyncIterator[SteeringService]:
    """The API server asks a webhook about every new pod."""
    registration = webhook_configurations(UrlAddress("https://webhook.invalid"))[0]
    await client.create(MUTATING_WEBHOOKS, registration)
    service = SteeringService(ours)
    server.cluster.admission.webhooks.caller = InProcessWebhook(service)
    async with service.running():
        await service.synced()
        yield service


@pytest.fixture
async def steered(simulated_cluster: SimulatedCluster) -> AsyncIterator[SteeringService]:
    cluster = simulated_cluster
    async with steering(cluster.server, cluster.client, cluster.connect()) as service:
        yield service


@pytest.fixture
def make_simulated_recovery(simulated_cluster: SimulatedCluster, steered: SteeringService) -> MakeRecovery:
    """await make_recovery(nodes=4, **policy): a sandbox whose pods are ready at once."""

    async def make(nodes: int = 4, **policy: Any) -> RecoverySandbox:
        cluster = simulated_cluster
        sandbox = await cluster.sandbox(nodes)
        return RecoverySandbox(sandbox, cluster.now, PACE, cluster.connect, PACE.policy(**policy))

    return make
