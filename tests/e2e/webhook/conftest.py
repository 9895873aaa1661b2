"""A control plane that knows PodMigration, and the webhook beside it as a process of its own."""

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rescheduler.kube import errors
from rescheduler.kube.client import Client
from rescheduler.kube.cluster_config import load
from rescheduler.kube.network import Network
from rescheduler.kube.resources import MUTATING_WEBHOOKS
from rescheduler.migrations.definition import NAME, definition
from rescheduler.serving.registration import CONFIGURATION
from tests.e2e.facts.stage import AT_ONCE, Stage, until_usable
from tests.e2e.permissions import WEBHOOK, kubeconfig_as
from tests.e2e.steering.steered import Serving, SetSteered, Steered
from tests.testbed import ControlPlane
from tests.testbed.options import QUICK

PATIENCE_S = 60


@pytest.fixture(scope="package")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with ControlPlane(tmp_path_factory.mktemp("webhook"), QUICK) as started:
        started.kubectl("apply", "-f", "-", stdin=json.dumps(definition()))
        started.kubectl("wait", "--for=condition=Established", f"customresourcedefinition/{NAME}")
        yield started


@pytest.fixture
async def unregistered(client: Client) -> AsyncIterator[None]:
    """What one test registers, another must not meet."""
    yield
    with contextlib.suppress(errors.NotFound):
        await client.delete(MUTATING_WEBHOOKS, CONFIGURATION)


@pytest.fixture
async def ours(control_plane: ControlPlane, namespace: str, tmp_path: Path) -> AsyncIterator[Client]:
    """As the service account of the webhook."""
    made = Client(Network(load(kubeconfig_as(control_plane, WEBHOOK, namespace, tmp_path))))
    yield made
    await made.close()


@pytest.fixture
def serving(
    control_plane: ControlPlane,
    namespace: str,
    unused_tcp_port_factory: Callable[[], int],
    unregistered: None,
    tmp_path: Path,
) -> Serving:
    """The command, as the service account that it is installed with."""
    account = kubeconfig_as(control_plane, WEBHOOK, namespace, tmp_path)

    @contextlib.asynccontextmanager
    async def served() -> AsyncIterator[None]:
        port = unused_tcp_port_factory()
        process = await asyncio.create_subprocess_exec(
            Path(sys.executable).with_name("rescheduler"), "webhook",
            "--kubeconfig", str(account), "--namespace", namespace,
            "--host", "127.0.0.1", "--port", str(port), "--extender-port", "0",
            "--url", f"https://127.0.0.1:{port}",
            stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        try:
            await _until_registered(process)
            yield
            process.terminate()
            await asyncio.wait_for(process.communicate(), PATIENCE_S)
            assert process.returncode == 0
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    return served


async def _until_registered(process: asyncio.subprocess.Process) -> None:
    assert process.stderr is not None
    printed = []
    while line := await asyncio.wait_for(process.stderr.readline(), PATIENCE_S):
        printed.append(line.decode())
        if b"registered the webhook" in line:
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
