"""Tells API servers whom to trust: writes the `caBundle` of the installed webhook configurations.

Only that: what else they say is installed, and its owner's. One that is missing is reported, never created.
"""

import logging
from base64 import b64encode
from typing import Final

from rescheduler.kube import errors
from rescheduler.kube.client import Client
from rescheduler.kube.patches import json_patch
from rescheduler.kube.resources import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, Object, Resource
from rescheduler.model.installation import cluster_scoped_name
from rescheduler.model.saying import say
from rescheduler.model.webhook_registration import (
    CONFIGURATION,
    GUARD,
    GUARD_PATH,
    STEERING,
    STEERING_PATH,
    Address,
)

__all__ = ["KINDS", "Registration"]

log = logging.getLogger(__name__)

_WEBHOOKS: Final[tuple[tuple[Resource[Object], str, str], ...]] = (
    (MUTATING_WEBHOOKS, STEERING, STEERING_PATH),
    (VALIDATING_WEBHOOKS, GUARD, GUARD_PATH),
)
KINDS: Final = tuple(kind for kind, _, _ in _WEBHOOKS)


class Registration:
    def __init__(self, client: Client, address: Address, namespace: str) -> None:
        """`namespace` is that of the installation, by which its webhook configurations are named."""
        self.name = cluster_scoped_name(CONFIGURATION, namespace)
        self._client = client
        self._address = address

    async def keep(self, trusted: bytes) -> list[str]:
        """Writes `caBundle` where it differs. Returns what is missing or leads elsewhere, in words. Raises
        `KubeError`."""
        problems = []
        for kind, name, path in _WEBHOOKS:
            try:
                found = await self._client.get(kind, self.name)
            except errors.NotFound:
                problems.append(f"{kind.kind} {self.name} is missing")
                continue
            problems += await self._keep_one(kind, found, name, path, b64encode(trusted).decode())
        return problems

    async def _keep_one(
        self, kind: Resource[Object], found: Object, name: str, path: str, bundle: str
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
            words = f"wrote our certificate authority into {what}"
            say(log, logging.INFO, "WebhookRegistered", words)
        wanted = self._address.client_config(path)
        if any(present.get(field) != value for field, value in wanted.items()):
            return [f"{what} leads API servers elsewhere: its clientConfig is not {wanted}"]
        return []
