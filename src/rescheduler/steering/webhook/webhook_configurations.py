"""The webhook as installed: two webhook configurations, and the Secret with its certificates.

The webhook only writes its certificates into the Secret, its authority into `caBundle`, and the path of the
reviews of evictions, which has a secret part: a client that could forge such a review could move pods. Its
service account can't create or delete any of these objects.

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

from rescheduler.api.well_known_names import (
    EVICTION_WEBHOOK,
    GUARD_WEBHOOK,
    PROBE_LABEL,
    SHUTDOWN_DELAY_ANNOTATION,
    STEERING_WEBHOOK,
    cluster_scoped_name,
)
from rescheduler.kube import errors
from rescheduler.kube.api_resources import (
    MUTATING_WEBHOOKS,
    VALIDATING_WEBHOOKS,
    ApiResource,
    Object,
    json_patch,
)
from rescheduler.kube.client import Client
from rescheduler.kube.event_recorder import log_event

__all__ = [
    "EVICTION_PATH",
    "GUARD_PATH",
    "REPLICA_SET_CONTROLLERS",
    "STEERING_PATH",
    "WEBHOOK_CONFIGURATION",
    "WEBHOOK_CONFIGURATION_KINDS",
    "WEBHOOK_SECRET",
    "CABundleWriter",
    "ServiceAddress",
    "UnguardedEvictions",
    "UrlAddress",
    "WebhookAddress",
    "webhook_configurations",
]


WEBHOOK_CONFIGURATION: Final = "rescheduler"
"""The name of the MutatingWebhookConfiguration and of the ValidatingWebhookConfiguration."""
WEBHOOK_SECRET: Final = "rescheduler-webhook-cert"  # noqa: S105 - its name, not its content

STEERING_PATH: Final = "/mutate"
GUARD_PATH: Final = "/guard"
EVICTION_PATH: Final = "/evictions/"
"""The path of the eviction webhook, which its token follows."""

REPLICA_SET_CONTROLLERS: Final = (
    "system:serviceaccount:kube-system:replicaset-controller",
    # A controller manager that runs without --use-service-account-credentials.
    "system:kube-controller-manager",
)

_NEVER_STEERED: Final = ("DaemonSet", "Node", "PodMigration")
"""Owners whose pods belong to one node anyway, and the owner of copies, which their migration places."""

_IS_PROBE: Final = f"has(object.metadata.labels) && '{PROBE_LABEL}' in object.metadata.labels"
_REQUESTS_DELAY: Final = (
    f"has(object.metadata.annotations) && '{SHUTDOWN_DELAY_ANNOTATION}' in object.metadata.annotations"
)
"""For pods of any owner, and without one."""
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
        """Return the DNS names of the Service. API servers use the third."""
        inside = f"{self.name}.{self.namespace}"
        return (self.name, inside, f"{inside}.svc", f"{inside}.svc.cluster.local")


@dataclass(frozen=True, slots=True)
class UrlAddress:
    """A server outside the cluster that API servers can reach."""

    url: str
    """The URL without a path."""

    def client_config(self, path: str) -> Object:
        return {"url": f"{self.url.rstrip('/')}{path}"}

    @property
    def names(self) -> tuple[str, ...]:
        return (urlsplit(self.url).hostname or "",)


WebhookAddress = ServiceAddress | UrlAddress


@dataclass(frozen=True, slots=True)
class UnguardedEvictions:
    """Evictions that never reach the webhook, by user and by namespace."""

    user: str = ""
    """The daemon: it evicts a pod when its copy is ready."""
    namespaces: str = "['kube-system', 'kube-public']"
    """The excluded namespaces, as a list in CEL."""


def webhook_configurations(
    address: WebhookAddress,
    trusted: bytes = b"",
    unguarded: UnguardedEvictions = UnguardedEvictions(),  # noqa: B008 - frozen
) -> tuple[Object, Object]:
    """Return the configurations of the steering webhook, and of the surplus guard and the eviction webhook.

    They have no selectors, so those that an operator adds stay when they are applied again. So does
    `caBundle`, without `trusted`.
    """
    steering = _webhook(STEERING_WEBHOOK, address.client_config(STEERING_PATH), trusted)
    # Another webhook may replace the affinity later: then the exclusions must be added again.
    steering["reinvocationPolicy"] = "IfNeeded"
    steering["matchConditions"] = [
        _condition(
            "made-by-a-controller",
            f"({_IS_PROBE}) || ({_REQUESTS_DELAY}) || "
            f"({_HAS_OWNERS} && object.metadata.ownerReferences.exists("
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
        _configuration(
            "ValidatingWebhookConfiguration", guard, _eviction_webhook(address, trusted, unguarded)
        ),
    )


def _eviction_webhook(address: WebhookAddress, trusted: bytes, unguarded: UnguardedEvictions) -> Object:
    client_config = address.client_config(EVICTION_PATH)
    if "service" in client_config:
        # Written by the webhook; not part of what is installed, so that installing again keeps it.
        del client_config["service"]["path"]
    webhook = _webhook(EVICTION_WEBHOOK, client_config, trusted)
    webhook["rules"][0]["resources"] = ["pods/eviction"]
    # It records a PodMigration, but not for a dry run.
    webhook |= {"sideEffects": "NoneOnDryRun", "timeoutSeconds": 2}
    webhook["matchConditions"] = [
        _condition("not-by-the-daemon", f"request.userInfo.username != '{unguarded.user}'"),
        _condition("not-in-an-excluded-namespace", f"!(request.namespace in {unguarded.namespaces})"),
    ]
    return webhook


def _configuration(kind: str, *webhooks: Object) -> Object:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": WEBHOOK_CONFIGURATION, "labels": {"app.kubernetes.io/name": "rescheduler"}},
        "webhooks": list(webhooks),
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
    (VALIDATING_WEBHOOKS, EVICTION_WEBHOOK, EVICTION_PATH),
)
WEBHOOK_CONFIGURATION_KINDS: Final = (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)


class CABundleWriter:
    def __init__(self, client: Client, address: WebhookAddress, namespace: str) -> None:
        """`namespace` is that of the installation, which is part of the name of its configurations."""
        self.name = cluster_scoped_name(WEBHOOK_CONFIGURATION, namespace)
        self._client = client
        self._address = address

    async def sync(self, trusted: bytes, token: str = "") -> list[str]:
        """Write `caBundle` and the path with the token where they differ, and return the problems of the
        configurations. Raises `KubeError`."""
        problems = []
        for kind, name, path in _WEBHOOKS:
            try:
                found = await self._client.get(kind, self.name)
            except errors.NotFound:
                problems.append(f"{kind.kind} {self.name} is missing")
                continue
            secret = token if name == EVICTION_WEBHOOK else ""
            problems += await self._sync_one(kind, found, name, path + secret, b64encode(trusted).decode())
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
        wanted = self._address.client_config(path)
        change = [] if present.get("caBundle") == bundle else [_addition(number, "caBundle", bundle)]
        if name == EVICTION_WEBHOOK:
            change += _path_change(number, present, wanted)
        if change:
            test = {"op": "test", "path": f"/webhooks/{number}/name", "value": name}
            await self._client.patch(kind, self.name, json_patch([test, *change]))
            words = f"wrote the certificate authority into webhook {name} of {what}"
            log_event(log, logging.INFO, "WebhookRegistered", words)
        if name != EVICTION_WEBHOOK and any(present.get(field) != value for field, value in wanted.items()):
            return [f"{what} points to another server: clientConfig should be {wanted}"]
        return []


def _addition(number: int, field: str, value: str) -> Object:
    return {"op": "add", "path": f"/webhooks/{number}/clientConfig/{field}", "value": value}


def _path_change(number: int, present: Object, wanted: Object) -> list[Object]:
    """Return the change of the path only: the operator decides where requests go."""
    if "url" in wanted and urlsplit(present.get("url") or "")[:2] == urlsplit(wanted["url"])[:2]:
        return [] if present["url"] == wanted["url"] else [_addition(number, "url", wanted["url"])]
    path = (wanted.get("service") or {}).get("path", "")
    known = present.get("service") or {}
    return [_addition(number, "service/path", path)] if known and known.get("path") != path else []
