"""What `rescheduler manifests` installs for the webhook, with an address on this machine."""

import contextlib

from rescheduler.install.names import identified
from rescheduler.install.webhook import certificate_secret
from rescheduler.kube import errors
from rescheduler.kube.client import Client
from rescheduler.kube.resources import MUTATING_WEBHOOKS, SECRETS, VALIDATING_WEBHOOKS
from rescheduler.model.installation import cluster_scoped_name
from rescheduler.model.webhook_registration import CONFIGURATION, Address, registrations
from rescheduler.sources.webhook_probe import REGISTRATION

__all__ = ["configuration_of", "install_webhook", "uninstall_registrations"]


def configuration_of(namespace: str) -> str:
    """The name of the webhook configurations of the installation in that namespace."""
    return cluster_scoped_name(CONFIGURATION, namespace)


async def install_webhook(client: Client, namespace: str, address: Address) -> None:
    """An empty Secret, unless there is one; and registrations that lead to that address."""
    with contextlib.suppress(errors.AlreadyExists):
        await client.create(SECRETS, certificate_secret(namespace))
    await uninstall_registrations(client)
    for kind, item in zip((MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS), registrations(address), strict=True):
        await client.create(kind, identified(item, namespace))


async def uninstall_registrations(client: Client) -> None:
    """Also those of other tests."""
    for kind in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
        for item in (await client.list(kind, labels=REGISTRATION)).items:
            with contextlib.suppress(errors.NotFound):
                await client.delete(kind, item["metadata"]["name"])
