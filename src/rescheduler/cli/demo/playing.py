"""The demo's cluster with everything in it: API server, controllers, webhook, and the real daemon."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from typing import Final

from rescheduler.cli.demo.story import CONFIGURATION
from rescheduler.controller.telling import Told
from rescheduler.daemon.running import Daemon, DaemonOptions
from rescheduler.install.definition import install_definition
from rescheduler.install.names import identified
from rescheduler.install.webhook import certificate_secret
from rescheduler.kube.client import Client, Observer
from rescheduler.kube.resources import MUTATING_WEBHOOKS, NAMESPACES, SECRETS, VALIDATING_WEBHOOKS
from rescheduler.model.webhook_registration import AtUrl, registrations
from rescheduler.serving.webhook import Webhook, WebhookOptions

__all__ = ["HOME", "daemon_at_work", "prepare", "webhook_at_work"]

HOME: Final = "rescheduler"


@contextlib.asynccontextmanager
async def daemon_at_work(
    client: Client, now: Callable[[], datetime], *listeners: Told
) -> AsyncIterator[Daemon]:
    """The same as `rescheduler run`, while the body runs; ends in good order."""

    def connect(observer: Observer) -> Client:
        return Client(client.transport, observer=observer)

    options = DaemonOptions(lease_at=f"{HOME}/rescheduler", now=now, listeners=listeners, me="demo")
    daemon = Daemon(connect, CONFIGURATION, options)
    ended = asyncio.Event()
    running = asyncio.create_task(daemon.run_until(ended), name="daemon")
    try:
        yield daemon
    finally:
        ended.set()
        await running


async def prepare(client: Client) -> None:
    """What `rescheduler manifests` would install, as far as the demo needs it."""
    await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HOME}})
    await install_definition(client)


@contextlib.asynccontextmanager
async def webhook_at_work(client: Client) -> AsyncIterator[None]:
    """The same as `rescheduler webhook`, on loopback."""
    port = _free_port()
    address = AtUrl(f"https://127.0.0.1:{port}")
    steering, guard = registrations(address)
    await client.create(SECRETS, certificate_secret(HOME))
    await client.create(MUTATING_WEBHOOKS, identified(steering, HOME))
    await client.create(VALIDATING_WEBHOOKS, identified(guard, HOME))
    options = WebhookOptions(HOME, address, host="127.0.0.1", port=port, extender_port=0)
    webhook = Webhook(client, options)
    async with webhook.running():
        await webhook.registered()
        yield


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
