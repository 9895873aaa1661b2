"""A control plane whose scheduler has the configuration that we print, and the extender beside it."""

import asyncio
import contextlib
import functools
import ssl
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from rescheduler.install.component_manifests import objects_that_the_webhook_writes
from rescheduler.install.manifests import scheduler_configuration
from rescheduler.kube.access.cluster_config import load_cluster_access
from rescheduler.kube.api_resources import SECRETS, Object
from rescheduler.kube.client import Client
from rescheduler.kube.http_transport import HttpTransport
from rescheduler.steering.webhook.certificate_secret import CertificateSecret
from rescheduler.steering.webhook.webhook_configurations import ServiceAddress
from tests.stories.real_cluster import started
from tests.stories.steering.steered import Ask, Serving
from tests.testbed import ControlPlane, Options, Part
from tests.testbed.options import QUICK

PATIENCE_S = 60
HOME = ServiceAddress("rescheduler", "rescheduler-webhook")


@dataclass(frozen=True)
class Address:
    port: int
    folder: Path
    """With what a scheduler is given: whom to trust, and what to show."""

    @property
    def ca_file(self) -> Path:
        return self.folder / "ca.crt"

    @property
    def shown(self) -> tuple[Path, Path]:
        return self.folder / "client.crt", self.folder / "client.key"

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @contextlib.asynccontextmanager
    async def connected(self) -> AsyncIterator[Callable[..., Any]]:
        """request(method, path): like the scheduler, which trusts the file and goes by the Service's name."""
        context = ssl.create_default_context(cafile=str(self.ca_file))
        context.load_cert_chain(*self.shown)
        async with aiohttp.ClientSession(self.url) as session:
            yield functools.partial(session.request, ssl=context, server_hostname=HOME.names[2])

    async def until_ready(self) -> None:
        """All is known to the extender that there is to know."""
        async with self.connected() as request, asyncio.timeout(PATIENCE_S):
            while (await request("GET", "/readyz")).status != 200:  # noqa: ASYNC110 - only asking tells
                await asyncio.sleep(0.1)

    def options(self, **extender: Any) -> Options:
        """The printed configuration, with the extender on this machine."""
        printed = scheduler_configuration(
            namespace=HOME.namespace, service=HOME.name, folder=str(self.folder)
        )
        asked = {
            **printed["extenders"][0],
            "urlPrefix": f"{self.url}/extender",
            # On a machine that is busy with other tests, an answer that comes late is still one.
            "httpTimeout": "10s",
            **extender,
        }
        return replace(QUICK, scheduler_settings={"profiles": printed["profiles"], "extenders": [asked]})


@pytest.fixture(scope="package")
def address(tmp_path_factory: pytest.TempPathFactory, unused_tcp_port_factory: Callable[[], int]) -> Address:
    return Address(unused_tcp_port_factory(), tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="package")
def extender_control_plane(
    nothing_is_left_running: None,
    tmp_path_factory: pytest.TempPathFactory,
    custom_resource_definitions: list[Object],
    address: Address,
) -> Iterator[ControlPlane]:
    folder, options = tmp_path_factory.mktemp("extender"), replace(QUICK, scheduler=False)
    with started(folder, custom_resource_definitions, options) as plane:
        plane.kubectl("create", "namespace", HOME.namespace)
        asyncio.run(_given(plane.kubeconfig, address))
        plane.restart(Part.SCHEDULER, address.options())
        yield plane


async def _given(kubeconfig: Path, address: Address) -> None:
    """Return the certificate that the first process creates and an administrator copies."""
    async with HttpTransport(load_cluster_access(kubeconfig)) as network:
        client = Client(network)
        await client.create(SECRETS, objects_that_the_webhook_writes(HOME.namespace)[0])
        secret = CertificateSecret(client, HOME.namespace, HOME.names, lambda: datetime.now(UTC))
        found = await secret.credentials()
    assert found.client is not None
    address.ca_file.write_bytes(found.authority.certificate)
    for file, content in zip(address.shown, (found.client.certificate, found.client.key), strict=True):
        file.write_bytes(content)


@pytest.fixture(scope="package")
def extender_on_control_plane(extender_control_plane: ControlPlane, address: Address) -> Serving:
    """The command, as an administrator would run it in the cluster; nothing is registered."""

    @contextlib.asynccontextmanager
    async def served() -> AsyncIterator[None]:
        process = await asyncio.create_subprocess_exec(
            Path(sys.executable).with_name("rescheduler"), "webhook", "--extender-only",
            "--kubeconfig", str(extender_control_plane.kubeconfig), "--namespace", HOME.namespace,
            "--host", "127.0.0.1", "--port", "0", "--extender-port", str(address.port),
            stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        try:
            assert process.stderr is not None
            line = await asyncio.wait_for(process.stderr.readline(), PATIENCE_S)
            assert b"listening on port" in line, line
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
async def ask_on_control_plane(extender_control_plane: ControlPlane, address: Address) -> AsyncIterator[Ask]:
    async with address.connected() as request:

        async def asked(verb: str, body: bytes) -> bytes:
            async with request("POST", f"/extender/{verb}", data=body) as response:
                assert response.status == 200
                answer: bytes = await response.read()
                return answer

        yield asked
