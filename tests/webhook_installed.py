"""What `rescheduler manifests` installs for the webhook, with an address on this machine."""

import contextlib

from rescheduler.api.well_known_names import cluster_scoped_name
from rescheduler.cluster.sources.live_source import WEBHOOK_LABEL_SELECTOR
from rescheduler.install.admission_policies import user_name
from rescheduler.install.component_manifests import objects_that_the_webhook_writes
from rescheduler.install.install_options import DAEMON, with_install_id
from rescheduler.kube import errors
from rescheduler.kube.api_resources import CONFIG_MAPS, MUTATING_WEBHOOKS, SECRETS, VALIDATING_WEBHOOKS
from rescheduler.kube.client import Client
from rescheduler.steering.webhook.webhook_configurations import (
    WEBHOOK_CONFIGURATION,
    UnguardedEvictions,
    WebhookAddress,
    webhook_configurations,
)

__all__ = ["configuration_of", "install_webhook", "uninstall_registrations"]


def configuration_of(namespace: str) -> str:
    """The name of the webhook configurations of the installation in that namespace."""
    return cluster_scoped_name(WEBHOOK_CONFIGURATION, namespace)


async def install_webhook(client: Client, namespace: str, address: WebhookAddress) -> None:
    """An empty Secret and ConfigMap, unless there are; and registrations that lead to that address."""
    for kind, item in zip((SECRETS, CONFIG_MAPS), objects_that_the_webhook_writes(namespace), strict=True):
        with contextlib.suppress(errors.AlreadyExists):
            await client.create(kind, item)
    await uninstall_registrations(client)
    unguarded = UnguardedEvictions(user_name(DAEMON, namespace))
    items = webhook_configurations(address, unguarded=unguarded)
    for kind, item in zip((MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS), items, strict=True):
        await client.create(kind, with_install_id(item, namespace))


async def uninstall_registrations(client: Client) -> None:
    """Remove all registrations, also those of other tests."""
    for kind in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
        for item in (await client.list(kind, labels=WEBHOOK_LABEL_SELECTOR)).items:
            with contextlib.suppress(errors.NotFound):
                await client.delete(kind, item["metadata"]["name"])
