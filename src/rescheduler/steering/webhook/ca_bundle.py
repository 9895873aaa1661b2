"""Writes the `caBundle` of the installed webhook configurations, so that API servers trust the webhook.

Nothing else of them is changed. A missing configuration is reported, and never created.
"""

import logging
from base64 import b64encode
from typing import Final

from rescheduler.api.structured_log import log_event
from rescheduler.api.well_known_names import GUARD_WEBHOOK, STEERING_WEBHOOK, cluster_scoped_name
from rescheduler.kube import errors
from rescheduler.kube.api_resources import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, ApiResource, Object
from rescheduler.kube.client import Client
from rescheduler.kube.patches import json_patch
from rescheduler.steering.webhook.webhook_configurations import (
    GUARD_PATH,
    STEERING_PATH,
    WEBHOOK_CONFIGURATION,
    WebhookAddress,
)

__all__ = ["WEBHOOK_CONFIGURATION_KINDS", "CABundleWriter"]

log = logging.getLogger(__name__)

_WEBHOOKS: Final[tuple[tuple[ApiResource[Object], str, str], ...]] = (
    (MUTATING_WEBHOOKS, STEERING_WEBHOOK, STEERING_PATH),
    (VALIDATING_WEBHOOKS, GUARD_WEBHOOK, GUARD_PATH),
)
WEBHOOK_CONFIGURATION_KINDS: Final = tuple(kind for kind, _, _ in _WEBHOOKS)


class CABundleWriter:
    def __init__(self, client: Client, address: WebhookAddress, namespace: str) -> None:
        """`namespace` is that of the installation, which is part of the name of its configurations."""
        self.name = cluster_scoped_name(WEBHOOK_CONFIGURATION, namespace)
        self._client = client
        self._address = address

    async def sync(self, trusted: bytes) -> list[str]:
        """Write `caBundle` where it differs, and return what is wrong with the configurations. Raises
        `KubeError`."""
        problems = []
        for kind, name, path in _WEBHOOKS:
            try:
                found = await self._client.get(kind, self.name)
            except errors.NotFound:
                problems.append(f"{kind.kind} {self.name} is missing")
                continue
            problems += await self._sync_one(kind, found, name, path, b64encode(trusted).decode())
        return problems

    async def _sync_one(
        self, kind: ApiResource[Object], found: Object, name: str, path: str, bundle: str
    ) -> list[str]:
        what = f"{kind.kind} {self.name}"
        webhooks = found.get("webhooks") or []
        number = next((number for number, each in enumerate(webhooks) if each["name"] == name), None)
        if number is None:
            return [f"{what} has no webhook {name}"]
        present = webhooks[number]["clientConfig"]
        if present.get("caBundle") != bundle:
            at = f"/webhooks/{number}"
            change = [
                {"op": "test", "path": f"{at}/name", "value": name},
                {"op": "add", "path": f"{at}/clientConfig/caBundle", "value": bundle},
            ]
            await self._client.patch(kind, self.name, json_patch(change))
            words = f"wrote the certificate authority into {what}"
            log_event(log, logging.INFO, "WebhookRegistered", words)
        wanted = self._address.client_config(path)
        if any(present.get(field) != value for field, value in wanted.items()):
            return [f"{what} points to another server: clientConfig should be {wanted}"]
        return []
