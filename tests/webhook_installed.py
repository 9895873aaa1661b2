"""What `rescheduler manifests` installs for the webhook, with an address on this machine."""

import contextlib

from rescheduler.install.webhook import certificate_secret
from rescheduler.kube import errors
from rescheduler.kube.client import Client
from rescheduler.kube.resources import MUTATING_WEBHOOKS, SECRETS, VALIDATING_WEBHOOKS
from rescheduler.model.webhook_registration import CONFIGURATION, Address, registrations

__all__ = ["install_webhook", "uninstall_registrations"]


async def install_webhook(client: Client, namespace: str, address: Address) -> None:
    """An empty Secret, unless there is one; and registrations that lead to that address."""
    with contextlib.suppress(errors.AlreadyExists):
        await client.create(SECRETS, certificate_secret(namespace))
    await uninstall_registrations(client)
    for kind, item in zip((MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS), registrations(address), strict=True):
        await client.create(kind, item)


async def uninstall_registrations(client: Client) -> None:
    for kind in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
        with contextlib.suppress(errors.NotFound):
            await client.delete(kind, CONFIGURATION)
