"""The webhook beside a real control plane, as a process of its own that the API server calls."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from rescheduler.kube.api_resources import Object
from rescheduler.kube.client import Client
from rescheduler.steering.webhook.webhook_configurations import UrlAddress
from tests.e2e.permissions import WEBHOOK, kubeconfig_as
from tests.stories.real_cluster import RealCluster, started
from tests.stories.steering.steered import Serving
from tests.testbed import ControlPlane
from tests.webhook_installed import install_webhook, uninstall_registrations

PATIENCE_S = 60


@pytest.fixture(scope="package")
def webhook_control_plane(
    nothing_is_left_running: None,
    tmp_path_factory: pytest.TempPathFactory,
    custom_resource_definitions: list[Object],
) -> Iterator[ControlPlane]:
    with started(tmp_path_factory.mktemp("webhook"), custom_resource_definitions) as plane:
        yield plane


@pytest.fixture
async def unregistered(client: Client) -> AsyncIterator[None]:
    """What one test registers, another must not meet."""
    yield
    await uninstall_registrations(client)


@pytest.fixture
async def ours(cluster: RealCluster) -> Client:
    """Return a client with the webhook's service account."""
    return await cluster.connect_as(WEBHOOK)


StartWebhook = Callable[[], Awaitable[asyncio.subprocess.Process]]


@pytest.fixture
async def start_webhook(
    control_plane: ControlPlane,
    client: Client,
    namespace: str,
    unused_tcp_port_factory: Callable[[], int],
    unregistered: None,
    tmp_path: Path,
) -> AsyncIterator[StartWebhook]:
    """The command, installed and registered, as the service account that it is installed with."""
    account = await asyncio.to_thread(kubeconfig_as, control_plane, WEBHOOK, namespace, tmp_path)
    processes = []

    async def started() -> asyncio.subprocess.Process:
        port = unused_tcp_port_factory()
        await install_webhook(client, namespace, UrlAddress(f"https://127.0.0.1:{port}"))
        process = await asyncio.create_subprocess_exec(
            Path(sys.executable).with_name("rescheduler"), "webhook",
            "--kubeconfig", str(account), "--namespace", namespace,
            "--host", "127.0.0.1", "--port", str(port), "--extender-port", "0",
            "--url", f"https://127.0.0.1:{port}",
            stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        processes.append(process)
        await _until_registered(process)
        return process

    yield started
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


@pytest.fixture
def webhook_on_control_plane(start_webhook: StartWebhook) -> Serving:
    @contextlib.asynccontextmanager
    async def served() -> AsyncIterator[None]:
        process = await start_webhook()
        yield
        process.terminate()
        await asyncio.wait_for(process.communicate(), PATIENCE_S)
        assert process.returncode == 0

    return served


async def _until_registered(process: asyncio.subprocess.Process) -> None:
    assert process.stderr is not None
    printed = []
    while line := await asyncio.wait_for(process.stderr.readline(), PATIENCE_S):
        printed.append(line.decode())
        # Of both configurations, the one that is written last.
        if b"ValidatingWebhookConfiguration" in line:
            return
    raise AssertionError(f"the webhook ended: {''.join(printed)}")
