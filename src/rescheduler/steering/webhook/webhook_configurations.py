"""The webhook as installed: two webhook configurations, and the Secret with its certificates.

The webhook only writes its certificates into the Secret, and its authority into `caBundle`. Its service
account can't create or delete any of these objects.

The webhook can't block pods for long: `failurePolicy` is `Ignore`, and API servers continue after one second
without an answer. That is why no namespace is excluded: not even its own pods can wait for themselves.

`CABundleWriter` writes the `caBundle`, so that API servers trust the webhook, and changes nothing else. A
missing configuration is reported, and never created.
"""

import logging
from base64 import b64encode
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from rescheduler.api.structured_log import log_event
from rescheduler.api.well_known_names import GUARD_WEBHOOK, PROBE_LABEL, STEERING_WEBHOOK, cluster_scoped_name
from rescheduler.kube import errors
from rescheduler.kube.api_resources import (
    MUTATING_WEBHOOKS,
    VALIDATING_WEBHOOKS,
    ApiResource,
    Object,
    json_patch,
)
from rescheduler.kube.client import Client

__all__ = [
    "GUARD_PATH",
    "REPLICA_SET_CONTROLLERS",
    "STEERING_PATH",
    "WEBHOOK_CONFIGURATION",
    "WEBHOOK_CONFIGURATION_KINDS",
    "WEBHOOK_SECRET",
    "CABundleWriter",
    "ServiceAddress",
    "UrlAddress",
    "WebhookAddress",
    "webhook_configurations",
]


WEBHOOK_CONFIGURATION: Final = "rescheduler"
"""The name of the MutatingWebhookConfiguration and of the ValidatingWebhookConfiguration."""
WEBHOOK_SECRET: Final = "rescheduler-webhook-cert"  # noqa: S105 - its name, not its content

STEERING_PATH: Final = "/mutate"
GUARD_PATH: Final = "/guard"

REPLICA_SET_CONTROLLERS: Final = (
    "system:serviceaccount:kube-system:replicaset-controller",
    # A controller manager that runs without --use-service-account-credentials.
    "system:kube-controller-manager",
)

_NEVER_STEERED: Final = ("DaemonSet", "Node", "PodMigration")
"""Owners whose pods belong to one node anyway, and the owner of copies, which their migration places."""

_IS_PROBE: Final = f"has(object.metadata.labels) && '{PROBE_LABEL}' in object.metadata.labels"
_HAS_OWNERS: Final = "has(object.metadata.ownerReferences)"
_IS_CONTROLLER: Final = "has(o.controller) && o.controller"


@dataclass(frozen=True, slots=True)
class ServiceAddress:
    namespace: str
    name: str
    port: int = 443

    def client_config(self, path: str) -> Object:
        return {"service": {"namespace": self.namespace, "name": self.name, "path": path, "port": self.port}}

    @property
    def names(self) -> tuple[str, ...]:
        """Return the DNS names of the Service. API servers use the last but one."""
        inside = f"{self.name}.{self.namespace}"
        return (self.name, inside, f"{inside}.svc", f"{inside}.svc.cluster.local")


@dataclass(frozen=True, slots=True)
class UrlAddress:
    """A server outside the cluster that API servers can reach."""

    url: str
    """Without a path."""

    def client_config(self, path: str) -> Object:
        return {"url": f"{self.url.rstrip('/')}{path}"}

    @property
    def names(self) -> tuple[str, ...]:
        return (urlsplit(self.url).hostname or "",)


WebhookAddress = ServiceAddress | UrlAddress


def webhook_configurations(address: WebhookAddress, trusted: bytes = b"") -> tuple[Object, Object]:
    """Return the configurations of the steering webhook and of the surplus guard.

    They have no selectors, so those that an operator adds stay when they are applied again. So does
    `caBundle`, without `trusted`.
    """
    steering = _webhook(STEERING_WEBHOOK, address.client_config(STEERING_PATH), trusted)
    # Another webhook may replace the affinity later: then the exclusions must be added again.
    steering["reinvocationPolicy"] = "IfNeeded"
    steering["matchConditions"] = [
        _condition(
            "made-by-a-controller",
            f"({_IS_PROBE}) || ({_HAS_OWNERS} && object.metadata.ownerReferences.exists("
            f"o, {_IS_CONTROLLER} && !(o.kind in {list(_NEVER_STEERED)})))",
        ),
        _condition("not-placed-yet", "!has(object.spec.nodeName) || object.spec.nodeName == ''"),
    ]
    guard = _webhook(GUARD_WEBHOOK, address.client_config(GUARD_PATH), trusted)
    guard["matchConditions"] = [
        _condition(
            "made-by-the-replicaset-controller",
            f"({_IS_PROBE}) || (request.userInfo.username in {list(REPLICA_SET_CONTROLLERS)} && "
            f"{_HAS_OWNERS} && object.metadata.ownerReferences.exists("
            f"o, {_IS_CONTROLLER} && o.kind == 'ReplicaSet'))",
        )
    ]
    return (
        _configuration("MutatingWebhookConfiguration", steering),
        _configuration("ValidatingWebhookConfiguration", guard),
    )


def _configuration(kind: str, webhook: Object) -> Object:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": WEBHOOK_CONFIGURATION, "labels": {"app.kubernetes.io/name": "rescheduler"}},
        "webhooks": [webhook],
    }


def _webhook(name: str, client_config: Object, trusted: bytes) -> Object:
    bundle = {"caBundle": b64encode(trusted).decode()} if trusted else {}
    return {
        "name": name,
        "admissionReviewVersions": ["v1"],
        "clientConfig": client_config | bundle,
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
    }


def _condition(name: str, expression: str) -> Object:
    return {"name": name, "expression": expression}


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
