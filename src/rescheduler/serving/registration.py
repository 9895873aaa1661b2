"""What the API server is told of the webhook, kept as it should be.

Nothing here can stop a pod: `failurePolicy: Ignore`, and after a second the server goes on without us. That
is also why no namespace is left out: not even our own pods can wait for themselves. Which namespaces and
labels are asked about at all is left to the people who run the cluster: we set no selectors, so theirs stay.
"""

import logging
from base64 import b64encode
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from rescheduler.kube import errors
from rescheduler.kube.client import Client
from rescheduler.kube.patches import apply_patch
from rescheduler.kube.resources import MUTATING_WEBHOOKS, Object
from rescheduler.model.installation import install_labels
from rescheduler.model.saying import say

__all__ = ["CONFIGURATION", "FIELD_MANAGER", "PATH", "Address", "AtUrl", "InService", "Registration"]

log = logging.getLogger(__name__)

CONFIGURATION: Final = "rescheduler"
"""The name of the MutatingWebhookConfiguration."""
FIELD_MANAGER: Final = "rescheduler-webhook"
PATH: Final = "/mutate"

_NEVER_STEERED: Final = ("DaemonSet", "Node", "PodMigration")
"""Owners whose pods belong to one node anyway, and copies, which are placed by their migration."""

_CONDITIONS: Final = {
    "made-by-a-controller": "has(object.metadata.ownerReferences) && object.metadata.ownerReferences.exists("
    f"o, has(o.controller) && o.controller && !(o.kind in {list(_NEVER_STEERED)}))",
    "not-placed-yet": "!has(object.spec.nodeName) || object.spec.nodeName == ''",
}


@dataclass(frozen=True, slots=True)
class InService:
    namespace: str
    name: str
    port: int = 443

    @property
    def client_config(self) -> Object:
        service = {"namespace": self.namespace, "name": self.name, "path": PATH, "port": self.port}
        return {"service": service}

    @property
    def names(self) -> tuple[str, ...]:
        """API servers ask for the last but one."""
        inside = f"{self.name}.{self.namespace}"
        return (self.name, inside, f"{inside}.svc", f"{inside}.svc.cluster.local")


@dataclass(frozen=True, slots=True)
class AtUrl:
    """Outside of the cluster: where the API server itself can reach us."""

    url: str
    """Without a path."""

    @property
    def client_config(self) -> Object:
        return {"url": f"{self.url.rstrip('/')}{PATH}"}

    @property
    def names(self) -> tuple[str, ...]:
        return (urlsplit(self.url).hostname or "",)


Address = InService | AtUrl


class Registration:
    def __init__(self, client: Client, address: Address, namespace: str) -> None:
        """`namespace` is that of the installation to which the webhook belongs."""
        self._client = client
        self._address = address
        self._namespace = namespace

    async def keep(self, trusted: bytes) -> bool:
        """Makes it so, unless it is; whether it had to. Raises `KubeError`."""
        wanted = configuration(self._address, trusted, self._namespace)
        found = await self._found()
        if found is not None and _holds(wanted["webhooks"], found.get("webhooks")):
            return False
        # Whoever has changed our fields did so by mistake: with another bundle, no call would be answered.
        patch = apply_patch(wanted, field_manager=FIELD_MANAGER, force=True)
        await self._client.patch(MUTATING_WEBHOOKS, CONFIGURATION, patch)
        words = f"registered the webhook as MutatingWebhookConfiguration {CONFIGURATION}"
        say(log, logging.INFO, "WebhookRegistered", words)
        return True

    async def _found(self) -> Object | None:
        try:
            return await self._client.get(MUTATING_WEBHOOKS, CONFIGURATION)
        except errors.NotFound:
            return None


def configuration(address: Address, trusted: bytes, namespace: str = "rescheduler") -> Object:
    return {
        "apiVersion": MUTATING_WEBHOOKS.api_version,
        "kind": MUTATING_WEBHOOKS.kind,
        "metadata": {"name": CONFIGURATION, "labels": install_labels(namespace)},
        "webhooks": [
            {
                "name": "steering.rescheduler.dev",
                "admissionReviewVersions": ["v1"],
                "clientConfig": {**address.client_config, "caBundle": b64encode(trusted).decode()},
                "rules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE"],
                        "resources": ["pods"],
                        "scope": "Namespaced",
                    }
                ],
                "failurePolicy": "Ignore",
                "matchPolicy": "Equivalent",
                "sideEffects": "None",
                "timeoutSeconds": 1,
                # Others may write an affinity after us: then the exclusion has to go into that one, too.
                "reinvocationPolicy": "IfNeeded",
                "matchConditions": [
                    {"name": name, "expression": expression} for name, expression in _CONDITIONS.items()
                ],
            }
        ],
    }


def _holds(wanted: Any, found: Any) -> bool:
    """Whether `found` says all that `wanted` says, whatever else it says."""
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(
            _holds(value, found.get(name)) for name, value in wanted.items()
        )
    if isinstance(wanted, list):
        same_length = isinstance(found, list) and len(found) == len(wanted)
        return same_length and all(_holds(*pair) for pair in zip(wanted, found, strict=True))
    return bool(wanted == found)
