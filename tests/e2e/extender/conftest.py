"""A control plane whose scheduler has the configuration that we print, and the extender beside it."""

import asyncio
import contextlib
import json
import ssl
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from rescheduler.install.extender import scheduler_configuration
from rescheduler.kube.client import Client
from rescheduler.kube.cluster_config import load
from rescheduler.kube.network import Network
from rescheduler.migrations.definition import NAME, definition
from rescheduler.serving.certificate_secret import CertificateSecret
from rescheduler.serving.registration import InService
from tests.e2e.extender.extended import Ask, Extended, SetExtended
from tests.e2e.facts.stage import AT_ONCE, Stage, until_usable
from tests.e2e.webhook.steered import Serving
from tests.testbed import ControlPlane, Options, Part
from tests.testbed.options import QUICK

PATIENCE_S = 60
HOME = InService("rescheduler", "rescheduler-webhook")


@dataclass(frozen=True)
class Address:
    port: int
    ca_file: Path

    def options(self, **extender: Any) -> Options:
        """The printed configuration, with the extender on this machine."""
        printed = scheduler_configuration(
            namespace=HOME.namespace, service=HOME.name, ca_file=str(self.ca_file)
        )
        asked = {
            **printed["extenders"][0],
            "urlPrefix": f"https://127.0.0.1:{self.port}/extender",
            **extender,
        }
        return replace(QUICK, scheduler_settings={"profiles": printed["profiles"], "extenders": [asked]})


@pytest.fixture(scope="session")
def address(tmp_path_factory: pytest.TempPathFactory, unused_tcp_port_factory: Callable[[], int]) -> Address:
    return Address(unused_tcp_port_factory(), tmp_path_factory.mktemp("authority") / "ca.crt")


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory, address: Address) -> Iterator[ControlPlane]:
    with ControlPlane(tmp_path_factory.mktemp("extender"), replace(QUICK, scheduler=False)) as started:
        started.kubectl("apply", "-f", "-", stdin=json.dumps(definition()))
        started.kubectl("wait", "--for=condition=Established", f"customresourcedefinition/{NAME}")
        started.kubectl("create", "namespace", HOME.namespace)
        address.ca_file.write_bytes(asyncio.run(_authority(started.kubeconfig)))
        started.restart(Part.SCHEDULER, address.options())
        yield started


async def _authority(kubeconfig: Path) -> bytes:
    """As the first process makes it."""
    async with Network(load(kubeconfig)) as network:
        secret = CertificateSecret(Client(network), HOME.namespace, HOME.names, lambda: datetime.now(UTC))
        return (await secret.credentials()).authority.certificate


@pytest.fixture
def serving(control_plane: ControlPlane, address: Address) -> Serving:
    """The command, as an administrator would run it in the cluster; nothing is registered."""

    @contextlib.asynccontextmanager
    async def served() -> AsyncIterator[None]:
        process = await asyncio.create_subprocess_exec(
            Path(sys.executable).with_name("rescheduler"), "webhook", "--extender-only",
            "--kubeconfig", str(control_plane.kubeconfig), "--namespace", HOME.namespace,
            "--host", "127.0.0.1", "--port", str(address.port), stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        try:
            assert process.stderr is not None
            line = await asyncio.wait_for(process.stderr.readline(), PATIENCE_S)
            assert b"listens on port" in line, line
            yield
            process.terminate()
            await asyncio.wait_for(process.communicate(), PATIENCE_S)
            assert process.returncode == 0
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    return served


@pytest.fixture
async def ask(control_plane: ControlPlane, address: Address) -> AsyncIterator[Ask]:
    """As the scheduler does, which trusts the file and goes by the name of the Service."""
    context = ssl.create_default_context(cafile=str(address.ca_file))
    async with aiohttp.ClientSession() as session:

        async def asked(verb: str, body: bytes) -> bytes:
            url = f"https://127.0.0.1:{address.port}/extender/{verb}"
            name = HOME.names[2]
            async with session.post(url, data=body, ssl=context, server_hostname=name) as response:
                assert response.status == 200
                return await response.read()

        yield asked


@pytest.fixture
def set_extended(
    client: Client,
    namespace: str,
    play: Callable[..., Awaitable[Any]],
    serving: Serving,
    ask: Ask,
    eventually: Callable[..., Awaitable[Any]],
) -> SetExtended:
    """await set_extended(nodes=3): a stage with so many nodes, on which pods are ready at once."""

    async def set_it(nodes: int = 3) -> Extended:
        kubelet = await play({"pods": [AT_ONCE]}, nodes=nodes)
        stage = Stage(client, namespace, kubelet, await until_usable(client, kubelet, nodes))
        return Extended(stage, serving, eventually, ask)

    return set_it
