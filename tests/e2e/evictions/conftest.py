"""A control plane with the daemon and the webhook, each a process with its own account, as installed."""

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS
from rescheduler.kube.api_resources import Object
from rescheduler.kube.client import Client
from rescheduler.steering.webhook.webhook_configurations import UrlAddress
from tests.e2e.daemon.processes import Cluster, Replica, define_podmigrations, write_config
from tests.e2e.permissions import DAEMON, WEBHOOK, kubeconfig_as
from tests.stories.sandbox import AT_ONCE, Sandbox, until_usable
from tests.testbed import ControlPlane
from tests.testbed.options import QUICK
from tests.webhook_installed import install_webhook, uninstall_registrations

__all__ = ["Drained", "Installed"]


@pytest.fixture(scope="package")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with ControlPlane(tmp_path_factory.mktemp("evictions"), QUICK) as started:
        define_podmigrations(started)
        yield started


@dataclass(frozen=True)
class Drained:
    code: int
    out: str
    seconds: float


@dataclass
class Installed:
    """The cluster, and our programs in it."""

    control_plane: ControlPlane
    client: Client
    cluster: Cluster
    webhook_account: Path
    port: int
    processes: list[Replica]
    webhook: Replica | None = None
    daemon: Replica | None = None

    def write_stolen_kubeconfig(self, folder: Path) -> Path:
        """The webhook's account by its token: what is tried with it is not what our program does."""
        namespace = self.cluster.namespace
        token = self.control_plane.kubectl("create", "token", WEBHOOK, "-n", namespace).strip()
        path = folder / "stolen.kubeconfig"
        self.control_plane.write_kubeconfig(path, user=WEBHOOK, token=token)
        return path

    async def start_daemon(self, **args: Any) -> Replica:
        write_config(self.cluster.config, enabledStrategies=[], **args)
        self.daemon = await self.cluster.replica()
        self.processes.append(self.daemon)
        await self.daemon.until_said("Started")
        return self.daemon

    async def start_webhook(self) -> Replica:
        url = f"https://127.0.0.1:{self.port}"
        await install_webhook(self.client, self.cluster.namespace, UrlAddress(url))
        process = await asyncio.create_subprocess_exec(
            Path(sys.executable).with_name("rescheduler"), "webhook",
            "--kubeconfig", str(self.webhook_account), "--namespace", self.cluster.namespace,
            "--config", str(self.cluster.config), "--log-level", "debug",
            "--host", "127.0.0.1", "--port", str(self.port), "--extender-port", "0", "--url", url,
            stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        self.webhook = Replica(process)
        self.webhook.listen()
        self.processes.append(self.webhook)
        await self.webhook.until_said("WebhookRegistered", 3)
        return self.webhook

    async def start(self, **args: Any) -> None:
        await self.start_daemon(**args)
        await self.start_webhook()

    async def drain(self, node: str, *options: str, timeout_s: int = 60) -> Drained:
        """Evict as a user does, with an unmodified kubectl."""
        began = time.monotonic()
        process = await asyncio.create_subprocess_exec(
            str(self.control_plane.binaries.kubectl), "drain", node, "--ignore-daemonsets",
            "--delete-emptydir-data", f"--timeout={timeout_s}s", *options,
            env={"KUBECONFIG": str(self.control_plane.kubeconfig), "HOME": str(self.cluster.config.parent)},
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        out, _ = await process.communicate()
        assert process.returncode is not None
        return Drained(process.returncode, out.decode(), time.monotonic() - began)

    async def migrations(self) -> list[Object]:
        return (await self.client.list(POD_MIGRATIONS, namespace=self.cluster.namespace)).items


@pytest.fixture
async def installed(
    control_plane: ControlPlane,
    client: Client,
    namespace: str,
    tmp_path: Path,
    unused_tcp_port: int,
) -> AsyncIterator[Installed]:
    account = await asyncio.to_thread(kubeconfig_as, control_plane, DAEMON, namespace, tmp_path)
    config = write_config(tmp_path / "config.json", enabledStrategies=[])
    cluster = Cluster(account, control_plane.kubeconfig, config, namespace)
    webhook = await asyncio.to_thread(kubeconfig_as, control_plane, WEBHOOK, namespace, tmp_path)
    made = Installed(control_plane, client, cluster, webhook, unused_tcp_port, [])
    yield made
    for replica in reversed(made.processes):
        with contextlib.suppress(ProcessLookupError):
            if replica is made.webhook:
                replica.kill()  # it would go on serving for a while
            await replica.end()
    await uninstall_registrations(client)


@pytest.fixture
async def sandbox(client: Client, namespace: str, start_kubelet: Callable[..., Awaitable[Any]]) -> Sandbox:
    """Three nodes of 8 cpu, on which pods need a second to start."""
    kubelet = await start_kubelet({"pods": [AT_ONCE]}, nodes=3)
    made = Sandbox(client, namespace, kubelet, await until_usable(client, kubelet, 3))
    made.behave({"startup": "1s", "termination": "0s"})
    return made
