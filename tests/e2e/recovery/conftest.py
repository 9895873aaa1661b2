"""One real control plane for all of recovery, with the webhook beside it, called by its API server."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator

import pytest
import pytest_asyncio

from rescheduler.api.podmigration_crd import PODMIGRATION_CRD_NAME, podmigration_crd
from rescheduler.steering.steering_server import SteeringServer, SteeringServerOptions
from rescheduler.steering.webhook.webhook_configurations import UrlAddress
from tests.e2e.permissions import WEBHOOK
from tests.e2e.recovery.playing import Connect, connecting
from tests.testbed import ControlPlane, Part
from tests.testbed.options import QUICK
from tests.webhook_installed import install_webhook

HOME = "default"
"""The namespace of our own objects."""


@pytest.fixture(scope="package")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with ControlPlane(tmp_path_factory.mktemp("recovery"), QUICK) as started:
        started.kubectl("apply", "-f", "-", stdin=json.dumps(podmigration_crd()))
        started.kubectl(
            "wait", "--for=condition=Established", f"customresourcedefinition/{PODMIGRATION_CRD_NAME}"
        )
        # It asks which kinds there are only every half a minute, or when it starts.
        started.restart(Part.CONTROLLER_MANAGER)
        yield started


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def shared_connect(
    control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Connect]:
    async with connecting(control_plane, HOME, tmp_path_factory.mktemp("accounts")) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def shared_webhook(
    shared_connect: Connect, unused_tcp_port_factory: Callable[[], int]
) -> AsyncIterator[None]:
    """One that the API server has been told of."""
    port = unused_tcp_port_factory()
    address = UrlAddress(f"https://127.0.0.1:{port}")
    await install_webhook(shared_connect(""), HOME, address)
    options = SteeringServerOptions(HOME, address, host="127.0.0.1", port=port, extender_port=0, drain_s=0.0)
    webhook, ended = SteeringServer(shared_connect(WEBHOOK), options), asyncio.Event()
    serving = asyncio.create_task(webhook.run_until(ended))
    await webhook.registered()
    await webhook.ready()
    yield
    ended.set()
    await serving
