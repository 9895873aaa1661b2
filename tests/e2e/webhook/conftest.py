"""A control plane that knows PodMigration, and the webhook beside it as a process of its own."""

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rescheduler.api.podmigration_crd import PODMIGRATION_CRD_NAME, podmigration_crd
from rescheduler.kube.access.cluster_config import load_cluster_access
from rescheduler.kube.client import Client
from rescheduler.kube.http_transport import HttpTransport
from rescheduler.steering.webhook.webhook_configurations import UrlAddress
from tests.e2e.facts.stage import AT_ONCE, Stage, until_usable
from tests.e2e.permissions import WEBHOOK, kubeconfig_as
from tests.e2e.steering.steered import Serving, SetSteered, Steered
from tests.testbed import ControlPlane
from tests.testbed.options import QUICK
from tests.webhook_installed import install_webhook, uninstall_registrations

PATIENCE_S = 60


@pytest.fixture(scope="package")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with ControlPlane(tmp_path_factory.mktemp("webhook"), QUICK) as started:
        started.kubectl("apply", "-f", "-", stdin=json.dumps(podmigration_crd()))
        started.kubectl(
            "wait", "--for=condition=Established", f"customresourcedefinition/{PODMIGRATION_CRD_NAME}"
        )
        yield started


@pytest.fixture
async def unregistered(client: Client) -> AsyncIterator[None]:
    """What one test registers, another must not meet."""
    yield
    await uninstall_registrations(client)


@pytest.fixture
async def ours(control_plane: ControlPlane, namespace: str, tmp_path: Path) -> AsyncIterator[Client]:
    """As the service account of the webhook."""
    made = Client(
        HttpTransport(load_cluster_access(kubeconfig_as(control_plane, WEBHOOK, namespace, tmp_path)))
    )
    yield made
    await made.close()


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
    account = kubeconfig_as(control_plane, WEBHOOK, namespace, tmp_path)
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
def serving(start_webhook: StartWebhook) -> Serving:
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


@pytest.fixture
def set_steered(
    client: Client,
    namespace: str,
    play: Callable[..., Awaitable[Any]],
    serving: Serving,
    eventually: Callable[..., Awaitable[Any]],
) -> SetSteered:
    """await set_steered(nodes=3): a stage with so many nodes, on which pods are ready at once."""

    async def set_it(nodes: int = 3) -> Steered:
        kubelet = await play({"pods": [AT_ONCE]}, nodes=nodes)
        stage = Stage(client, namespace, kubelet, await until_usable(client, kubelet, nodes))
        return Steered(stage, serving, eventually)

    return set_it
